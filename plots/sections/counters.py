"""The database's own counters beside the rows that a verdict confirms, by the same paired statistics."""

import math

from plots import markup, numbers, sentences
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.sections import heading
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.stats.power import FEWEST_BLOCKS

MOST = 4
"""Most counters of a line, most query types."""
NOTE = (
    "These are the database's own counters whose 95 % interval (not adjusted) excludes zero. They changed in "
    "the same blocks, whichever way. That does not prove a cause."
)
_CONFIRMED = {"regression", "improvement"}


@heading("What moved with it", 15, "tsbs")
def section(source: Source, _: Pictures) -> str:
    """Return a line for each confirmed row; nothing without confirmed rows or counters."""
    lines = [line for comparison in source.comparisons for line in _lines(comparison, source)]
    listed = markup.items(lines)
    return markup.paragraphs(markup.folded("Of each variant", listed) if source.many else listed, NOTE) if lines else ""


def _lines(comparison: Comparison, source: Source) -> list[str]:
    title = f"{comparison.title}, " if source.several else ""
    lines, confirmed = [], [row for row in sentences.subjects(comparison) if row["verdict"] in _CONFIRMED]
    # Without a confirmed mean over types, take the confirmed single types.
    if not any(row["metric"] == "duel_typical_ms" for row in confirmed):
        types = comparison.by_type("duel_typical_ms", source.query_types).values()
        confirmed += [row for row in types if row["verdict"] in _CONFIRMED and row["query_type"] != GEOMEAN][:MOST]
    for row in confirmed:
        part = source.metrics[row["metric"]].part
        query_type = ALL if part == "duel" and row["query_type"] == GEOMEAN else row["query_type"]
        counters = (name for name, metric in source.metrics.items() if metric.part == part and metric.counter)
        read = [counter for name in counters if (counter := comparison.row(name, query_type))]
        # A counter that was zero has no percent, and is first.
        moved = sorted(filter(_has_moved, read), key=lambda counter: -abs(counter["change_pct"] or math.inf))[:MOST]
        if read:
            name = f"**{title}{markup.text(comparison.named(row))}** ({numbers.effect(row)})"
            values = "; ".join(_values(counter, comparison) for counter in moved) or "none of the counters moved"
            lines.append(f"{name}: {values}")
    return lines


def _has_moved(row: Row) -> bool:
    """Return whether the interval excludes zero; without an interval (equal blocks), whether all blocks do."""
    low, high = (row["native"]["lo"], row["native"]["hi"]) if row["native"] else (row["lo_pct"], row["hi_pct"])
    if low is None and row["blocks"] >= FEWEST_BLOCKS:
        low, high = min(row["differences"]), max(row["differences"])
    return low is not None and not low <= 0 <= high


def _values(row: Row, comparison: Comparison) -> str:
    unit, sides = numbers.sides(row)
    title = comparison.metrics[row["metric"]].title
    change = "" if row["change_pct"] is None else numbers.effect(row)
    return f"{title} {' → '.join(sides)} {unit}{markup.aside(change)}"
