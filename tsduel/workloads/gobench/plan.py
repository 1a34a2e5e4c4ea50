"""The part of a plan that only Go benchmarks have: the builds, the benchmarks, their time and disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from tsduel.core import plan as planned
from tsduel.core.gobench import GoBench
from tsduel.core.metrics import Metric
from tsduel.targets.database import Program
from tsduel.workloads.experiment import Experiment, Variant
from tsduel.workloads.gobench import units
from tsduel.workloads.gobench.schema import GoExperiment
from tsduel.workloads.protocol import Planned

# Raw text of a variant, and files of benchmarks in their directory: guesses, since only a run shows them.
ROUND_BYTES = 1 << 20
SCRATCH_BYTES = 2 << 30
PREPARE_S = 900
# {project} is the project's directory on the measured machine.
BUILD_SCRIPT = "{project}/ansible/roles/build/files/build-benchmarks"
# For a machine that is shared: a benchmark runs alone, so other programs spoil it more than they do a duel.
_SHARED = {"steal_pct": 30, "foreign_cpu_pct": 30, "canary_pct": None}


@dataclass(frozen=True)
class TestBinary(Program):
    """The benchmarks of one package: a test binary, and the files that they read from beside it."""

    __test__ = False  # for pytest: the name is Go's
    files: tuple[str, ...] = ()

    def build_command(self, _source: str, _version: str) -> tuple[str, ...]:
        """Return the command that builds a checkout or module directory, the same for every source."""
        return (BUILD_SCRIPT, "{output}", self.package, *self.files)


class GoPlanned(Planned):
    """Go benchmarks of revisions of a module."""

    kind: ClassVar[str] = "gobench"
    experiment: ClassVar[type[Experiment]] = GoExperiment
    registered: ClassVar[tuple[Metric, ...]] = units.KNOWN
    unwritten: ClassVar[Mapping[str, Any] | None] = {"name": "gobench", "kind": "gobench", "noise": _SHARED}

    def program(self, source: Experiment | planned.Plan, variant: Variant | planned.Variant, _role: str) -> TestBinary:
        """Return how the benchmarks of a variant are built."""
        go = _gobench(source)
        return TestBinary("go", go.module, variant.package or go.package, "bench.test", own_command=(), files=go.files)

    def variant_part(self, experiment: Experiment, variant: Variant) -> dict[str, str]:
        """Return its package and pattern: its own, or those of the experiment."""
        go = _gobench(experiment)
        return {"package": variant.package or go.package, "bench": variant.bench or go.bench}

    def sections(self, experiment: Experiment, variants: int) -> dict[str, Any]:
        """Return gobench and estimate."""
        results = experiment.design.planned * variants * ROUND_BYTES
        estimate = planned.Estimate(database_bytes=SCRATCH_BYTES, results_bytes=results)
        return {"gobench": _gobench(experiment), "estimate": estimate}

    def duration(self, sections: Mapping[str, Any], experiment: Experiment, variants: int) -> planned.Duration:
        """Return times by ``gobench.round_s``, since the number of benchmarks is unknown."""
        block_s = variants * int(sections["gobench"].round_s)
        total_s = PREPARE_S + experiment.design.planned * block_s
        return planned.Duration(prepare_s=PREPARE_S, workload_s=0, block_s=block_s, total_s=total_s)

    def described(self, plan: planned.Plan) -> list[str]:
        """Return module, package, patterns and length."""
        go = _gobench(plan)
        patterns = dict.fromkeys(variant.bench for variant in plan.variants)
        lasts = f"{go.count} operations each" if go.count else f"about {go.seconds:g} s each"
        return [f"bench     {go.module or 'module'} {go.package}, {', '.join(patterns)}, {lasts}"]

    def alike(self, plan: planned.Plan) -> dict[str, Any]:
        """Return which benchmarks run, for how long."""
        return {
            "gobench": _gobench(plan).model_dump(include={"module", "package", "files", "seconds", "count", "cpu"}),
            "bench": sorted({variant.bench for variant in plan.variants}),
        }


def _gobench(source: Experiment | planned.Plan) -> GoBench:
    return cast("GoBench", cast("Any", source).gobench)
