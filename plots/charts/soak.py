"""A soak: memory, CPU, disk, open files and p99 of each variant over hours, with the slope of each."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from plots.charts.style import headed, key, looks, panel_title, panels, readable, scaled, styled
from tsduel.stats.soak import Slope

NAMES = {
    "rss_bytes": ("memory", "B"),
    "cpu_cores": ("CPU", "cores"),
    "disk_bytes": ("bytes on disk", "B"),
    "open_files": ("open files", "files"),
    "query_p99_ms": ("p99 of queries", "ms"),
    "batch_p99_ms": ("p99 of batches", "ms"),
}


@styled
def over_hours(windows: pd.DataFrame, slopes: Sequence[Slope], labels: Mapping[str, str]) -> Figure | None:
    """Draw a panel a metric: each window thin, and through each life a line with the metric's slope, thick.

    `windows`: columns variant, life, elapsed_s, metric, value.
    """
    metrics = [name for name in NAMES if (windows["metric"] == name).any()]
    if not metrics:
        return None
    drawn, found = looks(labels), {(slope.variant, slope.metric): slope.slope for slope in slopes}
    handles = [key(labels[variant], look) for variant, look in drawn.items()]
    figure = headed("Each variant alone, hour after hour (the thick line: its slope)", handles, 6.5, 5.0)
    for axes, name in zip(panels(figure, len(metrics), 2), metrics, strict=True):
        of_metric = windows[windows["metric"] == name]
        title, unit = NAMES[name]
        unit, factor = scaled(unit, float(of_metric["value"].max()))
        for (variant, _), life in of_metric.groupby(["variant", "life"]):
            look, life = drawn[str(variant)], life.sort_values("elapsed_s")  # noqa: PLW2901 - the same life, in order
            hours, values = life["elapsed_s"].to_numpy() / 3600, life["value"].to_numpy() / factor
            axes.plot(hours, values, color=look.colour, linewidth=0.6, alpha=0.5)
            if (slope := found.get((str(variant), name))) is not None:
                line = slope / factor * hours
                line = line + np.median(values - line)
                axes.plot(hours, line, color=look.colour, linestyle=look.dashes, linewidth=2.0)
        panel_title(axes, f"{title}, {unit}")
        readable(axes)
    figure.supxlabel("hours since the servers were started", fontsize=9)
    return figure
