"""What a block's raw files become, for every workload: the rows that tidy/ is made of, but for cell and block.

And `Reader`, the half of a workload that reads: tidy and stats know nothing else of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from tsduel.core.metrics import Better, Metric
    from tsduel.core.record import Block
    from tsduel.core.rundir import Run


class Measurement(NamedTuple):
    """One value of a variant, in the metric's unit."""

    variant: str
    part: str
    phase: str
    query_type: str
    metric: str
    value: float
    unit: str


class PairedRatio(NamedTuple):
    """ln(candidate / baseline) of a block from `n` paired operations; `se` is its error within the block, if known."""

    candidate: str
    part: str
    phase: str
    query_type: str
    metric: str
    log_ratio: float
    se: float | None
    n: int


class Point(NamedTuple):
    """One point of a course; seconds since its phase began."""

    variant: str
    part: str
    phase: str
    query_type: str
    elapsed_s: float
    metric: str
    value: float


@dataclass
class Reading:
    """All of one block. `times`: service times in ns, by variant and query type; `better`: directions of units."""

    measurements: list[Measurement] = field(default_factory=list)
    pairs: list[PairedRatio] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    times: dict[tuple[str, str], NDArray[np.float64]] = field(default_factory=dict)
    better: dict[str, Better] = field(default_factory=dict)


class Reader(Protocol):
    """What a workload knows of what its blocks have left; a module is one."""

    def read_block(self, run: Run, block: Block) -> Reading:
        """Read raw/BBB."""

    def rows(self, run: Run) -> list[str]:
        """Return the query types of a run, or what stands in their place, in the order of a report."""

    def metrics(self, measured: Iterable[str], better: Mapping[str, Better]) -> list[Metric]:
        """Return the metrics of a run; `measured` are the names that any block has, `better` directions of units."""

    def bench_configuration(self, run: Run) -> list[str]:
        """Return the lines of a run's configuration in benchstat's format, the same for all variants."""

    def bench_name(self, run: Run, metric: Metric, query_type: str, variant: str) -> str:
        """Return the name of a metric's benchmark; a trailing -8 would be read as GOMAXPROCS."""

    def bench_unit(self, metric: Metric) -> tuple[str, float]:
        """Return a metric's unit for benchstat and the factor to it; each metric of a benchmark needs its own."""

    def bench_operations(self, run: Run, query_type: str) -> int | None:
        """Return how many operations a line of a row stands for; None where its pairs say it."""


def reader(kind: str) -> Reader:
    """Return the reading half of a kind of experiment."""
    # Late, since pandas takes a while, and who only plans reads nothing.
    from tsduel.workloads.gobench import read as gobench  # noqa: PLC0415 - see above
    from tsduel.workloads.tsbs import read as tsbs  # noqa: PLC0415 - see above

    return gobench if kind == "gobench" else tsbs
