"""The tables of queries: one to read, one a statistic to check, and the shift in service time."""

from collections.abc import Sequence
from typing import Any

from plots import markup, numbers
from plots.tables import EVIDENCE, NOTHING, Comparison, markdown
from tsduel.core.metrics import GEOMEAN, METRICS
from tsduel.core.rundir import Run

STATISTICS = {
    "query_rate": "queries/s",
    "query_mean_ms": "mean, ms",
    "query_p50_ms": "p50, ms",
    "query_p95_ms": "p95, ms",
    "query_p99_ms": "p99, ms",
}
_SHIFTS = {
    "query_p50_ms": "p50",
    "query_p95_ms": "p95",
    "query_p99_ms": "p99",
    "query_mean_ms": "mean",
    "query_stddev_ms": "stddev",
}
_NAMES = {GEOMEAN: markup.Safe("**geometric mean**")}


def overview(comparison: Comparison, query_types: Sequence[str]) -> str:
    """Return the table of all statistics of all types: baseline, candidate, change in percent and mark in a cell."""
    rows = []
    for query_type in (*query_types, GEOMEAN):
        cells = [_cell(comparison, metric, query_type) for metric in STATISTICS]
        if any(cell != numbers.MISSING for cell in cells):
            rows.append([_NAMES.get(query_type, query_type), *cells])
    if not rows:
        return NOTHING
    return markdown(["Query type", *STATISTICS.values()], rows, right=range(1, len(STATISTICS) + 1))


def _cell(comparison: Comparison, metric: str, query_type: str) -> str:
    row = comparison.row(metric, query_type)
    if row is None or (row["baseline_median"] is None and row["candidate_median"] is None):
        return numbers.MISSING
    sides = f"{numbers.number(row['baseline_median'])} → {numbers.number(row['candidate_median'])}"
    if row["change_pct"] is None:
        return sides
    return f"{sides} ({numbers.change(row['change_pct'])}) {comparison.symbol(row)}".rstrip()


def details(comparison: Comparison, query_types: Sequence[str]) -> str:
    """Return one table a statistic with intervals and p, folded; an empty string where there is nothing to fold."""
    parts = []
    for metric, title in STATISTICS.items():
        found = query_table(comparison, metric, query_types)
        if found != NOTHING:
            parts.append(f"**{title}**\n\n{found}")
    if not parts:
        return ""
    summary = f"Intervals and p of every query type: {comparison.labels[1]} against {comparison.labels[0]}"
    return markup.folded(summary, "\n\n".join(parts))


def query_table(comparison: Comparison, name: str, query_types: Sequence[str]) -> str:
    """Return the table of one metric by query type, the geometric mean last."""
    rows = []
    for query_type in (*query_types, GEOMEAN):
        row = comparison.row(name, query_type)
        if row is None:
            continue
        sides = [numbers.number(row["baseline_median"]), numbers.number(row["candidate_median"])]
        rows.append([_NAMES.get(query_type, query_type), *sides, *comparison.evidence(row)])
    if all(row[1] == row[2] == numbers.MISSING for row in rows):
        return NOTHING
    sides = [f"{label}, {METRICS[name].unit}" for label in comparison.labels]
    return markdown(["Query type", *sides, *EVIDENCE], rows, right=(1, 2, 3, 4, 5))


def asks_for_shift(plan: dict[str, Any]) -> bool:
    """Say whether the shift in service time is the question: `report.shift` of the experiment, or one build twice.

    Two ways to the same service have the same build key, and differ in flags or environment. An A/A run has none.
    """
    asked = (plan.get("report") or {}).get("shift")
    if asked is not None:
        return bool(asked)
    return len({variant.get("build_key") for variant in plan["variants"]}) == 1 and not plan.get("aa")


def shifts(comparison: Comparison, run: Run) -> str:
    """Return a table a query type: each statistic of both ways and the shift between them in ms, then min and max."""
    parts = [found for name in run.query_types if (found := _shift(comparison, name))]
    return "\n\n".join(parts) if parts else NOTHING


def _shift(comparison: Comparison, query_type: str) -> str:
    found = {metric: comparison.row(metric, query_type) for metric in _SHIFTS}
    rows = {metric: row for metric, row in found.items() if row and row.get("shift")}
    if not rows:
        return ""
    base, other = comparison.labels
    sides = {base: "baseline_median", other: "candidate_median"}
    lines = [[f"{label}, ms", *(numbers.number(row[side]) for row in rows.values())] for label, side in sides.items()]
    lines.append(["shift, ms", *(numbers.signed(row["shift"]["difference"]) for row in rows.values())])
    lines.append(["95 % CI", *(_interval(row["shift"]) for row in rows.values())])
    lines.append(["shift, %", *(numbers.change(row["change_pct"]) for row in rows.values())])
    table = markdown([query_type, *(_SHIFTS[metric] for metric in rows)], lines, right=range(1, len(rows) + 1))
    least, most = comparison.row("query_min_ms", query_type), comparison.row("query_max_ms", query_type)
    if not least or not most:
        return table
    said = [f"{label} {numbers.number(least[side])} / {numbers.number(most[side])} ms" for label, side in sides.items()]
    return f"{table}\n\nMin / max, medians over rounds: {markup.text('; '.join(said))}."


def _interval(shift: dict[str, float | None]) -> str:
    if shift["lo"] is None or shift["hi"] is None:
        return numbers.MISSING
    return f"{numbers.signed(shift['lo'])} to {numbers.signed(shift['hi'])}"
