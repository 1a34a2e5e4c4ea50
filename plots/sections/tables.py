"""Tables of metrics: a row a metric, or a row a query type with a column a metric."""

from collections.abc import Callable, Mapping, Sequence

from plots import markup, numbers, sentences
from plots.comparison import Comparison, Row
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN

Heads = Mapping[str, str]
"""Metric -> the head of its column."""
MARKS = '✗ worse, ✓ better, ≈ real but too small to matter, = equivalent, ? inconclusive (which is not "no change").'
MOST_OPEN = 30
"""Most rows of a table that is not folded."""


def matrix(
    sides: Sequence[tuple[str, Comparison]], head: str, first: str = ""
) -> tuple[list[str], list[list[str]], range]:
    """Return heads, rows and columns of numbers: a row a comparison, by its name, a column a subject of the answers.

    A cell is the change and its mark; the last column is the number of blocks. `first` is the name of a first row
    with the baseline's values.
    """
    keys, any_side = sentences.keys(side for _, side in sides), sides[0][1]
    heads = [head, *(any_side.metrics[metric].named(any_side.all_or(of)) for metric, of in keys), "blocks"]
    rows = [[first, *("{1[0]} {0}".format(*numbers.sides(row)) for row in keys.values()), ""]] if first else []
    for name, side in sides:
        found = (side.row(*key) for key in keys)
        cells = (f"{numbers.changed(row)} {side.symbol(row)}".strip() if row else numbers.MISSING for row in found)
        rows.append([name, *cells, str(len(side.valid))])
    return heads, rows, range(1, len(heads))


def each(source: Source, make: Callable[[Comparison], str], what: str = "") -> list[str]:
    """Return a text for each comparison below its title, folded where there are many; `what` has a title of its own."""
    texts = [(comparison, make(comparison)) for comparison in source.comparisons]
    if source.many:
        tail = f": {what}" if what else ""
        return [markup.folded(f"{side.labels[1]}{markup.aside(side.setting)}{tail}", text) for side, text in texts]
    return [markup.titled(f"{side.title}:" if source.several and not what else "", text) for side, text in texts]


def measured(source: Source, part: str, *phases: str) -> list[str]:
    """Return the metrics of a part (and of some phases) without query types or roles, in the registry's order."""
    single = (m for m in source.metrics.values() if m.part == part and not (m.per_type or m.per_role))
    return [metric.name for metric in single if not phases or metric.phase in phases]


def columns(source: Source, part: str, *first: str) -> dict[str, str]:
    """Return the metrics of a part that have a column of query types, with their heads; `first` are put first."""
    heads = {name: metric.column for name, metric in source.metrics.items() if metric.part == part and metric.column}
    return {name: heads[name] for name in first} | heads


def by_metric(source: Source, names: Sequence[str]) -> str:
    """Return a table with a row a metric for each candidate, with its evidence."""
    return markup.paragraphs(*each(source, lambda side: side.table(side.rows_of(names))))


def by_type(comparison: Comparison, heads: Heads, query_types: Sequence[str], title: str) -> str:
    """Return a table with a row a query type; a cell has both values, change and mark. Many rows are folded."""
    rows = []
    for query_type in (*query_types, ALL):
        of = [GEOMEAN if query_type == ALL and comparison.row(metric, GEOMEAN) else query_type for metric in heads]
        cells = list(map(comparison.cell_of, heads, of))
        if any(cell != numbers.MISSING for cell in cells):
            rows.append([_named(comparison, next(iter(heads)), query_type), *cells])
    table = markup.table([title, *heads.values()], rows, range(1, len(heads) + 1))
    return markup.folded(f"All {len(rows)} rows", table) if len(rows) > MOST_OPEN else table


def of_types(source: Source, heads: Heads, shown: Heads | None = None, title: str = "Query type") -> list[str]:
    """Return for each candidate a table of query types, with columns `shown` or all, and the folded intervals."""
    types = source.query_types

    def tables(side: Comparison) -> str:
        table = by_type(side, shown or heads, types, f"{title}, {side.title}")
        return table and markup.paragraphs(table, intervals(side, heads, types))

    return list(filter(None, each(source, tables, title.lower() + "s")))


def intervals(comparison: Comparison, heads: Heads, query_types: Sequence[str]) -> str:
    """Return a table for each metric with the intervals and p of its query types, folded."""
    parts = []
    for metric, title in heads.items():
        rows = comparison.by_type(metric, query_types)
        if GEOMEAN in rows:  # both would be "all types"
            rows.pop(ALL, None)
        if rows:
            names = [_named(comparison, metric, query_type) for query_type in rows]
            parts.append(f"**{markup.text(title)}**\n\n{comparison.table(list(rows.values()), names, '')}")
    return markup.folded(f"Intervals and p of each: {comparison.labels[1]} against {comparison.labels[0]}", *parts)


def _named(comparison: Comparison, metric: str, query_type: str) -> str:
    if query_type not in {GEOMEAN, ALL}:
        return query_type
    mix = comparison.all_or(query_type)
    return markup.Safe(f"**{comparison.metrics[metric].every if mix == query_type else mix}**")


def shifts(comparison: Comparison, source: Source, heads: Heads) -> str:
    """Return a table with a row a query type: the shift at each percentile in ms with its interval.

    A run that shows shifts in full has rows for both sides and for the change, too.
    """
    rows, dwells = [], source.dwells_on_shift
    for query_type in source.query_types:
        of_metrics = [comparison.row(metric, query_type) for metric in heads]
        if not any(of_metrics):
            continue
        if not dwells:
            rows.append([query_type, *map(_shift, of_metrics)])
            continue
        sides = [numbers.sides(row)[1] if row else [numbers.MISSING] * 2 for row in of_metrics]
        rows += [
            [f"{query_type}, {label}", *(side[at] for side in sides)] for at, label in enumerate(comparison.labels)
        ]
        rows.append([f"{query_type}, shift (95 % CI)", *map(_shift, of_metrics)])
        rows.append([f"{query_type}, change (95 % CI)", *map(_change, of_metrics)])
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
