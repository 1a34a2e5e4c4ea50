"""What stats/comparison.json says of one candidate in one cell, and the names of both sides for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plots import markup, numbers
from tsduel.core.metrics import ALL, GEOMEAN, Metric
from tsduel.core.wording import number_of

Row = dict[str, Any]
# In a closed loop the rate is workers / mean service time: one of the two is judged (MEASUREMENT.md 3).
_JUDGED_AS = {"query_rate": "query_mean_ms", "load_seconds": "load_rate"}
_MARKS = {
    "failed": "✗ check failed",
    "regression": "✗ {}worse",
    "improvement": "✓ {}better",
    "worse": "✗ worse",
    "better": "✓ better",
    "negligible": "≈ negligible",
    "equivalent": "= equivalent",
    "not comparable": "not comparable",
}


@dataclass(frozen=True)
class Comparison:
    """One candidate against the baseline. `labels`: baseline first; `valid` and `dropped` are its blocks.

    `apart`: it is another database; `protocols` are those that data gets in by, where they are not the same.
    """

    cell: str
    candidate: str
    labels: tuple[str, str]
    rows: list[Row]
    metrics: dict[str, Metric]
    valid: list[int]
    dropped: dict[int, str]
    apart: bool = False
    protocols: str = ""

    @property
    def title(self) -> str:
        """Who is compared with whom, as Markdown."""
        of_cell = f" ({markup.text(self.cell)})" if self.cell else ""
        return f"{markup.text(self.labels[1])} against {markup.text(self.labels[0])}{of_cell}"

    @property
    def blocks(self) -> str:
        """How many blocks count: "1 block"."""
        return number_of(len(self.valid), "block")

    def row(self, metric: str, query_type: str = "") -> Row | None:
        """Return a row that has a value on either side, or None."""
        found = next((r for r in self.rows if (r["metric"], r["query_type"]) == (metric, query_type)), None)
        return None if found is None or found["baseline_median"] is found["candidate_median"] is None else found

    @property
    def answered_better(self) -> set[str]:
        """Metrics whose question another one answers here, more precisely."""
        return {metric.instead_of for metric in self.metrics.values() if metric.instead_of and self.row(metric.name)}

    def of(self, metric: str, query_types: Sequence[str]) -> dict[str, Row]:
        """Return the rows of a metric by query type, what stands for all of them last."""
        return {name: row for name in (*query_types, GEOMEAN, ALL) if (row := self.row(metric, name))}

    def named(self, row: Row, *, brief: bool = False) -> str:
        """Return the name of a row for people; `brief` for a picture."""
        of_type = {"": "", GEOMEAN: ", geometric mean", ALL: ", all types"}.get(
            row["query_type"], f", {row['query_type']}"
        )
        return f"{self.metrics[row['metric']].title}{of_type}{markup.aside(self.note(row, brief=brief))}"

    def note(self, row: Row, *, brief: bool = False) -> str:
        """Return what stands beside a figure of the load wherever that stands, where it is not of the same work."""
        if not self.protocols or self.metrics[row["metric"]].phase != "load":
            return ""
        return f"{'' if brief else f'{self.protocols}: '}not the same work"

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of the columns of `evidence`."""
        return ("ratio" if self.apart else "diff %", "95 % CI", "p", "verdict")

    def mark(self, row: Row) -> str:
        """Return the verdict as a mark and a word; a rate that is only shown has that of its service time."""
        if row["verdict"] == "shown":
            twin = self.row(_JUDGED_AS.get(row["metric"], ""), row["query_type"])
            return self.mark(twin) if twin else ""
        return _MARKS.get(row["verdict"], f"? {row['verdict']}").format("clearly " if row.get("clear") else "")

    def symbol(self, row: Row) -> str:
        """Return the mark alone; a failed check keeps its word, since its cross means something else."""
        mark = self.mark(row)
        return mark if row["verdict"] in {"failed", "not comparable"} else mark[:1]

    def evidence(self, row: Row) -> list[str]:
        """Return the cells of change, interval, adjusted p and verdict."""
        return [numbers.changed(row), numbers.interval(row), numbers.probability(row["p_adj"]), self.mark(row)]

    def cell_of(self, metric: str, query_type: str) -> str:
        """Return both values, the change in percent and the mark as one cell: `0.239 → 0.244 (+2.0 %) ✗`."""
        row = self.row(metric, query_type)
        if row is None:
            return numbers.MISSING
        unit, sides = numbers.sides(row)
        # The head of the column says the metric's own unit.
        both = " → ".join(sides) + (f" {unit}" if unit != numbers.scaled(row["unit"], 0.0)[0] else "")
        return both if row["change_pct"] is None else f"{both} ({numbers.effect(row)}) {self.symbol(row)}".rstrip()

    def table(
        self, rows: Sequence[Row], names: Sequence[str] = (), head: str = "Metric", *, aliases: bool = True
    ) -> str:
        """Return the table of rows with their evidence and, where they have one, the name their own people know."""
        known = [self.metrics[row["metric"]].known_as if aliases else "" for row in rows]
        cells = []
        for at, (row, known_as) in enumerate(zip(rows, known, strict=True)):
            unit, sides = numbers.sides(row)
            alias = [markup.code(known_as) if known_as else ""] if any(known) else []
            cells.append([names[at] if names else self.named(row), *alias, unit, *sides, *self.evidence(row)])
        header = [head, *(["Known as"] if any(known) else []), "Unit", *self.labels, *self.heads]
        return markup.table(header, cells, range(len(header) - 6, len(header) - 1))
