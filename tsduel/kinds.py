"""The one place that knows which kinds of experiment there are, and which functions stand for each.

A kind changes what a round does: what is built, run and read back. Order of rounds, pairing, statistics, verdicts and
resuming are the same for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsduel import metrics
from tsduel.errors import UserError
from tsduel.experiment import Experiment, Variant, validate_as
from tsduel.gobench import plan as go_plan
from tsduel.gobench.schema import GoExperiment, GoVariant
from tsduel.targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tsduel.benchfmt import Compared
    from tsduel.metrics import Metric
    from tsduel.rundir import Run

AnyExperiment = Experiment | GoExperiment
AnyVariant = Variant | GoVariant
TSBS, GOBENCH = "tsbs", "gobench"
KINDS = (TSBS, GOBENCH)
# Imports of what reads tables are late: pandas and scipy take seconds, which a run that goes on does not have.
# What `make KIND` asks where no file is given; limits of noise as in experiments/local.yml, for a shared machine.
_SHARED = {"steal_pct": 30, "foreign_cpu_pct": 30, "canary_pct": None}
EMPTY: dict[str, dict[str, Any]] = {GOBENCH: {"name": "gobench", "kind": GOBENCH, "noise": _SHARED}}


def validate(data: dict[str, Any], where: str) -> AnyExperiment:
    """Check a mapping against the schema of its kind; `where` names its origin in messages."""
    kind = data.get("kind", TSBS)
    if kind not in KINDS:
        raise UserError(f"{where}: kind: {kind!r} is not known; allowed: {', '.join(KINDS)}")
    if kind == GOBENCH:
        return validate_as(GoExperiment, data, where)
    return validate_as(Experiment, data, where)


def refuse_other(data: Mapping[str, Any], wanted: str, where: str) -> None:
    """Raise where `make gobench` is given an experiment of databases, or the other way round."""
    kind = data.get("kind", TSBS)
    if wanted and kind in KINDS and kind != wanted:
        raise UserError(f"{where}: its kind is {kind}: run it with make {kind}")


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
    from tsduel.blocks import read_table  # noqa: PLC0415 - see above
    from tsduel.gobench import tidy as go_tidy  # noqa: PLC0415 - see above
    from tsduel.gobench import units  # noqa: PLC0415 - see above

    table = read_table(run.path / "tidy/units.csv", go_tidy.UNITS)
    directions = dict(zip(table["metric"], table["better"], strict=True))
    return units.metrics_of((metric for metric, _ in measured), directions)


def bench_files(run: Run, phases: Mapping[str, str], compared: Sequence[Compared]) -> dict[str, str]:
    """Return the text of benchstat's file for each variant."""
    from tsduel import benchfmt  # noqa: PLC0415 - see above
    from tsduel.gobench import benchfmt as go_benchfmt  # noqa: PLC0415 - see above

    if run.kind == GOBENCH:
        return go_benchfmt.files(run, compared)
    return benchfmt.files(run, phases, compared)
