"""What the exports are made of: each metric of a candidate as one figure, and what a run may be taken for."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from plots import facts
from tsduel.core.errors import UserError
from tsduel.core.metrics import GEOMEAN, Metric
from tsduel.core.rundir import Run, open_run, read_json
from tsduel.stats.compare import SCREEN_BELOW
from tsduel.stats.findings import Pair
from tsduel.stats.verdict import FAILED
from tsduel.tidy.blocks import geomean, read_table, values
from tsduel.tidy.tables import MEASUREMENTS, PHASES
from tsduel.workloads import kinds

Standing = Literal["smoke", "aa", "imported", "screen", "result"]


@dataclass(frozen=True)
class Source:
    """A run, its stats/comparison.json, its metrics by name, and the tables of tidy/ that exports need."""

    run: Run
    document: dict[str, Any]
    metrics: dict[str, Metric]
    measurements: pd.DataFrame
    phases: pd.DataFrame

    @property
    def standing(self) -> Standing:
        """What the run may be taken for; a screen if any of its candidates has too few valid blocks."""
        for name in ("smoke", "aa", "imported"):
            if self.run.plan.get(name):
                return name
        return (
            "screen" if min(len(self.valid(name)) for name in self.document["candidates"]) < SCREEN_BELOW else "result"
        )

    @property
    def pivoted(self) -> bool:
        """Whether the columns are keys of Go benchmarks and not revisions."""
        return bool(self.run.plan.get("gobench", {}).get("pivot"))

    @property
    def counts(self) -> bool:
        """Whether any block counts at all."""
        return any(self.valid(name) for name in self.document["candidates"])

    @property
    def series(self) -> str:
        """The beginning of every name: stable over runs of one experiment; screens have a series of their own."""
        return ("screen/" if self.standing == "screen" else "") + str(self.run.plan["name"])

    @property
    def labels(self) -> dict[str, str]:
        """Names of the variants for people."""
        return facts.labels(self.run)

    def valid(self, candidate: str) -> list[int]:
        """Return the blocks that count for a candidate."""
        return list(self.document["blocks"][candidate]["valid"])

    def revision(self, variant: str) -> str:
        """Return the full revision; local changes are told by the hash of their diff. Columns of a pivot share one."""
        planned = self.run.plan["variants"]
        plan = planned[0] if self.pivoted else next(v for v in planned if v["name"] == variant)
        dirty = f"+{plan['dirty'][:12]}" if plan.get("dirty") else ""
        return f"{plan.get('revision') or plan.get('ref') or ''}{dirty}"


@dataclass(frozen=True)
class Figure:
    """One metric of a candidate over the rounds that count, in the metric's unit; `row` is that of comparison.json."""

    metric: Metric
    query_type: str
    median: float
    least: float
    largest: float
    row: dict[str, Any]


def read(run_dir: Path) -> Source:
    """Read what compare and tidy have written."""
    run = open_run(run_dir)
    path = run_dir / "stats/comparison.json"
    if not path.exists():
        raise UserError(f"{path} is missing: run `make compare RUN={run_dir.name}` first")
    measurements = read_table(run_dir / "tidy/measurements.csv", MEASUREMENTS)
    measured = zip(measurements["metric"].tolist(), measurements["query_type"].tolist(), strict=True)
    return Source(
        run=run,
        document=read_json(path),
        metrics={metric.name: metric for metric in kinds.metrics_of(run, measured)},
        measurements=measurements,
        phases=read_table(run_dir / "tidy/phases.csv", PHASES),
    )


def tracked(metric: Metric) -> bool:
    """Say whether a metric is worth a series: it is judged, or is the query rate that people know it by."""
    return metric.better != "none" and (metric.family != "shown" or metric.geomean is not None)


def figures(source: Source, candidate: str) -> Iterator[Figure]:
    """Yield what is judged of a candidate, and its query rates; not what a failed check touches: that is of no use."""
    pairs = values(source.measurements, source.valid(candidate), [source.run.variants[0], candidate])
    for row in source.document["rows"]:
        metric, median = source.metrics[row["metric"]], row["candidate_median"]
        if row["candidate"] != candidate or not tracked(metric) or row["verdict"] == FAILED or median is None:
            continue
        if row["query_type"] == GEOMEAN:
            per_type = {t: found for (name, t), found in pairs.items() if name == metric.name}
            mine = _candidates(geomean(per_type)[0])
        else:
            mine = _candidates(pairs[metric.name, row["query_type"]])
        yield Figure(metric, row["query_type"], _short(median), _short(min(mine)), _short(max(mine)), row)


def _candidates(pairs: list[Pair]) -> list[float]:
    """Return the candidate's values behind its median: those of whole pairs, or all where the baseline has none."""
    whole = [c for b, c in pairs if b is not None and c is not None]
    return whole or [c for _, c in pairs if c is not None]


def _short(value: float) -> float:
    return float(f"{value:.10g}")
