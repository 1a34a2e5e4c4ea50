"""A compared run, for reports, pictures and exports: its plan, stats/comparison.json and the tables of tidy/."""

import re
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from plots import markup
from plots.comparison import Comparison
from tsduel.core import files, gobuild
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.metrics import Metric
from tsduel.core.plan import Plan
from tsduel.core.rundir import Run, open_run
from tsduel.stats.power import FEWEST_BLOCKS
from tsduel.tidy.read import read_metrics, read_table, refuse_older
from tsduel.workloads import in_families
from tsduel.workloads.reading import reader

Standing = Literal["smoke", "aa", "screen", "result"]
FEW = 3
"""Most variants that have an answer each; more share a matrix."""
_HASH = re.compile(r"(-0\.\d{14})?[@-]?\b[0-9a-f]{12}\b(\+[0-9a-f]{8}\b)?")
Shape = Literal["tsbs", "upgrade", "gobench"]
"""The kind of question of a run; it decides the sections of the report."""


@dataclass(frozen=True, eq=False)
class Source:
    """A run, its comparison.json, its metrics by name, the labels of its variants (baseline first), its comparisons."""

    run: Run
    document: dict[str, Any]
    metrics: dict[str, Metric]
    labels: dict[str, str]
    comparisons: list[Comparison]

    @property
    def plan(self) -> Plan:
        """What was planned."""
        return self.run.plan

    @cached_property
    def query_types(self) -> list[str]:
        """Names of the query types or benchmarks."""
        return reader(self.plan.kind).rows(self.run)

    @property
    def baseline(self) -> str:
        """The name of the baseline's variant."""
        return self.run.variants[0]

    @property
    def title(self) -> str:
        """The experiment and all labels, as Markdown; of many the number of candidates."""
        baseline, *candidates = (markup.text(label) for label in self.labels.values())
        sides = f"{len(candidates)} candidates" if self.many else ", ".join(candidates)
        return f"{markup.text(self.plan.name)}: {sides} against {baseline}"

    @property
    def names(self) -> str:
        """All labels, as Markdown; of many their number."""
        return markup.text(f"{len(self.labels)} variants" if self.many else " and ".join(self.labels.values()))

    @property
    def changes(self) -> str:
        """The title of changes."""
        return "Ratio" if self.plan.crosses else "Change, %"

    @property
    def many(self) -> bool:
        """Whether there are too many variants for an answer each."""
        return len(self.labels) > FEW

    @property
    def several(self) -> bool:
        """Whether there is more than one comparison: more than one candidate."""
        return len(self.comparisons) > 1

    @property
    def shape(self) -> Shape:
        """The kind of question."""
        if self.plan.kind == "gobench":
            return "gobench"
        return "upgrade" if self.plan.design.start_from == "baseline" else "tsbs"

    @property
    def standing(self) -> Standing:
        """What the run is worth; a screen if a candidate has too few valid blocks."""
        if self.plan.smoke or self.plan.aa:
            return "smoke" if self.plan.smoke else "aa"
        return "screen" if min(len(side.valid) for side in self.comparisons) < FEWEST_BLOCKS else "result"

    @property
    def pivoted(self) -> bool:
        """Whether the columns are keys of Go benchmarks and not revisions."""
        return bool(self.plan.gobench and self.plan.gobench.pivot)

    @cache  # noqa: B019 - a source lives as long as its report
    def table(self, name: str) -> pd.DataFrame:
        """Return a table of tidy/ by its name."""
        return read_table(self.run.path, name)

    def counting(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of blocks that count for their variant; for the baseline, of those that count for any."""
        counted = {(side.candidate, block) for side in self.comparisons for block in side.valid}
        counted |= {(self.baseline, block) for _, block in counted}
        keys = zip(table["variant"], table["block"], strict=True)
        return table[pd.Series([key in counted for key in keys], index=table.index, dtype=bool)]

    @property
    def dwells_on_shift(self) -> bool:
        """Whether the report shows shifts in full: the experiment says so, or both sides have the same builds."""
        if self.plan.report.shift is not None:
            return self.plan.report.shift
        builds = {(part.role, part.build_key) for variant in self.plan.variants for part in variant.components}
        return len(builds) == len({role for role, _ in builds}) and not self.plan.aa

    def revision(self, variant: str) -> str:
        """Return the full revision, with the hash of local changes; the columns of a pivot share a revision."""
        parts = (self.plan.variants[0] if self.pivoted else self.plan.variant(variant)).components
        return " + ".join(
            f"{part.role + ' ' if len(parts) > 1 else ''}{part.revision or part.ref}"
            f"{f'+{part.dirty[:12]}' if part.dirty else ''}"
            for part in parts
        )


def open_source(run_dir: Path) -> Source:
    """Open a compared run; a run that is not compared raises UserError with the command to run first."""
    run, path = open_run(run_dir), run_dir / "stats/comparison.json"
    if not path.exists():
        raise UserError(f"{path} is missing: run `make compare RUN={run_dir.name}` first")
    refuse_older(run, read_table(run_dir, "blocks"))
    document, labels = read_json(path), _labels(run)
    metrics = {
        metric.name: replace(metric, known_as=_known_as(metric, run.plan))
        for metric in in_families(run.plan, read_metrics(run, read_table(run_dir, "measurements")))
    }
    comparisons = [
        Comparison(
            name, (labels[run.variants[0]], labels[name]),
            [row for row in document["rows"] if row["candidate"] == name],
            metrics, *_blocks(run, name), *_crossing(run.plan, name),
            broken=tuple(
                f"{labels.get(each['variant']) or run.plan.variants[0].label}: {each['message']}"
                for each in document.get("broken", [])
                if each["variant"] in {"", run.variants[0], name, "baseline"}
            ),
            same="" if run.plan.aa else _same_program(run, name),
        )
        for name in run.variants[1:]
    ]  # fmt: skip
    return Source(run, document, metrics, labels, comparisons)


def _same_program(run: Run, candidate: str) -> str:
    """Return a sentence if executables of both sides are the same bytes, though they were built from something else."""
    sides = []
    for name in (run.variants[0], candidate):
        build = run.json(f"build/{name}.json")
        built = build.get("components") or [build]
        planned = [v for v in run.plan.variants if v.name == name]
        parts = zip(planned[0].components, built, strict=False) if planned else ()
        sides.append({part.role: (part, record.get("sha256")) for part, record in parts})
    unlike = dict[str, None]()
    for role, (part, digest) in sides[0].items():
        other, its = sides[1].get(role, (part, None))
        if digest and digest == its:
            if (part.revision, part.dirty) != (other.revision, other.dirty):
                unlike["revision"] = None
            if gobuild.of_build(part.env) != gobuild.of_build(other.env):
                unlike["settings of the build"] = None
    if not unlike:
        return ""
    return (
        f"**! Both sides run the same program**: they differ in {' and '.join(unlike)}, and the executables are the "
        "same bytes, so what was changed is not in them"
    )


def _crossing(plan: Plan, candidate: str) -> tuple[bool, str]:
    if not plan.crosses_to(candidate):
        return False, ""
    sides = [plan.target_of(name) for name in (plan.variants[0].name, candidate)]
    protocols = list(dict.fromkeys(side.protocol or f"a protocol of {side.name}" for side in sides))
    return True, " against ".join(protocols) if protocols[1:] else ""


def _known_as(metric: Metric, plan: Plan) -> str:
    aliases = [
        target.counters[metric.counter].names for target in plan.targets.values() if metric.counter in target.counters
    ]
    titles = [names[0] + (f" and {len(names) - 1} more" if names[1:] else "") for names in aliases]
    return " / ".join(dict.fromkeys(titles)) or metric.known_as


def _blocks(run: Run, candidate: str) -> tuple[list[int], dict[int, str]]:
    """Return the blocks that count for a candidate, and the others with their reasons."""
    table = read_table(run.path, "blocks")
    of_candidate = table[(table["candidate"] == candidate) & (table["kind"] != "warmup")]
    counts, blocks = of_candidate["counts"] == "true", of_candidate["block"].astype(int)
    return blocks[counts].tolist(), dict(zip(blocks[~counts], of_candidate["reason"][~counts], strict=True))


def _labels(run: Run) -> dict[str, str]:
    """Return the labels of the variants; equal labels get the variant's name, columns of a pivot are KEY=VALUE.

    Of many variants the labels have no hashes, and the name stands alone where that leaves nothing to tell them apart.
    """
    if run.plan.gobench and run.plan.gobench.pivot:
        return {name: f"{run.plan.gobench.pivot.column}={name}" for name in run.variants}
    named = {name: run.plan.variant(name).label or name for name in run.variants}
    many = len(named) > FEW
    if many:
        named = {name: " ".join(_HASH.sub("", label).split()) for name, label in named.items()}
    labels = ["", *named.values()]
    same = {name: name if many else f"{label} ({name})" for name, label in named.items() if labels.count(label) > 1}
    return named | same


def write(path: Path, text: str) -> str:
    """Write a text with at most one blank line in a row, and return it."""
    tidied = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    files.write(path, tidied)
    return tidied
