"""The metrics of a run of Go benchmarks: its units, with direction, threshold and family.

Primary are the geometric means over rows of time, bytes and allocations, which is what people ask first, three tests
a candidate; every row of every unit is secondary. B/s is a fixed number of bytes over time: it says the same as sec/op
and is only shown. A unit of the benchmark's own is judged where somebody says which direction is better.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsduel.core.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tsduel.core.metrics import Better, Family, Format

# MEASUREMENT.md 5, in percent.
_TIME, _MEMORY, _OTHER = 3.0, 1.0, 3.0
KNOWN = (
    Metric("sec/op", "sec/op", "lower", "seconds", _TIME, "secondary", "Time", per_type=True, geomean="primary"),
    Metric("B/op", "B/op", "lower", "bytes", _MEMORY, "secondary", "Memory", per_type=True, geomean="primary"),
    Metric("allocs/op", "allocs/op", "lower", "number", _MEMORY, "secondary", "Allocs", per_type=True, geomean="primary"),  # noqa: E501 - a line each
    Metric("B/s", "B/s", "higher", "bytes", _TIME, "shown", "Throughput", per_type=True, geomean="shown"),
)  # fmt: skip


def metrics_of(units: Iterable[str], directions: Mapping[str, Better]) -> list[Metric]:
    """Return the metrics for the units that a run has: Go's own first, then the benchmark's in their order."""
    there = list(dict.fromkeys(units))
    known = {metric.name: metric for metric in KNOWN}
    found = [metric for metric in KNOWN if metric.name in there]
    own = [_own(unit, directions) for unit in there if unit not in known]
    return [replace(m, better=directions.get(m.name, m.better)) for m in found] + own


def _own(unit: str, directions: Mapping[str, Better]) -> Metric:
    better = directions.get(unit, "none")
    style: Format = "bytes" if unit.rsplit("-", maxsplit=1)[-1] in {"B", "B/op"} else "number"
    family: Family = "shown" if better == "none" else "secondary"
    return Metric(unit, unit, better, style, _OTHER, family, unit, per_type=True)
