"""The metrics of a run of Go benchmarks: its units, with direction, threshold and family.

Primary are the geometric means over rows of time, bytes and allocations, which is what people ask first, three tests
a candidate; every row of every unit is secondary. B/s is a fixed number of bytes over time: it says the same as sec/op
and is only shown. A unit of the benchmark's own is judged where somebody says which direction is better.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tsduel.core.metrics import Better, Family, Metric

# MEASUREMENT.md 5, in percent.
_TIME, _MEMORY, _OTHER = 3.0, 1.0, 3.0
# ruff: noqa: E501 - one line a metric
# fmt: off
KNOWN = (
    Metric("sec/op", "bench", "sec/op", "lower", _TIME, "secondary", "Time", per_type=True, geomean="primary"),
    Metric("B/op", "bench", "B/op", "lower", _MEMORY, "secondary", "Memory", per_type=True, geomean="primary"),
    Metric("allocs/op", "bench", "allocs/op", "lower", _MEMORY, "secondary", "Allocs", per_type=True, geomean="primary"),
    Metric("B/s", "bench", "B/s", "higher", _TIME, "shown", "Throughput", per_type=True, geomean="shown"),
)
# fmt: on


def metrics(measured: Iterable[str], better: Mapping[str, Better]) -> list[Metric]:
    """Return the metrics of the units that a run has: Go's own first, then the benchmark's in their order."""
    there = list(dict.fromkeys(measured))
    known = {metric.name: metric for metric in KNOWN}
    found = [replace(m, better=better.get(m.name, m.better)) for m in KNOWN if m.name in there]
    return found + [_own(unit, better.get(unit, "none")) for unit in there if unit not in known]


def _own(unit: str, better: Better) -> Metric:
    family: Family = "shown" if better == "none" else "secondary"
    return Metric(unit, "bench", unit, better, _OTHER, family, unit, per_type=True)
