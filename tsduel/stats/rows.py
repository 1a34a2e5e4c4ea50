"""From a judged metric to a row of comparison.json, in percent; comparison.csv has the columns of tables.COMPARISON."""

import statistics
from typing import Any

from tsduel.stats.benchfmt import Compared
from tsduel.stats.estimate import Interval, hodges_lehmann, interval, percent
from tsduel.stats.findings import LEVEL, Findings
from tsduel.stats.hosts import OverHosts
from tsduel.stats.verdict import Judged

SHORT_PHASE_S = 5.0
Row = dict[str, Any]
_KEY = ("cell", "candidate", "metric", "query_type")


def row(compared: Compared, judged: Judged) -> Row:
    """Return the row of a judged metric; medians are over the valid blocks, None is an empty cell.

    Beyond the columns it has differences in native units where there is no ratio.
    """
    metric, found = compared.metric, judged.findings
    ci, tost, order, hosts = found.ci95, found.ci90, found.order, found.hosts
    (low, high), (low90, high90) = _percents(found, ci), _percents(found, tost)
    native = {"difference": found.estimate, "lo": ci and ci.low, "hi": ci and ci.high, "limit": found.limit}
    return {
        "cell": compared.cell,
        "candidate": compared.candidate,
        "metric": metric.name,
        "query_type": compared.query_type,
        "unit": metric.unit,
        "better": metric.better,
        "baseline_median": statistics.median(found.baseline) if found.baseline else None,
        "candidate_median": statistics.median(found.candidate) if found.candidate else None,
        "change_pct": _percent(found, found.estimate),
        "lo_pct": low,
        "hi_pct": high,
        "p": found.p,
        "p_adj": judged.p_adj,
        "blocks": found.n,
        "mde_pct": _percent(found, found.mde),
        "blocks_needed": found.blocks_needed,
        "within_pct": _percent(found, found.within),
        "between_pct": _percent(found, found.between),
        "hosts": len({on for on, d in zip(judged.sample.hosts, found.differences, strict=False) if d is not None}) or 1,
        "hosts_pct": _percent(found, hosts.between) if hosts else None,
        "hosts_p": judged.p_differ,
        "verdict": judged.verdict,
        "warnings": "; ".join(judged.notes),
        "family": judged.sample.family,
        "threshold_pct": judged.sample.threshold,
        "clear": judged.clear,
        "level": ci and ci.level,
        "lo90_pct": low90,
        "hi90_pct": high90,
        "level90": tost and tost.level,
        "range_pct": [percent(min(found.known)), percent(max(found.known))] if found.n and not found.native else None,
        "s_d": found.deviation,
        "differences": found.known,
        "within": found.within,
        "between": found.between,
        "order_effect_pct": _percent(found, order.delta) if order else None,
        "order_effect_p": order and order.p,
        "mann_whitney_p": found.mann_whitney_p,
        "native": native if found.native and found.estimate is not None else None,
        "shift": _shift(found),
        **(_of_fleet(found, hosts) if hosts else {}),
    }


def _of_fleet(found: Findings, hosts: OverHosts) -> Row:
    """Return the estimate of each host, and whether those of the row are over hosts."""
    return {
        "by_host": {
            name: {"change_pct": _percent(found, mean), "difference": mean, "blocks": hosts.blocks[name]}
            for name, mean in hosts.means.items()
        },
        "over_hosts": found.over is not None,
        "hosts_needed": found.over.hosts_needed(found.limit) if found.over else None,
    }


def _percent(found: Findings, difference: float | None) -> float | None:
    return None if difference is None or found.native else percent(difference)


def _percents(found: Findings, interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (_percent(found, interval.low), _percent(found, interval.high))


def _shift(found: Findings) -> dict[str, float | None] | None:
    """Return candidate minus baseline in the metric's own unit, with its exact 95 % interval; None without a pair."""
    if not found.n:
        return None
    differences = [c - b for b, c in zip(found.baseline, found.candidate, strict=True)]
    ci = interval(differences, LEVEL)
    low, high = (ci.low, ci.high) if ci else (None, None)
    return {"difference": hodges_lehmann(differences), "lo": low, "hi": high}


def warn_of_short_phase(row: Row, rows: list[Row]) -> None:
    """Add a warning to what was measured in a phase of the solo part of less than 5 s."""
    length = "load_seconds" if row["metric"].startswith("load_") else "query_seconds"
    if row["metric"] == length or not row["metric"].startswith(("load_", "query_")):
        return
    wanted = {**row, "metric": length}
    found = next((r for r in rows if all(r[key] == wanted[key] for key in _KEY)), None)
    seconds = [s for s in (found["baseline_median"], found["candidate_median"]) if s is not None] if found else []
    if seconds and min(seconds) < SHORT_PHASE_S:
        warning = f"a phase of {min(seconds):.1f} s, under {SHORT_PHASE_S:.0f} s"
        row["warnings"] = "; ".join(filter(None, [row["warnings"], warning]))
