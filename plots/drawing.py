"""What all pictures of a report share: what they are drawn from, which rounds count, how they are kept."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from plots.charts import look
from plots.charts.change import Change, forest
from plots.charts.order import Lane, by_round
from plots.opened import Opened
from plots.tables import Comparison
from tsduel.core.metrics import GEOMEAN, Metric
from tsduel.core.rundir import Run
from tsduel.tidy.blocks import read_table
from tsduel.tidy.tables import PHASES, TIMESERIES

READ = (
    "The grey band is the metric's threshold both ways; a filled mark is more than chance (adjusted p of at most "
    "0.05), a hollow one may be chance. Below six blocks there is no interval: dotted lines are the "
    "range of the blocks."
)
MOST_ROWS = 44
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


def draw(data: Data, wanted: Iterable[tuple[Picture, Callable[[], Figure | None]]]) -> list[Picture]:
    """Draw every picture that there is data for, and return all of them with what has been drawn."""
    found = []
    for picture, make in wanted:
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


def finished(data: Data) -> "pd.Series[str]":
    """Return the names of the rounds that came to their end."""
    checks = data.checks
    return checks["round"][(checks["check"] == "round_finished") & (checks["ok"] == "true")]


def counting(data: Data, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of rounds that count: finished, in a valid block of their candidate, or of any for a baseline."""
    valid = {one.candidate: set(one.document["blocks"][one.candidate]["valid"]) for one in data.comparisons}
    valid[data.run.variants[0]] = set().union(*valid.values())
    counts = [block in valid[variant] for block, variant in zip(table["block"], table["variant"], strict=True)]
    return table[pd.Series(counts, index=table.index, dtype=bool) & table["round"].isin(finished(data))]


def forest_of(data: Data, found: Sequence[Change], title: str) -> Figure | None:
    """Draw changes, the primary ones first; of very many others the largest, measured by thresholds."""
    ranked = sorted(found, key=lambda one: (one.group != "primary", -abs(one.change) / one.threshold))
    primary = {one.name for one in found if one.group == "primary"}
    kept = list(dict.fromkeys((one.group, one.name) for one in ranked))[: len(primary) + MOST_ROWS]
    groups = list(dict.fromkeys(one.group for one in found))
    groups.sort(key=lambda group: group != "primary")
    shown = [one for group in groups for one in found if one.group == group and (one.group, one.name) in kept]
    return forest(shown, data.labels, title) if shown else None


def change_of(row: dict[str, Any], group: str, name: str) -> Change:
    """Return a row of comparison.json that has a change, as it is drawn; the range of its blocks is no interval."""
    low, high = (row["lo_pct"], row["hi_pct"]) if row["lo_pct"] is not None else row["range_pct"] or (None, None)
    if row["blocks"] == 1:
        low = high = None
    return Change(
        group=group,
        name=name,
        candidate=row["candidate"],
        change=row["change_pct"],
        low=low,
        high=high,
        threshold=row["threshold_pct"],
        higher_is_better=row["better"] == "higher",
        sure=row["verdict"] in _RATIO,
        screen=row["lo_pct"] is None,
    )


def rounds_of(data: Data, wanted: Sequence[tuple[Metric, str, str]]) -> Figure | None:
    """Draw metrics over all rounds: metric, query type, and the name of its axis.

    The geometric mean is over the types that every finished round has. A warm-up block that has no value is left out.
    """
    begun = data.checks.drop_duplicates("round")[["block", "position", "round", "variant"]]
    order = {name: number for number, name in enumerate(_in_order(data, begun), start=1)}
    counts = set(counting(data, begun)["round"])
    rounds = begun.assign(order=begun["round"].map(order), counts=begun["round"].isin(counts))
    table = data.measurements[data.measurements["round"].isin(finished(data))]
    lanes, found = [], []
    for metric, query_type, name in wanted:
        values = _geomean(table, metric.name) if query_type == GEOMEAN else table[table["metric"] == metric.name]
        if not values.empty:
            lanes.append(Lane(metric.name, name, metric.unit, metric.better == "higher"))
            found.append(
                rounds.assign(metric=metric.name, value=rounds["round"].map(values.set_index("round")["value"]))
            )
    if not (table["block"] > 0).any() or not found:
        return None
    values = pd.concat(found)
    warm = values["block"] <= 0
    return by_round(values[~warm] if values["value"][warm].isna().all() else values, lanes, data.labels)


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
