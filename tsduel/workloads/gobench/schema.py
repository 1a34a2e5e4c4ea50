"""An experiment of Go benchmarks: the fields of its file beside those of tsduel.workloads.experiment."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tsduel.core.gobench import GoBench, GoWatchdog, go_package, go_pattern
from tsduel.core.sections import Design
from tsduel.workloads import experiment
from tsduel.workloads.gobench.parse import tidy_unit


class GoVariant(experiment.Variant):
    """One side: its revision, toolchain and environment, and a package and pattern of its own."""

    role: Literal["bench"] = "bench"
    replicas: Literal[1] = 1
    source: Literal["module", "git", "path"] = "module"
    target: Literal["go"] = "go"
    flags: tuple[()] = ()
    files: Annotated[dict[str, str], Field(max_length=0)] = {}

    _inside = field_validator("package")(lambda value: go_package(value) if value else value)
    _searches = field_validator("bench")(lambda value: go_pattern(value) if value else value)


class GoDesign(Design):
    """Thresholds are by unit: time is sec/op. Every block makes its own data."""

    load: Literal["solo"] = "solo"
    reload: Literal["every"] = "every"
    start_from: Literal["empty"] = "empty"
    judged: Literal["all"] = "all"

    @field_validator("thresholds")
    @classmethod
    def _known_metrics(cls, value: dict[str, float]) -> dict[str, float]:
        experiment.names(r"[^\s=]+", " is no unit; write them like sec/op, B/op, allocs/op")(value)
        if "ns/op" in value:
            raise ValueError("time is called sec/op here, as benchstat does")
        return {tidy_unit(name)[0]: percent for name, percent in value.items()}


class GoExperiment(experiment.Experiment):
    """The whole experiment, for Go benchmarks."""

    needs = ("baseline",)

    kind: Literal["gobench"] = "gobench"
    variants: dict[str, GoVariant]
    gobench: GoBench
    design: GoDesign = GoDesign()
    watchdog: GoWatchdog = GoWatchdog()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.gobench.pivot and len(self.variants) > 1:
            raise ValueError("gobench.pivot: takes one variant, `baseline`; its columns are what is compared")
        if not self.gobench.pivot and len(self.variants) == 1:
            raise ValueError("variants: `candidate` is needed (CANDIDATE=v1.2.4), or gobench.pivot")
        if not self.gobench.module and any(v.source == "module" for v in self.variants.values()):
            why = "is needed where a variant comes from the module proxy (MODULE=example.org/m)"
            raise ValueError(f"gobench.module: {why}")
        if self.design.warmup_blocks == 0:
            why = "the warm-up block is where the benchmarks of a pattern are found"
            raise ValueError(f"design.warmup_blocks: has to be 1: {why}")
        return self
