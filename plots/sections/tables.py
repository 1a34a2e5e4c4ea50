"""Tables of metrics: a row a metric, or a row a query type with a column a metric."""

from collections.abc import Mapping, Sequence

from plots import markup, numbers
from plots.comparison import Comparison, Row
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN

Heads = Mapping[str, str]
"""Metric -> the head of its column."""
WHOLE = (GEOMEAN, ALL)
MOST_OPEN = 30
"""Most rows of a table that is not folded."""
MOST_SIDE_BY_SIDE = 3
"""Most candidates in one table."""


def measured(source: Source, part: str, *phases: str) -> list[str]:
    """Return the metrics of a part (and of some phases) without query types or roles, in the registry's order."""
    single = (m for m in source.metrics.values() if m.part == part and not (m.per_type or m.per_role))
    return [metric.name for metric in single if not phases or metric.phase in phases]


def columns(source: Source, part: str, *first: str) -> dict[str, str]:
    """Return the metrics of a part that have a column of query types, with their heads; `first` are put first."""
    heads = {name: metric.column for name, metric in source.metrics.items() if metric.part == part and metric.column}
    return {name: heads[name] for name in first} | heads


def by_metric(source: Source, names: Sequence[str]) -> str:
    """Return a table with a row a metric; several candidates stand side by side, with folded intervals below."""
    rows = [(comparison, comparison.rows_of(names)) for comparison in source.comparisons]
    if len(rows) == 1:
        return source.comparisons[0].table(rows[0][1])
    titled = [f"**{comparison.title}**\n\n{comparison.table(mine)}" for comparison, mine in rows if mine]
    if len(rows) > MOST_SIDE_BY_SIDE:
        return markup.paragraphs(*titled)
    cells = [
        [f"{source.metrics[name].title}, {source.metrics[name].unit}", *(side.cell_of(name) for side, _ in rows)]
        for name in names if any(side.row(name) for side, _ in rows)
    ]  # fmt: skip
    beside = markup.table(["Metric", *(side.title for side, _ in rows)], cells, range(1, len(rows) + 1))
    return markup.paragraphs(beside, markup.folded("Intervals and p of these", *titled))


def by_type(comparison: Comparison, heads: Heads, query_types: Sequence[str], title: str) -> str:
    """Return a table with a row a query type; a cell has both values, change and mark. Many rows are folded."""
    rows = []
    for query_type in (*query_types, *WHOLE):
        cells = [comparison.cell_of(metric, query_type) for metric in heads]
        if any(cell != numbers.MISSING for cell in cells):
            rows.append([_bold(comparison).get(query_type, query_type), *cells])
    table = markup.table([title, *heads.values()], rows, range(1, len(heads) + 1))
    return markup.folded(f"All {len(rows)} rows", table) if len(rows) > MOST_OPEN else table


def _bold(comparison: Comparison) -> dict[str, markup.Safe]:
    return {name: markup.Safe(f"**{said}**") for name, said in comparison.whole.items()}


def of_types(source: Source, heads: Heads, shown: Heads | None = None, title: str = "Query type") -> list[str]:
    """Return for each candidate a table of query types, with columns `shown` or all, and the folded intervals."""
    parts, types = [], source.query_types
    for side in source.comparisons:
        if table := by_type(side, shown or heads, types, f"{title}, {side.title}"):
            parts += [table, intervals(side, heads, types)]
    return parts


def intervals(comparison: Comparison, heads: Heads, query_types: Sequence[str]) -> str:
    """Return a table for each metric with the intervals and p of its query types, folded."""
    parts = []
    for metric, title in heads.items():
        if rows := comparison.by_type(metric, query_types):
            names = [_bold(comparison).get(query_type, query_type) for query_type in rows]
            parts.append(f"**{markup.text(title)}**\n\n{comparison.table(list(rows.values()), names, '')}")
    return markup.folded(f"Intervals and p of each: {comparison.labels[1]} against {comparison.labels[0]}", *parts)


def shifts(comparison: Comparison, source: Source, heads: Heads) -> str:
    """Return a table with a row a query type: the shift at each percentile in ms with its interval.

    A run that shows shifts in full has rows for both sides and for the change, too.
    """
    rows, dwells = [], source.dwells_on_shift
    for query_type in source.query_types:
        mine = [comparison.row(metric, query_type) for metric in heads]
        if not any(mine):
            continue
        if not dwells:
            rows.append([query_type, *map(_shift, mine)])
            continue
        sides = [numbers.sides(row)[1] if row else [numbers.MISSING] * 2 for row in mine]
        rows += [
            [f"{query_type}, {label}", *(side[at] for side in sides)] for at, label in enumerate(comparison.labels)
        ]
        rows.append([f"{query_type}, shift (95 % CI)", *map(_shift, mine)])
        rows.append([f"{query_type}, change (95 % CI)", *map(_change, mine)])
    names = [f"{name}, ms" if dwells else f"shift at {name}, ms (95 % CI)" for name in heads.values()]
    return markup.table([f"Query type, {comparison.title}", *names], rows, range(1, len(heads) + 1))


def _change(row: Row | None) -> str:
    if row is None or row["change_pct"] is None:
        return numbers.MISSING
    return f"{numbers.changed(row)} %" + (f" ({numbers.interval(row)})" if row["lo_pct"] is not None else "")


def _shift(row: Row | None) -> str:
    shift = row and row.get("shift")
    if not isinstance(shift, dict):
        return numbers.MISSING
    low, high, middle = shift["lo"], shift["hi"], shift["difference"]
    if low is None or high is None or high <= low:
        return numbers.signed(middle)
    # The width of the interval decides the digits.
    decimals = numbers.decimals(low, high)
    return f"{middle:+.{decimals}f} ({low:+.{decimals}f} to {high:+.{decimals}f})"
