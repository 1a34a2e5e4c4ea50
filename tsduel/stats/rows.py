"""A line of comparison.csv, and what comparison.json has beyond it: from a judged metric to figures in percent."""

import statistics
from dataclasses import dataclass, replace
from typing import Any

from tsduel.stats.benchfmt import Compared
from tsduel.stats.estimate import Interval, hodges_lehmann, interval, percent
from tsduel.stats.findings import LEVEL, Findings
from tsduel.stats.verdict import Judged

SHORT_PHASE_S = 5.0


@dataclass(frozen=True)
class Row:
    """One line of comparison.csv (tables.COMPARISON); None is an empty cell. Medians are over the valid blocks."""

    cell: str
    candidate: str
    metric: str
    query_type: str
    unit: str
    better: str
    baseline_median: float | None
    candidate_median: float | None
    change_pct: float | None
    lo_pct: float | None
    hi_pct: float | None
    p: float | None
    p_adj: float | None
    blocks: int
    mde_pct: float | None
    blocks_needed: int | None
    within_pct: float | None
    between_pct: float | None
    verdict: str
    warnings: str


def row(compared: Compared, judged: Judged) -> Row:
    """Return the line of a judged metric."""
    metric, found = compared.metric, judged.findings
    low, high = _percents(found, found.ci95)
    return Row(
        cell=compared.cell,
        candidate=compared.candidate,
        metric=metric.name,
        query_type=compared.query_type,
        unit=metric.unit,
        better=metric.better,
        baseline_median=statistics.median(found.baseline) if found.baseline else None,
        candidate_median=statistics.median(found.candidate) if found.candidate else None,
        change_pct=_percent(found, found.estimate),
        lo_pct=low,
        hi_pct=high,
        p=found.p,
        p_adj=judged.p_adj,
        blocks=found.n,
        mde_pct=_percent(found, found.mde),
        blocks_needed=found.blocks_needed,
        within_pct=_percent(found, found.within),
        between_pct=_percent(found, found.between),
        verdict=judged.verdict,
        warnings="; ".join(judged.notes),
    )


def _percent(found: Findings, difference: float | None) -> float | None:
    return None if difference is None or found.native else percent(difference)


def _percents(found: Findings, interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (_percent(found, interval.low), _percent(found, interval.high))


def details(judged: Judged) -> dict[str, Any]:
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
        "within": found.within,
        "between": found.between,
        "order_effect_pct": _percent(found, order.delta) if order else None,
        "order_effect_p": order.p if order else None,
        "mann_whitney_p": found.mann_whitney_p,
        "native": {
            "difference": found.estimate,
            "lo": ci.low if ci else None,
            "hi": ci.high if ci else None,
            "limit": found.limit,
        }
        if native
        else None,
        "shift": _shift(found),
    }


def _shift(found: Findings) -> dict[str, float | None] | None:
    """Return candidate minus baseline in the metric's own unit, with its exact 95 % interval; None without a pair."""
    if not found.n:
        return None
    differences = [c - b for b, c in zip(found.baseline, found.candidate, strict=True)]
    ci = interval(differences, LEVEL)
    low, high = (ci.low, ci.high) if ci else (None, None)
    return {"difference": hodges_lehmann(differences), "lo": low, "hi": high}


def short_phase(row: Row, rows: list[Row]) -> Row:
    """Add a warning to what was measured in a phase of the solo part of less than 5 s."""
    length = "load_seconds" if row.metric.startswith("load_") else "query_seconds"
    if row.metric == length or not row.metric.startswith(("load_", "query_")):
        return row
    wanted = (row.cell, row.candidate, length, row.query_type)
    found = next((r for r in rows if (r.cell, r.candidate, r.metric, r.query_type) == wanted), None)
    seconds = [s for s in (found.baseline_median, found.candidate_median) if s is not None] if found else []
    if not seconds or min(seconds) >= SHORT_PHASE_S:
        return row
    warning = f"a phase of {min(seconds):.1f} s, under {SHORT_PHASE_S:.0f} s"
    return replace(row, warnings="; ".join(filter(None, [row.warnings, warning])))
