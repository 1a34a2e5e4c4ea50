"""A change on each host of a fleet, and over all of them: a forest plot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.charts.style import GREY, Look, dots, headed, key, literal, looks, panel_title, panels, readable, styled
from plots.numbers import change

_ROW_IN, _COLUMNS, _DODGE = 0.21, 2, 0.24


@dataclass(frozen=True)
class Whole:
    """A row of comparison.json over hosts, in percent. `blocks`: the changes in the blocks of each host."""

    name: str
    row: Mapping[str, Any]
    blocks: Mapping[str, Sequence[float]]


@styled
def over_hosts(wholes: Sequence[Whole], labels: Mapping[str, str]) -> Figure:
    """Draw a panel a name, in it a line a host (its blocks small, its mean large), below them all hosts."""
    names = list(dict.fromkeys(whole.name for whole in wholes))
    rows = [*dict.fromkeys(host for whole in wholes for host in whole.row["by_host"]), ""]
    lines = -(-len(names) // _COLUMNS)
    drawn = {
        name: look for name, look in looks(labels).items() if any(whole.row["candidate"] == name for whole in wholes)
    }
    handles = [key(labels[name], look, ": a host", line=False) for name, look in drawn.items()]
    together = Line2D([], [], color=GREY, marker="D", markerfacecolor="white", markersize=5, linewidth=2.4)
    together.set_label("all hosts, 95 % CI")
    handles.append(together)
    handles.append(Line2D([], [], linestyle="", marker=".", color=GREY, label="a block", alpha=0.6))
    figure = headed("Host by host: change, %", handles, 6.5, lines * (0.72 + _ROW_IN * len(rows)))
    grid = panels(figure, len(names), _COLUMNS, sharey=True)
    for axes, name in zip(grid, names, strict=True):
        axes.axvline(0, color=GREY, linewidth=0.9, zorder=1)
        of_name = [whole for whole in wholes if whole.name == name]
        panel_title(axes, name)
        axes.set_xlabel({"higher": "better →", "lower": "← better"}.get(of_name[0].row["better"], ""), fontsize=7.5)
        for whole in of_name:
            dodge = _DODGE * (list(drawn).index(whole.row["candidate"]) - (len(drawn) - 1) / 2)
            _draw(axes, whole, rows, drawn[whole.row["candidate"]], dodge)
        readable(axes, which="x", most=5)
    grid[0].set_yticks(range(len(rows)), [literal(host or "all hosts", 26) for host in rows])
    grid[0].set_ylim(len(rows) - 0.5, -0.5)
    return figure


def _draw(axes: Axes, whole: Whole, rows: Sequence[str], look: Look, dodge: float) -> None:
    row = whole.row
    for host, estimate in row["by_host"].items():
        at, mean, blocks = rows.index(host) + dodge, estimate["change_pct"], whole.blocks.get(host, ())
        axes.plot(blocks, [at] * len(blocks), linestyle="", marker=".", color=look.colour, alpha=0.45, markersize=4)
        dots(axes, [mean], [at], look, [f"{whole.name}, {host}: {change(mean, 2)} %"], markersize=4)
    at = rows.index("") + dodge
    if row["lo_pct"] is not None and row["hi_pct"] is not None:
        reach = [row["lo_pct"], row["hi_pct"]]
        axes.plot(reach, [at, at], color=look.colour, linewidth=2.4, solid_capstyle="butt", zorder=3)
    hint = f"{whole.name}, over {len(row['by_host'])} hosts: {change(row['change_pct'], 2)} %"
    diamond = {"marker": "D", "color": "white", "markeredgecolor": look.colour, "markersize": 6}
    dots(axes, [row["change_pct"]], [at], look, [hint], zorder=4, **diamond)
    axes.axhline(rows.index("") + 0.5, color=GREY, linewidth=0.4, zorder=0.5)
