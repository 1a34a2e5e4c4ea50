"""From a judged metric to a row of comparison.json, in percent; comparison.csv has the columns of tables.COMPARISON."""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from tsduel.stats.estimate import hodges_lehmann, interval, percent, pseudomedian
from tsduel.stats.findings import LEVEL, Findings
from tsduel.stats.hosts import OverHosts, over_hosts
from tsduel.stats.verdict import Judged

SHORT_PHASE_S = 5.0
SPREADS = ("within", "sitting", "between", "second_effect")
Row = dict[str, Any]


def row(judged: Judged) -> Row:
    """Return the row of a judged metric; medians are over the valid blocks, None is an empty cell."""
    sample, findings = judged.sample, judged.findings
    metric = sample.metric
    ci, tost, order, hosts = findings.ci95, findings.ci90, findings.order, findings.hosts
    native = {"difference": findings.estimate, "lo": ci and ci.low, "hi": ci and ci.high, "limit": findings.limit}
    complete = [d is not None for d in findings.differences]
    differences = findings.known
    return {
        "candidate": sample.candidate,
        "metric": metric.name,
        "query_type": sample.query_type,
        "unit": metric.unit,
        "better": metric.better,
        "baseline_median": statistics.median(findings.baseline) if findings.baseline else None,
        "candidate_median": statistics.median(findings.candidate) if findings.candidate else None,
        "baseline_pseudomedian": pseudomedian(findings.baseline),
        "candidate_pseudomedian": pseudomedian(findings.candidate),
        "change_pct": _percent(findings, findings.estimate),
        "lo_pct": _percent(findings, getattr(ci, "low", None)),
        "hi_pct": _percent(findings, getattr(ci, "high", None)),
        "p": findings.p,
        "p_adj": judged.p_adj,
        "blocks": findings.n,
        "mde_pct": _percent(findings, findings.mde),
        "blocks_needed": findings.blocks_needed,
        **{f"{name}_pct": _percent(findings, getattr(findings, name)) for name in SPREADS},
        "hosts": len(set(itertools.compress(sample.hosts, complete))) or 1,
        "hosts_pct": _percent(findings, getattr(hosts, "between", None)),
        "hosts_p": judged.p_differ,
        "verdict": judged.verdict,
        "warnings": "; ".join(judged.notes),
        "family": sample.family,
        "threshold_pct": sample.threshold,
        "clear": judged.clear,
        "level": ci and ci.level,
        "lo90_pct": _percent(findings, getattr(tost, "low", None)),
        "hi90_pct": _percent(findings, getattr(tost, "high", None)),
        "level90": tost and tost.level,
        "range_pct": [percent(min(differences)), percent(max(differences))]
        if differences and not findings.native
        else None,
        "s_d": findings.deviation,
        "differences": differences,
        **{name: getattr(findings, name) for name in ("within", "between", "sittings", "shares")},
        # First the coin that shows most, with p adjusted for all coins; then each coin with its own p.
        "order_effect": order and order[0],
        "order_effect_pct": _percent(findings, order and order[1].delta),
        "order_effect_p": order and order[1].p,
        "order_effects": {
            coin: {"change_pct": _percent(findings, effect.delta), "difference": effect.delta, "p": effect.p}
            for coin, effect in findings.orders.items()
        },
        "mann_whitney_p": findings.mann_whitney_p,
        "native": native if findings.native and findings.estimate is not None else None,
        "shift": _shift(findings, list(itertools.compress(sample.hosts, complete))),
    } | (_of_hosts(findings, hosts) if hosts else {})


def _of_hosts(findings: Findings, hosts: OverHosts) -> Row:
    """Return the estimate of each host; `over_hosts`: the row's estimate and intervals are over hosts."""
    return {
        "by_host": {
            name: {"change_pct": _percent(findings, mean), "difference": mean, "blocks": hosts.blocks[name]}
            for name, mean in hosts.means.items()
        },
        "over_hosts": findings.over is not None,
        "hosts_needed": findings.over.hosts_needed(findings.limit) if findings.over else None,
    }


def _percent(findings: Findings, difference: float | None) -> float | None:
    return None if difference is None or findings.native else percent(difference)


def _shift(findings: Findings, hosts: Sequence[str]) -> dict[str, float | None] | None:
    """Return candidate minus baseline in the metric's own unit, with its 95 % interval; None without a pair.

    It is over hosts where the row's own interval is, and else exact over blocks.
    """
    if not findings.n:
        return None
    differences = [c - b for b, c in zip(findings.baseline, findings.candidate, strict=True)]
    over = over_hosts(differences, hosts) if findings.over else None
    ci = over.interval(LEVEL) if over else interval(differences, LEVEL)
    middle = over.estimate if over else hodges_lehmann(differences)
    return {"difference": middle, "lo": getattr(ci, "low", None), "hi": getattr(ci, "high", None)}


def warn_of_short_phases(rows: Sequence[Row]) -> None:
    """Add a warning to rows that were measured in a phase of the solo part of less than 5 s."""
    lengths = ("load_seconds", "query_seconds")
    by_key = {(r["candidate"], r["metric"], r["query_type"]): r for r in rows if r["metric"] in lengths}
    for row in rows:
        if row["metric"] in lengths or not row["metric"].startswith(("load_", "query_")):
            continue
        length = lengths[row["metric"].startswith("query_")]
        phase = by_key.get((row["candidate"], length, row["query_type"]), {})
        seconds = [s for side in ("baseline", "candidate") if (s := phase.get(f"{side}_median")) is not None]
        if seconds and min(seconds) < SHORT_PHASE_S:
            warning = f"a phase of {min(seconds):.1f} s, under {SHORT_PHASE_S:.0f} s"
            row["warnings"] = "; ".join(filter(None, [row["warnings"], warning]))
