"""A compared run as reports, pictures and exports read it: plan, stats/comparison.json and the tables of tidy/."""

import re
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from plots import markup
from plots.comparison import Comparison
from tsduel.core import files, tables
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.metrics import Metric
from tsduel.core.plan import Plan
from tsduel.core.rundir import Run, open_run
from tsduel.stats.power import FEWEST_BLOCKS
from tsduel.stats.sweep import FILE as SWEEP
from tsduel.tidy.read import read_metrics, read_table
from tsduel.workloads.reading import reader

Standing = Literal["smoke", "aa", "imported", "screen", "result"]


@dataclass(frozen=True, eq=False)
class Source:
    """A run, its comparison.json, its metrics by name, its variants' names for people (baseline first), its pairs."""

    run: Run
    document: dict[str, Any]
    metrics: dict[str, Metric]
    labels: dict[str, str]
    comparisons: list[Comparison]

    @cached_property
    def document_of_sweep(self) -> dict[str, Any]:
        """What stats/sweep.json says: lines of cells, exponents, where differences begin; empty without a sweep."""
        return self.run.json(SWEEP) or {"lines": [], "fits": [], "begins": []}

    @property
    def plan(self) -> Plan:
        """What was planned."""
        return self.run.plan

    @cached_property
    def query_types(self) -> list[str]:
        """Names of the query types, or of the benchmarks that were found."""
        return reader(self.plan.kind).rows(self.run)

    def valid(self, candidate: str) -> list[int]:
        """Return the blocks that count for a candidate, of all cells."""
        return sorted(block for one in self.comparisons if one.candidate == candidate for block in one.valid)

    @property
    def baseline(self) -> str:
        """The name of the variant that the others are compared with."""
        return self.run.variants[0]

    @property
    def title(self) -> str:
        """What the report is about, as Markdown."""
        baseline, *candidates = (markup.text(label) for label in self.labels.values())
        return f"{markup.text(self.plan.name)}: {', '.join(candidates)} against {baseline}"

    @property
    def standing(self) -> Standing:
        """What the run may be taken for; a screen if any of its candidates has too few valid blocks."""
        if self.plan.smoke or self.plan.aa or self.plan.imported:
            return "smoke" if self.plan.smoke else "aa" if self.plan.aa else "imported"
        return "screen" if min(len(one.valid) for one in self.comparisons) < FEWEST_BLOCKS else "result"

    @property
    def pivoted(self) -> bool:
        """Whether the columns are keys of Go benchmarks and not revisions."""
        return bool(self.plan.gobench and self.plan.gobench.pivot)

    @property
    def host(self) -> dict[str, Any]:
        """What was recorded of the measured machine."""
        return self.run.host

    @cache  # noqa: B019 - a source lives as long as its report
    def table(self, name: str) -> pd.DataFrame:
        """Return a table of tidy/ by its name; a run recorded without it has an empty one, and less in its report."""
        path, columns = self.run.path / f"tidy/{name}.csv", getattr(tables, name.upper())
        return read_table(self.run.path, name) if path.exists() else pd.DataFrame(columns=list(columns))

    def counting(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of blocks that count for their variant; the baseline's for any candidate."""
        mine = {(one.cell, one.candidate, block) for one in self.comparisons for block in one.valid}
        mine |= {(cell, self.baseline, block) for cell, _, block in mine}
        keys = zip(table["cell"], table["variant"], table["block"], strict=True)
        return table[pd.Series([key in mine for key in keys], index=table.index, dtype=bool)]

    @property
    def dwells_on_shift(self) -> bool:
        """Whether the report dwells on shifts: where it is asked to, or where builds are the same, as with a proxy."""
        if self.plan.report.shift is not None:
            return self.plan.report.shift
        builds = {(part.role, part.build_key) for variant in self.plan.variants for part in variant.components}
        return len(builds) == len({role for role, _ in builds}) and not self.plan.aa

    def revision(self, variant: str) -> str:
        """Return the full revision; local changes are told by the hash of their diff. Columns of a pivot share one."""
        parts = (self.plan.variants[0] if self.pivoted else self.plan.variant(variant)).components
        return " + ".join(
            f"{part.role + ' ' if len(parts) > 1 else ''}{part.revision or part.ref}"
            f"{f'+{part.dirty[:12]}' if part.dirty else ''}"
            for part in parts
        )


def open_source(run_dir: Path) -> Source:
    """Open a run that has been compared, or say what to do first."""
    run, path = open_run(run_dir), run_dir / "stats/comparison.json"
    if not path.exists():
        raise UserError(f"{path} is missing: run `make compare RUN={run_dir.name}` first")
    document, labels = read_json(path), _labels(run)
    metrics = {
        metric.name: replace(metric, known_as=_known_as(metric, run.plan))
        for metric in read_metrics(run, read_table(run_dir, "measurements"))
    }
    comparisons = [
        Comparison(
            cell.name, name, (labels[run.variants[0]], labels[name]),
            [row for row in document["rows"] if (row["cell"], row["candidate"]) == (cell.name, name)],
            metrics, *_blocks(run, cell.name, name), *_apart(run.plan, name),
        )
        for cell in run.plan.cells for name in run.variants[1:]
    ]  # fmt: skip
    return Source(run, document, metrics, labels, comparisons)


def _apart(plan: Plan, candidate: str) -> tuple[bool, str]:
    """Say whether a candidate is another database than the baseline, and by which protocols both are loaded."""
    if not plan.apart(candidate):
        return False, ""
    sides = [plan.target_of(name) for name in (plan.variants[0].name, candidate)]
    protocols = list(dict.fromkeys(side.protocol or f"a protocol of {side.name}" for side in sides))
    return True, " against ".join(protocols) if protocols[1:] else ""


def _known_as(metric: Metric, plan: Plan) -> str:
    """Return the name that the databases' own people know."""
    found = [of.counters[metric.counter].names for of in plan.targets.values() if metric.counter in of.counters]
    said = [names[0] + (f" and {len(names) - 1} more" if names[1:] else "") for names in found]
    return " / ".join(dict.fromkeys(said)) or metric.known_as


def _blocks(run: Run, cell: str, candidate: str) -> tuple[list[int], dict[int, str]]:
    """Return the blocks that count for a candidate, and the others with their reasons."""
    table = read_table(run.path, "blocks")
    mine = table[(table["cell"] == cell) & (table["candidate"] == candidate) & (table["kind"] != "warmup")]
    columns = (mine[name].tolist() for name in ("block", "counts", "reason"))
    found = [(int(block), counts == "true", reason) for block, counts, reason in zip(*columns, strict=True)]
    return [b for b, counts, _ in found if counts], {b: why for b, counts, why in found if not counts}


def _labels(run: Run) -> dict[str, str]:
    """Return the names of the variants for people; the variant's own name is added where two would be alike.

    The columns of pivoted Go benchmarks are named by their key and value.
    """
    if run.plan.gobench and run.plan.gobench.pivot:
        return {name: f"{run.plan.gobench.pivot.column}={name}" for name in run.variants}
    named = {name: run.plan.variant(name).label or name for name in run.variants}
    found = list(named.values())
    return {name: f"{label} ({name})" if found.count(label) > 1 else label for name, label in named.items()}


def write(path: Path, text: str) -> str:
    """Write a text with at most one blank line in a row, and return it."""
    tidied = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    files.write(path, tidied)
    return tidied
