"""The duel: query types by their estimators, distributions of all exchanges, shifts, and what happens beside them."""

from typing import Any

from plots import markup, numbers
from plots.charts.distributions import distributions
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN

ESTIMATORS = {"duel_typical_ms": "typical, ms", "duel_total_ms": "total, ms", "duel_cpu_us": "CPU, µs"}
PERCENTILES = {"duel_p50_ms": "p50", "duel_p95_ms": "p95", "duel_p99_ms": "p99"}
SPREAD = {"duel_total_ms": "mean", "duel_stddev_ms": "stddev", "duel_min_ms": "min", "duel_max_ms": "max"}
MOST_OPEN = 30
"""Rows of a table that stands open."""
NAMES = {GEOMEAN: markup.Safe("**geometric mean**"), ALL: markup.Safe("**all types**")}
NOTE = (
    "A cell is the baseline's value → the candidate's (change) and its mark. Typical: the 10 % "
    "trimmed mean of the ratios of paired exchanges, blind to what happens rarely; total: the ratio of the "
    "sums, with every stall in it; CPU: of the server's process, an operation. What a server does in the "
    "background delays both sides: it shows in its CPU and in the parts where it is alone."
)


def section(source: Source, pictures: Pictures) -> str:
    """Return the tables and the picture; nothing without a duel."""
    parts = [_of(one, source) for one in source.comparisons]
    if not any(parts):
        return ""
    table = source.table("distributions")
    figure = None if table.empty else distributions(table[table["cell"] == ""], source.query_types, source.labels)
    names = markup.text(" and ".join(source.labels.values()))
    return markup.paragraphs(
        *parts,
        pictures.show(
            "distributions", "distributions of service times",
            f"Distribution of the service times of each query type: {names}",
            "All exchanges of the blocks that count. The axes are logarithmic: an equal ratio is an equal distance. "
            "Marks are p50, p95 and p99.", figure,
        ),
        *(shifts(one, source, PERCENTILES | (SPREAD if source.dwells_on_shift else {})) for one in source.comparisons),
        markup.folded(
            "How to read these, and what was beside the queries", NOTE,
            "A shift is the Hodges-Lehmann estimate of the difference within blocks. The shift at p99 is not the p99 "
            "of what was added to a query: the slowest queries of both need not be the same ones.",
            _conditions(source), *(_beside(one) for one in source.comparisons),
        ),
    )  # fmt: skip


def _of(comparison: Comparison, source: Source) -> str:
    found = overview(comparison, ESTIMATORS, source.query_types)
    return found and markup.paragraphs(found, details(comparison, ESTIMATORS | PERCENTILES, source.query_types))


def overview(
    comparison: Comparison, statistics: dict[str, str], query_types: list[str], head: str = "Query type"
) -> str:
    """Return a table of statistics by query type: both values, change and mark in a cell; nothing without any."""
    rows = []
    for query_type in (*query_types, *NAMES):
        cells = [comparison.cell_of(metric, query_type) for metric in statistics]
        if any(cell != numbers.MISSING for cell in cells):
            rows.append([NAMES.get(query_type, query_type), *cells])
    table = markup.table([f"{head}, {comparison.title}", *statistics.values()], rows, range(1, len(statistics) + 1))
    return markup.folded(f"All {len(rows)} rows", table) if len(rows) > MOST_OPEN else table


def details(comparison: Comparison, statistics: dict[str, str], query_types: list[str]) -> str:
    """Return one table a statistic with intervals and p, folded."""
    parts = []
    for metric, title in statistics.items():
        rows = comparison.of(metric, query_types)
        if rows:
            names = [NAMES.get(query_type, query_type) for query_type in rows]
            parts.append(f"**{markup.text(title)}**\n\n{comparison.table(list(rows.values()), names, '')}")
    return markup.folded(f"Intervals and p of each: {comparison.labels[1]} against {comparison.labels[0]}", *parts)


def shifts(comparison: Comparison, source: Source, percentiles: dict[str, str]) -> str:
    """Return a row a query type: the shift at each percentile in ms with its interval.

    Where the shift is the question, there are both sides above it, and the change below.
    """
    rows, dwells = [], source.dwells_on_shift
    for query_type in source.query_types:
        found = [comparison.row(metric, query_type) for metric in percentiles]
        if not any(found):
            continue
        if not dwells:
            rows.append([query_type, *(_shift(row) for row in found)])
            continue
        sides = [numbers.sides(row)[1] if row else [numbers.MISSING] * 2 for row in found]
        rows += [[f"{query_type}, {label}", *(one[at] for one in sides)] for at, label in enumerate(comparison.labels)]
        rows.append([f"{query_type}, shift (95 % CI)", *(_shift(row) for row in found)])
        rows.append([f"{query_type}, change (95 % CI)", *(_change(row) for row in found)])
    heads = [f"{name}, ms" if dwells else f"shift at {name}, ms (95 % CI)" for name in percentiles.values()]
    return markup.table([f"Query type, {comparison.title}", *heads], rows, range(1, len(percentiles) + 1))


def _change(row: dict[str, Any] | None) -> str:
    if row is None or row["change_pct"] is None:
        return numbers.MISSING
    return f"{numbers.changed(row)} %" + (f" ({numbers.interval(row)})" if row["lo_pct"] is not None else "")


def _shift(row: dict[str, Any] | None) -> str:
    shift = row and row.get("shift")
    if not isinstance(shift, dict):
        return numbers.MISSING
    low, high, middle = shift["lo"], shift["hi"], shift["difference"]
    if low is None or high is None or high <= low:
        return numbers.signed(middle)
    # Milliseconds are printed as finely as the interval is wide, not as large as the value is.
    decimals = numbers.decimals(low, high)
    return f"{middle:+.{decimals}f} ({low:+.{decimals}f} to {high:+.{decimals}f})"


def _beside(comparison: Comparison) -> str:
    """Return what else was measured of the resident servers: CPU when nobody asks, memory, instructions."""
    rows = [
        r
        for r in comparison.rows
        if r["metric"].startswith("duel_") and r["query_type"] == "" and comparison.row(r["metric"])
    ]
    return f"Beside the queries, {comparison.title}:\n\n{comparison.table(rows)}" if rows else ""


def _conditions(source: Source) -> str:
    """Say under which conditions both were asked: pins, equal starts, instructions."""
    pin, checks = source.host.get("pin") or {}, source.table("checks")
    said = []
    if pin.get("server"):
        said.append(f"Servers shared CPU {_listed(pin['server'])}, the client had CPU {_listed(pin['client'])}.")
    elif pin:
        said.append(f"Nothing was pinned: {markup.text(pin.get('reason') or 'it was not asked for')}.")
    starts = checks[checks["check"] == "equal_start"]
    if not starts.empty:
        equal = int((starts["ok"] == "true").sum())
        said.append(f"Equal starts (caches deleted, data read once, as many restarts): {equal} of {len(starts)}.")
    table = source.table("measurements")
    client = table["value"][table["metric"] == "duel_client_cpu_ratio"]
    if len(client):
        said.append(f"The client used {client.min():.0%} to {client.max():.0%} of one CPU.")
    if source.host.get("instructions") is False:
        why = markup.text(source.host.get("instructions_why") or "no hardware counters here")
        said.append(f"Instructions were not counted: {why}.")
    return " ".join(said)


def _listed(cpus: list[int]) -> str:
    return ", ".join(map(str, cpus))
