"""A/A: one binary as both variants. docs/statistics.md says when it passes, and how often."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tsduel.core import files
from tsduel.core.files import read_json
from tsduel.core.metrics import METRICS
from tsduel.core.rundir import open_run
from tsduel.core.wording import number_of
from tsduel.stats import calibration
from tsduel.stats.outcome import first_few
from tsduel.stats.power import AFTER, ALPHA, FEWEST_BLOCKS
from tsduel.stats.verdict import EQUIVALENT, FAMILIES, holm
from tsduel.workloads import workload_of

GATED = set(FAMILIES)
SPREAD = (
    *("metric", "query_type", "s_d", "within_pct", "sitting_pct"),
    *("between_pct", "mde_pct", "change_pct", "threshold_pct"),
)


def verdict(document: Mapping[str, Any], expected: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """Judge the comparison of a binary with itself: {"passed": bool, "reasons": why not, "notes": what else was seen}.

    `expected` are the metrics and query types that must be tested; a missing one fails. An effect of the order fails
    nothing: it is in no estimate, since the order is balanced, so it is a note.
    """
    rows = [row for row in document["rows"] if row["family"] in GATED]
    reasons = [f"{number_of(n, 'check')} failed"] if (n := document["checks"]["failed"]) else []
    blocks = [len(candidate["valid"]) for candidate in document["blocks"].values()]
    reasons += [
        f"{number_of(n, 'valid block')}, and {FEWEST_BLOCKS} is the fewest that show anything"
        for n in blocks
        if n < FEWEST_BLOCKS
    ]
    reasons += _untested(rows, expected)
    for row in rows:
        if native := row["native"]:
            size, limit, unit = native["difference"], native["limit"], row["unit"]
        else:
            size, limit, unit = row["change_pct"], row["threshold_pct"], "%"
        # Data that two loads have laid differently make a difference of work that is real, and small.
        matters = size is not None and (not _is_work(row) or abs(size) >= limit)
        if row["p_adj"] is not None and row["p_adj"] <= ALPHA and matters:
            reasons.append(f"{_name(row)}: called different (p {row['p_adj']:.2g}, {size:+.3g} {unit})")
        # Of forty secondary metrics a few scatter by more in every run.
        if row["family"] == "primary" and size is not None and abs(size) >= limit / 2 > 0:
            reasons.append(
                f"{_name(row)}: the estimate is {size:+.3g} {unit}, half of its threshold is {limit / 2:.3g} {unit}"
            )
    return {"passed": not reasons, "reasons": reasons, "notes": _order_effects(rows)}


def _is_work(row: Mapping[str, Any]) -> bool:
    return row["metric"] in METRICS and METRICS[row["metric"]].work


def _untested(rows: Sequence[Mapping[str, Any]], expected: Iterable[tuple[str, str]]) -> list[str]:
    if not rows:
        return ["nothing was tested"]
    tested = {(row["metric"], row["query_type"]) for row in rows}
    missing = [" ".join(key).rstrip() for key in expected if key not in tested]
    # Equal values in every block need no test.
    missing += [_name(row) for row in rows if row["p_adj"] is None and row["verdict"] != EQUIVALENT]
    return [f"not tested: {first_few(missing)}"] if missing else []


def _order_effects(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name effects of the order within blocks; p is adjusted by Holm, since there are about twenty tests."""
    tested = sorted((row for row in rows if row["order_effect_p"] is not None), key=lambda row: row["order_effect_p"])
    notes = []
    for row, adjusted in zip(tested, holm([row["order_effect_p"] for row in tested]), strict=True):
        size = row["order_effect_pct"]
        if adjusted <= ALPHA:  # another one, however large, may be chance
            how = "" if size is None else f" {size:+.1f} % where it {AFTER[row['order_effect']]}"
            notes.append(f"{_name(row)}: order effect{how} (p {row['order_effect_p']:.2g}, {adjusted:.2g} for all)")
    return notes


def _name(row: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (row["metric"], row["query_type"], row.get("setting"))))


def keep(run_dir: Path) -> str:
    """Keep the spreads of an A/A run for later plans and reports on this kind of machine; return a sentence.

    A smoke run or a screen is never kept. A failed run does not replace one that has passed, nor an older run a newer.
    """
    run = open_run(run_dir)
    if not run.plan.aa:
        return "calibration: not kept, since this was no A/A run (AA=1)"
    if run.plan.smoke or run.plan.screen:
        return "calibration: not kept, since this run was planned as a screen"
    document = read_json(run_dir / "stats/comparison.json")
    name, kind = run.path.resolve().name, calibration.machine_kind(run)
    path = calibration.path_of(run.path.resolve().parent, run.plan, kind)
    before = read_json(path) if path.exists() else {}
    if before and before["run"] != name:
        if before["passed"] and not document["aa"]["passed"]:
            return f"calibration: that of {before['run']} stays, which has passed"
        if before["created"] > run.plan.created:
            return f"calibration: that of {before['run']} stays, which is newer"
    kept = {
        "machine_kind": kind,
        "run": name,
        "created": run.plan.created,
        "experiment": run.plan.name,
        "alike": workload_of(run.plan).alike(run.plan),
        "blocks": {candidate: len(blocks["valid"]) for candidate, blocks in document["blocks"].items()},
        **document["aa"],
        "spreads": [
            {key: row[key] for key in SPREAD} for row in document["rows"] if row["family"] in GATED and row["s_d"]
        ],
    }
    path.parent.mkdir(exist_ok=True)
    files.write(path, json.dumps(kept, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return f"calibration: kept in {path}"
