"""What a server's process used and kept over time, phase by phase, while its variant was alone."""

from dataclasses import dataclass

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.charts import curves
from plots.charts.style import PALE, STYLE, headed, key, looks, readable, scaled

PHASES = ("load", "settle", "query")
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


def drawable(series: pd.DataFrame) -> bool:
    """Say whether there is anything to draw."""
    return bool((series["metric"].isin([panel.metric for panel in PANELS]) & series["phase"].isin(PHASES)).any())


def course(series: pd.DataFrame, labels: dict[str, str]) -> Figure:
    """Draw CPU, RSS, bytes written and bytes kept, a column a phase, each from its own begin to its own end.

    Blocks are aligned where a phase begins, so that a longer load does not shift what follows. All blocks thin, medians
    thick.

    `series`: columns block, variant, phase, elapsed_s (since the phase began), metric, value.
    """
    with style.context(STYLE):
        series = series[series["phase"].isin(PHASES) & series["metric"].isin([panel.metric for panel in PANELS])]
        reach = series.groupby("phase")["elapsed_s"].max()
        # A phase of a moment has no course.
        phases = [phase for phase in PHASES if reach.get(phase, 0.0) > _SHORTEST * reach.sum()]
        panels = [panel for panel in PANELS if (series["metric"] == panel.metric).any()]
        longest = [float(reach[phase]) for phase in phases]
        widths = [max(seconds, _NARROWEST * sum(longest)) for seconds in longest]
        handles = [key(labels[v], look) for v, look in looks(labels).items() if (series["variant"] == v).any()]
        figure = headed(
            "The server over time, each variant alone (lower is better)", handles, 6.5, 0.5 + 1.2 * len(panels)
        )
        grid = figure.subplots(len(panels), len(phases), sharex="col", sharey="row", squeeze=False, width_ratios=widths)
        for row, panel in zip(grid, panels, strict=True):
            of_panel = series[series["metric"] == panel.metric]
            unit, factor = scaled(panel.unit, float(of_panel["value"].max()))
            values = of_panel.assign(value=of_panel["value"] / factor)
            for axes, phase in zip(row, phases, strict=True):
                # Query types in another order in every block are a thicket unless their rates are averaged.
                most = curves.MOST_POINTS if not panel.rate else 12 if phase == "query" else 30
                _panel(axes, values[values["phase"] == phase], labels, rates=panel.rate, most=most)
            row[0].set_ylim(bottom=0)
            row[0].set_ylabel(f"{panel.name},\n{unit}")
            readable(row[0], most=4)
        for axes, phase in zip(grid[0], phases, strict=True):
            axes.set_title(phase, fontsize=9, fontweight="normal", loc="center", backgroundcolor=PALE)
        for axes, seconds in zip(grid[-1], longest, strict=True):
            axes.set_xlim(0, seconds)
            readable(axes, which="x", most=max(2, round(8 * seconds / sum(longest))))
        figure.align_ylabels(grid[:, 0])
        figure.supxlabel("seconds since each phase began", fontsize=9)
        return figure


def _panel(axes: Axes, series: pd.DataFrame, labels: dict[str, str], *, rates: bool, most: int) -> None:
    if series.empty:
        return
    seconds = curves.window(series, most)
    for variant, look in looks(labels).items():
        curves.draw(axes, curves.by_block(series, variant, seconds), look, labels[variant], rates=rates)
