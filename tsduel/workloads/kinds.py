"""The one place that knows which kinds of experiment there are, and which functions stand for each.

A kind changes what a round does: what is built, run and read back. Order of rounds, pairing, statistics, verdicts and
resuming are the same for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsduel.core import metrics
from tsduel.question.experiment import Variant
from tsduel.question.read import EMPTY, GOBENCH, AnyExperiment, refuse_other, validate
from tsduel.targets.programs import TARGETS, Target
from tsduel.workloads.gobench import plan as go_plan
from tsduel.workloads.gobench.schema import GoExperiment, GoVariant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tsduel.core.metrics import Metric
    from tsduel.core.rundir import Run
    from tsduel.stats.benchfmt import Compared

# How a question of a kind is read is in tsduel.question.read, which needs no tables; it is asked for here.
# fmt: off
__all__ = [
    "EMPTY", "GOBENCH", "AnyExperiment", "AnyVariant", "bench_files", "described", "metrics_of",
    "planned_target", "refuse_other", "target", "validate", "variant_part",
]
# fmt: on
AnyVariant = Variant | GoVariant
# Imports of what reads tables are late: pandas and scipy take seconds, which a run that goes on does not have.


def target(asked: AnyExperiment, variant: AnyVariant) -> Target:
    """Return how a variant is got and built."""
    if isinstance(asked, GoExperiment) and isinstance(variant, GoVariant):
        return go_plan.target(asked, variant)
    return TARGETS[str(getattr(variant, "target", ""))]


def planned_target(plan: Mapping[str, Any], variant: Mapping[str, Any]) -> Target:
    """Return the same for what a plan says of a variant."""
    if plan["kind"] == GOBENCH:
        return go_plan.planned_target(plan, variant)
    return TARGETS[variant["target"]]


def variant_part(asked: AnyExperiment, variant: AnyVariant) -> dict[str, str]:
    """Return what a planned variant has of its kind only."""
    if isinstance(asked, GoExperiment) and isinstance(variant, GoVariant):
        return go_plan.variant_part(asked, variant)
    return {}


def described(plan: Mapping[str, Any]) -> str:
    """Return the line of the plan that says what is run."""
    if plan["kind"] == GOBENCH:
        return go_plan.described(plan)
    workload, types = plan["workload"], plan["queries"]["types"]
    return f"workload  {workload['samples']:,} samples of {workload['scale']:,} hosts, {len(types)} query types"


def metrics_of(run: Run, measured: Iterable[tuple[str, str]]) -> list[Metric]:
    """Return the metrics of a run; `measured` are the metrics and query types that any round has."""
    if run.kind != GOBENCH:
        return list(metrics.METRICS.values())
    from tsduel.tidy.blocks import read_table  # noqa: PLC0415 - see above
    from tsduel.workloads.gobench import tidy as go_tidy  # noqa: PLC0415 - see above
    from tsduel.workloads.gobench import units  # noqa: PLC0415 - see above

    table = read_table(run.path / "tidy/units.csv", go_tidy.UNITS)
    directions = dict(zip(table["metric"], table["better"], strict=True))
    return units.metrics_of((metric for metric, _ in measured), directions)


def bench_files(run: Run, phases: Mapping[str, str], compared: Sequence[Compared]) -> dict[str, str]:
    """Return the text of benchstat's file for each variant."""
    from tsduel.stats import benchfmt  # noqa: PLC0415 - see above
    from tsduel.workloads.gobench import benchfmt as go_benchfmt  # noqa: PLC0415 - see above

    if run.kind == GOBENCH:
        return go_benchfmt.files(run, compared)
    return benchfmt.files(run, phases, compared)
