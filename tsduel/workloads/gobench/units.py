"""The metrics of a run of Go benchmarks: its units, with direction, threshold and family.

Primary are the geometric means over rows of time, bytes and allocations, three tests a candidate, since people ask for
these first; every row of every unit is secondary. B/s is a fixed number of bytes over time: it says the same as sec/op
and is only shown. A unit of the benchmark's own is judged if its better direction is known.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tsduel.core.metrics import Better, Family, Metric

# Thresholds in percent (docs/gobench.md).
_TIME, _BYTES, _OTHER = 3.0, 1.0, 3.0
# fmt: off
KNOWN = (
    Metric("sec/op", "bench", "sec/op", "lower", _TIME, "secondary", "Time", per_type=True, geomean="primary",
           headline=True, words=("slower", "faster")),
    Metric("B/op", "bench", "B/op", "lower", _BYTES, "secondary", "Memory", per_type=True, geomean="primary",
           headline=True),
    Metric("allocs/op", "bench", "allocs/op", "lower", _BYTES, "secondary", "Allocations", per_type=True,
           geomean="primary", headline=True),
    Metric("B/s", "bench", "B/s", "higher", _TIME, "shown", "Throughput", per_type=True, geomean="shown"),
)
# fmt: on


def metrics(measured: Iterable[str], better: Mapping[str, Better]) -> list[Metric]:
    """Return the metrics of the units that a run has: Go's own first, then the benchmark's in their order."""
    units = list(dict.fromkeys(measured))
    names = {metric.name for metric in KNOWN}
    metrics = [replace(m, better=better.get(m.name, m.better)) for m in KNOWN if m.name in units]
    for unit in units:
        if unit not in names:
            family: Family = "secondary" if better.get(unit, "none") != "none" else "shown"
            metrics.append(Metric(unit, "bench", unit, better.get(unit, "none"), _OTHER, family, unit, per_type=True))
    return metrics
