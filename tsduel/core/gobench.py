"""Sections that an experiment of Go benchmarks and its plan share."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tsduel.core.sections import Part, listed


class GoWatchdog(Part):
    """When a benchmark is ended: after `idle_s` asleep without output, or `silent_s` without output."""

    idle_s: Annotated[int, Field(ge=2)] = 60
    silent_s: Annotated[int, Field(ge=2)] = 900


def go_package(value: str) -> str:
    """Check the path of a Go package inside its module."""
    if not re.fullmatch(r"\.(/[A-Za-z0-9_.~+-]+)*", value) or ".." in value.split("/"):
        raise ValueError(f"{value!r} is no package inside the module; write it like ./lib/storage")
    return value


def go_pattern(value: str) -> str:
    """Check a pattern for -bench."""
    if not value or any(ord(c) < 32 for c in value):  # noqa: PLR2004 - control characters
        raise ValueError("a pattern as -bench takes it, in one line: ^BenchmarkSearch$/^Data$")
    return value


def _regular(field: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{field}: {text!r} is no regular expression: {error}") from None


class Rename(Part):
    """From a benchmark's name to its row: replace the first match of a pattern, or drop a part."""

    match: str = ""
    to: str = ""
    drop: Annotated[int, Field(ge=1, le=99)] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.drop is None) == (self.match == ""):
            raise ValueError(
                "either `match:` with `to:`, or `drop:` with the number of an element (1 is the first below)"
            )
        _regular("match", self.match)
        return self


class Require(Part):
    """What must be above zero in each benchmark: a metric of its own, or a number in its output."""

    metric: str = ""
    output: str = ""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.metric == "") == (self.output == ""):
            raise ValueError("either `metric:` (a unit of b.ReportMetric) or `output:` (a regular expression)")
        if _regular("output", self.output).groups != 1 and self.output:
            raise ValueError(f"output: {self.output!r} needs one group, around the number: rows=([0-9]+)")
        return self


class Pivot(Part):
    """`key=value` elements of the names as columns: each value of `column` is compared with the first."""

    rows: tuple[str, ...] = ()
    column: Annotated[str, Field(min_length=1)]


class GoBench(Part):
    """What is built and run. Without `count`, the warm-up block finds a fixed number of operations.

    Without `cpu`, the machine's number of CPUs is taken.
    """

    module: str = ""
    package: str
    bench: str = "."
    seconds: Annotated[float, Field(gt=0, le=3600)] = 1.0
    count: Annotated[int, Field(ge=1)] | None = None
    cpu: Annotated[int, Field(ge=1, le=1024)] | None = None
    files: tuple[str, ...] = ()
    rename: tuple[Rename, ...] = ()
    require: tuple[Require, ...] = ()
    units: dict[str, Literal["higher", "lower"]] = {}
    pivot: Pivot | None = None
    # Short turns of both test binaries, B C C B, if the setup of a benchmark takes no time.
    alternate: bool = True
    profile: tuple[Literal["cpu", "mem"], ...] = ()
    round_s: Annotated[int, Field(ge=1, le=86_400)] = 600

    _inside = field_validator("package")(go_package)
    _searches = field_validator("bench")(go_pattern)
    _listed = field_validator("profile", mode="before")(listed)

    @field_validator("cpu", mode="before")
    @classmethod
    def _one(cls, value: object) -> object:
        several = isinstance(value, list | tuple)
        if several:
            raise ValueError("a run has one number; for several: matrix: {gobench.cpu: [1, 2, 4]}, a run for each")
        return value

    @field_validator("files")
    @classmethod
    def _files_inside(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name.startswith(("/", "-")) or ".." in name.split("/") or not name.strip():
                raise ValueError(f"{name!r} is no path inside the module; write it like ./test/data")
        return value
