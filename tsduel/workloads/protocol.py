"""What a kind of experiment is: what its file may say, what is built and run, what it takes, and how it is read back.

Order of blocks, pairing, statistics, verdicts, resuming and the report's frame are the same for all. Sections of the
report are named here and drawn in plots/.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from tsduel.core.metrics import Metric
from tsduel.core.plan import Duration, Plan
from tsduel.core.plan import Variant as PlannedVariant
from tsduel.core.sections import WorkloadAsked
from tsduel.targets.database import Program
from tsduel.workloads.experiment import Experiment, Variant


class Planned(Protocol):
    """The half that a plan is made with; it takes no library that is slow to load."""

    kind: ClassVar[str]
    experiment: ClassVar[type[Experiment]]
    registered: ClassVar[tuple[Metric, ...]]
    """Metrics that are known before anything has run."""
    unwritten: ClassVar[Mapping[str, Any] | None]
    """What `make KIND` asks where no file is given; None where there is a default file."""

    def program(self, of: Experiment | Plan, variant: Variant | PlannedVariant, role: str) -> Program:
        """Return how the program of one component is got and built."""

    def variant_part(self, asked: Experiment, variant: Variant) -> dict[str, str]:
        """Return what a planned variant has of this kind only."""

    def sections(self, asked: Experiment, variants: int) -> dict[str, Any]:
        """Return the sections of the plan that are of this kind only, with what they take of disk (`estimate`)."""

    def duration(self, sections: Mapping[str, Any], asked: Experiment, variants: int) -> Duration:
        """Return how long a run will take, roughly: for deadlines and prices, not for the report."""

    def memory(self, workload: WorkloadAsked | None, variants: Iterable[tuple[str, int]]) -> int | None:
        """Return bytes that one variant will roughly need; None where nobody knows.

        ``variants``: target and number of components of each.
        """

    def described(self, plan: Plan) -> list[str]:
        """Return the lines of the plan that say what is run."""

    def alike(self, plan: Plan) -> dict[str, Any]:
        """Return what two plans must share for a block of one to last as long as a block of the other."""
