"""CPU, memory and bytes of a server over time, phase by phase, while its variant was alone."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.charts import curves
from plots.charts.style import PALE, enough, headed, key, looks, readable, scaled, styled

PHASES = ("load", "settle", "query")
_NARROWEST, _SHORTEST = 0.2, 0.01
# A row of panels: a metric of timeseries.csv -> its unit, the axis's label.
PANELS = {
    "cpu_cores": ("cores", "CPU"),
    "rss_bytes": ("B", "RSS"),
    "storage_written_bytes": ("B", "written to storage"),
    "data_size_bytes": ("B", "data and index"),
}
RATE = "cpu_cores"


@styled
def course(series: pd.DataFrame, labels: dict[str, str]) -> Figure | None:
    """Draw CPU, RSS, bytes written and bytes kept, a column a phase; all blocks thin, medians thick.

    Each phase has its own clock, so that a longer load does not shift the next phase. None without data.

    `series`: columns block, variant, phase, elapsed_s (since the phase began), metric, value.
    """
    series = enough(series[series["phase"].isin(PHASES) & series["metric"].isin(list(PANELS))], "phase", "metric")
    if series.empty:
        return None
    reach = series.groupby("phase")["elapsed_s"].max()
    # Leave out phases that are too short to see.
    phases = [phase for phase in PHASES if reach.get(phase, 0.0) > _SHORTEST * reach.sum()]
    panels = [metric for metric in PANELS if (series["metric"] == metric).any()]
    longest = [float(reach[phase]) for phase in phases]
    widths = [max(seconds, _NARROWEST * sum(longest)) for seconds in longest]
    handles = [key(labels[v], look) for v, look in looks(labels).items() if (series["variant"] == v).any()]
    figure = headed("The server over time, each variant alone (lower is better)", handles, 6.5, 0.5 + 1.2 * len(panels))
    grid = figure.subplots(len(panels), len(phases), sharex="col", sharey="row", squeeze=False, width_ratios=widths)
    for row, metric in zip(grid, panels, strict=True):
        of_metric, (unit, name) = series[series["metric"] == metric], PANELS[metric]
        unit, factor = scaled(unit, float(of_metric["value"].max()))
        values = of_metric.assign(value=of_metric["value"] / factor)
        for axes, phase in zip(row, phases, strict=True):
            # Each block has its own order of query types: average rates of queries over long windows.
            most = curves.MOST_POINTS if metric != RATE else 12 if phase == "query" else 30
            _panel(axes, values[values["phase"] == phase], labels, rates=metric == RATE, most=most)
        row[0].set_ylim(bottom=0)
        row[0].set_ylabel(f"{name},\n{unit}")
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
