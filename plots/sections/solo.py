"""What each variant did alone on the machine: load, process and database, a closed loop of queries."""

import math
from collections.abc import Sequence

import pandas as pd

from plots import markup, numbers, sentences
from plots.charts import server as server_chart
from plots.charts.load import load_rate
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.sections import components, duel
from plots.source import Source
from tsduel.core.record import SOLO

STATISTICS = {
    "query_rate": "queries/s",
    "query_mean_ms": "mean, ms",
    "query_p50_ms": "p50, ms",
    "query_p95_ms": "p95, ms",
    "query_p99_ms": "p99, ms",
}
RATES = ("load_rate", "load_seconds", "load_first_interval_rate")
MOST_SIDE_BY_SIDE = 3
EDGE_S = 0.01


def load(source: Source, pictures: Pictures) -> str:
    """Return the loader's lines, the table of rate and time, and the load rate over time."""
    series = source.table("timeseries")
    rates = source.counting(series[(series["metric"] == "load_rate") & (series["phase"] == "load")])
    names = markup.text(" and ".join(source.labels.values()))
    return markup.paragraphs(
        *(part for one in source.comparisons if (part := _load_sentence(one))),
        _together(source),
        components.queued(source),
        pictures.show(
            "load-rate", "load rate over time", f"Load rate over time, samples/s: {names}",
            "Thin lines are blocks, thick lines the medians over blocks; a bar marks the median end.",
            None if rates.empty else load_rate(rates, source.labels),
        ),
        markup.folded("Rate and time", markup.items(_load_lines(source)), _tables(source, RATES)),
    )  # fmt: skip


def _together(source: Source) -> str:
    """Say how several clients loaded; nothing where there was one."""
    blocks = [block for block in source.run.blocks if block.kind != "warmup"]
    found = [one for block in blocks for one in block.solo.values() if one.clients]
    said = sentences.together(found, "loaded a part of the simulated hosts each", "curves")
    used = max((client.share for one in found for client in one.clients), default=0.0)
    return f"{said}The busiest used {used:.0%} of its CPUs." if said else ""


def _load_lines(source: Source) -> list[str]:
    """Return one line a variant, worded as the loader's summary; the baseline's once where it is the same."""
    of = source.plan.imported or source.plan.workload
    workers = (
        source.plan.imported.load_workers
        if source.plan.imported
        else source.plan.workload and source.plan.workload.workers
    )
    each = f"{workers} workers{f' on each of {source.plan.clients} clients' if source.plan.clients > 1 else ''}"
    said = []
    for one in source.comparisons:
        rate, seconds = one.row("load_rate"), one.row("load_seconds")
        if rate is None or of is None:
            said.append("no valid block has a load")
            continue
        unit, rates = numbers.sides(rate)
        times = numbers.sides(seconds)[1] if seconds else [numbers.MISSING] * 2
        said += [
            f"{markup.text(label)}: loaded {numbers.count(of.samples)} samples in {time} s with {each} "
            f"(mean rate {value} {unit})"
            for label, value, time in zip(one.labels, rates, times, strict=True)
        ]
    return list(dict.fromkeys(said))


def _load_sentence(comparison: Comparison) -> str:
    row = comparison.row("load_rate")
    if row is None or row["change_pct"] is None:
        return ""
    if row["verdict"] == "failed":
        return "A check of the load failed: these figures are of no use."
    size, who = sentences.size(row, sentences.SUBJECTS[0]), markup.text(comparison.labels[1])
    how = "as fast" if size.startswith("0 %") else size
    return f"I.e. {who} was {how}{markup.aside(comparison.note(row))} (estimate over {comparison.blocks})."


def server(source: Source, pictures: Pictures) -> str:
    """Return the tables of process and database: the load alone, then the rest of the solo part, and its picture."""
    imported = "What the server had counted from its start to the end of the load:"
    since = imported if source.plan.imported else "Differences over the load:"
    of_load = _tables(source, [name for name in _measured(source, "load") if name not in RATES])
    rest = _tables(source, _measured(source, "", "settle", "start", "stop"))
    drawn = _course(source)
    figure = server_chart.course(drawn, source.labels) if server_chart.drawable(drawn) else None
    names = markup.text(" and ".join(source.labels.values()))
    return markup.paragraphs(
        pictures.show(
            "server", "the server over time", f"CPU, RSS, bytes written and bytes kept over time: {names}",
            "The phases side by side, each to its own end. Thin lines are blocks, thick lines the medians.",
            figure,
        ),
        markup.folded(
            "Figures of the process and its database",
            of_load and f"{since}\n\n{of_load}",
            rest and f"The whole part in which a variant is alone:\n\n{rest}",
        ),
    )  # fmt: skip


def _course(source: Source) -> pd.DataFrame:
    """Return the course of the solo parts, each point with its phase and the seconds since that began."""
    series, phases = source.table("timeseries"), source.table("phases")
    whole = source.counting(series[(series["part"] == SOLO) & (series["phase"] == SOLO)])
    alone = phases[phases["part"] == SOLO]
    begins = alone.pivot_table(index=["block", "variant"], columns="phase", values="begin", aggfunc="min")
    rows = begins.reindex(pd.MultiIndex.from_frame(whole[["block", "variant"]]))
    found, there = [whole.iloc[:0]], [phase for phase in server_chart.PHASES if phase in begins]
    for phase, following in zip(there, [*there, ""][1:], strict=True):
        begin = (rows[phase] - rows["load"]).to_numpy()
        end = (rows[following] - rows["load"]).to_numpy() if following else math.inf
        # What was read at the edge of two phases belongs to the first, whatever its clock was rounded to.
        edge = 0.0 if phase == "load" else EDGE_S
        inside = (whole["elapsed_s"] >= begin + edge) & (whole["elapsed_s"] < end + EDGE_S)
        found.append(whole[inside].assign(phase=phase, elapsed_s=(whole["elapsed_s"] - begin)[inside]))
    return pd.concat(found)


def _measured(source: Source, *phases: str) -> list[str]:
    """Return the metrics of some phases that are not of single query types, in the order of the registry."""
    alone = (m for m in source.metrics.values() if m.part == SOLO and not (m.per_type or m.per_role))
    return [m.name for m in alone if m.phase in phases]


def _tables(source: Source, names: Sequence[str]) -> str:
    """Return the table of some metrics; few candidates stand side by side, with the evidence folded below."""
    found = [(one, [row for name in names if (row := one.row(name))]) for one in source.comparisons]
    if len(found) == 1:
        return found[0][0].table(found[0][1])
    titled = [f"**{one.title}**\n\n{one.table(rows)}" for one, rows in found if rows]
    if len(found) > MOST_SIDE_BY_SIDE:
        return markup.paragraphs(*titled)
    cells = [
        [f"{source.metrics[name].title}, {source.metrics[name].unit}", *(one.cell_of(name, "") for one, _ in found)]
        for name in names if any(one.row(name) for one, _ in found)
    ]  # fmt: skip
    beside = markup.table(["Metric", *(one.title for one, _ in found)], cells, range(1, len(found) + 1))
    return markup.paragraphs(beside, markup.folded("Intervals and p of these", *titled))


def queries(source: Source, _: Pictures) -> str:
    """Return the table of TSBS's closed loop, as the document has it, with the evidence folded; nothing without one."""
    types = source.query_types
    parts = [
        markup.paragraphs(found, duel.details(one, STATISTICS, types))
        for one in source.comparisons if (found := duel.overview(one, STATISTICS, types))
    ]  # fmt: skip
    if not parts:
        return ""
    note = (
        "Medians over blocks of what TSBS's own client measured, each variant alone. It keeps no single service times "
        "and prints steps of 0.01 ms; its rate is workers / mean, so that one of the two is judged."
    )
    return markup.folded("Tables", *parts, note, *(_shift(one, source) for one in source.comparisons))


def _shift(comparison: Comparison, source: Source) -> str:
    """Return the shift between two ways to one build, where that is the question and no duel answers it better."""
    shifts = {name: title.split(",")[0] for name, title in STATISTICS.items() if name != "query_rate"}
    return duel.shifts(comparison, source, shifts) if source.dwells_on_shift and not source.plan.duels else ""
