"""tidy/*.csv + plan -> stats/: comparison.csv and .json, one row a metric and query type, and benchstat's two files.

The unit of replication is the round, paired within its block; warm-up blocks and blocks without a whole round of both
variants are left out, and each that is left out is named with its reason. docs/method.md says how it is judged.
"""

import csv
import io
import json
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tsduel import benchfmt
from tsduel.blocks import (
    Blocks,
    candidate_second,
    geomean,
    read_noise,
    read_table,
    refuse_duplicates,
    touched,
    valid_blocks,
    values,
)
from tsduel.errors import UserError
from tsduel.estimate import Interval, percent
from tsduel.findings import Findings, Pair, Sample
from tsduel.metrics import GEOMEAN, METRICS, Metric, threshold
from tsduel.power import FEWEST_BLOCKS
from tsduel.rundir import Run, open_run
from tsduel.tidy import CHECKS, MEASUREMENTS
from tsduel.verdict import Judged, judge

SCREEN_BELOW = FEWEST_BLOCKS
"""Fewer valid blocks than this never get a verdict (MEASUREMENT.md 1)."""
SHORT_PHASE_S = 5.0


@dataclass(frozen=True)
class Row:
    """One line of comparison.csv; None is an empty cell. `baseline` and `candidate` are medians over valid blocks."""

    metric: str
    query_type: str
    unit: str
    better: str
    baseline: float | None
    candidate: float | None
    change_pct: float | None
    lo_pct: float | None
    hi_pct: float | None
    p: float | None
    p_adj: float | None
    blocks: int
    mde_pct: float | None
    blocks_needed: int | None
    verdict: str
    warnings: str


COLUMNS = tuple(Row.__dataclass_fields__)


@dataclass(frozen=True)
class Compared:
    """A row, what it is made of (in comparison.json only), and its values by block."""

    row: Row
    details: dict[str, Any]
    pairs: list[Pair]


def main(run_dir: Path) -> None:
    """Compare the candidate of a run with its baseline."""
    run = open_run(run_dir)
    path = run_dir / "tidy/measurements.csv"
    measurements = read_table(path, MEASUREMENTS)
    refuse_duplicates(path, measurements)
    checks = read_table(run_dir / "tidy/checks.csv", CHECKS)
    if len(run.variants) < 2:  # noqa: PLR2004 - a comparison needs two
        raise UserError(f"{run_dir}: the plan has one variant only, there is nothing to compare")
    blocks = valid_blocks(run, measurements, checks, read_noise(run_dir / "tidy/noise.csv"))
    compared = compare(run, measurements, checks, blocks)
    out = run_dir / "stats"
    out.mkdir(exist_ok=True)
    _write(out / "comparison.csv", _csv([one.row for one in compared]))
    document = _document(run, blocks, compared, checks)
    _write(out / "comparison.json", json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    phases = dict(zip(measurements["metric"].tolist(), measurements["phase"].tolist(), strict=True))
    judged = [(METRICS[one.row.metric], one.row.query_type, one.pairs) for one in compared]
    for side, text in zip(("baseline", "candidate"), benchfmt.files(run, phases, judged), strict=True):
        _write(out / f"{side}.bench.txt", text)


def compare(run: Run, measurements: pd.DataFrame, checks: pd.DataFrame, blocks: Blocks) -> list[Compared]:
    """Make the rows in the order of the registry, query types in the order of the experiment, geomeans last."""
    pair = run.variants[:2]
    by_name = values(measurements, blocks.valid, pair)
    second = candidate_second(measurements, blocks.valid, pair)
    failures = checks[(checks["ok"] != "true") & (checks["block"] > 0) & (checks["check"] != "round_finished")]
    thresholds = run.plan["design"].get("thresholds") or {}
    wanted: list[tuple[Metric, str, list[Pair]]] = []
    notes: dict[str, str] = {}
    for metric in METRICS.values():
        types = run.query_types if metric.per_type else [""]
        per_type = {t: by_name[metric.name, t] for t in types if (metric.name, t) in by_name}
        wanted += [(metric, query_type, pairs) for query_type, pairs in per_type.items()]
        if metric.geomean and per_type:
            pairs, left_out = geomean(per_type)
            left_out += [t for t in types if t not in per_type]
            wanted.append((metric, GEOMEAN, pairs))
            notes[metric.name] = f"without {', '.join(left_out)}, not above zero in every block" if left_out else ""
    samples = [
        Sample(
            pairs=pairs,
            second=second,
            better=metric.better,
            family=metric.geomean if query_type == GEOMEAN and metric.geomean else metric.family,
            threshold=threshold(metric, thresholds),
            unit=metric.unit,
            failed=touched(failures, metric, query_type),
            note=notes.get(metric.name, "") if query_type == GEOMEAN else "",
            # What was planned as a screen is one, noisy or not.
            environment=blocks.short and not (run.plan.get("screen") or run.plan.get("smoke")),
        )
        for metric, query_type, pairs in wanted
    ]
    judged = judge(samples, int(run.plan["design"].get("seed") or 0))
    compared = [
        Compared(_row(metric, query_type, one), _details(one), pairs)
        for (metric, query_type, pairs), one in zip(wanted, judged, strict=True)
    ]
    rows = [one.row for one in compared]
    return [replace(one, row=_short_phase(one.row, rows)) for one in compared]


def _row(metric: Metric, query_type: str, judged: Judged) -> Row:
    found = judged.findings
    low, high = _percents(found, found.ci95)
    return Row(
        metric=metric.name,
        query_type=query_type,
        unit=metric.unit,
        better=metric.better,
        baseline=statistics.median(found.baseline) if found.baseline else None,
        candidate=statistics.median(found.candidate) if found.candidate else None,
        change_pct=_percent(found, found.estimate),
        lo_pct=low,
        hi_pct=high,
        p=found.p,
        p_adj=judged.p_adj,
        blocks=found.n,
        mde_pct=_percent(found, found.mde),
        blocks_needed=found.blocks_needed,
        verdict=judged.verdict,
        warnings="; ".join(judged.notes),
    )


def _percent(found: Findings, difference: float | None) -> float | None:
    return None if difference is None or found.native else percent(difference)


def _percents(found: Findings, interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (_percent(found, interval.low), _percent(found, interval.high))


def _details(judged: Judged) -> dict[str, Any]:
    """Return what comparison.json has beyond the columns; differences in native units where there is no ratio."""
    found, ci, tost, order = judged.findings, judged.findings.ci95, judged.findings.ci90, judged.findings.order
    low, high = _percents(found, tost)
    native = found.native and found.estimate is not None
    return {
        "family": judged.sample.family,
        "threshold_pct": judged.sample.threshold,
        "clear": judged.clear,
        "level": ci.level if ci else None,
        "lo90_pct": low,
        "hi90_pct": high,
        "level90": tost.level if tost else None,
        "range_pct": [percent(min(found.known)), percent(max(found.known))] if found.n and not found.native else None,
        "s_d": found.deviation,
        "order_effect_pct": _percent(found, order.delta) if order else None,
        "order_effect_p": order.p if order else None,
        "mann_whitney_p": found.mann_whitney_p,
        "native": {"difference": found.estimate, "lo": ci.low if ci else None, "hi": ci.high if ci else None}
        if native
        else None,
    }


def _short_phase(row: Row, rows: list[Row]) -> Row:
    """Add a warning to what was measured in a phase of less than 5 s."""
    length = "load_seconds" if row.metric.startswith("load_") else "query_seconds"
    if row.metric == length or not (row.metric.startswith("load_") or row.query_type):
        return row
    found = next((r for r in rows if r.metric == length and r.query_type == row.query_type), None)
    seconds = [s for s in (found.baseline, found.candidate) if s is not None] if found else []
    if not seconds or min(seconds) >= SHORT_PHASE_S:
        return row
    warning = f"a phase of {min(seconds):.1f} s, under {SHORT_PHASE_S:.0f} s"
    return replace(row, warnings="; ".join(filter(None, [row.warnings, warning])))


def _document(run: Run, blocks: Blocks, compared: list[Compared], checks: pd.DataFrame) -> dict[str, Any]:
    crashed = checks[(checks["check"] == "round_finished") & (checks["ok"] != "true")]["variant"].tolist()
    return {
        "schema": 2,
        "run": run.path.name,
        "baseline": run.variants[0],
        "candidate": run.variants[1],
        "blocks": {"valid": blocks.valid, "dropped": [{"block": b, "reason": r} for b, r in blocks.dropped.items()]},
        "failed_rounds": {name: crashed.count(name) for name in run.variants},
        "checks": {"made": len(checks), "failed": int((checks["ok"] != "true").sum())},
        "rows": [{**vars(one.row), **one.details} for one in compared],
    }


def _csv(rows: list[Row]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in rows:
        table.writerow(f"{cell:.10g}" if isinstance(cell, float) else cell for cell in vars(row).values())
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
