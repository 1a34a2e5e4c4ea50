"""One metric over revisions or over runs: the change in each with its interval."""

from itertools import pairwise

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.charts.style import GREY, LOOKS, PALE, headed, literal, note, readable, styled

MOST_NAMES, LETTERS, MOST_RUNS = 24, 80, 8
"""Most names of revisions below the axis, how many letters it has room for, most names of runs."""
LIKELY = 0.5
"""From this chance on a revision is marked."""


@styled
def history(
    points: pd.DataFrame, name: str, threshold: float, unit: str = "%", *, higher_is_better: bool,
    searched_better: bool = False,
) -> Figure:  # fmt: skip
    """Draw the change of each revision from the first, in their order, with its 95 % interval where there is one.

    `points`: columns label, change, low, high (nan where a revision was not measured) in `unit`; `chance` (0
    to 1) that the revision is a step, nan without a bisection. A line marks `threshold`, the least change for the
    worse that matters, or with `searched_better` for the better.
    """
    worse = "lower" if higher_is_better else "higher"
    threshold = -threshold if higher_is_better != searched_better else threshold
    searched = bool(points["chance"].notna().any())
    figure = headed(f"{literal(name)} ({worse} is worse)", [], 6.5, 3.9 if searched else 3.1)
    panels = figure.subplots(
        1 + searched, 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": [3, 1][: 1 + searched]}
    )[:, 0]
    axes, x = panels[0], range(len(points))
    axes.axhline(0, color=GREY, linewidth=0.9)
    axes.axhline(threshold, color=GREY, linewidth=0.9, linestyle=(0, (2, 2)))
    note(axes, f"{threshold:+g} {unit}", (0.995, threshold), (0, 0), va="bottom", ha="right", fontsize=8, color=GREY)
    _changes(axes, points)
    axes.set_ylabel(f"change from {literal(points['label'].iloc[0], 16)}, {unit}")
    if searched:
        chances = points["chance"].fillna(0).to_numpy()
        for best in {int(chances.argmax()), *(int(at) for at in (chances > LIKELY).nonzero()[0])}:
            for panel in panels:
                panel.axvspan(best - 0.5, best + 0.5, color=PALE, zorder=0)
        panels[1].bar(x, 100 * points["chance"].astype(float), color=LOOKS[0].colour, width=0.7)
        panels[1].set_ylim(0, 100)
        panels[1].set_ylabel("a step, %")
        readable(panels[1], most=3)
    # Of many revisions name those that were measured.
    named = list(x) if len(points) <= MOST_NAMES else [i for i in x if pd.notna(points["change"].iloc[i])]
    named = named[:: -(-len(named) // MOST_NAMES)]
    names = [literal(points["label"].iloc[i], 16) for i in named]
    closest = min((right - left for left, right in pairwise(named)), default=len(points)) * LETTERS / len(points)
    turned = {"rotation": 60, "ha": "right"} if closest < max(map(len, names)) + 2 else {}
    panels[-1].set_xticks(named, names, fontsize=8, **turned)
    panels[-1].set_xlim(-0.5, len(points) - 0.5)
    return figure


@styled
def trend(points: pd.DataFrame, name: str, *, higher_is_better: bool, ratio: bool = False) -> Figure:
    """Draw the change in each run, in the order of creation, with its 95 % interval where there is one.

    `points`: columns created, version, change, low, high (percent, or a `ratio`).
    """
    direction = "higher" if higher_is_better else "lower"
    what = "ratio in each run" if ratio else "change in each run, %"
    figure = headed(f"{literal(name)}: {what} ({direction} is better)", [], 6.5, 3.0)
    axes = figure.add_subplot()
    axes.axhline(1 if ratio else 0, color=GREY, linewidth=0.9)
    _changes(axes, points)
    names = [f"{created}\n{literal(version, 14)}" for created, version in points[["created", "version"]].to_numpy()]
    step = -(-len(points) // MOST_RUNS)
    axes.set_xticks(range(0, len(points), step), names[::step])
    axes.set_xlim(-0.5, len(points) - 0.5)
    return figure


def _changes(axes: Axes, points: pd.DataFrame) -> None:
    x, look = range(len(points)), LOOKS[1]
    axes.vlines(x, points["low"].astype(float), points["high"].astype(float), color=look.colour)
    axes.plot(x, points["change"].astype(float), linestyle="", marker=look.marker, color=look.colour)
    readable(axes)
