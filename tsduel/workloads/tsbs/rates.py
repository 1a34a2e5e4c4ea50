"""What each variant did at fixed rates (mixed, capacity) -> measurements, and the histograms of its times.

A phase that is void says nothing of the server, and has no value here. Times are in ns in, in ms out.
"""

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS
from tsduel.core.plan import Plan
from tsduel.core.record import CAPACITY, MIXED, Block, RatePhase
from tsduel.workloads.measured import Measurement, Reading

_COUNTERS = {"mixed_merges": "merges", "mixed_rows_merged": "rows_merged", "mixed_slow_inserts": "slow_inserts"}


def read_rates(block: Block, plan: Plan, into: Reading) -> None:
    """Add what the parts at fixed rates of a block say; a variant that failed in the block has no figure of them."""
    failed = {failure.variant for failure in block.failures}
    if "" in failed or block.void:
        return
    for part, of in ((MIXED, block.mixed), (CAPACITY, block.capacity)):
        for variant in of.keys() - failed:
            phases = of[variant].phases
            good = {stream.rate for phase in phases if not phase.void for stream in phase.streams}
            for key, counts in read_counts(block.path / variant / f"{part}.csv.gz").items():
                if key[0] in good:
                    into.counts[variant, part, *key] = counts
            values = _mixed(phases) if part == MIXED else _capacity(phases, plan)
            into.measurements += [
                Measurement(variant, part, METRICS[name].phase, query_type, name, value, METRICS[name].unit)
                for name, query_type, value in values
            ]


def read_counts(path: Path) -> dict[tuple[float, str, str], dict[int, int]]:
    """Read a mixed.csv.gz or capacity.csv.gz: (rate, operation, time) -> ns -> count."""
    found: dict[tuple[float, str, str], dict[int, int]] = {}
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                key = (float(row["rate"]), row["operation"], row["time"])
                found.setdefault(key, {})[int(row["value_ns"])] = int(row["count"])
    except FileNotFoundError:
        raise UserError(f"{path} is missing, though its block was finished: the run directory is not whole") from None
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise UserError(f"{path}: no whole table of counts: {error}") from None
    return found


def _mixed(phases: Sequence[RatePhase]) -> Iterator[tuple[str, str, float]]:
    for phase in phases:
        if phase.void:
            continue
        for stream in phase.streams:
            if not stream.planned:
                continue  # starts are drawn: at less than one in a phase it may have none
            name = f"mixed_{stream.operation}"
            yield from ((f"{name}_{p}_ms", "", ns / 1e6) for p, ns in stream.response_ns.items())
            yield from ((f"{name}_service_{p}_ms", "", stream.service_ns[p] / 1e6) for p in ("p50", "p99"))
        yield "mixed_query_rate", "", next(s.answered for s in phase.streams if s.operation == "query") / phase.seconds
        yield "mixed_write_rate", "", phase.samples / phase.seconds
        yield "mixed_cpu_cores", "", phase.cpu_ns / 1e9 / phase.seconds
        yield "mixed_rss_bytes", "", phase.rss_bytes
        yield "mixed_lateness_p999_ms", "", max(stream.lateness_ns["p999"] for stream in phase.streams) / 1e6
        yield "mixed_client_cpu_ratio", "", phase.client_share
        yield from ((name, "", phase.counters[of]) for name, of in _COUNTERS.items() if of in phase.counters)


def _capacity(phases: Sequence[RatePhase], plan: Plan) -> Iterator[tuple[str, str, float]]:
    asked = plan.capacity
    if asked is None:
        return
    good = [phase for phase in phases if not phase.void and phase.streams[0].planned]
    for phase in good:
        yield "capacity_response_ms", f"{phase.rate:g}/s", phase.streams[0].response_ns[asked.percentile] / 1e6
    if (rate := capacity(phases, asked.percentile, asked.within_ms)) is not None:
        yield "capacity_rate", "", rate


def capacity(phases: Sequence[RatePhase], percentile: str, within_ms: float) -> float | None:
    """Return the rate at which a percentile of response times crosses the bound, behind the last rung that was held.

    Between that rung and the next one it is interpolated in the logs of both, so that it is no multiple of the ladder's
    steps. None where no rung was held, where the last of the ladder was, or where the next one says nothing: then it is
    not known.
    """
    held = [i for i, phase in enumerate(phases) if phase.held and phase.streams[0].planned]
    if not held or held[-1] + 1 == len(phases) or phases[held[-1] + 1].void:
        return None
    low, high = phases[held[-1]], phases[held[-1] + 1]
    below, above = (phase.streams[0].response_ns[percentile] / 1e6 for phase in (low, high))
    if above <= within_ms:  # some were not answered at all
        return low.rate
    share = math.log(within_ms / below) / math.log(above / below)
    return math.exp(math.log(low.rate) + share * math.log(high.rate / low.rate))
