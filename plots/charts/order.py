"""The primary metrics round by round, in the order in which the rounds ran."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.charts.look import GREY, PALE, STYLE, headed, key, looks, readable, scaled

_MANY_ROUNDS, _MOST_LABELS = 60, 20


@dataclass(frozen=True)
class Lane:
    """One panel: a name in `metric` of the values, what the axis says, the unit, the direction."""

    metric: str
    name: str
    unit: str
    higher_is_better: bool


def by_round(values: pd.DataFrame, lanes: list[Lane], labels: Mapping[str, str]) -> Figure:
    """Draw a panel a metric over rounds in their order, so that drift of the machine and odd rounds are seen.

    The warm-up block stands on grey; rounds that do not count are crossed out, at the bottom where they have no value.
    The axes do not begin at 0.

    `values`: columns order (1 for the first round), block, variant, metric, value (may be nan), counts.
    """
    with style.context(STYLE):
        drawn = looks(labels)
        handles = [key(labels[name], look, marker=look.marker, linewidth=1.0) for name, look in drawn.items()]
        if not values[values["block"] > 0]["counts"].all():
            handles.append(
                Line2D([], [], linestyle="", marker="x", color="black", markersize=6, label="does not count")
            )
        figure = headed("Round by round, in the order they ran", handles, 6.5, 0.5 + 1.05 * len(lanes))
        grid = figure.subplots(len(lanes), 1, sharex=True, squeeze=False).ravel()
        rounds = values.drop_duplicates("order").sort_values("order")
        for axes, lane in zip(grid, lanes, strict=True):
            of_lane = values[values["metric"] == lane.metric]
            unit, factor = scaled(lane.unit, float(of_lane["value"].max()))
            _lane(axes, of_lane.assign(value=of_lane["value"] / factor), labels)
            axes.set_ylabel(f"{lane.name},\n{unit}", fontsize=7.5)
            axes.annotate("↑ better" if lane.higher_is_better else "↓ better", (1.0, 1.0), xycoords="axes fraction",
                          ha="right", va="bottom", fontsize=7.5, color=GREY)  # fmt: skip
            axes.margins(y=0.15)
            readable(axes, most=4)
            _blocks(axes, rounds)
        figure.align_ylabels(grid)
        grid[-1].set_xlabel("block")
        return figure


def _lane(axes: Axes, values: pd.DataFrame, labels: Mapping[str, str]) -> None:
    size = 4.5 if values["order"].nunique() <= _MANY_ROUNDS else 2.5
    for variant, look in looks(labels).items():
        mine = values[values["variant"] == variant].sort_values("order")
        axes.plot(mine["order"], mine["value"], color=look.colour, linestyle=look.dashes, linewidth=0.7, alpha=0.6)
        axes.plot(
            mine["order"], mine["value"], linestyle="", marker=look.marker, color=look.colour, markersize=size,
            markeredgewidth=0,
        )  # fmt: skip
    crossed = values[~values["counts"] & (values["block"] > 0)]
    lost = crossed[crossed["value"].isna()]
    axes.plot(
        lost["order"], [0.06] * len(lost), transform=axes.get_xaxis_transform(), linestyle="", marker="x",
        color="black", markersize=2 + 1.4 * size,
    )  # fmt: skip
    axes.plot(crossed["order"], crossed["value"], linestyle="", marker="x", color="black", markersize=2 + 1.4 * size)


def _blocks(axes: Axes, rounds: pd.DataFrame) -> None:
    """Put a line between blocks, their numbers below, and grey behind the warm-up block."""
    order, block = rounds["order"].to_numpy(), rounds["block"].to_numpy()
    firsts = np.flatnonzero(np.diff(block, prepend=block[0] - 1))
    ends = np.append(firsts[1:], len(order))
    middles = [(order[a] + order[b - 1]) / 2 for a, b in zip(firsts, ends, strict=True)]
    few = -(-len(firsts) // _MOST_LABELS)
    warm = "warm-up" if few == 1 else ""
    names = [warm if block[first] <= 0 else f"{block[first]:.0f}" for first in firsts]
    axes.set_xticks(middles[::few], names[::few])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.set_xlim(order[0] - 0.7, order[-1] + 0.7)
    for first, end in zip(firsts, ends, strict=True):
        left, right = order[first] - 0.5, order[end - 1] + 0.5
        if block[first] <= 0:
            axes.axvspan(left - 0.2, right, color=PALE, linewidth=0, zorder=0.5)
        if end < len(order) and few == 1:
            axes.axvline(right, color=GREY, linewidth=0.4, zorder=0.6)
