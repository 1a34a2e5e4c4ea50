"""`Reader`, the half of a workload that reads: tidy, stats and the report know nothing else of it.

Apart from the half that plans, since pandas takes a while to load, and who only plans reads nothing.
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
    """What a workload knows of what its blocks have left; a module is one."""

    def read_block(self, run: Run, block: Block) -> Reading:
        """Read raw/BBB."""

    def sections(self, run: Run) -> tuple[str, ...]:
        """Return the names of the sections of a run's report, in order; plots/sections draws them."""

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


READERS: dict[str, Reader] = {"tsbs": tsbs, "gobench": gobench, "logs": tsbs}


def reader(kind: str) -> Reader:
    """Return the reading half of a kind of run."""
    return READERS[kind]
