"""tidy/ and stats/ -> the pictures of a report: which there are, what each shows, what it is drawn from."""

from collections.abc import Callable, Iterator

import pandas as pd
from matplotlib.figure import Figure

from plots import drawing, markup
from plots.charts.change import Change
from plots.charts.course import PARTS, course
from plots.charts.load import load_rate
from plots.charts.service import QUANTILES, service_times
from plots.drawing import READ, Data, Picture, change_of, counting, forest_of, rounds_of
from plots.tables import PRIMARY, Comparison
from tsduel.core.metrics import GEOMEAN, METRICS

# The CPU of each query type has its own row in the tables; drawn, it would double the picture.
_LEFT_OUT = {"query_cpu_seconds"}
_SHORT = {
    "query_mean_ms": "Mean",
    "query_p99_ms": "p99",
    "load_io_read_bytes": "Read by system calls, load",
    "load_io_written_bytes": "Written by system calls, load",
    "storage_written_bytes": "Written to storage, round",
    "cpu_seconds": "CPU, round",
    "disk_bytes": "Bytes on disk",
    "drain_seconds": "Drain time",
    "load_rss_end_bytes": "RSS, end of the load",
    "rows_merged": "Rows merged",
}
_LANES = {
    "load_rate": "load rate",
    "query_mean_ms": "service time",
    "cpu_seconds": "CPU, round",
    "rss_peak_bytes": "peak RSS",
    "disk_bytes": "on disk",
}


def draw(data: Data) -> list[Picture]:
    """Draw every picture that there is data for, and return all of them with what has been drawn."""
    return drawing.draw(data, _all(data))


def _all(data: Data) -> Iterator[tuple[Picture, Callable[[], Figure | None]]]:
    names = markup.text(" and ".join(data.labels.values()))
    yield (
        Picture(
            "plots/load-rate",
            "load rate over time",
            f"Load rate over time, samples/s: {names}",
            "Thin lines are rounds, thick lines the medians over rounds; a bar marks the median end.",
        ),
        lambda: _load_rate(data),
    )
    yield (
        Picture(
            "plots/course",
            "the server over the round",
            f"CPU, RSS, bytes written and bytes kept over the round: {names}",
            "The parts of a round side by side, each from its own begin to its own end. The order of query types "
            "differs between blocks. Thin lines are rounds, thick lines the medians.",
        ),
        lambda: _course(data),
    )

    yield (
        Picture(
            "plots/change-by-metric",
            "change by metric",
            f"Change of each metric with its 95 % interval: {names}",
            f"Worse is always to the right; the figures have the metric's own sign. {READ}",
        ),
        lambda: _changes(data, by_type=False),
    )
    yield (
        Picture(
            "plots/change-by-query",
            "change by query type",
            f"Change of the service times of each query type with its 95 % interval: {names}",
            f"Mean service time, and p99 where it was measured. {READ}",
        ),
        lambda: _changes(data, by_type=True),
    )
    yield (
        Picture(
            "plots/service-times",
            "service times",
            f"Quantiles of the service time of each query type in every round: {names}",
            "Quantiles of each round, since TSBS keeps no single service times. The axes are logarithmic and differ.",
        ),
        lambda: _service_times(data),
    )
    yield (
        Picture(
            "plots/rounds",
            "round by round",
            f"Primary metrics round by round in the order of execution: {names}",
            "What slopes is drift of the machine; blocks compare neighbours. The axes do not begin at 0.",
        ),
        lambda: _rounds(data),
    )


def _load_rate(data: Data) -> Figure | None:
    loads = data.series[(data.series["metric"] == "load_rate") & (data.series["phase"] == "load")]
    rates = counting(data, loads)
    return None if rates.empty else load_rate(rates, data.labels)


def _course(data: Data) -> Figure | None:
    whole = counting(data, data.series[data.series["phase"] == "round"])
    begins = _parts(data.phases)
    found = []
    for part, following in zip(PARTS, (*PARTS[1:], ""), strict=True):
        if part not in begins:
            continue
        begin = whole["round"].map(begins[part])
        end = whole["round"].map(begins[following]) if following in begins else float("inf")
        inside = whole[(whole["elapsed_s"] >= begin) & (whole["elapsed_s"] < end)]
        found.append(inside.assign(part=part, elapsed_s=inside["elapsed_s"] - inside["round"].map(begins[part])))
    drawn = pd.concat(found) if found else whole
    return None if drawn.empty else course(drawn, data.labels)


def _parts(phases: pd.DataFrame) -> dict[str, "pd.Series[float]"]:
    """Return when each part of a round began, in seconds since its load, by round."""
    begins = phases.pivot_table(index="round", columns="phase", values="begin", aggfunc="min")
    if "load" not in begins:
        return {}
    named = {"load": "load", "settle": "settle", "queries": "responses" if "responses" in begins else "query"}
    return {part: begins[phase] - begins["load"] for part, phase in named.items() if phase in begins}


def _changes(data: Data, *, by_type: bool) -> Figure | None:
    found = [change for comparison in data.comparisons for change in _of_candidate(comparison, by_type=by_type)]
    return forest_of(data, found, f"{'Change by query type' if by_type else 'Change by metric'}, %")


def _of_candidate(comparison: Comparison, *, by_type: bool) -> Iterator[Change]:
    """Yield what is judged of one candidate and has a change in percent, in the order of the registry."""
    for row in comparison.rows:
        metric = METRICS[row["metric"]]
        single = row["query_type"] not in {"", GEOMEAN}
        if row["family"] == "shown" or row["change_pct"] is None or single != by_type or metric.name in _LEFT_OUT:
            continue
        name = _SHORT.get(metric.name, metric.title)
        if row["query_type"]:
            name = "Mean service time, all types" if row["query_type"] == GEOMEAN else f"{name}, {row['query_type']}"
        group = metric.name if by_type else "primary" if row["family"] == "primary" else "secondary"
        yield change_of(row, group, name)


def _service_times(data: Data) -> Figure | None:
    table = counting(data, data.measurements[data.measurements["metric"].isin(QUANTILES)])
    return None if (table["value"] > 0).sum() == 0 else service_times(table, data.run.query_types, data.labels)


def _rounds(data: Data) -> Figure | None:
    return rounds_of(data, [(METRICS[metric], query_type, _LANES[metric]) for metric, query_type in PRIMARY])
