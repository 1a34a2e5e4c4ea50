"""How figures grow along a sweep: exponents of power laws, and the cell from which on there is a difference.

Both are of lines: cells that differ in one numeric key of the matrix and in nothing else.
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsduel.core import files
from tsduel.core.metrics import METRICS
from tsduel.core.plan import Plan
from tsduel.core.rundir import BlockRow, Run
from tsduel.stats.estimate import Floats, hodges_lehmann, interval
from tsduel.stats.findings import LEVEL, Sample
from tsduel.stats.verdict import IMPROVEMENT, REGRESSION

FILE = "stats/sweep.json"
PER_SAMPLE = frozenset({"load_cpu_seconds", "disk_bytes"})
"""Metrics that are divided by the stored samples before their exponent is found."""
SAMPLES = "samples"
BENT = 0.1
"""If the exponents at both ends of a line differ by more, it is no single power law."""
_VOLUME = ("workload.interval", "workload.start", "workload.end")
_ENDS = 2
_DIFFERENCES = (REGRESSION, IMPROVEMENT)


@dataclass(frozen=True)
class Line:
    """Cells that differ in one key alone, in the order of its values `at`; `name` is the key in plain words.

    `beside`: the other words of the cells' names, which they share.
    """

    key: str
    name: str
    beside: str
    cells: tuple[str, ...]
    at: tuple[float, ...]


def lines(plan: Plan) -> list[Line]:
    """Return the lines of a plan, of two cells at least.

    Where only the interval or the window changes how much is stored, the line is over samples.
    """
    points: dict[tuple[str, str], list[tuple[float, str]]] = {}
    keys = dict.fromkeys(key for cell in plan.cells for key in cell.set)
    moved = [key for key in keys if key in (*_VOLUME, "workload.scale")]
    names: dict[str, str] = {}
    for key in keys:
        volume = key in _VOLUME and moved == [key]
        names[key] = SAMPLES if volume else "window" if key in _VOLUME[1:] else key.rpartition(".")[2]
        for cell in plan.cells:
            at = _position(plan.at(cell.name), key, cell.set[key], volume=volume)
            if at is None:
                break
            rest = json.dumps({k: v for k, v in cell.set.items() if k != key}, sort_keys=True)
            points.setdefault((key, rest), []).append((at, cell.name))
    result = []
    for (key, _), unordered in points.items():
        positions, cells = zip(*sorted(unordered), strict=True)
        if len(set(positions)) >= _ENDS:
            common = " ".join(word for word in cells[0].split() if all(word in cell.split() for cell in cells))
            result.append(Line(key, names[key], common, cells, positions))
    return result


def _position(plan: Plan, key: str, value: Any, *, volume: bool) -> float | None:
    """Return the position of a cell on an axis; None where it is no number above zero."""
    if plan.workload is not None and key in _VOLUME:
        if volume:
            return float(plan.workload.samples)
        return plan.workload.interval_s if key == _VOLUME[0] else plan.workload.window_s / 3600
    known = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if known else None


def slopes(x: Sequence[float], y: Floats) -> Floats:
    """Return the least-squares slope of ln y over ln x of each round; y has a round a row and a cell a column.

    A power law y = a x^b is a line of slope b. One number for each replicate, and a test of these, is the
    summary-measures analysis of Matthews, Altman, Campbell and Royston, BMJ 300 (1990) 230. Drift between rounds
    changes a and not b.
    """
    centred = np.log(x) - np.log(x).mean()
    return np.asarray(np.log(y) @ centred / (centred**2).sum())


def exponent(x: Sequence[float], y: Floats) -> dict[str, Any]:
    """Return exponent and interval over rounds, exponents at both ends, and how far medians are from the power law.

    Exponents are Hodges-Lehmann estimates of the rounds' slopes, with exact signed-rank intervals (estimate.py): 95 %
    needs six rounds. ``bent``: the ends differ by more than BENT and more than chance.
    """
    of_rounds = slopes(x, y)
    ci = interval(of_rounds.tolist(), LEVEL)
    first, last = slopes(x[:_ENDS], y[:, :_ENDS]), slopes(x[-_ENDS:], y[:, -_ENDS:])
    turned = interval((last - first).tolist(), LEVEL) if len(x) > _ENDS else None
    beta = hodges_lehmann(of_rounds.tolist())
    rest = np.median(np.log(y), axis=0) - beta * np.log(x)
    return {
        "exponent": beta,
        "lo": ci and ci.low,
        "hi": ci and ci.high,
        "level": ci and ci.level,
        "rounds": len(of_rounds),
        "first": hodges_lehmann(first.tolist()),
        "last": hodges_lehmann(last.tolist()),
        "bent": turned is not None
        and not turned.low <= 0 <= turned.high
        and abs(hodges_lehmann((last - first).tolist())) > BENT,
        "off_pct": 100 * math.expm1(float(np.abs(rest - np.median(rest)).max())),
    }


def write(run: Run, samples: Sequence[Sample], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write stats/sweep.json of a run with several cells; remove it of any other run."""
    path = run.path / FILE
    if not run.plan.sweeps:
        path.unlink(missing_ok=True)
        return
    all_lines = lines(run.plan)
    document = {
        "schema": 1,
        "lines": [vars(line) for line in all_lines],
        "fits": [fit for at, line in enumerate(all_lines) for fit in _fits(run, at, line, samples)],
        "begins": [begin for at, line in enumerate(all_lines) for begin in _begins(at, line, rows)],
    }
    files.write(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _fits(run: Run, at: int, line: Line, samples: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    """Yield the exponent of each variant, and of the candidate's ratio to the baseline (variant "")."""
    by_cell: dict[tuple[str, str, str], dict[str, Sample]] = {}
    for item in samples:
        if item.cell in line.cells and item.metric.name in METRICS and item.metric.better != "none":
            by_cell.setdefault((item.candidate, item.metric.name, item.query_type), {})[item.cell] = item
    yielded = set[tuple[str, str, str]]()
    stored = {cell: load.samples for cell in line.cells if (load := run.plan.at(cell).workload)}
    for (candidate, metric, query_type), cells in by_cell.items():
        if set(cells) != set(line.cells):
            continue
        sides = _rounds(run.planned, [cells[cell] for cell in line.cells])
        if sides is None:
            continue
        if metric in PER_SAMPLE and len(stored) == len(line.cells):
            sides = sides / np.array([stored[cell] for cell in line.cells])
        for variant, values in {run.variants[0]: sides[0], candidate: sides[1], "": sides[1] / sides[0]}.items():
            key = (variant or f"/{candidate}", metric, query_type)
            if key not in yielded:
                yielded.add(key)
                yield {
                    "line": at, "candidate": candidate, "variant": variant, "metric": metric, "query_type": query_type,
                    "per": "sample" if metric in PER_SAMPLE and stored else "", **exponent(line.at, values),
                }  # fmt: skip


def _rounds(planned: Sequence[BlockRow], cells: Sequence[Sample]) -> Floats | None:
    """Return values of both sides, (side, round, cell), of whole rounds; None with fewer than two, or with a zero.

    A round is one block of each cell, one after the other; a spare block takes the place of the block it replaces.
    """
    columns = []
    for cell in cells:
        pairs = dict(zip(cell.blocks, cell.pairs, strict=True))
        mine = [row for row in planned if row.cell == cell.cell]
        spares = iter([pairs[row.block] for row in mine if row.kind == "spare" and row.block in pairs])
        measured = [row.block for row in mine if row.kind == "measured"]
        columns.append([pairs[block] if block in pairs else next(spares, (None, None)) for block in measured])
    whole = [row for row in zip(*columns, strict=True) if all(None not in pair for pair in row)]
    if len(whole) < _ENDS:
        return None
    values = np.array(whole, dtype=float).transpose(2, 0, 1)
    return values if (values > 0).all() else None


def _begins(at: int, line: Line, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the cell from which on all verdicts to the end of a line are the same difference."""
    by_cell: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        if row["cell"] in line.cells:
            by_cell.setdefault((row["candidate"], row["metric"], row["query_type"]), {})[row["cell"]] = row["verdict"]
    for (candidate, metric, query_type), of_cells in by_cell.items():
        verdicts = [of_cells.get(cell, "") for cell in line.cells]
        if verdicts[-1] in _DIFFERENCES:
            same = len(list(itertools.takewhile(verdicts[-1].__eq__, reversed(verdicts))))
            yield {
                "line": at, "candidate": candidate, "metric": metric, "query_type": query_type,
                "verdict": verdicts[-1], "cell": line.cells[-same],
            }  # fmt: skip
