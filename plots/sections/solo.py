"""Each variant alone on the machine: load, process and database, a closed loop of queries."""

import math

import pandas as pd

from plots import markup, numbers, sentences
from plots.charts.curves import load_rate
from plots.charts.server import PHASES, course
from plots.charts.style import enough
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.sections import heading, tables
from plots.source import Source
from tsduel.core.record import DUEL, SOLO

RATES = ("load_rate", "load_seconds", "load_first_interval_rate")
EDGE_S = 0.01
NOTE = (
    "Everywhere else the components of a variant are added up. CPU is that of each process's own clock, over the "
    "operations of its phase or the samples of the load."
)
QUEUED = (
    "{roles} acknowledges samples before they are stored: the load rate is that of acknowledgements. The check of what "
    "was stored waits for the last sample, and so does the CPU of ingestion."
)


@heading("Load", 50, "tsbs")
def load(source: Source, pictures: Pictures) -> str:
    """Return the loader's lines, the table of rate and time, and the load rate over time."""
    if source.plan.deployed:
        return ""
    series = source.table("timeseries")
    rates = series[(series["metric"] == "load_rate") & (series["phase"] == "load")]
    if source.plan.loads_in_turn:
        return _in_turn(source, pictures, rates)
    return markup.paragraphs(
        *filter(None, map(_load_sentence, source.comparisons)),
        _queued(source),
        _picture(
            source, pictures, enough(source.counting(rates)),
            "Thin lines are blocks, thick lines the medians over blocks; a bar marks the median end.",
        ),
        markup.folded("Rate and time", markup.items(_load_lines(source)), tables.by_metric(source, RATES)),
    )  # fmt: skip


def _picture(source: Source, pictures: Pictures, rates: pd.DataFrame, caption: str) -> str:
    return pictures.show(
        "load-rate", "load rate over time", f"Ingestion rate over time, samples/s: {source.names}", caption,
        None if rates.empty else load_rate(rates, source.labels),
    )  # fmt: skip


def _in_turn(source: Source, pictures: Pictures, rates: pd.DataFrame) -> str:
    """Return the metrics of loading in turn and, if the plan has one, the large load of each variant alone."""
    names = [name for name in tables.measured(source, DUEL) if name.startswith("duel_load_")]
    both = markup.paragraphs(
        f"All data went to {'both' if len(source.comparisons) == 1 else 'all'} versions in batches, in turn. CPU is "
        "counted until a server has nothing left to do. Of several batches in one turn the first is not timed. System "
        "calls are counted before the graceful stop, which may write most of the data. Peak memory is that of these "
        "loads.",
        tables.by_metric(source, names),
    )
    alone = source.plan.workload and source.plan.workload.alone
    if not alone:
        return both
    # Each host has a warm-up block with the same load: show the first.
    first = source.table("measurements").groupby(["metric", "variant"])["value"].first().map(numbers.number).to_dict()
    return markup.paragraphs(
        both,
        f"In the warm-up block each version also loaded {numbers.count(alone.samples)} samples of "
        f"{numbers.count(alone.scale)} hosts alone on the machine. That is one load of each, for the picture: it is "
        "not judged.",
        _picture(
            source, pictures, enough(rates[rates["block"] == rates["block"].min()]),
            "One load of each, not judged; a bar marks its end.",
        ),
        markup.items(
            f"{markup.text(label)}: {seconds} s (mean rate {first['load_rate', variant]} samples/s)"
            for variant, label in source.labels.items() if (seconds := first.get(("load_seconds", variant)))
        ),
    )  # fmt: skip


def _load_lines(source: Source) -> list[str]:
    """Return a line a variant in the words of the loader's summary; the baseline's line once if it repeats."""
    workload, lines = source.plan.workload, list[str]()
    if workload is None:
        return lines
    each = f"{workload.workers} workers"
    for comparison in source.comparisons:
        rate, seconds = comparison.row("load_rate"), comparison.row("load_seconds")
        if rate is None:
            lines.append("no valid block has a load")
            continue
        unit, rates = numbers.sides(rate)
        times = numbers.sides(seconds)[1] if seconds else [numbers.MISSING] * 2
        lines += [
            f"{markup.text(label)}: loaded {numbers.count(workload.samples)} samples in {time} s with {each} "
            f"(mean rate {value} {unit})"
            for label, value, time in zip(comparison.labels, rates, times, strict=True)
        ]
    return list(dict.fromkeys(lines))


def _load_sentence(comparison: Comparison) -> str:
    row = comparison.row("load_rate")
    if row is None or row["verdict"] not in {"failed", "regression", "improvement", "negligible", "worse", "better"}:
        return ""
    if row["verdict"] == "failed":
        return "A check of the load failed: do not use these figures."
    size, label = sentences.size(row, comparison.metrics["load_rate"]), markup.text(comparison.labels[1])
    return f"I.e. {label} was {size}{markup.aside(comparison.note(row))} (estimate over {comparison.blocks})."


def _queued(source: Source) -> str:
    """Return a note on the load rate of a component that queues; nothing without such components."""
    queues = {role for target in source.plan.targets.values() for role in target.queues} & set(source.plan.roles)
    return QUEUED.format(roles=" and ".join(sorted(queues))) if queues else ""


@heading("By component", 55, "tsbs")
def components(source: Source, _: Pictures) -> str:
    """Return a table a candidate, with a row a metric and role; nothing for variants of one component."""
    metrics = [metric.name for metric in source.metrics.values() if metric.per_role]
    keys = [*((name, role) for name in metrics for role in source.plan.roles), ("arrival_seconds", "")]
    texts = tables.each(source, lambda side: side.table([row for key in keys if (row := side.row(*key))]))
    return markup.paragraphs(NOTE, *texts) if any(texts) else ""


@heading("The server's process and its database", 60, "tsbs")
def server(source: Source, pictures: Pictures) -> str:
    """Return the picture of the solo part and the tables of process and database: the load, then the whole part."""

    def table(*phases: str) -> str:
        return tables.by_metric(source, [m for m in tables.measured(source, SOLO, *phases) if m not in RATES])

    if source.plan.deployed:
        return ""
    if source.plan.loads_in_turn:
        return table("", "stop")
    return markup.paragraphs(
        pictures.show(
            "server", "the server over time", f"CPU, RSS, bytes written and bytes kept over time: {source.names}",
            "The phases side by side, each to its own end. Thin lines are blocks, thick lines the medians.",
            course(_course(source), source.labels),
        ),
        markup.folded(
            "Figures of the process and its database",
            markup.titled("Differences over the load:", table("load")),
            markup.titled("The whole part in which a variant is alone:", table("", "settle", "start", "stop")),
        ),
    )  # fmt: skip


def _course(source: Source) -> pd.DataFrame:
    """Return the points of the solo parts, each with its phase and the seconds since the phase began."""
    series, phases = source.table("timeseries"), source.table("phases")
    whole = source.counting(series[(series["part"] == SOLO) & (series["phase"] == SOLO)])
    alone = phases[phases["part"] == SOLO]
    begins = alone.pivot_table(index=["block", "variant"], columns="phase", values="begin", aggfunc="min")
    rows = begins.reindex(pd.MultiIndex.from_frame(whole[["block", "variant"]]))
    points, present = [whole.iloc[:0]], [phase for phase in PHASES if phase in begins]
    for phase, following in zip(present, [*present, ""][1:], strict=True):
        begin = (rows[phase] - rows["load"]).to_numpy()
        end = (rows[following] - rows["load"]).to_numpy() if following else math.inf
        # Times are rounded; a reading at the edge of two phases belongs to the first.
        edge = 0.0 if phase == "load" else EDGE_S
        inside = (whole["elapsed_s"] >= begin + edge) & (whole["elapsed_s"] < end + EDGE_S)
        points.append(whole[inside].assign(phase=phase, elapsed_s=(whole["elapsed_s"] - begin)[inside]))
    return pd.concat(points)


@heading("Queries of several workers", 65, "tsbs")
def queries(source: Source, _: Pictures) -> str:
    """Return the tables of TSBS's closed loop of queries; nothing without one."""
    heads = tables.columns(source, SOLO)
    parts = tables.of_types(source, heads)
    if not parts:
        return ""
    note = (
        "Estimates over blocks of what TSBS's own client measured, each variant alone. It keeps no single service "
        "times and prints steps of 0.01 ms; its rate is workers / mean, so that one of the two is judged."
    )
    # A duel shows shifts more precisely.
    times = {name: head.removesuffix(", ms") for name, head in heads.items() if head.endswith(", ms")}
    dwells = source.dwells_on_shift and not source.plan.duels
    shifts = tables.each(source, lambda side: tables.shifts(side, source, times), "shifts") if dwells else []
    return markup.folded("Tables", *parts, note, *shifts)
