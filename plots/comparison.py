"""The rows of stats/comparison.json of one candidate, and the names of both sides for people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from plots import markup, numbers
from tsduel.core.metrics import ALL, GEOMEAN, MIX, Metric
from tsduel.core.wording import number_of

Row = dict[str, Any]
# In a closed loop the rate is workers / mean service time: one of the two is judged (docs/statistics.md).
_JUDGED_AS = {"query_rate": "query_mean_ms", "load_seconds": "load_rate"}
NOT_CONFIRMED = "not confirmed"
_MARKS = {
    "failed": "✗ check failed",
    "regression": "✗ {}worse",
    "improvement": "✓ {}better",
    "worse": "✗ worse",
    "better": "✓ better",
    "negligible": "≈ negligible",
    "equivalent": "= equivalent",
    NOT_CONFIRMED: "? not confirmed (adjusted p {})",
    "not comparable": "not comparable",
}


def decision(row: Row) -> str:
    """Return the verdict of a row; one whose 95 % interval leaves zero is not confirmed rather than inconclusive."""
    leaves = row["lo_pct"] is not None and not row["lo_pct"] <= 0 <= row["hi_pct"]
    return NOT_CONFIRMED if leaves and row["verdict"] == "inconclusive" and row["p_adj"] is not None else row["verdict"]


@dataclass(frozen=True)
class Comparison:
    """One candidate against the baseline.

    `setting`: that of its run in a study. `labels`: baseline first. `valid`: blocks that count. `dropped`: the others,
    with their reasons. `crosses`: the candidate is another database. `protocols`: those of the load, if they differ.
    `broken`: sentences about benchmarks that measured nothing. `same`: a sentence if both sides are the same program,
    and should not be.
    """

    candidate: str
    labels: tuple[str, str]
    rows: list[Row]
    metrics: dict[str, Metric]
    valid: list[int]
    dropped: dict[int, str]
    crosses: bool = False
    protocols: str = ""
    broken: tuple[str, ...] = ()
    same: str = ""
    setting: str = ""

    @property
    def title(self) -> str:
        """Both labels and the setting, as Markdown: v2 against v1."""
        baseline, candidate = map(markup.text, self.labels)
        return f"{candidate} against {baseline}{markup.aside(markup.text(self.setting))}"

    @property
    def blocks(self) -> str:
        """The number of blocks that count, and of hosts: "8 blocks on 4 hosts"."""
        return f"{number_of(len(self.valid), 'block')}{self.on_hosts}"

    @property
    def on_hosts(self) -> str:
        """The number of hosts, " on 4 hosts"; empty for one host."""
        hosts = max((row.get("hosts") or 1 for row in self.rows), default=1)
        return f" on {hosts} hosts" if hosts > 1 else ""

    def of(self, metric: str) -> list[Row]:
        """Return the rows of a metric that have a value on either side."""
        of_metric = (row for row in self.rows if row["metric"] == metric)
        return [row for row in of_metric if not row["baseline_median"] is row["candidate_median"] is None]

    def row(self, metric: str, query_type: str = "") -> Row | None:
        """Return a row that has a value on either side, or None."""
        return next((row for row in self.of(metric) if row["query_type"] == query_type), None)

    @property
    def primary(self) -> list[Row]:
        """The rows of the primary family."""
        return [row for row in self.rows if row["family"] == "primary"]

    @property
    def answered_better(self) -> set[str]:
        """The metrics that a more precise metric replaces."""
        return {metric.instead_of for metric in self.metrics.values() if metric.instead_of and self.row(metric.name)}

    def rows_of(self, metrics: Iterable[str]) -> list[Row]:
        """Return the rows of metrics without query types; metrics without a row are left out."""
        return [row for name in metrics if (row := self.row(name))]

    def by_type(self, metric: str, query_types: Sequence[str]) -> dict[str, Row]:
        """Return the rows of a metric by query type; rows of all types together are last."""
        return {name: row for name in (*query_types, GEOMEAN, ALL) if (row := self.row(metric, name))}

    def all_or(self, query_type: str) -> str:
        """Return the query type; "the mix" for all of them together, if a mix of the user's queries was asked."""
        mixed = query_type in {GEOMEAN, ALL} and any(row["query_type"] == MIX for row in self.rows)
        return "the mix" if mixed else query_type

    def named(self, row: Row, *, brief: bool = False) -> str:
        """Return the name of a row for people; `brief` for a picture."""
        name = self.metrics[row["metric"]].named(self.all_or(row["query_type"]))
        return f"{name}{markup.aside(self.note(row, brief=brief))}"

    def note(self, row: Row, *, brief: bool = False) -> str:
        """Return the note beside a figure of the load if the two sides did not do the same work."""
        unlike = self.protocols and self.metrics[row["metric"]].phase == "load"
        return f"{'' if brief else f'{self.protocols}: '}not the same work" if unlike else ""

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of the columns of the evidence."""
        return ("ratio" if self.crosses else "diff %", "95 % CI", "p", "verdict")

    def mark(self, row: Row) -> str:
        """Return the verdict as a mark and a word; a rate that is only shown has the verdict of its service time."""
        if row["verdict"] == "shown":
            twin = self.row(_JUDGED_AS.get(row["metric"], ""), row["query_type"])
            return self.mark(twin) if twin else ""
        decided, clearly = decision(row), "clearly " if row.get("clear") else ""
        detail = numbers.probability(row["p_adj"]) if decided == NOT_CONFIRMED else clearly
        return _MARKS.get(decided, f"? {decided}").format(detail)

    def symbol(self, row: Row) -> str:
        """Return the mark alone; a failed check keeps its word, since its cross does not mean worse."""
        mark = self.mark(row)
        return mark if row["verdict"] in {"failed", "not comparable"} else mark[:1]

    def cells(self, rows: Sequence[Row], names: Sequence[str] = ()) -> list[list[str]]:
        """Return the cells of rows: name, unit, both values, change, interval, adjusted p and verdict."""
        found = []
        for row, name in zip(rows, names or map(self.named, rows), strict=True):
            (unit, sides), p = numbers.sides(row), numbers.probability(row["p_adj"])
            found.append([name, unit, *sides, numbers.changed(row), numbers.interval(row), p, self.mark(row)])
        return found

    def cell_of(self, metric: str, query_type: str = "", factor: float = 1.0) -> str:
        """Return both values, the change in percent and the mark as one cell: `0.239 → 0.244 (+2.0 %) ✗`.

        Values are in the unit that suits them; with a `factor` they are multiplied by it.
        """
        row = self.row(metric, query_type)
        if row is None:
            return numbers.MISSING
        unit, sides = numbers.sides(row)
        if factor != 1:
            values, digits = (row["baseline_pseudomedian"], row["candidate_pseudomedian"]), numbers.row_digits(row)
            both = " → ".join(numbers.number(None if v is None else v * factor, digits) for v in values)
        else:
            # The head of the column has the metric's own unit.
            both = " → ".join(sides) + (f" {unit}" if unit != numbers.scaled(row["unit"], 0.0)[0] else "")
        if row["change_pct"] is None and not row.get("native"):
            return both
        return f"{both} ({numbers.effect(row)}) {self.symbol(row)}".rstrip()

    def table(
        self, rows: Sequence[Row], names: Sequence[str] = (), head: str = "Metric", *, aliases: bool = True
    ) -> str:
        """Return the table of rows with their evidence, and the database's own names of metrics."""
        aliases_of_rows = [self.metrics[row["metric"]].known_as if aliases else "" for row in rows]
        header, cells = [head, "Unit", *self.labels, *self.heads], self.cells(rows, names)
        if any(aliases_of_rows):
            header.insert(1, "Known as")
            for own, known_as in zip(cells, aliases_of_rows, strict=True):
                own.insert(1, markup.code(known_as) if known_as else "")
        return markup.table(header, cells, range(len(header) - 6, len(header) - 1))
