"""The parts at fixed rates (mixed, capacity) of each variant -> measurements, and the histograms of its times.

A void phase says nothing about the server, and gives no value. Input times are in ns, results in ms.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from tsduel.core import files
from tsduel.core.plan import Plan
from tsduel.core.record import CAPACITY, MIXED, RatePhase
from tsduel.workloads.tsbs.exchanges import Figures

_COUNTERS = {"mixed_merges": "merges", "mixed_rows_merged": "rows_merged", "mixed_slow_inserts": "slow_inserts"}


def read_rates(figures: Figures, plan: Plan) -> None:
    """Add the figures of a block's parts at fixed rates."""
    block, into = figures.block, figures.into
    for part, records in ((MIXED, block.mixed), (CAPACITY, block.capacity)):
        for variant in (name for name in figures.alive if name in records):
            phases = records[variant].phases
            good = {stream.rate for phase in phases if not phase.void for stream in phase.streams}
            for key, counts in read_counts(block.path / variant / f"{part}.csv.gz").items():
                if key[0] in good:
                    into.counts[variant, part, *key] = counts
            into.add(variant, _mixed(phases) if part == MIXED else _capacity(phases, plan))


def read_counts(path: Path) -> dict[tuple[float, str, str], dict[int, int]]:
    """Read a mixed.csv.gz or capacity.csv.gz: (rate, operation, time) -> ns -> count."""
    counts: dict[tuple[float, str, str], dict[int, int]] = {}
    with files.reading(path, "table of counts"):
        for row in csv.DictReader(files.content(path).decode().splitlines()):
            key = (float(row["rate"]), row["operation"], row["time"])
            counts.setdefault(key, {})[int(row["value_ns"])] = int(row["count"])
    return counts


def _mixed(phases: Sequence[RatePhase]) -> Iterator[tuple[str, str, float]]:
    for phase in phases:
        if phase.void:
            continue
        for stream in phase.streams:
            if not stream.planned:
                continue  # starts are drawn at random: at a low rate a phase may have none
            name = f"mixed_{stream.operation}"
            yield from ((f"{name}_{p}_ms", "", ns / 1e6) for p, ns in stream.response_ns.items())
            yield from ((f"{name}_service_{p}_ms", "", stream.service_ns[p] / 1e6) for p in ("p50", "p99"))
        yield "mixed_query_rate", "", next(s.answered for s in phase.streams if s.operation == "query") / phase.seconds
        yield "mixed_write_rate", "", phase.samples / phase.seconds
        yield "mixed_cpu_cores", "", phase.cpu_ns / 1e9 / phase.seconds
        if phase.rss_bytes >= 0:
            yield "mixed_rss_bytes", "", phase.rss_bytes
        yield "mixed_lateness_p999_ms", "", max(stream.lateness_ns["p999"] for stream in phase.streams) / 1e6
        yield "mixed_client_cpu_ratio", "", phase.client_share
        yield from ((name, "", phase.counters[own]) for name, own in _COUNTERS.items() if own in phase.counters)


def _capacity(phases: Sequence[RatePhase], plan: Plan) -> Iterator[tuple[str, str, float]]:
    ladder = plan.capacity
    if ladder is None:
        return
    for phase in phases:
        if not phase.void and phase.streams[0].planned:
            yield "capacity_response_ms", f"{phase.rate:.10g}/s", phase.streams[0].response_ns[ladder.percentile] / 1e6
    if (rate := capacity(phases, ladder.percentile, ladder.within_ms)) is not None:
        yield "capacity_rate", "", rate


def capacity(phases: Sequence[RatePhase], percentile: str, within_ms: float) -> float | None:
    """Return the rate at which a percentile of response times crosses the bound, after the last rung that was held.

    Between this rung and the next it is interpolated in the logs of rate and time, so that it is not limited to the
    ladder's steps. None (unknown) if no rung was held, if the last rung of the ladder was, or if the next one is void.
    """
    last = max((i for i, phase in enumerate(phases) if phase.held and phase.streams[0].planned), default=None)
    if last is None or last + 1 == len(phases) or phases[last + 1].void:
        return None
    low, high = phases[last], phases[last + 1]
    below, above = (phase.streams[0].response_ns[percentile] / 1e6 for phase in (low, high))
    if above <= within_ms:  # some were not answered at all
        return low.rate
    share = math.log(within_ms / below) / math.log(above / below)
    return math.exp(math.log(low.rate) + share * math.log(high.rate / low.rate))
