"""A change on each host of a fleet, and over the hosts of each kind of machine: a forest plot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.charts.style import GREY, STYLE, Look, headed, hover, key, literal, looks, readable
from plots.numbers import change

_ROW_IN, _COLUMNS, _DODGE = 0.21, 2, 0.24


@dataclass(frozen=True)
class Whole:
    """A change over the hosts of a `kind`, with its interval where there is one, and on each of them by its blocks.

    All in percent; `by_host` is the host's own estimate. `kind` is "" where there is one. `better`: as of its metric.
    """

    name: str
    better: str
    kind: str
    candidate: str
    change: float
    low: float | None
    high: float | None
    by_host: Mapping[str, float]
    blocks: Mapping[str, Sequence[float]]


def over_hosts(found: Sequence[Whole], labels: Mapping[str, str]) -> Figure:
    """Draw a panel for each name: a line for each host, its blocks small and its mean large, then all of its kind."""
    names = list(dict.fromkeys(one.name for one in found))
    rows = list(
        dict.fromkeys(row for one in found for row in [*((one.kind, host) for host in one.by_host), (one.kind, "")])
    )
    # What a kind's hosts have in common comes behind them, whichever panel has all of them.
    rows.sort(key=lambda row: (list(dict.fromkeys(one.kind for one in found)).index(row[0]), row[1] == ""))
    columns = min(_COLUMNS, len(names))
    lines = -(-len(names) // columns)
    with style.context(STYLE):
        drawn = {name: look for name, look in looks(labels).items() if any(one.candidate == name for one in found)}
        handles = [
            key(labels[name], look, ": estimate over hosts, 95 % CI", line=False) for name, look in drawn.items()
        ]
        handles.append(Line2D([], [], linestyle="", marker=".", color=GREY, label="a block", alpha=0.6))
        figure = headed("Host by host: change, %", handles, 6.5, lines * (0.72 + _ROW_IN * len(rows)))
        grid = figure.subplots(lines, columns, sharey=True, squeeze=False)
        for axes, name in zip(grid.flat, names, strict=False):
            axes.axvline(0, color=GREY, linewidth=0.9, zorder=1)
            mine = [one for one in found if one.name == name]
            axes.set_title(literal(name), fontsize=8.5, fontweight="normal")
            axes.set_xlabel({"higher": "better →", "lower": "← better"}.get(mine[0].better, ""), fontsize=7.5)
            for one in mine:
                beside = list(drawn).index(one.candidate) - (len(drawn) - 1) / 2
                _draw(axes, one, rows, drawn[one.candidate], _DODGE * beside)
            readable(axes, which="x", most=5)
        for axes in list(grid.flat)[len(names) :]:
            axes.set_visible(False)
        alone = len({kind for kind, _ in rows}) == 1
        said = [host or ("all hosts" if alone else f"all {kind}") for kind, host in rows]
        grid[0][0].set_yticks(range(len(rows)), [literal(text, 26) for text in said])
        grid[0][0].set_ylim(len(rows) - 0.5, -0.5)
        return figure


def _draw(axes: Axes, one: Whole, rows: Sequence[tuple[str, str]], look: Look, dodge: float) -> None:
    for host, mean in one.by_host.items():
        at = rows.index((one.kind, host)) + dodge
        blocks = one.blocks.get(host, ())
        axes.plot(blocks, [at] * len(blocks), linestyle="", marker=".", color=look.colour, alpha=0.45, markersize=4)
        (mark,) = axes.plot([mean], [at], linestyle="", marker=look.marker, color=look.colour, markersize=4)
        hover(mark, [f"{one.name}, {host}: {change(mean, 2)} %"])
    at = rows.index((one.kind, "")) + dodge
    if one.low is not None and one.high is not None:
        axes.plot([one.low, one.high], [at, at], color=look.colour, linewidth=2.4, solid_capstyle="butt", zorder=3)
    (mark,) = axes.plot(
        [one.change], [at], linestyle="", marker="D", color="white", markeredgecolor=look.colour, zorder=4, markersize=6
    )
    hover(mark, [f"{one.name}, over {len(one.by_host)} hosts: {change(one.change, 2)} %"])
    axes.axhline(rows.index((one.kind, "")) + 0.5, color=GREY, linewidth=0.4, zorder=0.5)
