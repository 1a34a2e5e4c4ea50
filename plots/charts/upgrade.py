"""How queries change through an upgrade: from old data to new, a line a query type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.charts.style import GREY, PALE, STYLE, headed, hover, key, literal, looks, readable

_MEAN = 2.4


@dataclass(frozen=True)
class Step:
    """A change in one state, in percent, with its interval where there is one; `query_type` "" for the mean of all."""

    candidate: str
    query_type: str
    state: str
    change: float
    low: float | None
    high: float | None
    said: str


def through(steps: Sequence[Step], states: Mapping[str, str], labels: Mapping[str, str], threshold: float) -> Figure:
    """Draw the change against the baseline in each state, in the order of an upgrade: thin a type, thick the mean.

    `states`: state -> its words below the axis, the first is before, where nothing has changed. The band is the
    threshold, in percent, both ways.
    """
    with style.context(STYLE):
        names = list(states)
        drawn = {name: look for name, look in looks(labels).items() if any(step.candidate == name for step in steps)}
        handles = [
            key(f"{labels[name]}: geometric mean, 95 % CI", look, linewidth=_MEAN) for name, look in drawn.items()
        ]
        handles += [Line2D([], [], color=GREY, linewidth=0.8, label="a query type")]
        figure = headed("Service time against the baseline, % (down is better)", handles, 6.5, 3.1)
        axes = figure.add_subplot()
        axes.axhspan(-100 * threshold / (100 + threshold), threshold, color=PALE, linewidth=0, zorder=0.5)
        axes.axhline(0, color=GREY, linewidth=0.9, zorder=1)
        for candidate, query_type in dict.fromkeys((step.candidate, step.query_type) for step in steps):
            mine = [step for step in steps if (step.candidate, step.query_type) == (candidate, query_type)]
            look, mean = drawn[candidate], not query_type
            x, y = [names.index(step.state) for step in mine], [step.change for step in mine]
            axes.plot([0, *x], [0.0, *y], color=look.colour, linestyle=look.dashes, linewidth=_MEAN if mean else 0.7,
                      alpha=1.0 if mean else 0.55, zorder=4 if mean else 2)  # fmt: skip
            (marks,) = axes.plot(x, y, linestyle="", marker=look.marker, color=look.colour, zorder=5 if mean else 3,
                                 markersize=6 if mean else 3, alpha=1.0 if mean else 0.55)  # fmt: skip
            hover(marks, [step.said for step in mine])
            for at, step in zip(x, mine, strict=True):
                if mean and step.low is not None and step.high is not None:
                    axes.plot([at, at], [step.low, step.high], color=look.colour, linewidth=1.5, zorder=4)
        axes.set_xticks(range(len(names)), [literal(words) for words in states.values()])
        axes.set_xlim(-0.15, len(names) - 0.2)  # with room for names
        axes.set_ylabel("change, %")
        readable(axes, most=7)
        _named(axes, [step for step in steps if step.query_type and step.state == names[-1]], len(names) - 1)
        return figure


def _named(axes: object, last: Sequence[Step], at: int) -> None:
    """Write the names of the query types that end highest and lowest."""
    for step in {max(last, key=_change), min(last, key=_change)} if last else ():
        axes.annotate(literal(step.query_type), (at, step.change), xytext=(7, 0), textcoords="offset points",  # type: ignore[attr-defined]  # a row of itertuples
                      va="center", fontsize=7.5, color=GREY, zorder=6,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8})  # fmt: skip


def _change(step: Step) -> float:
    return step.change
