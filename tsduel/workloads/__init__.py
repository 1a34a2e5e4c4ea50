"""The kinds of work that blocks do. Only this module maps a kind to its workload."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tsduel.core.metrics import ALL, GEOMEAN, Metric
from tsduel.core.plan import Plan
from tsduel.workloads.gobench.plan import GoPlanned
from tsduel.workloads.protocol import Planned
from tsduel.workloads.tsbs.plan import TsbsPlanned

WORKLOADS: dict[str, Planned] = {workload.kind: workload for workload in (TsbsPlanned(), GoPlanned())}
DEFAULT_KIND = TsbsPlanned.kind


def workload_of(plan: Plan) -> Planned:
    """Return the workload of a run."""
    return WORKLOADS[plan.kind]


def in_families(plan: Plan, metrics: Iterable[Metric]) -> list[Metric]:
    """Return the metrics with their families in this run: a metric and its `instead_of` swap their families."""
    family = {}
    if plan.exchanges_load:
        registered = {metric.name: metric for metric in workload_of(plan).registered}
        pairs = [(metric, registered[metric.instead_of]) for metric in registered.values() if metric.instead_of]
        family = {a.name: b.family for a, b in pairs} | {b.name: a.family for a, b in pairs}
    if plan.design.judged == "work":
        return [_by_work(metric, plan) for metric in metrics]
    unjudged = "solo" if plan.design.judged == "duel" else ""
    return [
        _shown(metric) if metric.part == unjudged else replace(metric, family=family.get(metric.name, metric.family))
        for metric in metrics
    ]


def _shown(metric: Metric) -> Metric:
    return replace(metric, family="shown", geomean=metric.geomean and "shown", together=metric.together and "shown")


def _by_work(metric: Metric, plan: Plan) -> Metric:
    """Return a metric as it is judged where work alone is: means over query types first."""
    if not metric.work or not (metric.per_type or metric.per_role or plan.exchanges_load):
        return _shown(metric)
    # The mean over query types says more than their sum, in which the largest answers are most.
    sums: dict[str, Any] = {"geomean": "primary", "together": "shown"} if metric.geomean else {}
    of_all = not (metric.per_type or metric.per_role)
    return replace(metric, headline=True, family="primary" if of_all else "secondary", **sums)


def primary(plan: Plan) -> Iterator[tuple[Metric, str]]:
    """Yield the primary metrics of a plan, each with its query type: empty, GEOMEAN, or ALL types together."""
    for metric in in_families(plan, workload_of(plan).registered):
        if not plan.measures(metric.part):
            continue
        for family, query_type in ((metric.family, ""), (metric.geomean, GEOMEAN), (metric.together, ALL)):
            if family == "primary":
                yield metric, query_type
