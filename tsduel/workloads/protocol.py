"""`Planned`: what a plan needs of a kind of experiment. `Reader`, its other half, is in tsduel.workloads.reading.

Order of blocks, pairing, statistics, verdicts, resuming and the report's frame are the same for all kinds.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from tsduel.core import plan as planned
from tsduel.core.metrics import Metric
from tsduel.core.sections import WorkloadAsked
from tsduel.targets.database import Program
from tsduel.workloads.experiment import Experiment, Variant


class Planned(Protocol):
    """The half of a workload that makes a plan; it imports no library that is slow to load."""

    kind: ClassVar[str]
    experiment: ClassVar[type[Experiment]]
    registered: ClassVar[tuple[Metric, ...]]
    """Metrics that are known before the first run."""
    unwritten: ClassVar[Mapping[str, Any] | None]
    """The experiment of `make KIND` without a file; None if there is a default file."""

    def program(self, source: Experiment | planned.Plan, variant: Variant | planned.Variant, role: str, /) -> Program:
        """Return where the program of one component comes from and how it is built."""

    def variant_part(self, _experiment: Experiment, _variant: Variant, /) -> dict[str, str]:
        """Return the fields of a planned variant that only this kind has."""
        return {}

    def sections(self, experiment: Experiment, variants: int) -> dict[str, Any]:
        """Return the sections of the plan that only this kind has, and the disk that they take (`estimate`)."""

    def written(self, _plan: planned.Plan, /) -> dict[str, bytes]:
        """Return the further files of the plan's directory, by name."""
        return {}

    def duration(self, sections: Mapping[str, Any], experiment: Experiment, variants: int) -> planned.Duration:
        """Return how long a run will take, roughly: for deadlines and prices, not for the report."""

    def memory(self, _workload: WorkloadAsked | None, _variants: Iterable[tuple[str, int]], /) -> int | None:
        """Return bytes that one variant will need, roughly; None if unknown.

        ``_variants``: target and number of components of each.
        """
        return None

    def described(self, plan: planned.Plan) -> list[str]:
        """Return the lines of the plan about the work."""

    def alike(self, plan: planned.Plan) -> dict[str, Any]:
        """Return the settings that decide how long a block lasts: two plans with the same settings are alike."""
