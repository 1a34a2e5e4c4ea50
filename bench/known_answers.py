"""Runs of quick.yml, and of gate.yml, over differences that were planted, and over a version and itself.

They stay in results/ as known-KIND-N and gate-KIND-N; a finished one is read. `make proof` says which kinds there are.
"""

import os
from collections.abc import Mapping
from typing import Any

from bench import quick
from bench.quick import CPU, TIME, Rows
from tsduel.calibrate import planted
from tsduel.core import caches
from tsduel.core.metrics import GEOMEAN
from tsduel.stats.verdict import IMPROVEMENT, REGRESSION

BASELINE, CANDIDATE = "baseline", "candidate"
INGESTION = ("duel_load_typical_ms", "")
OBJECTS, BYTES = "duel_objects", "duel_object_bytes"


def run(kind: str, number: int) -> Rows:
    """Return the rows of a run of quick.yml, as if the candidate had the difference; it is made unless it exists."""
    sides, planted_side = _sides(kind), CANDIDATE
    if kind.startswith("burn") and number % 2 == 0:
        sides = {"BASELINE": sides["CANDIDATE"], "CANDIDATE": sides["BASELINE"]}
        planted_side = BASELINE
    # A wrong answer fails its block, also the first one.
    wrong = kind.startswith("wrong")
    needs = () if wrong else (TIME, CPU)
    rows = quick.judged(f"known-{kind}-{number}", _knobs(sides, number), needs=needs, fails=wrong)
    return rows if planted_side == CANDIDATE else turned(rows)


def gate(kind: str, number: int) -> Rows:
    """Return the rows of a run of gate.yml; it is made unless it exists."""
    knobs = _knobs(_sides(kind), number)
    return quick.judged(f"gate-{kind}-{number}", knobs, None, "experiments/gate.yml", [(OBJECTS, GEOMEAN)])


def _sides(kind: str) -> dict[str, str]:
    repository = planted.repository(caches.directory(os.environ))
    base = {"BASELINE": f"git:{repository}@base"}
    return base | ({"AA": "1"} if kind == "same" else {"CANDIDATE": f"git:{repository}@{kind}"})


def _knobs(sides: Mapping[str, str], number: int) -> dict[str, str]:
    return {**sides, "SET": f"design.seed={number}"}


def turned(rows: Rows) -> Rows:
    """Return rows as if the sides were exchanged."""
    return {metric: _turned(row) for metric, row in rows.items()}


def _turned(row: Mapping[str, Any]) -> Mapping[str, Any]:
    verdicts = {REGRESSION: IMPROVEMENT, IMPROVEMENT: REGRESSION}
    names = ("change_pct", "hi_pct", "lo_pct")
    values = [None if row[name] is None else 100 * (1 / (1 + row[name] / 100) - 1) for name in names]
    return {
        **row, **dict(zip(("change_pct", "lo_pct", "hi_pct"), values, strict=True)),
        "verdict": verdicts.get(row["verdict"], row["verdict"]),
    }  # fmt: skip
