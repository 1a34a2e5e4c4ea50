"""Imported logs, the reading half: that of databases under TSBS, and a report that claims less."""

from tsduel.workloads.tsbs.read import (
    bench_configuration,
    bench_name,
    bench_operations,
    bench_unit,
    metrics,
    read_block,
    rows,
)

# fmt: off
__all__ = [
    "SECTIONS", "bench_configuration", "bench_name", "bench_operations", "bench_unit", "metrics", "read_block", "rows",
]
# fmt: on
SECTIONS: tuple[str, ...] = (
    "compared",
    "load",
    "server",
    "queries",
    "checks",
    "import-method",
    "reproduce",
    "import-limits",
)
