"""Response times at fixed rates: over percentiles, and one percentile over rates."""

from collections.abc import Mapping

import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.charts.style import GREY, dots, headed, key, looks, note, panel_title, panels, plain_log, styled
from plots.numbers import number

NAMES = {"query": "queries", "batch": "batches of lines"}
_NINES = {0.0: "0", 0.5: "50", 0.9: "90", 0.99: "99", 0.999: "99.9", 0.9999: "99.99"}


@styled
def responses(table: pd.DataFrame, labels: Mapping[str, str]) -> Figure | None:
    """Draw a panel for queries and one for batches: response times (y) by percentile (x).

    The x axis is that of HdrHistogram's plots: 90, 99, 99.9 are at equal distances. Thin lines are service
    times; the gap is the time that operations waited before they were sent.

    `table`: columns variant, operation, time, quantile (0 to 1), value_ms.
    """
    operations = [name for name in NAMES if (table["operation"] == name).any()]
    if not operations:
        return None
    drawn = looks(labels)
    handles = [key(labels[v], look) for v, look in drawn.items()]
    figure = headed("Response time by percentile, ms (lower is better)", handles, 6.5, 2.7)
    for axes, name in zip(panels(figure, len(operations), len(NAMES)), operations, strict=True):
        of_operation = table[(table["operation"] == name) & (table["quantile"] < 1)]
        for variant, look in drawn.items():
            for time, width in (("service", 0.7), ("response", 1.8)):
                curve = of_operation[(of_operation["variant"] == variant) & (of_operation["time"] == time)].sort_values(
                    "quantile"
                )
                curve = curve[curve["quantile"] <= 1 - 1 / curve["n"].clip(lower=1)]
                axes.plot(
                    1 / (1 - curve["quantile"]), curve["value_ms"], color=look.colour, linestyle=look.dashes,
                    linewidth=width,
                )  # fmt: skip
        axes.set_xscale("log")
        shown = {q: label for q, label in _NINES.items() if 1 / (1 - q) <= axes.get_xlim()[1]}
        axes.set_xticks([1 / (1 - q) for q in shown], list(shown.values()))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        _milliseconds(axes)
        panel_title(axes, NAMES[name])
    figure.supxlabel("percentile (thin: service time, from when it was sent)", fontsize=9)
    figure.supylabel("ms, logarithmic", fontsize=9)
    return figure


@styled
def against_rate(
    blocks: pd.DataFrame, pooled: pd.DataFrame, labels: Mapping[str, str], percentile: str, within_ms: float
) -> Figure | None:
    """Draw a percentile of response times against the rate: blocks thin, all of their operations together thick.

    `blocks`: columns variant, block, rate, value_ms. `pooled`: variant, rate, value_ms.
    """
    if pooled.empty:
        return None
    drawn = looks(labels)
    handles = [key(labels[v], look, marker=look.marker, markersize=4) for v, look in drawn.items()]
    figure = headed(f"{percentile} of response times against rate, ms (lower is better)", handles, 6.5, 3.1)
    axes = figure.subplots()
    for variant, look in drawn.items():
        for _, block in blocks[blocks["variant"] == variant].groupby("block"):
            block = block.sort_values("rate")  # noqa: PLW2901 - the same block, in order
            axes.plot(block["rate"], block["value_ms"], color=look.colour, alpha=0.35, linewidth=0.6)
        whole = pooled[pooled["variant"] == variant].sort_values("rate")
        points = zip(whole["rate"], whole["value_ms"], strict=True)
        hints = [f"{labels[variant]}, {number(rate)} queries/s: {number(ms)} ms" for rate, ms in points]
        line = {"linestyle": look.dashes, "linewidth": 2.0, "markersize": 4}
        dots(axes, whole["rate"], whole["value_ms"], look, hints, **line)
    axes.axhline(within_ms, color=GREY, linewidth=1, linestyle=(0, (2, 2)))
    # Left, where the curves are low.
    note(axes, f"{within_ms:g} ms", (0.005, within_ms), (0, 0), va="bottom", ha="left", fontsize=8, color=GREY)
    axes.set_xscale("log")
    rates = sorted(pooled["rate"].unique())
    axes.set_xticks(rates, [f"{rate:,g}" for rate in rates], fontsize=8)
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    _milliseconds(axes)
    axes.set_xlabel("queries a second, logarithmic")
    axes.set_ylabel("ms, logarithmic")
    return figure


def _milliseconds(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    plain_log(axes.yaxis)
