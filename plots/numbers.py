"""The format of all numbers in reports, pictures and the terminal.

The width of a row's interval decides the digits of its values: digits that another run would change are not printed.
Percents have one decimal; two where less than one percent matters, as of counted work.
"""

import math
from collections.abc import Mapping
from typing import Any

from tsduel.stats.power import ALPHA

DIGITS, DECIMALS = 4, 1
"""Digits of values without an interval, decimals of percents."""
LEAST_P = 0.0001
MISSING = "–"  # noqa: RUF001 - an en dash
TIMES = "×"  # noqa: RUF001 - before a ratio
_STEPS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "B": (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)),
    # As benchstat prints them.
    "sec/op": (("ns/op", 1e-9), ("µs/op", 1e-6), ("ms/op", 1e-3), ("s/op", 1.0)),
    "B/op": (("B/op", 1.0), ("KiB/op", 2.0**10), ("MiB/op", 2.0**20), ("GiB/op", 2.0**30)),
    "us": (("µs", 1.0),),
    "B/s": (("B/s", 1.0), ("KiB/s", 2.0**10), ("MiB/s", 2.0**20), ("GiB/s", 2.0**30)),
}
_THOUSANDS = (("", 1.0), ("k", 1e4), ("M", 1e6), ("G", 1e9))


def number(value: float | None, digits: int = DIGITS, *, whole: bool = True) -> str:
    """Print with significant digits and thousands separators: 1716771.07 -> 1,717,000; 0.0123456 -> 0.01235.

    `whole`: a whole number has no decimals.
    """
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    if whole and value == int(value) and abs(value) < 10**digits:
        return f"{value:,.0f}"
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    if decimals <= 0:
        return f"{rounded:,.0f}"
    # More than four zeros behind the point are not read.
    return f"{rounded:.{decimals}f}" if decimals <= digits + DIGITS else f"{rounded:.{digits}g}"


def count(value: float | None) -> str:
    """Print a count in full: 10,800,000."""
    return MISSING if value is None else f"{value:,.0f}"


def change(percent: float | None, decimals: int = DECIMALS) -> str:
    """Print a change in percent with its sign and no unit: +8.1, -12.3, +142, 0.0."""
    if percent is None:
        return MISSING
    rounded = round(percent, decimals)
    if abs(rounded) >= 100:  # noqa: PLR2004 - three digits are enough
        return f"{percent:+,.0f}"
    return f"{rounded:+.{decimals}f}" if rounded else f"{0:.{decimals}f}"


def size(percent: float, decimals: int = DECIMALS) -> str:
    """Print a change in percent without its sign: 8.1."""
    return change(abs(percent), decimals).lstrip("+")


def places(row: Mapping[str, Any]) -> int:
    """Return the decimals of a row's percents; as many as a change needs that is not zero by its interval."""
    value, low, high = row["change_pct"], row["lo_pct"], row["hi_pct"]
    own = DECIMALS + (0 < (row["threshold_pct"] or 0) < 1)
    leaves = low is not None and (low > 0 or high < 0)
    return own if not (leaves and value) else _places(value, own)


def _places(value: float, least: int) -> int:
    return least if round(value, least) else -math.floor(math.log10(abs(value)))


def signed(value: float) -> str:
    """Print a difference with its sign: +0.052, -12.3, 0."""
    return f"{'+' if value > 0 else ''}{number(value, 3)}"


def probability(p: float | None) -> str:
    """Print a p-value: 0.04, 0.002, 0.0002, <0.0001; "1" and not "1.000"."""
    if p is None:
        return MISSING
    if p < LEAST_P:
        return f"<{LEAST_P:g}"
    if p < 0.001:  # noqa: PLR2004 - more digits are not read
        return f"{p:.4f}"
    # 0.0503 is no 0.05, which is confirmed.
    digits = next(n for n in range(2, 17) if (float(f"{p:.{n}g}") <= ALPHA) == (p <= ALPHA))
    return f"{p:.{digits}g}"


def row_digits(row: Mapping[str, Any]) -> int:
    """Return the significant digits of a row's values: two digits of half its interval, or of the range of its blocks.

    +-0.2 % leaves 0.2387, +-15 % leaves 0.239.
    """
    low, high = (row["lo_pct"], row["hi_pct"]) if row["lo_pct"] is not None else row.get("range_pct") or (None, None)
    if low is None or high is None or high <= low:
        return DIGITS
    return min(max(3 - math.floor(math.log10((high - low) / 2)), 3), 5)


def scaled(unit: str, largest: float) -> tuple[str, float]:
    """Return the unit that suits the largest absolute value, and its factor: ("GB", 1e9)."""
    steps = _STEPS.get(unit) or (_THOUSANDS if unit.endswith("/op") else ((unit, 1.0),))
    name, factor = next((step for step in reversed(steps) if largest >= step[1]), steps[0])
    return (f"{name} {unit}".lstrip(), {"k": 1e3}.get(name, factor)) if steps is _THOUSANDS else (name, factor)


def sides(row: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Print both pseudomedians of a row of comparison.json in one unit: ("GB", ["1.441", "1.246"])."""
    values, precise = [row["baseline_pseudomedian"], row["candidate_pseudomedian"]], row_digits(row)
    unit, factor = scaled(row["unit"], max((abs(value) for value in values if value is not None), default=0.0))
    in_unit = [None if value is None else value / factor for value in values]
    # 2 -> 2.2 has as many digits on both sides.
    whole = all(value is None or value == int(value) for value in in_unit)
    return unit, [number(value, precise, whole=whole) for value in in_unit]


def opposed(row: Mapping[str, Any]) -> bool:
    """Return whether the two values of a row, as printed, move the other way than its change within blocks."""
    before, after, moved = (row[key] for key in ("baseline_pseudomedian", "candidate_pseudomedian", "change_pct"))
    if None in {before, after, moved} or not round(moved, places(row)) or (after - before) * moved >= 0:
        return False
    first, second = sides(row)[1]
    return first != second


def apart(row: Mapping[str, Any]) -> bool:
    """Return whether the quotient of a row's values is off its change: by what one sees, and a quarter of the interval.

    Or the values move the other way.
    """
    before, after, moved, low = (
        row[key] for key in ("baseline_pseudomedian", "candidate_pseudomedian", "change_pct", "lo_pct")
    )
    if by_ratio(row) or None in {before, after, moved, low} or before <= 0:
        return False
    off, seen = abs(100 * (after / before - 1) - moved), 0.5 * 10 ** -places(row)
    return off >= max(seen, (row["hi_pct"] - low) / 4) or opposed(row)


def by_ratio(row: Mapping[str, Any]) -> bool:
    """Return whether a row compares different databases: it has no threshold, and ratios replace percents."""
    return not row["threshold_pct"]


def ratio(row: Mapping[str, Any], *, inverse: bool = False) -> tuple[str, str]:
    """Print the candidate's value as a multiple of the baseline's, or the inverse of that, and its interval.

    ("3.1", "3.0 to 3.2"); the width of the interval decides the decimals, a dash stands for no interval.
    """
    factors = [None if row[name] is None else 1 + row[name] / 100 for name in ("change_pct", "lo_pct", "hi_pct")]
    middle, *edges = [None if f is None else 1 / f if inverse else f for f in factors]
    ends = sorted(edge for edge in edges if edge is not None)
    if middle is None or not ends or ends[0] == ends[-1]:
        return number(middle, 3), MISSING
    digits = max(min(decimals(ends[0], ends[-1]) - 1, 2 - math.floor(math.log10(middle))), 0)
    return f"{middle:,.{digits}f}", " to ".join(f"{edge:,.{digits}f}" for edge in ends)


def effect(row: Mapping[str, Any]) -> str:
    """Print the change of a row with its unit: +4.2 %, or of different databases the ratio."""
    return changed(row) if by_ratio(row) or row.get("native") else f"{changed(row)} %"


def reach(low: float, high: float, decimals: int = DECIMALS) -> str:
    """Print an interval in percent: +2.6 to +5.5; an end that is not zero and would be printed so has a digit more."""
    away = low > 0 or high < 0
    return " to ".join(change(value, _places(value, decimals) if away else decimals) for value in (low, high))


def deciding(row: Mapping[str, Any]) -> tuple[float | None, float | None, int]:
    """Return the ends in percent and the level of the interval that decided: 90 % of an equivalence that needs it."""
    low, high, limit = row["lo_pct"], row["hi_pct"], row["threshold_pct"]
    if low is not None and row.get("verdict") == "equivalent":
        within = -100 * limit / (100 + limit) < low and high < limit
        if not within and row.get("lo90_pct") is not None:
            return row["lo90_pct"], row["hi90_pct"], 90
    return low, high, 95


def interval(row: Mapping[str, Any]) -> str:
    """Print the interval that decided: +2.6 to +5.5, -0.4 to +1.9 (90 %), of databases 3.0 to 3.2; a dash for none."""
    if row.get("native"):
        return _native(row, "lo", "hi")
    low, high, level = deciding(row)
    if low is None or high is None:
        return MISSING
    if by_ratio(row):
        return ratio(row)[1]
    note = f" ({level} %)" if level == 90 else ""  # noqa: PLR2004 - the other level is in the head
    return reach(low, high, places(row)) + note


def _native(row: Mapping[str, Any], *ends: str) -> str:
    """Print a difference in the metric's own unit, or its interval: +0.1 ms/s, -0.4 to +0.6 ms/s."""
    native, values = row["native"], (row["baseline_pseudomedian"], row["candidate_pseudomedian"])
    unit, factor = scaled(row["unit"], max(map(abs, values)))
    in_unit = [native[end] and native[end] / factor for end in ends]
    if None in in_unit:
        return MISSING
    if native["lo"] is None or native["lo"] == native["hi"]:
        return f"{' to '.join(map(signed, in_unit))} {unit}"
    digits = decimals(native["lo"] / factor, native["hi"] / factor)
    return f"{' to '.join(change(value, digits) for value in in_unit)} {unit}"


def changed(row: Mapping[str, Any]) -> str:
    """Print the change of a row: +4.2, or of different databases the ratio after a times sign.

    A row that is compared in its own unit has its difference: +0.1 ms/s.
    """
    if row.get("native"):
        return _native(row, "difference")
    if by_ratio(row):
        return MISSING if row["change_pct"] is None else f"{TIMES}{ratio(row)[0]}"
    return change(row["change_pct"], places(row))


def quantity(value: float) -> str:
    """Print bytes with a unit: 33.66 GB."""
    name, factor = scaled("B", value)
    return f"{number(value / factor)} {name}"


def decimals(low: float, high: float) -> int:
    """Return the decimals of an interval in its own unit: two digits of half its width."""
    return min(max(1 - math.floor(math.log10((high - low) / 2)), 0), 6)
