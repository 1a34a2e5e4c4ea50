"""What moved: the database's own counters beside the rows that a verdict confirms, by the same paired statistics."""

import math

from plots import markup, numbers, sentences
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.stats.power import FEWEST_BLOCKS

MOST = 4
"""Counters, and query types, of a line."""
_CONFIRMED = {"regression", "improvement"}
_COUNTERS = {
    "duel": ("duel_rows_read", "duel_index_searches", "duel_cache_requests", "duel_cache_misses", "duel_gc_cpu_us"),
    "solo": ("slow_inserts", "load_cache_misses", "merges", "rows_merged", "gc_cpu_seconds"),
}


def section(source: Source, _: Pictures) -> str:
    """Return a line for each confirmed row; nothing where none is, or where no counter was read."""
    lines = [line for one in source.comparisons for line in _lines(one, source)]
    if not lines:
        return ""
    return markup.paragraphs(
        markup.items(lines),
        "The database's own counters whose 95 % interval (not adjusted) leaves zero: seen together, not proven cause.",
    )


def _lines(comparison: Comparison, source: Source) -> list[str]:
    of = f"{comparison.title}, " if len(source.comparisons) > 1 else ""
    said, confirmed = [], [row for _, row in sentences.subjects(comparison) if row["verdict"] in _CONFIRMED]
    # Where the mean over types is not confirmed, what is confirmed of single types.
    if not any(row["metric"] == "duel_typical_ms" for row in confirmed):
        types = comparison.of("duel_typical_ms", source.query_types).values()
        confirmed += [row for row in types if row["verdict"] in _CONFIRMED and row["query_type"] != GEOMEAN][:MOST]
    for row in confirmed:
        part = source.metrics[row["metric"]].part
        query_type = ALL if part == "duel" and row["query_type"] == GEOMEAN else row["query_type"]
        read = [found for name in _COUNTERS.get(part, ()) if (found := comparison.row(name, query_type))]
        # From nothing to something first: that has no percent.
        moved = sorted(filter(_left_zero, read), key=lambda found: -abs(found["change_pct"] or math.inf))[:MOST]
        if read:
            name = f"**{of}{markup.text(comparison.named(row))}** ({numbers.changed(row)} %)"
            with_it = "; ".join(_said(found, comparison) for found in moved) or "none of the counters moved"
            said.append(f"{name}: {with_it}")
    return said


def _left_zero(row: Row) -> bool:
    """Say whether the interval leaves zero; there is none where nothing scatters, as with rows that are counted."""
    low, high = (row["native"]["lo"], row["native"]["hi"]) if row["native"] else (row["lo_pct"], row["hi_pct"])
    if low is None and row["blocks"] >= FEWEST_BLOCKS:
        low, high = min(row["differences"]), max(row["differences"])
    return low is not None and not low <= 0 <= high


def _said(row: Row, comparison: Comparison) -> str:
    unit, sides = numbers.sides(row)
    title = comparison.metrics[row["metric"]].title
    change = "" if row["change_pct"] is None else numbers.effect(row)
    return f"{title} {' → '.join(sides)} {unit}{markup.aside(change)}"
