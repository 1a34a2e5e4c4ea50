"""`Reader`: the half of a workload that reads blocks, for tidy, stats and the report.

It is apart from the half that plans, because pandas takes a while to load and a plan does not need it.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from tsduel.core.metrics import Better, Metric
from tsduel.core.record import Block
from tsduel.core.rundir import Run
from tsduel.workloads.gobench import read as gobench
from tsduel.workloads.measured import Reading
from tsduel.workloads.tsbs import read as tsbs


class Reader(Protocol):
    """How the finished blocks of a workload are read; a module has these functions."""

    def read_block(self, run: Run, block: Block) -> Reading:
        """Read raw/HOST/BBB."""

    def rows(self, run: Run) -> list[str]:
        """Return the query types of a run, or the rows of Go benchmarks, in the order of a report."""

    def metrics(self, measured: Iterable[str], better: Mapping[str, Better], /) -> list[Metric]:
        """Return the metrics of a run; `measured`: the names that any block has, `better`: directions of units."""

    def bench_configuration(self, run: Run) -> list[str]:
        """Return the lines of a run's configuration in benchstat's format, the same for all variants."""

    def bench_name(self, run: Run, metric: Metric, query_type: str, variant: str, /) -> str:
        """Return the name of a metric's benchmark; benchstat would read a trailing -8 as GOMAXPROCS."""

    def bench_unit(self, metric: Metric) -> tuple[str, float]:
        """Return a metric's unit for benchstat and the factor to it; each metric of a benchmark needs its own unit."""

    def bench_operations(self, run: Run, query_type: str, /) -> int | None:
        """Return how many operations a line of a row stands for; None if the pairs say it."""


def reader(kind: str) -> Reader:
    """Return the reading half of a kind of run."""
    readers: dict[str, Reader] = {"tsbs": tsbs, "gobench": gobench}
    return readers[kind]
