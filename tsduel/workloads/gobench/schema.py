"""An experiment of Go benchmarks: what its file may say. What is as with databases is in tsduel.question.experiment."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from tsduel.core.machine import Machine
from tsduel.places.gcp.settings import Gcp
from tsduel.question.experiment import VARIANT_NAME, Design, Part, check_env_names, needs_source
from tsduel.question.noise import Noise

PACKAGE = re.compile(r"\.(/[A-Za-z0-9_.~+-]+)*")
UNIT = re.compile(r"[^\s=]+")


def _package(value: str) -> str:
    if not PACKAGE.fullmatch(value) or ".." in value.split("/"):
        raise ValueError(f"{value!r} is no package inside the module; write it like ./lib/storage")
    return value


def _pattern(value: str) -> str:
    if not value or any(ord(c) < 32 for c in value):  # noqa: PLR2004 - control characters
        raise ValueError("a pattern as -bench takes it, in one line: ^BenchmarkSearch$/^Data$")
    return value


class GoVariant(Part):
    """One side: which revision, its toolchain and environment, and where its names or its place differ."""

    source: Literal["module", "git", "path"] = "module"
    ref: str = ""
    repo: str = ""
    path: str = ""
    env: dict[str, str] = {}
    go: Annotated[str, Field(pattern=r"^(local|go1\.[0-9]+(\.[0-9]+)?)$")] = "local"
    package: str = ""
    bench: str = ""

    _names = field_validator("env")(check_env_names)
    _inside = field_validator("package")(lambda value: _package(value) if value else value)
    _searches = field_validator("bench")(lambda value: _pattern(value) if value else value)
    _source_is_complete = model_validator(mode="after")(needs_source)


class Rename(Part):
    """From a benchmark's name to its row: exchange the first match of a pattern, or take an element out of its path."""

    match: str = ""
    to: str = ""
    drop: Annotated[int, Field(ge=1, le=99)] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Rename:
        if (self.drop is None) == (self.match == ""):
            raise ValueError(
                "either `match:` with `to:`, or `drop:` with the number of an element (1 is the first below)"
            )
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"match: {self.match!r} is no regular expression: {error}") from None
        return self


class Require(Part):
    """What each benchmark must show, above zero: a custom metric, or the number that a pattern finds in its output."""

    metric: str = ""
    output: str = ""

    @model_validator(mode="after")
    def _one_of_two(self) -> Require:
        if (self.metric == "") == (self.output == ""):
            raise ValueError("either `metric:` (a unit of b.ReportMetric) or `output:` (a regular expression)")
        try:
            pattern = re.compile(self.output)
        except re.error as error:
            raise ValueError(f"output: {self.output!r} is no regular expression: {error}") from None
        if self.output and pattern.groups != 1:
            raise ValueError(f"output: {self.output!r} needs one group, around the number: rows=([0-9]+)")
        return self


class Pivot(Part):
    """`key=value` elements of the names as columns: every value of `column` against the first one."""

    rows: list[str] = []
    column: Annotated[str, Field(min_length=1)]


class GoBench(Part):
    """What is built and run. `count`, a fixed number of operations, is found in the warm-up block unless given."""

    module: str = ""
    package: str
    bench: str = "."
    seconds: Annotated[float, Field(gt=0, le=3600)] = 1.0
    count: Annotated[int, Field(ge=1)] | None = None
    cpu: Annotated[int, Field(ge=1, le=1024)] | None = None
    files: list[str] = []
    rename: list[Rename] = []
    require: list[Require] = []
    units: dict[str, Literal["higher", "lower"]] = {}
    pivot: Pivot | None = None
    profile: list[Literal["cpu", "mem"]] = []
    round_s: Annotated[int, Field(ge=1, le=86_400)] = 600

    _inside = field_validator("package")(_package)
    _searches = field_validator("bench")(_pattern)

    @field_validator("seconds", mode="before")
    @classmethod
    def _whole_seconds(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("profile", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return value.split(",") if isinstance(value, str) else value

    @field_validator("files")
    @classmethod
    def _files_inside(cls, value: list[str]) -> list[str]:
        for name in value:
            if name.startswith(("/", "-")) or ".." in name.split("/") or not name.strip():
                raise ValueError(f"{name!r} is no path inside the module; write it like ./test/data")
        return value


class GoDesign(Design):
    """Thresholds are by unit: time is sec/op."""

    @field_validator("thresholds")
    @classmethod
    def _known_metrics(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            if not UNIT.fullmatch(name):
                raise ValueError(f"{name!r} is no unit; write them like sec/op, B/op, allocs/op")
        if "ns/op" in value:
            raise ValueError("time is called sec/op here, as benchstat does")
        return value


class GoWatchdog(Part):
    """When a benchmark is ended: asleep without a word for `idle_s`, or no line of output for `silent_s`."""

    idle_s: Annotated[int, Field(ge=2)] = 60
    silent_s: Annotated[int, Field(ge=2)] = 900


class GoExperiment(Part):
    """The whole written question, for Go benchmarks."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]
    question: str = ""
    kind: Literal["gobench"]
    smoke: bool = False
    variants: dict[str, GoVariant]
    gobench: GoBench
    design: GoDesign = GoDesign()
    watchdog: GoWatchdog = GoWatchdog()
    noise: Noise = Noise()
    gcp: Gcp = Gcp()
    host: Machine = Machine()

    @field_validator("variants")
    @classmethod
    def _variant_names(cls, value: dict[str, GoVariant]) -> dict[str, GoVariant]:
        for name in value:
            if not VARIANT_NAME.fullmatch(name):
                raise ValueError(f"{name!r}: a variant's name is lower-case letters, digits and dashes")
        if "baseline" not in value:
            raise ValueError("`baseline` is needed (BASELINE=v1.2.3)")
        return value

    @model_validator(mode="after")
    def _fits(self) -> GoExperiment:
        if self.gobench.pivot and len(self.variants) > 1:
            raise ValueError("gobench.pivot: takes one variant, `baseline`; its columns are what is compared")
        if not self.gobench.pivot and len(self.variants) == 1:
            raise ValueError("variants: `candidate` is needed (CANDIDATE=v1.2.4), or gobench.pivot")
        if not self.gobench.module and any(v.source == "module" for v in self.variants.values()):
            raise ValueError(
                "gobench.module: is needed where a variant comes from the module proxy (MODULE=example.org/m)"
            )
        if self.design.warmup_blocks == 0:
            raise ValueError(
                "design.warmup_blocks: has to be 1: the warm-up block is where the benchmarks of a pattern are found"
            )
        return self
