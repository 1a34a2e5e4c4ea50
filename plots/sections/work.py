"""Counted work: what each side did for an answer, by its own counters."""

from plots import markup
from plots.pictures import Pictures
from plots.sections import heading, tables
from plots.source import Source
from tsduel.core.metrics import ALL

NOTE = (
    "Objects and bytes are what a server allocated, by its own counters at the edges of a phase, without what reading "
    "them costs. They do not depend on how busy the machine is. They do not see locks, caches of the CPU, scheduling "
    "or sleep, and what a server does in the background falls into a phase at random."
)
TOGETHER = (
    "A row of a query type stands on the blocks in which its work was counted alone. All types together were counted "
    "in every block, with what reading costs and what fresh processes begin with."
)
TAKEN_OFF = "duel_taken_off_ratio"


@heading("Counted work", 45, "tsbs")
def section(source: Source, _: Pictures) -> str:
    """Return a table of query types, and one of ingestion; nothing where no server counts its work."""
    metrics = {name: metric for name, metric in source.metrics.items() if metric.work}
    heads = {name: metric.title for name, metric in metrics.items() if metric.per_type}
    loads = [name for name, metric in metrics.items() if not metric.per_type]
    if not any(row["metric"] in metrics for side in source.comparisons for row in side.rows):
        return ""
    parts = (
        *tables.of_types(source, heads),
        tables.by_metric(source, loads) if any(side.rows_of(loads) for side in source.comparisons) else "",
        NOTE,
        TOGETHER if any(side.row(name, ALL) for side in source.comparisons for name in heads) else "",
        _taken_off(source),
    )
    if source.plan.design.judged == "work":
        return markup.paragraphs(*parts)
    return markup.folded("What each side allocated for an answer, and for a sample", *parts)


def _taken_off(source: Source) -> str:
    rows = source.counting(source.table("measurements"))
    shares = rows[rows["metric"] == TAKEN_OFF].groupby("query_type")["value"].median()
    if shares.empty:
        return ""
    by_type = sorted((share, str(query_type)) for query_type, share in shares.items())
    ends = (f"{100 * share:.1f} % ({markup.text(of)})" for share, of in (by_type[0], by_type[-1]))
    return (
        f"Reading, and what a server does by itself in the same time, were {' to '.join(ends)} of the objects that a "
        "phase counted; as much, measured in the warm-up block with nothing between two readings, was taken off."
    )
