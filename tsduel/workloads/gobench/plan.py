"""The half of the Go workload that a plan is made with: what is built and run, and what it takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tsduel.core.metrics import Metric
from tsduel.core.plan import Duration, Estimate, Plan
from tsduel.core.plan import Variant as PlannedVariant
from tsduel.core.sections import GoBench, WorkloadAsked
from tsduel.targets.database import Program
from tsduel.workloads.experiment import Experiment, Variant
from tsduel.workloads.gobench import units
from tsduel.workloads.gobench.schema import GoExperiment

# Raw text of a variant, and what benchmarks may write into their directory; nobody knows before they have run.
ROUND_BYTES = 1 << 20
SCRATCH_BYTES = 2 << 30
PREPARE_S = 900
# Where it lies below the project's directory on the measured machine, for which {project} stands.
BUILD_SCRIPT = "{project}/ansible/roles/variant/files/build-benchmarks"
# Limits as in experiments/local.yml, for a shared machine.
_SHARED = {"steal_pct": 30, "foreign_cpu_pct": 30, "canary_pct": None}


@dataclass(frozen=True)
class TestBinary(Program):
    """The benchmarks of one package: a test binary, and what they read from beside it."""

    __test__ = False  # the name is Go's; this is no test of ours
    files: tuple[str, ...] = ()

    def build_command(self, source: str, version: str) -> tuple[str, ...]:  # noqa: ARG002 - the same from wherever
        """Return the command that builds a checkout or module directory, whatever its source."""
        return (BUILD_SCRIPT, "{output}", self.package, *self.files)


class GoPlanned:
    """Go benchmarks of revisions of a module."""

    kind: ClassVar[str] = "gobench"
    experiment: ClassVar[type[Experiment]] = GoExperiment
    registered: ClassVar[tuple[Metric, ...]] = units.KNOWN
    unwritten: ClassVar[Mapping[str, Any] | None] = {"name": "gobench", "kind": "gobench", "noise": _SHARED}

    def program(self, of: Experiment | Plan, variant: Variant | PlannedVariant, role: str) -> TestBinary:  # noqa: ARG002 - of the protocol
        """Return how the benchmarks of a variant are built."""
        go = _gobench(of)
        return TestBinary(
            name="go",
            module=go.module,
            package=variant.package or go.package,
            output="bench.test",
            own_command=(),
            files=go.files,
        )

    def variant_part(self, asked: Experiment, variant: Variant) -> dict[str, str]:
        """Return its package and pattern, its own or everybody's."""
        go = _gobench(asked)
        return {"package": variant.package or go.package, "bench": variant.bench or go.bench}

    def sections(self, asked: Experiment, variants: int) -> dict[str, Any]:
        """Return gobench and estimate."""
        results = asked.design.planned * variants * ROUND_BYTES
        return {
            "gobench": _gobench(asked),
            "estimate": Estimate(database_bytes=SCRATCH_BYTES, results_bytes=results),
        }

    def duration(self, sections: Mapping[str, Any], asked: Experiment, variants: int) -> Duration:
        """Return times by ``gobench.round_s``: nobody knows how many benchmarks there are."""
        block_s = variants * int(sections["gobench"].round_s)
        total_s = PREPARE_S + asked.design.planned * block_s
        return Duration(prepare_s=PREPARE_S, workload_s=0, block_s=block_s, total_s=total_s)

    def memory(self, workload: WorkloadAsked | None, variants: Iterable[tuple[str, int]]) -> int | None:  # noqa: ARG002 - of the protocol
        """Return None: nobody knows."""
        return None

    def described(self, plan: Plan) -> list[str]:
        """Return module, package, patterns and length."""
        go = _gobench(plan)
        patterns = dict.fromkeys(variant.bench for variant in plan.variants)
        lasts = f"{go.count} operations each" if go.count else f"about {go.seconds:g} s each"
        return [f"bench     {go.module or 'module'} {go.package}, {', '.join(patterns)}, {lasts}"]

    def alike(self, plan: Plan) -> dict[str, Any]:
        """Return what is run, for how long."""
        return {
            "gobench": _gobench(plan).model_dump(include={"module", "package", "files", "seconds", "count", "cpu"}),
            "bench": sorted({variant.bench for variant in plan.variants}),
        }


def _gobench(of: Experiment | Plan) -> GoBench:
    found = of.gobench if isinstance(of, Plan | GoExperiment) else None
    if found is None:
        raise TypeError(of)
    return found
