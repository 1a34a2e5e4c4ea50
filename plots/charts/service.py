"""Service times of each query type: quantiles of every round."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import style, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.charts.look import GREY, STYLE, headed, key, literal, looks
from tsduel.workloads.tsbs.measure import P99_FROM, P999_FROM

QUANTILES = {"query_p999_ms": "p99.9", "query_p99_ms": "p99", "query_p95_ms": "p95", "query_p50_ms": "p50"}
_TOO_FEW = {
    "query_p99_ms": f"fewer than {P99_FROM:,} queries",
    "query_p999_ms": f"fewer than {P999_FROM:,} queries",
}
_COLUMNS, _LONGEST = 3, 24


def service_times(values: pd.DataFrame, query_types: Sequence[str], labels: Mapping[str, str]) -> Figure:
    """Draw a panel a query type: a dot is a quantile of one round, a bar the median of these dots.

    TSBS keeps no single service times, so that a round's quantiles are all there is of its distribution. The axes are
    logarithmic: the same ratio is the same distance everywhere.

    `values`: columns variant, query_type, metric (a key of QUANTILES), value (ms).
    """
    with style.context(STYLE):
        values = values[values["value"] > 0]
        types = [name for name in query_types if (values["query_type"] == name).any()]
        columns = min(_COLUMNS, len(types))
        rows = -(-len(types) // columns)
        present = [metric for metric in QUANTILES if (values["metric"] == metric).any()]
        seen = [variant for variant in labels if (values["variant"] == variant).any()]
        handles = [key(labels[variant], looks(labels)[variant], line=False) for variant in seen]
        height = 0.35 + rows * (0.45 + 0.09 * len(present) * (1 + len(seen)))
        figure = headed("Service time by query type, ms (lower is better)", handles, 6.5, height)
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axes, query_type in zip(grid, types, strict=False):
            _panel(axes, values[values["query_type"] == query_type], present, labels, seen)
            axes.set_title(literal(query_type, _LONGEST), fontsize=8.5, fontweight="normal")
        for axes in grid[len(types) :]:
            axes.remove()
        figure.supxlabel("ms, logarithmic; a dot is one round, a bar their median", fontsize=9)
        return figure


def _panel(axes: Axes, values: pd.DataFrame, present: Sequence[str], labels: Mapping[str, str],
           seen: Sequence[str]) -> None:  # fmt: skip
    lane = 0.8 / len(seen)
    for at, metric in enumerate(present):
        if not (values["metric"] == metric).any():
            axes.annotate(_TOO_FEW.get(metric, "not measured"), (0.5, at), xycoords=("axes fraction", "data"),
                          ha="center", va="center", fontsize=7.5, color=GREY)  # fmt: skip
            continue
        for number, variant in enumerate(seen):
            dots = values["value"][(values["metric"] == metric) & (values["variant"] == variant)]
            if dots.empty:
                continue
            look, y = looks(labels)[variant], at + (number - (len(seen) - 1) / 2) * lane
            axes.plot(
                dots, [y] * len(dots), linestyle="", marker=look.marker, markersize=3.2, color=look.colour, alpha=0.5,
                markeredgewidth=0,
            )  # fmt: skip
            axes.plot([dots.median()] * 2, [y - lane / 2, y + lane / 2], color=look.colour, linewidth=2.2)
    axes.set_xscale("log")
    low, high = float(values["value"].min()), float(values["value"].max())
    axes.set_xlim(low / 1.15, high * 1.15)
    axes.set_ylim(len(present) - 0.5, -0.5)
    axes.set_yticks(range(len(present)), [QUANTILES[metric] for metric in present])
    axes.grid(visible=False, axis="y")
    axes.set_xticks(_ticks(low / 1.15, high * 1.15))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())


def _ticks(low: float, high: float) -> list[float]:
    """Return three to five round numbers between two limits of a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), tuple(1 + i / 10 for i in range(90))):
        found = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
        if len(found) >= 3:  # noqa: PLR2004 - fewer say nothing of a logarithmic scale
            return found[:: -(-len(found) // 5)]
    return [float(tick) for tick in np.geomspace(low, high, 4)[1:3]]
