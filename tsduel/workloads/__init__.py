"""The kinds of work that blocks do. Here alone a kind is looked at; everybody else asks its workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsduel.workloads.gobench.plan import GoPlanned
from tsduel.workloads.tsbs.plan import TsbsPlanned

if TYPE_CHECKING:
    from tsduel.core.plan import Plan
    from tsduel.workloads.protocol import Planned

WORKLOADS: dict[str, Planned] = {workload.kind: workload for workload in (TsbsPlanned(), GoPlanned())}
DEFAULT_KIND = TsbsPlanned.kind


def workload_of(plan: Plan) -> Planned:
    """Return the workload of a run."""
    return WORKLOADS[plan.kind]
