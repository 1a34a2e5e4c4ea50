"""Tables: functions from stats and tidy to rows of text. The look is that of people's own design documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from tabulate import tabulate

from plots import markup, numbers
from tsduel.core.metrics import GEOMEAN, METRICS
from tsduel.core.rundir import Run
from tsduel.workloads.tsbs.checks import SCOPES

LOADS = ("load_rate", "load_seconds", "load_first_interval_rate")
# The seven of VictoriaMetrics' document first, then what says more about the whole round.
LOAD_METRICS = (
    "load_cpu_system_seconds",
    "load_cpu_seconds",
    "load_cpu_user_seconds",
    "load_rss_end_bytes",
    "load_rss_peak_bytes",
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
MOST_SIDE_BY_SIDE = 3
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

    def symbol(self, row: dict[str, Any]) -> str:
        """Return the mark alone; a failed check keeps its word, since its cross means something else."""
        mark = self.mark(row)
        return mark if row["verdict"] in {"failed", "not comparable"} else mark[:1]

    def evidence(self, row: dict[str, Any]) -> list[str]:
        """Return the cells of change, interval, adjusted p and verdict."""
        interval = numbers.between(row["lo_pct"], row["hi_pct"])
        return [numbers.change(row["change_pct"]), interval, numbers.probability(row["p_adj"]), self.mark(row)]


EVIDENCE = ("diff %", "95 % CI", "p", "verdict")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Lay out a Markdown table whose source lines up too. `right` are the columns of numbers."""
    align = ["right" if i in right else "left" for i in range(len(header))]
    # A plain str, since tabulate looks at the type of a cell.
    escaped = [[str(markup.text(cell)) for cell in row] for row in (header, *rows)]
    return tabulate(escaped[1:], headers=escaped[0], tablefmt="pipe", colalign=align, disable_numparse=True)


def load_lines(comparisons: Sequence[Comparison], run: Run) -> list[str]:
    """Return one line a variant, worded as the loader's summary; the baseline's once where it is the same."""
    samples, workers = run.plan["workload"]["samples"], run.plan["workload"]["workers"]
    said = []
    for comparison in comparisons:
        rate, seconds = comparison.row("load_rate"), comparison.row("load_seconds")
        if rate is None or (rate["baseline_median"] is None and rate["candidate_median"] is None):
            said.append("no valid block has a load")
            continue
        said += [
            f"{markup.text(label)}: loaded {numbers.count(samples)} samples in "
            f"{numbers.number(seconds[side] if seconds else None)} s with {workers} workers "
            f"(mean rate {numbers.number(rate[side])} samples/s)"
            for label, side in zip(comparison.labels, ("baseline_median", "candidate_median"), strict=True)
        ]
    return list(dict.fromkeys(said))


def side_by_side(comparisons: Sequence[Comparison]) -> bool:
    """Say whether one table can hold all candidates: few of them, over the same blocks, so with the same baseline."""
    first = comparisons[0].document["blocks"]
    same = len({tuple(first[one.candidate]["valid"]) for one in comparisons}) == 1
    return same and 1 < len(comparisons) <= MOST_SIDE_BY_SIDE


def metrics_tables(comparisons: Sequence[Comparison], names: Sequence[str]) -> str:
    """Return the tables of process and database metrics: one, or one a candidate; the evidence is folded below one."""
    if len(comparisons) == 1:
        return metrics_table(comparisons[0], names)
    single = [f"**{_against(one)}**\n\n{metrics_table(one, names)}" for one in comparisons]
    if not side_by_side(comparisons):
        return "\n\n".join(single)
    rows = []
    for name in names:
        found = [comparison.row(name) for comparison in comparisons]
        values = [
            found[0]["baseline_median"] if found[0] else None,
            *(r["candidate_median"] if r else None for r in found),
        ]
        if all(value is None for value in values):
            continue
        unit, sides = numbers.scale(METRICS[name], *values)
        changes = [
            cell
            for side, row, one in zip(sides[1:], found, comparisons, strict=True)
            for cell in (side, f"{numbers.change(row['change_pct'])} {one.symbol(row)}".rstrip() if row else "")
        ]
        rows.append([METRICS[name].title, unit, sides[0], *changes])
    if not rows:
        return NOTHING
    header = [cell for one in comparisons for cell in (one.labels[1], "diff %")]
    table = markdown(["Metric", "Unit", comparisons[0].labels[0], *header], rows, right=range(2, 3 + len(header)))
    return f"{table}\n\n{markup.folded('Intervals and p of these', (chr(10) * 2).join(single))}"


def _against(comparison: Comparison) -> str:
    return f"{markup.text(comparison.labels[1])} against {markup.text(comparison.labels[0])}"


def metrics_table(comparison: Comparison, names: Sequence[str]) -> str:
    """Return the table of metrics of one candidate; a metric that no round has is left out."""
    rows = []
    for name in names:
        row, metric = comparison.row(name), METRICS[name]
        if row is None or (row["baseline_median"] is None and row["candidate_median"] is None):
            continue
        unit, sides = numbers.scale(metric, row["baseline_median"], row["candidate_median"])
        known_as = markup.code(metric.known_as) if metric.known_as else ""
        rows.append([metric.title, known_as, unit, *sides, *comparison.evidence(row)])
    if not rows:
        return NOTHING
    header = ["Metric", "Known as", "Unit", *comparison.labels, *EVIDENCE]
    # Where no metric has a name of its own, a column of nothing is no help.
    wanted = [i for i in range(len(header)) if i != 1 or any(row[1] for row in rows)]
    right = [at for at, i in enumerate(wanted) if i in {3, 4, 5, 6, 7}]
    return markdown([header[i] for i in wanted], [[row[i] for i in wanted] for row in rows], right)


def wanted_rounds(run: Run, checks: pd.DataFrame) -> list[dict[str, str]]:
    """Return the planned rounds without the spare ones that were not needed, which lack nothing."""
    looked_at = {int(block) for block in checks["block"].tolist()}
    return [line for line in run.planned if line["kind"] != "spare" or int(line["block"]) in looked_at]


def planned_checks(run: Run, checks: pd.DataFrame) -> dict[str, int]:
    """Return how many times each check has to be made in the whole planned run."""
    wanted = wanted_rounds(run, checks)
    rounds, types = len(wanted), len(run.query_types)
    first = run.variants[0]
    later = sum(line["variant"] != first for line in wanted)
    asked = types if run.plan["queries"].get("responses") or run.plan.get("imported") else 0
    times = {"round": rounds, "type": rounds * types, "answers": rounds * asked, "pairs": later * asked}
    return {check: times[scope] for check, (scope, _) in SCOPES.items() if times[scope]}


def checks_table(run: Run, checks: pd.DataFrame) -> str:
    """Return checked N of M and the number of failures, a line a check; "checked 0 of M" is a failure."""
    never, rows = "not made" if run.plan.get("imported") else "✗ never checked", []
    for check, planned in planned_checks(run, checks).items():
        mine = checks[checks["check"] == check]
        made, failed = int((mine["actual"] != "").sum()), int((mine["ok"] != "true").sum())
        verdict = f"✗ {failed} failed" if failed else never if made == 0 else "✓"
        if verdict == "✓" and made < planned:
            verdict = f"✓, {planned - made} not made"
        rows.append([SCOPES[check][1], f"checked {made} of {planned}", verdict])
    return markdown(["Check", "How often", ""], rows)


def checks_sentence(run: Run, checks: pd.DataFrame) -> str:
    """Return one sentence for all checks: checked N of M, how many failed."""
    planned, made = sum(planned_checks(run, checks).values()), int((checks["actual"] != "").sum())
    failed = int((checks["ok"] != "true").sum())
    never = [c for c in planned_checks(run, checks) if not (checks["actual"][checks["check"] == c] != "").any()]
    text = f"Checked {numbers.count(made)} of {numbers.count(planned)}"
    if failed:
        return f"{text}, {failed} FAILED"
    if never and not run.plan.get("imported"):
        return f"{text}: FAILED, never checked: {', '.join(never)}"
    rest = f", {numbers.count(planned - made)} not made" if made < planned else ""
    return f"{text}, none failed{rest}"


def terminal_rows(query_types: Sequence[str]) -> list[tuple[str, str]]:
    """Return metric and query type of the rows that a short table has."""
    return [*PRIMARY, *(("query_mean_ms", t) for t in query_types)]


def named(metric: str, query_type: str) -> str:
    """Return the name of a row for people."""
    of_type = {"": "", GEOMEAN: ", geomean"}.get(query_type, f", {query_type}")
    return METRICS[metric].title + of_type


def plain(comparison: Comparison, query_types: Sequence[str]) -> str:
    """Return the table of verdicts for a terminal."""
    rows = []
    for name, query_type in terminal_rows(query_types):
        row, metric = comparison.row(name, query_type), METRICS[name]
        if row is None:
            continue
        unit, sides = numbers.scale(metric, row["baseline_median"], row["candidate_median"])
        rows.append([named(name, query_type), unit, *sides, *comparison.evidence(row)])
    header = ["metric", "unit", *comparison.labels, *EVIDENCE]
    align = ("left", "left", "right", "right", "right", "right", "right", "left")
    return tabulate(rows, headers=header, tablefmt="simple", colalign=align if rows else None, disable_numparse=True)
