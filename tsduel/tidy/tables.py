"""raw/ + plan/ -> tidy/: one table a subject, its columns in tsduel.core.tables."""

import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsduel.core import files, tables
from tsduel.core.errors import UserError
from tsduel.core.record import SOLO, Block, table
from tsduel.core.rundir import Run, open_run
from tsduel.tidy import profiles
from tsduel.tidy.blocks import decide
from tsduel.workloads.measured import Reading
from tsduel.workloads.reading import reader

Row = Iterable[object]
Times = Mapping[tuple[str, str], list[NDArray[np.float64]]]

# Of an event `window`: the metric, and where its limit stands.
WINDOWED = {
    "rss_bytes": "rss_limit", "cpu_cores": "cpu_limit", "disk_bytes": "disk_limit", "open_files": "open_limit",
    "query_p99_ms": "", "batch_p99_ms": "",
}  # fmt: skip
QUANTILES = tuple(n / 1000 for n in (*range(1, 10), *range(10, 1000, 10), *range(991, 1000)))
"""Of distributions.csv: steps of 1 %, and of 0.1 % in the tails."""
RESPONSE_QUANTILES = (*(round(1 - 10 ** (-step / 20), 6) for step in range(1, 81)), 0.5, 1.0)
"""Of responses.csv: 20 steps for each further nine, up to 99.99 %."""


def main(run_dir: Path) -> None:
    """Write the tables of a run."""
    run = open_run(run_dir)
    if not run.blocks:
        raise UserError(
            f"{run_dir}: no block has finished, there is nothing to tidy. `make run RUN={run_dir.name}` continues"
        )
    out = run_dir / "tidy"
    out.mkdir(exist_ok=True)
    decided, read_block = decide(run), reader(run.plan.kind).read_block
    counts = {(line.block, name) for line in decided if not line.cause for name in (line.candidate, run.variants[0])}
    times: defaultdict[tuple[str, str], list[NDArray[np.float64]]] = defaultdict(list)
    added: defaultdict[tuple[object, ...], Counter[int]] = defaultdict(Counter)
    better: dict[str, str] = {}
    with ExitStack() as stack:
        names = ("measurements", "pairs", "noise")
        measurements, pairs, noise = (stack.enter_context(_table(out, name)) for name in names)
        noise(_signals(run))
        for block in run.blocks:
            reading, key = read_block(run, block), (block.block,)
            measurements((*key, *m[:5], number(m.value), m.unit) for m in reading.measurements)
            pairs((*key, *p[:5], f"{p.log_ratio:.12g}", *map(number, p[6:])) for p in reading.pairs)
            noise(_collection(run, block, reading))
            for (variant, query_type), ns in reading.times.items():
                if (block.block, variant) in counts:
                    times[variant, query_type].append(ns)
            for stream, histogram in reading.counts.items():
                if (block.block, stream[0]) in counts:
                    added[stream].update(histogram)
            better |= reading.better
    others = {
        "distributions": _distributions(times),
        "responses": _responses(added),
        "blocks": (
            (*line[:4], _lower(not line.cause), line.cause, *map(_lower, line.second), line.reason) for line in decided
        ),
        "timeseries": _copied(run, "timeseries"),
        "checks": _copied(run, "checks"),
        "phases": _copied(run, "phases", times=("begin", "end")),
        "windows": _windows(run),
        "units": sorted(better.items()),
        "profiles": profiles.rows(run),
    }
    for name, rows in others.items():
        with _table(out, name) as write:
            write(rows)


@contextmanager
def _table(directory: Path, name: str) -> Iterator[Callable[[Iterable[Row]], None]]:
    """Open a CSV file and yield a function that writes rows to it. The file gets its name when it is whole."""
    path = directory / f"{name}.csv"
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="") as stream:
        table = tables.Writer(stream)
        table.writerow(getattr(tables, name.upper()))
        yield table.writerows
        stream.flush()
        os.fsync(stream.fileno())  # the report, which says that all is there, is on the disk sooner
    partial.replace(path)


def _lower(value: bool | None) -> str:  # noqa: FBT001 - a value of a table
    return "" if value is None else str(value).lower()


def number(value: object) -> str:
    """Return a number as text of a table: whole numbers without a point, empty for None; text is unchanged."""
    if value is None:
        return ""
    if not isinstance(value, (int, float)):
        return str(value)
    return str(int(value)) if value == int(value) else f"{value:.10g}"


def _copied(run: Run, name: str, times: Collection[str] = ()) -> Iterator[Row]:
    """Copy a table that the host has made of each block; `times` are columns of seconds."""
    for block in run.blocks:
        with files.reading(block.path / f"{name}.csv", "table"):
            for row in table(block, name):
                own = ((column, row[column]) for column in getattr(tables, name.upper())[1:])
                yield block.block, *(f"{float(text):.3f}" if of in times else text for of, text in own)


def _distributions(times: Times) -> Iterator[Row]:
    for (variant, query_type), parts in times.items():
        ns = np.concatenate(parts)
        for quantile, value in zip(QUANTILES, np.quantile(ns, QUANTILES).tolist(), strict=True):
            yield variant, query_type, f"{quantile:g}", f"{value / 1e6:.7g}", len(ns)


def _responses(added: Mapping[tuple[object, ...], Mapping[int, int]]) -> Iterator[Row]:
    for (variant, part, rate, operation, time), histogram in added.items():
        ns = np.array(sorted(histogram))
        below = np.cumsum([histogram[value] for value in ns.tolist()])
        n = int(below[-1])
        for quantile in RESPONSE_QUANTILES:
            value = ns[np.searchsorted(below, max(1, math.ceil(quantile * n - 1e-9)))]
            yield variant, part, number(rate), operation, time, f"{quantile:g}", f"{value / 1e6:.7g}", n


def _windows(run: Run) -> Iterator[Row]:
    """Copy the windows of a soak from the host's events, also those of a block that was killed."""
    blocks = {row.block for row in run.planned if row.kind != "warmup"}
    names = {variant.name for variant in run.plan.variants}
    void = {
        (block.block, variant) for block in run.blocks for variant, part in block.mixed.items()
        if any(phase.void for phase in part.phases)
    }  # fmt: skip
    for host in run.plan.every_host:
        path = run.path / f"raw/{host}/events.jsonl"
        with files.reading(path, "file of events"):
            for line in files.content(path).splitlines() if path.exists() else ():
                event: dict[str, Any] = {}
                if b'"event":"window"' in line:
                    with suppress(ValueError):  # half a line after a power cut
                        event = json.loads(line)
                for metric, limit in WINDOWED.items() if event.get("block") in blocks else ():
                    # What a late client has waited is no time of the server.
                    if metric in event and (limit or (event["block"], event["variant"]) not in void):
                        key = (event["block"], event["variant"], event["life"])
                        most = event.get(limit) or None
                        if not (0 <= event["elapsed_s"] < math.inf and math.isfinite(event[metric] + (most or 0))):
                            raise ValueError(f"a window has {metric} of {event[metric]} after {event['elapsed_s']} s")
                        if event["variant"] not in names:
                            raise ValueError(f"a window is of {event['variant']!r}, which is no variant")
                        yield *key, f"{event['elapsed_s']:.3f}", metric, f"{event[metric]:.10g}", number(most)


def _signals(run: Run) -> Iterator[Row]:
    """Copy the signals of noise that the host has judged."""
    for host in run.plan.every_host:
        with files.reading(run.path / f"raw/{host}/noise.json", "record of noise"):
            for signal in run.of_host(host, "noise.json").get("signals", []):
                yield tuple(map(signal.__getitem__, tables.NOISE))


def _collection(run: Run, block: Block, reading: Reading) -> Iterator[Row]:
    """Yield the share of garbage collection in the CPU time of the machine: no noise from outside, but it scatters.

    It is of the time of all CPUs, like Go's own GCCPUFraction, since Go counts the time that threads were runnable.
    """
    limit = run.plan.noise.gc_flag_pct if run.plan.noise else None
    cpus = float(run.machines.get(block.host, {}).get("cpus") or 1)
    with files.reading(block.path / "phases.csv", "table"):
        begins = {(row["variant"], row["part"], row["phase"]): float(row["begin"]) for row in table(block, "phases")}
    for measured in reading.measurements:
        variant = measured.variant
        load, stop = (begins.get((variant, SOLO, name), 0.0) for name in ("load", "stop"))
        if measured.metric != "gc_cpu_seconds" or not 0 < load < stop:
            continue
        share = 100 * measured.value / (stop - load) / cpus
        effect, message = "ok", ""
        if limit is not None and share >= limit:
            effect = "flag"
            message = f"garbage collection took {share:.1f} % of the machine's CPU time of {variant}, limit {limit} %"
        key = (block.block, variant, "", "")
        yield *key, "gc_pct", f"{share:.3f}", "%", number(limit), effect, message
