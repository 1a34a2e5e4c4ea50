"""tidy/ and stats/ -> the pictures of a report: which there are, what each shows, what it is drawn from."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from plots import markup
from plots.charts import look
from plots.charts.change import Change, forest
from plots.charts.course import PARTS, course
from plots.charts.load import load_rate
from plots.charts.order import Lane, by_round
from plots.charts.service import QUANTILES, service_times
from plots.opened import Opened
from plots.tables import PRIMARY, Comparison
from tsduel.blocks import read_table
from tsduel.metrics import GEOMEAN, METRICS
from tsduel.rundir import Run
from tsduel.tidy import PHASES, TIMESERIES

READ = (
    "The grey band is the metric's threshold both ways; a filled mark is more than chance (adjusted p of at most "
    "0.05), a hollow one may be chance. Below six blocks there is no interval: dotted lines are the "
    "range of the blocks."
)
MOST_ROWS = 44
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
_RATIO = {"regression", "improvement", "negligible"}


@dataclass(frozen=True)
class Picture:
    """A picture of the report: `path` from the run without its suffix; `alt` and `caption` say what it shows."""

    path: str
    name: str
    alt: str
    caption: str
    drawn: bool = False


@dataclass(frozen=True)
class Data:
    """What pictures are drawn from; tables that the run does not have are empty."""

    run: Run
    labels: dict[str, str]
    comparisons: Sequence[Comparison]
    measurements: pd.DataFrame
    checks: pd.DataFrame
    noise: pd.DataFrame
    series: pd.DataFrame
    phases: pd.DataFrame


def draw(data: Data) -> list[Picture]:
    """Draw every picture that there is data for, and return all of them with what has been drawn."""
    found = []
    for picture, make in _all(data):
        figure, path = make(), data.run.path / picture.path
        # What an earlier report has drawn from other data must not stay.
        for suffix in (".svg", ".png"):
            path.with_suffix(suffix).unlink(missing_ok=True)
        if figure is not None:
            look.save(figure, path)
        found.append(replace(picture, drawn=figure is not None))
    return found


def read(opened: Opened) -> Data:
    """Read what else pictures need; a run recorded without its time series has fewer pictures."""
    tidy = opened.run.path / "tidy"
    return Data(
        **vars(opened),
        series=_optional(tidy / "timeseries.csv", TIMESERIES),
        phases=_optional(tidy / "phases.csv", PHASES),
    )


def _optional(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    return read_table(path, columns) if path.exists() else pd.DataFrame(columns=list(columns))


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


def _finished(data: Data) -> "pd.Series[str]":
    checks = data.checks
    return checks["round"][(checks["check"] == "round_finished") & (checks["ok"] == "true")]


def _counting(data: Data, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of rounds that count: finished, in a valid block of their candidate, or of any for a baseline."""
    valid = {one.candidate: set(one.document["blocks"][one.candidate]["valid"]) for one in data.comparisons}
    valid[data.run.variants[0]] = set().union(*valid.values())
    counts = [block in valid[variant] for block, variant in zip(table["block"], table["variant"], strict=True)]
    return table[pd.Series(counts, index=table.index, dtype=bool) & table["round"].isin(_finished(data))]


def _load_rate(data: Data) -> Figure | None:
    loads = data.series[(data.series["metric"] == "load_rate") & (data.series["phase"] == "load")]
    rates = _counting(data, loads)
    return None if rates.empty else load_rate(rates, data.labels)


def _course(data: Data) -> Figure | None:
    whole = _counting(data, data.series[data.series["phase"] == "round"])
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
    ranked = sorted(found, key=lambda one: -abs(one.change) / one.threshold)
    kept = set(dict.fromkeys((one.group, one.name) for one in ranked[: MOST_ROWS * len(data.comparisons)]))
    groups = list(dict.fromkeys(one.group for one in found))
    groups.sort(key=lambda group: group != "primary")
    shown = [one for group in groups for one in found if one.group == group and (one.group, one.name) in kept]
    what = "Change by query type" if by_type else "Change by metric"
    return forest(shown, data.labels, f"{what}, %") if shown else None


def _of_candidate(comparison: Comparison, *, by_type: bool) -> Iterator[Change]:
    """Yield what is judged of one candidate and has a change in percent, in the order of the registry."""
    for row in comparison.rows:
        metric = METRICS[row["metric"]]
        single = row["query_type"] not in {"", GEOMEAN}
        if row["family"] == "shown" or row["change_pct"] is None or single != by_type or metric.name in _LEFT_OUT:
            continue
        low, high = (row["lo_pct"], row["hi_pct"]) if row["lo_pct"] is not None else row["range_pct"] or (None, None)
        if row["blocks"] == 1:
            low = high = None
        name = _SHORT.get(metric.name, metric.title)
        if row["query_type"]:
            name = "Mean service time, all types" if row["query_type"] == GEOMEAN else f"{name}, {row['query_type']}"
        yield Change(
            group=metric.name if by_type else "primary" if row["family"] == "primary" else "secondary",
            name=name,
            candidate=comparison.candidate,
            change=row["change_pct"],
            low=low,
            high=high,
            threshold=row["threshold_pct"],
            higher_is_better=metric.better == "higher",
            sure=row["verdict"] in _RATIO,
            screen=row["lo_pct"] is None,
        )


def _service_times(data: Data) -> Figure | None:
    table = _counting(data, data.measurements[data.measurements["metric"].isin(QUANTILES)])
    return None if (table["value"] > 0).sum() == 0 else service_times(table, data.run.query_types, data.labels)


def _rounds(data: Data) -> Figure | None:
    """Draw PRIMARY over all rounds; the geometric mean is over the types that every finished round has."""
    begun = data.checks.drop_duplicates("round")[["block", "position", "round", "variant"]]
    order = {name: number for number, name in enumerate(_in_order(data, begun), start=1)}
    counting = set(_counting(data, begun)["round"])
    rounds = begun.assign(order=begun["round"].map(order), counts=begun["round"].isin(counting))
    table = data.measurements[data.measurements["round"].isin(_finished(data))]
    lanes, found = [], []
    for metric, query_type in PRIMARY:
        values = _geomean(table, metric) if query_type == GEOMEAN else table[table["metric"] == metric]
        if not values.empty:
            lanes.append(Lane(metric, _LANES[metric], METRICS[metric].unit, METRICS[metric].better == "higher"))
            found.append(rounds.assign(metric=metric, value=rounds["round"].map(values.set_index("round")["value"])))
    measured = table["block"] > 0
    return by_round(pd.concat(found), lanes, data.labels) if found and measured.any() else None


def _in_order(data: Data, begun: pd.DataFrame) -> list[str]:
    """Return the names of the rounds in the order in which they ran: by their clock, or as planned without one."""
    rounds = begun.sort_values(["block", "position"])
    clock = data.phases.groupby("round")["begin"].min()
    known = rounds["round"].isin(clock.index).all()
    return list((rounds.assign(at=rounds["round"].map(clock)).sort_values("at") if known else rounds)["round"])


def _geomean(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    wide = table[table["metric"] == metric].pivot_table(index="round", columns="query_type", values="value")
    whole = wide.dropna(axis="columns")
    if whole.empty or (whole <= 0).any(axis=None):
        return table.iloc[:0]
    means = whole.map(math.log).mean(axis="columns").map(math.exp)
    rounds = table.drop_duplicates("round")
    return rounds.assign(metric=metric, value=rounds["round"].map(means)).dropna(subset=["value"])
