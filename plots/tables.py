"""Tables: functions from stats and tidy to rows of text. The look is that of people's own design documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from tabulate import tabulate

from plots import numbers
from tsduel.checks import SCOPES
from tsduel.metrics import GEOMEAN, METRICS, Metric
from tsduel.rundir import Run

# The seven of VictoriaMetrics' document first, then what says more about the whole round.
LOAD_METRICS = (
    "load_cpu_system_seconds",
    "load_cpu_seconds",
    "load_cpu_user_seconds",
    "load_rss_end_bytes",
    "load_io_read_bytes",
    "load_io_written_bytes",
    "load_storage_written_bytes",
)
ROUND_METRICS = (
    "cpu_seconds",
    "gc_cpu_seconds",
    "rss_peak_bytes",
    "rss_mean_bytes",
    "storage_written_bytes",
    "disk_bytes",
    "bytes_per_sample",
    "slow_inserts",
    "rows_merged",
    "merges",
    "drain_seconds",
    "major_faults",
    "cache_hit_ratio",
)
# In a closed loop the rate is workers / mean service time: one of the two is judged (MEASUREMENT.md 3).
_JUDGED_AS = {"query_rate": "query_mean_ms", "load_seconds": "load_rate"}
NOTHING = "No valid block has any of this."
PRIMARY = (
    ("load_rate", ""),
    ("query_mean_ms", GEOMEAN),
    ("cpu_seconds", ""),
    ("rss_peak_bytes", ""),
    ("disk_bytes", ""),
)


@dataclass(frozen=True)
class Comparison:
    """What stats/comparison.json says of one candidate, and the names of both sides for people, baseline first."""

    document: dict[str, Any]
    candidate: str
    labels: tuple[str, str]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of this candidate."""
        return [row for row in self.document["rows"] if row["candidate"] == self.candidate]

    @property
    def valid_blocks(self) -> int:
        """How many blocks count."""
        return len(self.document["blocks"][self.candidate]["valid"])

    @property
    def dropped(self) -> list[dict[str, Any]]:
        """The blocks that do not count: block, reason."""
        return list(self.document["blocks"][self.candidate]["dropped"])

    def row(self, metric: str, query_type: str = "") -> dict[str, Any] | None:
        """Return a row, or None where no round has the metric."""
        return next((r for r in self.rows if (r["metric"], r["query_type"]) == (metric, query_type)), None)

    def mark(self, row: dict[str, Any]) -> str:
        """Return the verdict as a mark and a word; a rate that is only shown has that of its service time."""
        if row["verdict"] == "shown":
            twin = self.row(_JUDGED_AS.get(row["metric"], ""), row["query_type"])
            return self.mark(twin) if twin else ""
        clearly = "clearly " if row.get("clear") else ""
        return {
            "failed": "✗ check failed",
            "regression": f"✗ {clearly}worse",
            "improvement": f"✓ {clearly}better",
            "negligible": "≈ negligible",
            "equivalent": "= equivalent",
            "not comparable": "not comparable",
        }.get(row["verdict"], f"? {row['verdict']}")

    def evidence(self, row: dict[str, Any]) -> list[str]:
        """Return the cells of change, interval, adjusted p and verdict."""
        interval = numbers.between(row["lo_pct"], row["hi_pct"])
        return [numbers.change(row["change_pct"]), interval, numbers.probability(row["p_adj"]), self.mark(row)]


EVIDENCE = ("diff %", "95 % CI", "p", "verdict")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lay out a Markdown table whose source lines up too. `right` are the columns of numbers."""
    align = ["right" if i in right else "left" for i in range(len(header))]
    escaped = [[_cell(cell) for cell in row] for row in rows]
    return tabulate(escaped, headers=list(header), tablefmt="pipe", colalign=align, disable_numparse=True)


def _cell(text: str) -> str:
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if text.startswith("`") else text.replace("<", "&lt;").replace(">", "&gt;")


def load_lines(comparison: Comparison, run: Run) -> list[str]:
    """Return one line a variant, worded as the loader's summary."""
    rate, seconds = comparison.row("load_rate"), comparison.row("load_seconds")
    if rate is None or (rate["baseline_median"] is None and rate["candidate_median"] is None):
        return ["- no valid block has a load"]
    samples, workers = run.plan["workload"]["samples"], run.plan["workload"]["workers"]
    return [
        f"- {label}: loaded {numbers.count(samples)} samples in {numbers.number(seconds[side] if seconds else None)} s"
        f" with {workers} workers (mean rate {numbers.number(rate[side])} samples/s)"
        for label, side in zip(comparison.labels, ("baseline_median", "candidate_median"), strict=True)
    ]


def metrics_table(comparison: Comparison, names: Sequence[str]) -> str:
    """Return the table of process and database metrics; a metric that no round has is left out."""
    rows = []
    for name in names:
        row, metric = comparison.row(name), METRICS[name]
        if row is None or (row["baseline_median"] is None and row["candidate_median"] is None):
            continue
        unit, sides = numbers.scale(metric, row["baseline_median"], row["candidate_median"])
        known_as = f"`{metric.known_as}`" if metric.known_as else ""
        rows.append([metric.title, known_as, unit, *sides, *comparison.evidence(row)])
    if not rows:
        return NOTHING
    header = ["Metric", "Known as", "Unit", *comparison.labels, *EVIDENCE]
    return markdown(header, rows, right=(3, 4, 5, 6, 7))


def query_table(comparison: Comparison, metric: Metric, query_types: Sequence[str]) -> str:
    """Return the table of one metric by query type, the geometric mean last."""
    rows = []
    for query_type in (*query_types, GEOMEAN):
        row = comparison.row(metric.name, query_type)
        if row is None:
            continue
        name = "**geometric mean**" if query_type == GEOMEAN else query_type
        sides = [numbers.number(row["baseline_median"]), numbers.number(row["candidate_median"])]
        rows.append([name, *sides, *comparison.evidence(row)])
    if all(row[1] == row[2] == numbers.MISSING for row in rows):
        return NOTHING
    sides = [f"{label}, {metric.unit}" for label in comparison.labels]
    return markdown(["Query type", *sides, *EVIDENCE], rows, right=(1, 2, 3, 4, 5))


def planned_checks(run: Run) -> dict[str, int]:
    """Return how many times each check has to be made in the whole planned run."""
    rounds, types = len(run.planned), len(run.query_types)
    first = run.variants[0]
    later = sum(line["variant"] != first for line in run.planned)
    asked = types if run.plan["queries"].get("responses") else 0
    times = {"round": rounds, "type": rounds * types, "answers": rounds * asked, "pairs": later * asked}
    return {check: times[scope] for check, (scope, _) in SCOPES.items() if times[scope]}


def checks_table(run: Run, checks: pd.DataFrame) -> str:
    """Return checked N of M and the number of failures, a line a check; "checked 0 of M" is a failure."""
    rows = []
    for check, planned in planned_checks(run).items():
        mine = checks[checks["check"] == check]
        made, failed = int((mine["actual"] != "").sum()), int((mine["ok"] != "true").sum())
        verdict = f"✗ {failed} failed" if failed else "✗ never checked" if made == 0 else "✓"
        if verdict == "✓" and made < planned:
            verdict = f"✓, {planned - made} not made"
        rows.append([SCOPES[check][1], f"checked {made} of {planned}", verdict])
    return markdown(["Check", "How often", ""], rows)


def checks_sentence(run: Run, checks: pd.DataFrame) -> str:
    """Return one sentence for all checks: checked N of M, how many failed."""
    planned, made = sum(planned_checks(run).values()), int((checks["actual"] != "").sum())
    failed = int((checks["ok"] != "true").sum())
    never = [c for c in planned_checks(run) if not (checks["actual"][checks["check"] == c] != "").any()]
    text = f"checked {numbers.count(made)} of {numbers.count(planned)}"
    if failed:
        return f"{text}, {failed} FAILED"
    if never:
        return f"{text}: FAILED, never checked: {', '.join(never)}"
    rest = f", {numbers.count(planned - made)} not made" if made < planned else ""
    return f"{text}, none failed{rest}"


def plain(comparison: Comparison, query_types: Sequence[str]) -> str:
    """Return the table of verdicts for a terminal."""
    wanted = [*PRIMARY, *(("query_mean_ms", t) for t in query_types)]
    rows = []
    for name, query_type in wanted:
        row, metric = comparison.row(name, query_type), METRICS[name]
        if row is None:
            continue
        unit, sides = numbers.scale(metric, row["baseline_median"], row["candidate_median"])
        title = metric.title if not query_type else f"{metric.title}, {query_type}"
        rows.append([title, unit, *sides, *comparison.evidence(row)])
    header = ["metric", "unit", *comparison.labels, *EVIDENCE]
    align = ("left", "left", "right", "right", "right", "right", "right", "left")
    return tabulate(rows, headers=header, tablefmt="simple", colalign=align if rows else None, disable_numparse=True)
