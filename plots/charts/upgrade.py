"""The change of queries in each state of an upgrade, from old data to new: a line a query type."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.charts.style import GREY, PALE, dots, headed, key, literal, looks, note, readable, styled

_MEAN = 2.4


@styled
def through(steps: pd.DataFrame, states: Mapping[str, str], labels: Mapping[str, str], threshold: float) -> Figure:
    """Draw the change against the baseline in each state, in the order of an upgrade: thin a type, thick the mean.

    `steps`: columns candidate, query_type ("" for the mean of all), state, change, low, high (percent, nan
    without an interval), hint. `states`: state -> its label below the axis; the first is the state before the
    upgrade, without changes. The band is the threshold, in percent, both ways.
    """
    names = list(states)
    drawn = {name: look for name, look in looks(labels).items() if (steps["candidate"] == name).any()}
    handles = [key(f"{labels[name]}: all types, 95 % CI", look, linewidth=_MEAN) for name, look in drawn.items()]
    handles += [Line2D([], [], color=GREY, linewidth=0.8, label="a query type")]
    figure = headed("Query time against the baseline, % (down is better)", handles, 6.5, 3.1)
    axes = figure.add_subplot()
    axes.axhspan(-100 * threshold / (100 + threshold), threshold, color=PALE, linewidth=0, zorder=0.5)
    axes.axhline(0, color=GREY, linewidth=0.9, zorder=1)
    for _, of_type in steps.groupby(["candidate", "query_type"], sort=False):
        look, mean = drawn[of_type["candidate"].iloc[0]], not of_type["query_type"].iloc[0]
        x, y = [names.index(state) for state in of_type["state"]], of_type["change"].tolist()
        axes.plot([0, *x], [0.0, *y], color=look.colour, linestyle=look.dashes, linewidth=_MEAN if mean else 0.7,
                  alpha=1.0 if mean else 0.55, zorder=4 if mean else 2)  # fmt: skip
        style = {"zorder": 5, "markersize": 6, "alpha": 1.0} if mean else {"zorder": 3, "markersize": 3, "alpha": 0.55}
        dots(axes, x, y, look, of_type["hint"].tolist(), **style)
        for at, low, high in zip(x, of_type["low"], of_type["high"], strict=True) if mean else ():
            if pd.notna(low) and pd.notna(high):
                axes.plot([at, at], [low, high], color=look.colour, linewidth=1.5, zorder=4)
    axes.set_xticks(range(len(names)), [literal(words) for words in states.values()])
    axes.set_xlim(-0.15, len(names) - 0.2)  # with room for names
    axes.set_ylabel("change, %")
    readable(axes, most=7)
    # Name the query types that end highest and lowest.
    last = steps[(steps["query_type"] != "") & (steps["state"] == names[-1])].sort_values("change", kind="stable")
    for index in dict.fromkeys((len(last) - 1, 0)) if len(last) else ():
        step = last.iloc[index]
        white = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8}
        end = (len(names) - 1, float(step["change"]))
        note(
            axes,
            literal(step["query_type"]),
            end,
            (7, 0),
            xycoords="data",
            va="center",
            color=GREY,
            zorder=6,
            bbox=white,
        )
    return figure
