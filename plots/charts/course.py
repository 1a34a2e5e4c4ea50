"""The course of a round: what the server's process used and kept, phase by phase."""

from dataclasses import dataclass

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.charts import curves
from plots.charts.look import PALE, STYLE, headed, key, looks, readable, scaled

PARTS = ("load", "settle", "queries")
_NARROWEST, _SHORTEST = 0.2, 0.01


@dataclass(frozen=True)
class Panel:
    """One row of the chart: a metric of timeseries.csv, its unit, what the axis says, whether it is a rate."""

    metric: str
    unit: str
    name: str
    rate: bool = False


PANELS = (
    Panel("cpu_cores", "cores", "CPU", rate=True),
    Panel("rss_bytes", "B", "RSS"),
    Panel("storage_written_bytes", "B", "written to storage"),
    Panel("data_size_bytes", "B", "data and index"),
)


def course(series: pd.DataFrame, labels: dict[str, str]) -> Figure:
    """Draw CPU, RSS, bytes written and bytes kept over the round, a column a part of it, each from its own begin.

    Rounds are aligned where a part begins, so that a longer load does not shift what follows; every part goes to its
    own end. All rounds thin, medians thick.

    `series`: columns variant, round, part (one of PARTS), elapsed_s (since the part began), metric, value.
    """
    with style.context(STYLE):
        reach = series.groupby("part")["elapsed_s"].max()
        # A part of a moment has no course.
        parts = [part for part in PARTS if reach.get(part, 0.0) > _SHORTEST * reach.sum()]
        panels = [panel for panel in PANELS if (series["metric"] == panel.metric).any()]
        longest = [float(reach[part]) for part in parts]
        widths = [max(seconds, _NARROWEST * sum(longest)) for seconds in longest]
        handles = [key(labels[v], look) for v, look in looks(labels).items() if (series["variant"] == v).any()]
        figure = headed("The server over the round (lower is better)", handles, 6.5, 0.5 + 1.35 * len(panels))
        grid = figure.subplots(len(panels), len(parts), sharex="col", sharey="row", squeeze=False, width_ratios=widths)
        for row, panel in zip(grid, panels, strict=True):
            of_panel = series[series["metric"] == panel.metric]
            unit, factor = scaled(panel.unit, float(of_panel["value"].max()))
            values = of_panel.assign(value=of_panel["value"] / factor)
            for axes, part in zip(row, parts, strict=True):
                # Phases in another order in every block are a thicket unless their rates are averaged.
                most = curves.MOST_POINTS if not panel.rate else 12 if part == "queries" else 30
                _panel(axes, values[values["part"] == part], labels, rates=panel.rate, most=most)
            row[0].set_ylim(bottom=0)
            row[0].set_ylabel(f"{panel.name},\n{unit}")
            readable(row[0], most=4)
        for axes, part in zip(grid[0], parts, strict=True):
            axes.set_title(part, fontsize=9, fontweight="normal", loc="center", backgroundcolor=PALE)
        for axes, seconds in zip(grid[-1], longest, strict=True):
            axes.set_xlim(0, seconds)
            readable(axes, which="x", most=max(2, round(8 * seconds / sum(longest))))
        figure.align_ylabels(grid[:, 0])
        figure.supxlabel("seconds since each part began", fontsize=9)
        return figure


def _panel(axes: Axes, series: pd.DataFrame, labels: dict[str, str], *, rates: bool, most: int) -> None:
    if series.empty:
        return
    seconds = curves.window(series, most)
    for variant, look in looks(labels).items():
        curves.draw(axes, curves.by_round(series, variant, seconds), look, rates=rates)
