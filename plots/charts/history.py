"""A metric over revisions: the change from the first, and where a bisection has put the first bad one."""

import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure

from plots.charts.style import GREY, LOOKS, PALE, STYLE, headed, literal, readable

MOST_NAMES, MOST_LEVEL = 24, 6
"""Of more revisions only those are named that were measured, and of these so many; names are turned beyond six."""


def history(points: pd.DataFrame, title: str, threshold: float, unit: str = "%") -> Figure:
    """Draw the change of each revision, in their order, with its 95 % interval where there is one.

    `points`: columns label, change, low, high (nan where it was not measured) in `unit`, where above zero is worse or
    not is in the title; `chance` (0 to 1) of a bisection, nan of a history. `threshold` is a line, with its sign.
    """
    with style.context(STYLE):
        searched = bool(points["chance"].notna().any())
        figure = headed(title, [], 6.5, 3.9 if searched else 3.1)
        panels = figure.subplots(
            1 + searched, 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": [3, 1][: 1 + searched]}
        )[:, 0]
        axes, x, look = panels[0], range(len(points)), LOOKS[1]
        axes.axhline(0, color=GREY, linewidth=0.9)
        axes.axhline(threshold, color=GREY, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.annotate(
            f"{threshold:+g} {unit}", (0.995, threshold), xycoords=("axes fraction", "data"), va="bottom", ha="right",
            fontsize=8, color=GREY,
        )  # fmt: skip
        axes.vlines(x, points["low"].astype(float), points["high"].astype(float), color=look.colour)
        axes.plot(x, points["change"].astype(float), linestyle="", marker=look.marker, color=look.colour)
        axes.set_ylabel(f"change, {unit}")
        readable(axes)
        if searched:
            best = int(points["chance"].fillna(0).to_numpy().argmax())
            for one in panels:
                one.axvspan(best - 0.5, best + 0.5, color=PALE, zorder=0)
            panels[1].bar(x, 100 * points["chance"].astype(float), color=LOOKS[0].colour, width=0.7)
            panels[1].set_ylim(0, 100)
            panels[1].set_ylabel("first bad, %")
            readable(panels[1], most=3)
        named = list(x) if len(points) <= MOST_NAMES else [i for i in x if pd.notna(points["change"].iloc[i])]
        named = named[:: -(-len(named) // MOST_NAMES)]
        names = [literal(points["label"].iloc[i], 16) for i in named]
        turned = {"rotation": 60, "ha": "right"} if len(named) > MOST_LEVEL else {}
        panels[-1].set_xticks(named, names, fontsize=8, **turned)
        panels[-1].set_xlim(-0.5, len(points) - 0.5)
        return figure
