"""raw/ + plan/ -> tidy/: one table a subject, its columns in tsduel.core.tables."""

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tsduel.core import tables
from tsduel.core.errors import UserError
from tsduel.core.record import SOLO, Block
from tsduel.core.rundir import Run, open_run
from tsduel.tidy import profiles
from tsduel.tidy.blocks import Decided, decide
from tsduel.workloads.measured import Reading
from tsduel.workloads.reading import reader

Row = Iterable[object]
Times = Mapping[tuple[str, str, str], list[NDArray[np.float64]]]

QUANTILES = tuple(n / 1000 for n in (*range(1, 10), *range(10, 1000, 10), *range(991, 1000)))
"""Of distributions.csv: close enough for a curve, closer in the tails."""
RESPONSE_QUANTILES = (*(round(1 - 10 ** (-step / 20), 6) for step in range(1, 81)), 0.5, 1.0)
"""Of responses.csv: as close at every nine, up to 99.99 %."""


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
    times: defaultdict[tuple[str, str, str], list[NDArray[np.float64]]] = defaultdict(list)
    added: defaultdict[tuple[object, ...], Counter[int]] = defaultdict(Counter)
    better: dict[str, str] = {}
    names = ("measurements", "pairs", "timeseries", "noise")
    columns = (tables.MEASUREMENTS, tables.PAIRS, tables.TIMESERIES, tables.NOISE)
    found = [_Table(out / f"{name}.csv", header) for name, header in zip(names, columns, strict=True)]
    with found[0] as measurements, found[1] as pairs, found[2] as series, found[3] as noise:
        noise.rows(_signals(run))
        for block in run.blocks:
            reading, key = read_block(run.at(block.cell), block), (block.cell, block.block)
            measurements.rows((*key, *m[:5], number(m.value), m.unit) for m in reading.measurements)
            pairs.rows((*key, *p[:5], f"{p.log_ratio:.12g}", number(p.se), p.n) for p in reading.pairs)
            series.rows((*key, *p[:4], f"{p.elapsed_s:.3f}", p.metric, f"{p.value:.7g}") for p in reading.points)
            noise.rows(_collection(run, block, reading))
            for (variant, query_type), ns in reading.times.items():
                if (block.block, variant) in counts:
                    times[block.cell, variant, query_type].append(ns)
            for of, histogram in reading.counts.items():
                if (block.block, of[0]) in counts:
                    added[block.cell, *of].update(histogram)
            better |= reading.better
    _write(out / "distributions.csv", tables.DISTRIBUTIONS, _distributions(times))
    _write(out / "responses.csv", tables.RESPONSES, _responses(added))
    _write(out / "blocks.csv", tables.BLOCKS, map(_decided, decided))
    _write(out / "checks.csv", tables.CHECKS, _checks(run))
    _write(out / "phases.csv", tables.PHASES, _phases(run))
    _write(out / "units.csv", tables.UNITS, sorted(better.items()))
    _write(out / "profiles.csv", tables.PROFILES, profiles.rows(run))


def number(value: object) -> str:
    """Return a number as it stands in a table: whole ones without a point, nothing for None; text as it is."""
    if value is None:
        return ""
    if not isinstance(value, (int, float)):
        return str(value)
    return str(int(value)) if value == int(value) else f"{value:.10g}"


def _decided(line: Decided) -> Row:
    counts, second = str(not line.cause).lower(), str(line.second).lower()
    return line.cell, line.block, line.candidate, line.host, line.kind, counts, line.cause, second, line.reason


def _distributions(times: Times) -> Iterator[Row]:
    for (cell, variant, query_type), parts in times.items():
        ns = np.concatenate(parts)
        for quantile, value in zip(QUANTILES, np.quantile(ns, QUANTILES).tolist(), strict=True):
            yield cell, variant, query_type, f"{quantile:g}", f"{value / 1e6:.7g}", len(ns)


def _responses(added: Mapping[tuple[object, ...], Mapping[int, int]]) -> Iterator[Row]:
    for (cell, variant, part, rate, operation, time), histogram in added.items():
        ns = np.array(sorted(histogram))
        below = np.cumsum([histogram[value] for value in ns.tolist()])
        n = int(below[-1])
        for quantile in RESPONSE_QUANTILES:
            value = ns[np.searchsorted(below, max(1, math.ceil(quantile * n - 1e-9)))]
            yield cell, variant, part, number(rate), operation, time, f"{quantile:g}", f"{value / 1e6:.7g}", n


def _checks(run: Run) -> Iterator[Row]:
    """Copy what the host has checked, where and when it could be."""
    for block in run.blocks:
        for c in block.checks:
            key = (block.cell, block.block, c.variant, c.phase, c.query_type, c.check)
            yield *key, number(c.expected), number(c.actual), str(c.ok).lower(), c.message


def _phases(run: Run) -> Iterator[Row]:
    for block in run.blocks:
        for p in block.phases:
            key = (block.cell, block.block, p.variant, p.part, p.phase, p.query_type)
            yield *key, f"{p.begin:.3f}", f"{p.end:.3f}"


def _signals(run: Run) -> Iterator[Row]:
    """Copy the host's judgement: it is there that a spoilt block is replaced."""
    cells = {block.block: block.cell for block in run.blocks}
    for host in run.plan.every_host:
        for signal in run.of_host(host, "noise.json").get("signals", []):
            named = {"cell": cells.get(signal["block"], "")} | signal
            yield tuple("" if named[name] is None else named[name] for name in tables.NOISE)


def _collection(run: Run, block: Block, reading: Reading) -> Iterator[Row]:
    """Yield the share of garbage collection: no cause from outside, but a reason for scatter.

    Of the time of all CPUs, like Go's own GCCPUFraction, since what Go counts is the time its threads were runnable.
    """
    limit = run.plan.noise.gc_flag_pct if run.plan.noise else None
    cpus = float(run.machines.get(block.host, {}).get("cpus") or 1)
    for found in reading.measurements:
        load, stop = (block.phase(found.variant, SOLO, name) for name in ("load", "stop"))
        if found.metric != "gc_cpu_seconds" or load is None or stop is None or stop.begin <= load.begin:
            continue
        share = 100 * found.value / (stop.begin - load.begin) / cpus
        flagged = limit is not None and share >= limit
        said = f"garbage collection took {share:.1f} % of the machine's CPU time of {found.variant}, limit {limit} %"
        key = (block.cell, block.block, found.variant, "", "")
        effect, message = ("flag", said) if flagged else ("ok", "")
        yield *key, "gc_pct", f"{share:.3f}", "%", number(limit), effect, message


def _write(path: Path, columns: tuple[str, ...], rows: Iterable[Row]) -> None:
    with _Table(path, columns) as table:
        table.rows(rows)


class _Table:
    """A CSV file that appears under its name only when it is whole."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self._path, self._partial = path, path.with_name(path.name + ".partial")
        self._stream = self._partial.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._stream, lineterminator="\n")
        self._writer.writerow(columns)

    def rows(self, rows: Iterable[Row]) -> None:
        self._writer.writerows(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stream.close()
        if kind is None:
            self._partial.replace(self._path)
