"""The change of one metric from run to run."""

import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure

from plots.charts.style import GREY, LOOKS, STYLE, headed, literal, readable


def trend(points: pd.DataFrame, name: str, *, higher_is_better: bool, ratio: bool = False) -> Figure:
    """Draw the change in each run, in the order of their making, with its 95 % interval where there is one.

    `points`: columns created, version, change, low, high (percent, or a `ratio`).
    """
    with style.context(STYLE):
        direction = "higher" if higher_is_better else "lower"
        what = "ratio in each run" if ratio else "change in each run, %"
        figure = headed(f"{literal(name)}: {what} ({direction} is better)", [], 6.5, 3.0)
        axes, look = figure.add_subplot(), LOOKS[1]
        x = range(len(points))
        axes.axhline(1 if ratio else 0, color=GREY, linewidth=0.9)
        axes.vlines(x, points["low"].astype(float), points["high"].astype(float), color=look.colour)
        axes.plot(x, points["change"], linestyle="", marker=look.marker, color=look.colour)
        names = [f"{created}\n{literal(version, 14)}" for created, version in points[["created", "version"]].to_numpy()]
        step = -(-len(points) // 8)
        axes.set_xticks(list(x)[::step], names[::step])
        axes.set_xlim(-0.5, len(points) - 0.5)
        readable(axes)
        return figure
