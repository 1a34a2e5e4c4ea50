"""The primary metrics block by block: the values of each side, and the change in each block."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.charts.style import GREY, PALE, dots, headed, key, looks, panel_title, readable, scaled, styled
from plots.numbers import TIMES, change, number

_MANY_BLOCKS = 30


@dataclass(frozen=True)
class Lane:
    """One row of panels: the name of its values, their unit and direction; `ratio`: its changes are ratios, not %."""

    name: str
    unit: str
    higher_is_better: bool
    ratio: bool = False


@styled
def by_block(values: pd.DataFrame, changes: pd.DataFrame, lanes: list[Lane], labels: Mapping[str, str]) -> Figure:
    """Draw a row a metric: left each side's values over the blocks, right the change in each block.

    On the right the line is the estimate over blocks and the pale band its interval; a block that does not
    count is crossed out. The warm-up block stands on grey, left only. No axis begins at 0.

    `values`: columns lane, block, variant, value. `changes`: columns lane, block, candidate, change (percent
    or a ratio), counts, estimate, low, high (the last three once a lane and candidate, None where there is
    none).
    """
    drawn = looks(labels)
    handles = [key(labels[name], look, marker=look.marker, linewidth=1.0) for name, look in drawn.items()]
    if not changes["counts"].all():
        handles.append(Line2D([], [], linestyle="", marker="x", color="black", markersize=6, label="does not count"))
    what = "ratio" if all(lane.ratio for lane in lanes) else "change, %"
    figure = headed(f"Block by block: values of each side, and {what}", handles, 6.5, 0.4 + 1.15 * len(lanes))
    grid = figure.subplots(len(lanes), 2, sharex="col", squeeze=False)
    for (left, right), lane in zip(grid, lanes, strict=True):
        of_lane = values[values["lane"] == lane.name]
        unit, factor = scaled(lane.unit, float(of_lane["value"].max()))
        size = 4.0 if of_lane["block"].nunique() <= _MANY_BLOCKS else 2.2
        for variant, look in drawn.items():
            own = of_lane[of_lane["variant"] == variant].sort_values("block")
            x, y = own["block"], own["value"] / factor
            left.plot(x, y, color=look.colour, linestyle=look.dashes, linewidth=0.7, alpha=0.6)
            pairs = zip(x.tolist(), y.tolist(), strict=True)
            hints = [f"{labels[variant]}, block {block:.0f}: {number(v)} {unit}" for block, v in pairs]
            dots(left, x, y, look, hints, markersize=size, markeredgewidth=0)
        if (of_lane["block"] <= 0).any():
            left.axvspan(-0.5, 0.5, color=PALE, linewidth=0, zorder=0.5)
        panel_title(left, lane.name)
        left.set_ylabel(unit, fontsize=7.5)
        _draw_changes(right, changes[changes["lane"] == lane.name], labels, size, ratio=lane.ratio)
        arrow = "↑ better" if lane.higher_is_better else "↓ better"
        panel_title(right, f"{'ratio' if lane.ratio else 'change, %'}: {arrow}")
        for axes in (left, right):
            axes.margins(y=0.15)
            readable(axes, most=4)
    first, last = values["block"].min(), values["block"].max()
    for axes in grid[-1]:
        axes.set_xlim(first - 0.5, last + 0.5)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=10, integer=True))
        axes.set_xlabel("block")
    if (values["block"] <= 0).any():
        grid[-1][0].set_xlabel("block, the warm-up on grey")
    figure.align_ylabels(grid[:, 0])
    return figure


def _draw_changes(axes: Axes, changes: pd.DataFrame, labels: Mapping[str, str], size: float, *, ratio: bool) -> None:
    axes.axhline(1 if ratio else 0, color=GREY, linewidth=0.9, zorder=1.5)
    for candidate, look in looks(labels).items():
        of_candidate = changes[changes["candidate"] == candidate].sort_values("block")
        if of_candidate.empty:
            continue
        first = of_candidate.iloc[0]
        if pd.notna(first["low"]) and pd.notna(first["high"]):
            axes.axhspan(first["low"], first["high"], color=look.colour, alpha=0.15, linewidth=0, zorder=0.6)
        if pd.notna(first["estimate"]):
            axes.axhline(first["estimate"], color=look.colour, linestyle=look.dashes, linewidth=1.2, zorder=2)
        x, y = of_candidate["block"], of_candidate["change"]
        shown = [f"{TIMES}{number(v, 3)}" if ratio else f"{change(v, 2)} %" for v in y.tolist()]
        hints = [f"block {block:.0f}: {text}" for block, text in zip(x.tolist(), shown, strict=True)]
        dots(axes, x, y, look, hints, markersize=size)
    crossed = changes[~changes["counts"].astype(bool)]
    axes.plot(crossed["block"], crossed["change"], linestyle="", marker="x", color="black", markersize=2 + 1.4 * size)
