"""How numbers look, in the report and in the terminal: the one place that decides."""

from tsduel.core.metrics import Metric

_BYTES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))
# As benchstat prints them.
_TIMES = (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))
_BINARY = (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30))
DIGITS = 4
MISSING = "–"  # noqa: RUF001 - an en dash is what a table has where there is nothing


def number(value: float | None, digits: int = DIGITS) -> str:
    """Print with significant digits and thousands separators: 1716771.07 -> 1,717,000; 0.0123456 -> 0.01235."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    if value == int(value) and abs(value) < 10**digits:
        return f"{value:,.0f}"
    whole = len(f"{abs(rounded):.0f}") if abs(rounded) >= 1 else 0
    if whole >= digits:
        return f"{rounded:,.0f}"
    if whole:
        return f"{rounded:.{digits - whole}f}"
    return f"{rounded:.{digits}g}"


def count(value: float | None) -> str:
    """Print a count in full: 10,800,000."""
    return MISSING if value is None else f"{value:,.0f}"


def change(percent: float | None) -> str:
    """Print a change in percent with its sign and no unit: +8.1, -12.3, +142, 0.0."""
    if percent is None:
        return MISSING
    rounded = round(percent, 1)
    if abs(rounded) >= 100:  # noqa: PLR2004 - three digits are enough
        return f"{percent:+,.0f}"
    return f"{rounded:+.1f}" if rounded else "0.0"


def signed(value: float | None, digits: int = 3) -> str:
    """Print a difference with its sign: +0.052, -12.3, 0."""
    text = number(value, digits)
    return f"+{text}" if value is not None and value > 0 else text


def probability(p: float | None) -> str:
    """Print a p-value: 0.04, 0.002, 2e-04; "1" and not "1.000"."""
    if p is None:
        return MISSING
    return f"{p:.0e}" if p < 0.001 else f"{float(f'{p:.2g}'):g}"  # noqa: PLR2004 - more zeros are not read


def between(low: float | None, high: float | None) -> str:
    """Print an interval in percent: +2.6 to +5.5."""
    return MISSING if low is None or high is None else f"{change(low)} to {change(high)}"


def scale(metric: Metric, *values: float | None) -> tuple[str, list[str]]:
    """Print values of one metric in one unit that suits the largest: ("GB", ["1.441", "1.246"])."""
    if metric.format != "bytes":
        return metric.unit, [number(value) for value in values]
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    unit, factor = byte_unit(largest)
    return unit, [number(value / factor if value is not None else None) for value in values]


def size(value: float | None) -> str:
    """Print bytes with their unit: 33.66 GB."""
    if value is None:
        return MISSING
    unit, factor = byte_unit(value)
    return f"{number(value / factor)} {unit}"


def byte_unit(largest: float) -> tuple[str, float]:
    """Return the unit in which the largest of some values in bytes is at least 1, and its factor: ("MB", 1e6)."""
    return next((b for b in reversed(_BYTES) if largest >= b[1]), _BYTES[0])


def time_unit(largest: float) -> tuple[str, float]:
    """Return the same of values in seconds, small ones above all: ("µs", 1e-6)."""
    return next((t for t in reversed(_TIMES) if largest >= t[1]), _TIMES[0])


def binary_unit(largest: float) -> tuple[str, float]:
    """Return the same of values in bytes, in the units that benchstat has: ("KiB", 1024.0)."""
    return next((b for b in reversed(_BINARY) if largest >= b[1]), _BINARY[0])
