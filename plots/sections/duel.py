"""The duel: query types by their estimators, distributions of all exchanges, shifts, and its conditions."""

from plots import markup
from plots.charts.distributions import distributions
from plots.pictures import Pictures
from plots.sections import heading, tables
from plots.source import Source
from tsduel.core.metrics import ALL
from tsduel.core.record import DUEL

OPEN = ("duel_typical_ms", "duel_total_ms", "duel_cpu_us")
"""Columns of the first table; the others are shown with their intervals and as shifts."""
SPREAD = {"duel_total_ms": "mean", "duel_stddev_ms": "stddev", "duel_min_ms": "min", "duel_max_ms": "max"}
NOTE = (
    "A cell has the baseline's value → the candidate's value (the change) and the mark. Typical is the 10 % trimmed "
    "mean of the ratios of paired exchanges: it does not see rare events. Total is the ratio of the sums: every stall "
    "is in it. CPU is that of the server's process, for one operation. Work that a server does in the background "
    "is in its own times and its own CPU where the others stand still while it is asked (below)."
)


def percentiles(source: Source) -> dict[str, str]:
    """Return the metrics whose shifts are shown, with their short names; more of a run that shows shifts in full."""
    heads = {name: head for name, head in tables.columns(source, DUEL).items() if name not in OPEN}
    return heads | (SPREAD if source.dwells_on_shift else {})


@heading("Queries, asked in turn", 40, "tsbs")
def section(source: Source, pictures: Pictures) -> str:
    """Return the tables and the picture; nothing without a duel."""
    heads = tables.columns(source, DUEL, *OPEN)
    parts = tables.of_types(source, heads, {name: heads[name] for name in OPEN})
    if not parts:
        return ""
    table, beside = source.table("distributions"), tables.measured(source, DUEL)
    timed = not table.empty and source.plan.design.judged != "work"
    figure = distributions(table, source.query_types, source.labels) if timed else None
    return markup.paragraphs(
        *parts,
        pictures.show(
            "distributions", "distributions of service times",
            f"Distribution of the service times of each query type: {source.names}",
            "All exchanges of the blocks that count, taken together: the tables go block by block, so their "
            "percentiles may differ. The time axis is logarithmic: equal distances are equal ratios. The fastest and "
            "the slowest 0.12 % lie outside. The marks are p50, p95 and p99.", figure,
        ),
        *tables.each(source, lambda side: tables.shifts(side, source, percentiles(source)), "shifts"),
        markup.folded(
            "How to read this, and what else was measured beside the queries", NOTE,
            "A shift is the Hodges-Lehmann estimate of the difference within blocks. The shift at p99 is not the p99 "
            "of the extra time of a query: the slowest queries of the two sides need not be the same queries.",
            _conditions(source),
            tables.by_metric(source, beside),
        ),
    )  # fmt: skip


def _conditions(source: Source) -> str:
    pin, checks = source.run.host.get("pin") or {}, source.table("checks")
    lines = []
    if pin.get("server"):
        server, client = (", ".join(map(str, pin[side])) for side in ("server", "client"))
        lines.append(f"Servers shared CPU {server}, the client had CPU {client}.")
    elif pin:
        lines.append(f"Nothing was pinned: {markup.text(pin.get('reason') or 'it was not asked for')}.")
    lines.append(_turns(source))
    starts = checks[checks["check"] == "equal_start"]
    if not starts.empty:
        equal = int((starts["ok"] == "true").sum())
        lines.append(f"Equal starts (caches deleted, data read once, as many restarts): {equal} of {len(starts)}.")
    table = source.table("measurements")
    used = table["value"][table["metric"] == "duel_client_cpu_ratio"]
    if len(used):
        lines.append(f"The client used {100 * used.min():.0f} to {100 * used.max():.0f} % of one CPU.")
    if source.run.host.get("instructions") is False:
        why = markup.text(source.run.host.get("instructions_why") or "no hardware counters here")
        lines.append(f"Instructions were not counted: {why}.")
    return " ".join(filter(None, lines))


def _turns(source: Source) -> str:
    means = ", ".join(
        dict.fromkeys(duel.held_by for block in source.run.blocks for duel in block.duels if duel.held_by)
    )
    table = source.table("measurements")
    own = table[table["query_type"] == ALL].groupby("metric")["value"].median()
    if not means or "duel_turn_us" not in own:
        return ""
    return (
        f"While one version was asked, all processes of the others stood still (by {markup.text(means)}): a turn took "
        f"{own['duel_turn_us']:.0f} µs, {100 * own['duel_turns_ratio']:.1f} % of a phase, and is no part of any time."
    )
