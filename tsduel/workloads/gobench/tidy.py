"""Rounds of Go benchmarks -> measurements and checks: bench.txt as Go wrote it, and which part of it is whose."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tsduel.core.errors import UserError
from tsduel.workloads.gobench import parse
from tsduel.workloads.tsbs.checks import Check
from tsduel.workloads.tsbs.measure import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tsduel.core.rundir import Round, Run

PHASE = "bench"
SCOPES = {
    "round_finished": ("round", "the round came to its end"),
    "bench_exit": ("row", "the test binary exited with 0, and failed and skipped nothing"),
    "bench_result": ("row", "each benchmark printed one result, of as many operations as were asked for"),
    "bench_required": ("row", "what `require:` names is there and above zero"),
}
UNITS = ("metric", "better")


@dataclass(frozen=True)
class GoMeasurement(Measurement):
    """A measurement whose metric is named by its unit, as benchstat does."""

    @property
    def unit(self) -> str:
        """Unit of the metric."""
        return self.metric


@dataclass(frozen=True)
class _Cell:
    """One benchmark of a round: its row and column (None unless pivoted), what was asked for, and all it printed."""

    row: str
    column: str | None
    name: str
    count: int
    text: str


def rounds(run: Run) -> Iterator[tuple[Round, list[Measurement], list[Check]]]:
    """Yield each round with its measurements and checks; a pivoted one once a column, which stands for its variant."""
    calibration = run.json("raw/calibration.json")
    columns: list[str | None] = list(calibration.get("columns") or [None])
    for found in run.rounds:
        cells = list(_cells(found, calibration)) if found.ok and found.kind != "warmup" else []
        for column in columns:
            mine = [cell for cell in cells if cell.column == column]
            shown = found if column is None else replace(found, variant=column)
            yield shown, [m for cell in mine for m in _measured(cell, run)], [*_checked(found, mine, run)]


def write_units(run: Run, path: Path) -> None:
    """Write units.csv: which direction is better of the units that somebody has said it of, the experiment last."""
    found: dict[str, str] = {}
    for one in run.rounds:
        text = one.path / "bench.txt"
        if text.exists():
            found.update(parse.units(text.read_text(encoding="utf-8", errors="replace")))
    found.update((parse.tidy_unit(unit)[0], better) for unit, better in run.plan["gobench"]["units"].items())
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(UNITS)
        table.writerows(sorted(found.items()))
    partial.replace(path)


def _cells(found: Round, calibration: dict[str, Any]) -> Iterator[_Cell]:
    file, index = found.path / "bench.txt", found.path / "outputs.tsv"
    for path in (file, index):
        if not path.exists():
            raise UserError(f"{path} is missing, though its round was finished: the run directory is not whole")
    whole = file.read_bytes()
    parts = {}
    for line in index.read_text(encoding="utf-8").splitlines():
        row, begin, end = line.rsplit("\t", 2)
        parts[row] = whole[int(begin) : int(end)].decode("utf-8", errors="replace")
    for planned in calibration.get("rows") or []:
        name = planned["names"].get(found.variant)
        if name is None:
            continue
        cell = planned.get("cell") or {"row": planned["row"], "column": None}
        text = parts.get(planned["row"], "")
        yield _Cell(cell["row"], cell["column"], f"{name}{_suffix(calibration)}", int(planned["count"]), text)


def _suffix(calibration: dict[str, Any]) -> str:
    return "" if calibration["cpu"] == 1 else f"-{calibration['cpu']}"


def _measured(cell: _Cell, run: Run) -> Iterator[Measurement]:
    found = [result for result in parse.results(cell.text) if result.name == cell.name]
    # What has no right to be compared is kept out here as well, not only marked.
    if len(found) == 1 and all(value is not None for _, value in _required(cell, run)):
        yield from (GoMeasurement(PHASE, cell.row, unit, value) for unit, value in found[0].values.items())


def _checked(found: Round, cells: list[_Cell], run: Run) -> Iterator[Check]:
    if not found.ok:
        failure = found.failure or {}
        message = failure.get("message") or "the round failed and its record does not say why"
        phase = failure.get("phase", "")
        yield Check("round_finished", phase, "", "ok", found.status, ok=False, message=message)
        return
    yield Check("round_finished", "", "", "ok", "ok", ok=True)
    for cell in cells:
        yield from _checked_cell(cell, run)


def _checked_cell(cell: _Cell, run: Run) -> Iterator[Check]:
    lines = cell.text.splitlines()
    bad = [line for line in lines if line.startswith(("--- FAIL", "--- SKIP", "panic: "))]
    ok = not bad and "PASS" in lines
    message = "" if ok else f"{cell.name}: {bad[0] if bad else 'its output does not end with PASS'}"
    yield Check("bench_exit", PHASE, cell.row, "PASS", "PASS" if ok else (bad or [""])[0], ok=ok, message=message)
    found = [r.operations for r in parse.results(cell.text) if r.name == cell.name]
    ok = found == [cell.count]
    message = "" if ok else f"{cell.name} printed {len(found)} results, of {found} operations"
    actual = " ".join(map(str, found))
    yield Check("bench_result", PHASE, cell.row, str(cell.count), actual, ok=ok, message=message)
    for what, value in _required(cell, run):
        ok = value is not None
        message = "" if ok else f"{cell.name}: {what} is not there, or not above zero"
        yield Check(
            "bench_required", PHASE, cell.row, "> 0", "" if value is None else f"{value:g}", ok=ok, message=message
        )


def _required(cell: _Cell, run: Run) -> Iterator[tuple[str, float | None]]:
    """Yield what the experiment requires and the value that was found; None where it is missing or not above zero."""
    values = next((r.values for r in parse.results(cell.text) if r.name == cell.name), {})
    for rule in run.plan["gobench"]["require"]:
        if rule["metric"]:
            known = values.get(parse.tidy_unit(rule["metric"])[0])
            seen = [] if known is None else [known]
        else:
            seen = [_number(text) for text in re.findall(rule["output"], cell.text, re.MULTILINE)]
        # Every time that it is printed: one empty answer among full ones is an empty answer.
        yield rule["metric"] or rule["output"], min(seen) if seen and min(seen) > 0 else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
