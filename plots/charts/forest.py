"""The change of every metric with its interval: a forest plot."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from matplotlib import style, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from plots import numbers
from plots.charts.style import DARK_BAND, GREY, PALE, STYLE, Look, headed, hover, key, literal, looks, readable

_ROW_IN, _DODGE, _LONGEST = 0.21, 0.62, 40
_NARROW_ROW_IN, _NARROW_IN = 0.3, 3.7
MOST_ROWS = 44
READ = (
    "The pale band is the metric's threshold both ways, the dark one in it what as many blocks show here of a binary "
    "against itself (95 %). A filled mark is more than chance (adjusted p of at most 0.05), a hollow one may be "
    "chance. Below six blocks there is no interval: dotted lines are the range of the blocks."
)
_SURE = {"regression", "improvement", "worse", "better", "negligible"}


@dataclass(frozen=True)
class Change:
    """One metric of one candidate: change and interval in percent, from the baseline to the candidate.

    `low` and `high` are the least and the largest block where `screen`, since there is no interval then; None where
    there is neither. `sure`: the change is more than chance. `threshold` is in percent, `floor` the same
    of this machine's noise, if known. `said` is the row in words. Of different databases, where no threshold applies,
    `change`, `low` and `high` are logarithms of the ratio to base 2, and `ratio` is the figure.
    """

    group: str
    name: str
    candidate: str
    change: float
    low: float | None
    high: float | None
    threshold: float
    higher_is_better: bool
    sure: bool
    screen: bool
    said: str
    floor: float | None = None
    ratio: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any], group: str, name: str, floor: float | None = None) -> Self:
        """Return a row of comparison.json that has a change; the range of its blocks is no interval."""
        low, high = (row["lo_pct"], row["hi_pct"]) if row["lo_pct"] is not None else row["range_pct"] or (None, None)
        if row["blocks"] == 1:
            low = high = None
        unit, sides = numbers.sides(row)
        size, change, ratio = f"{numbers.effect(row)} ({numbers.interval(row)})", row["change_pct"], ""
        if numbers.by_ratio(row):
            figure, reach = numbers.ratio({"change_pct": change, "lo_pct": low, "hi_pct": high})
            ratio = f"{numbers.TIMES}{figure}" + (f" ({reach})" if reach != numbers.MISSING else "")
            change, low, high = (None if v is None else math.log2(1 + v / 100) for v in (change, low, high))
        return cls(
            group, name, row["candidate"], change, low, high, row["threshold_pct"],
            higher_is_better=row["better"] == "higher", sure=row["verdict"] in _SURE, screen=row["lo_pct"] is None,
            said=f"{name}: {' → '.join(sides)} {unit}, {size}, {row['verdict']}", floor=floor, ratio=ratio,
        )  # fmt: skip


def shared_path(names: Sequence[str]) -> int:
    """Return the length of the elements of the path, with their slashes, that all names begin with; 0 of one name."""
    parts = [name.split("/")[:-1] for name in names]
    same = 0
    while len(parts) > 1 and all(len(part) > same and part[same] == parts[0][same] for part in parts):
        same += 1
    return len("".join(f"{element}/" for element in parts[0][:same])) if parts else 0


def forest_of(found: Sequence[Change], labels: Mapping[str, str], title: str, *, narrow: bool = False) -> Figure | None:
    """Draw changes, the first group whole; of very many others the largest, measured by thresholds. None of none."""
    if not found:
        return None
    first = found[0].group
    ranked = sorted(found, key=lambda one: (one.group != first, -abs(one.change) / (one.threshold or 1.0)))
    most = MOST_ROWS + len({one.name for one in found if one.group == first})
    kept = set(list(dict.fromkeys((one.group, one.name) for one in ranked))[:most])
    shown = [one for one in found if (one.group, one.name) in kept]
    left = len({(one.group, one.name) for one in found} - kept)
    return forest(shown, labels, f"{title}; {left} smaller ones left out" if left else title, narrow=narrow)


def forest(changes: Sequence[Change], labels: Mapping[str, str], title: str, *, narrow: bool = False) -> Figure:
    """Draw changes so that worse is always to the right, whatever the metric's own direction.

    The grey band of each metric is its threshold both ways; a filled mark is more than chance, a hollow one may be
    chance; an interval that leaves the axis ends in an arrow. The figures on the right have the metric's own sign.
    A narrow one, for a phone, has names and figures above the bars.
    """
    with style.context(STYLE):
        rows = list(dict.fromkeys((one.group, one.name) for one in changes))
        order = _positions(rows)
        candidates = [name for name in labels if any(one.candidate == name for one in changes)]
        drawn = {name: look for name, look in looks(labels).items() if name in candidates}
        two = len(labels) == 2 and not narrow  # noqa: PLR2004 - sides
        against = f" against {next(iter(labels.values()))}" if two else ""
        handles = [key(labels[name], look, literal(against), line=False) for name, look in drawn.items()]
        bands = ({"threshold": PALE} if any(one.threshold for one in changes) else {}) | (
            {"A/A here": DARK_BAND} if any(one.floor for one in changes) else {}
        )
        handles += [Line2D([], [], color=colour, linewidth=6, label=name) for name, colour in bands.items()]
        row_in, width = (_NARROW_ROW_IN, _NARROW_IN) if narrow else (_ROW_IN, 6.5)
        height = 0.75 + row_in * (max(order.values()) + 1) * max(1.0, 0.65 * len(candidates))
        figure = headed(title, handles, width, height)
        axes = figure.add_subplot()
        limit = _limit(changes)
        for one in changes:
            middle = order[one.group, one.name]
            _band(axes, one, middle, limit)
            shift = (candidates.index(one.candidate) - (len(candidates) - 1) / 2) / max(len(candidates), 1) * _DODGE
            _bar(axes, one, middle + (0.62 * shift + 0.2 if narrow else shift), limit, drawn[one.candidate])
            if narrow:
                _above(axes, one, middle, figure=len(candidates) == 1)
            elif len(candidates) == 1:
                axes.annotate(
                    _said(one), (1.0, middle), xytext=(9, 0), xycoords=("axes fraction", "data"),
                    textcoords="offset points", va="center", fontsize=7.5,
                )  # fmt: skip
        axes.axvline(0, color=GREY, linewidth=0.9, zorder=1.5)
        axes.set_xlim(-limit, limit)
        axes.set_ylim(max(order.values()) + 0.6, -0.6)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        names = [literal(name, _LONGEST) for _, name in order]
        axes.set_yticks([] if narrow else list(order.values()), [] if narrow else names)
        axes.spines["left"].set_visible(not narrow)
        _directions(axes, ratio=all(one.ratio for one in changes))
        if len(candidates) == 1 and not narrow:
            what = "range" if all(one.screen for one in changes) else "95 % CI"
            how = "ratio" if changes[0].ratio else "change"
            axes.annotate(
                f"{how} ({what})", (1.0, 1.0), xytext=(9, 2), xycoords="axes fraction",
                textcoords="offset points", va="bottom", fontsize=7.5, color=GREY,
            )  # fmt: skip
        return figure


def _positions(rows: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Return the height of each row, 0 at the top; half a row is left between groups."""
    found, at, before = dict[tuple[str, str], float](), 0.0, ""
    for group, name in rows:
        at += 0.5 if before and group != before else 0.0
        found[group, name], before = at, group
        at += 1.0
    return found


def _worse(one: Change, value: float) -> float:
    return -value if one.higher_is_better else value


def _limit(changes: Sequence[Change]) -> float:
    """Return half the width of the axis: all estimates and thresholds, and as much of the intervals as can be read."""
    reach = [abs(edge) for one in changes for edge in (one.low, one.high, one.change) if edge is not None]
    estimates = [abs(one.change) for one in changes]
    wanted = max(2.0 * max(estimates), 2.5 * max(one.threshold for one in changes))
    most = max(min(max(reach), wanted), 1.2 * max(one.threshold for one in changes), 1.05 * max(estimates))
    return 1.08 * most or 1.0


def _band(axes: Axes, one: Change, middle: float, limit: float) -> None:
    # A fall of 1 - 1/1.05 is as much as a rise of 5 %: thresholds are the same both ways as ratios.
    fall = 100 * one.threshold / (100 + one.threshold)
    edges = sorted(min(max(_worse(one, edge), -limit), limit) for edge in (-fall, one.threshold))
    axes.add_patch(Rectangle((edges[0], middle - 0.5), edges[1] - edges[0], 1.0, color=PALE, linewidth=0, zorder=0.5))
    if one.floor:
        floor = min(one.floor, limit)
        axes.add_patch(Rectangle((-floor, middle - 0.5), 2 * floor, 1.0, color=DARK_BAND, linewidth=0, zorder=0.6))


def _bar(axes: Axes, one: Change, at: float, limit: float, look: Look) -> None:
    if one.low is not None and one.high is not None:
        low, high = sorted((_worse(one, one.low), _worse(one, one.high)))
        axes.plot(
            [max(low, -limit), min(high, limit)], [at, at], color=look.colour, linewidth=1.5,
            linestyle=":" if one.screen else "-", solid_capstyle="butt", zorder=3,
        )  # fmt: skip
        for beyond, marker, edge in ((low < -limit, "<", -limit), (high > limit, ">", limit)):
            if beyond:
                axes.plot([edge * 0.985], [at], marker=marker, color=look.colour, markersize=5, clip_on=False, zorder=3)
    axes.plot(
        [_worse(one, one.change)], [at], marker=look.marker, markersize=4.6, color=look.colour, zorder=4,
        markerfacecolor=look.colour if one.sure else "white", markeredgewidth=1.2,
    )  # fmt: skip
    # What the pointer finds: all of the row, and not a mark of a few dots.
    hover(axes.add_patch(Rectangle((-limit, at - 0.35), 2 * limit, 0.7, color="white", alpha=0, zorder=6)), [one.said])


def _above(axes: Axes, one: Change, middle: float, *, figure: bool) -> None:
    for at, align, text in ((0.0, "left", literal(one.name, _LONGEST)), (1.0, "right", _said(one) if figure else "")):
        axes.annotate(
            text, (at, middle - 0.22), xytext=(-4 if at else 4, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha=align, va="center", fontsize=7.5, zorder=5,
        )  # fmt: skip


def _said(one: Change) -> str:
    if one.ratio:
        return one.ratio
    if one.low is None or one.high is None:
        return numbers.change(one.change)
    low, middle, high = (
        numbers.change(v, numbers.digits(one.low, one.high)[1]) for v in (one.low, one.change, one.high)
    )
    return f"{middle} ({low} to {high})"


def _directions(axes: Axes, *, ratio: bool) -> None:
    readable(axes, which="x", most=7)
    if ratio:
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda power, _: f"{2 ** abs(power):.3g}"))
    axes.set_xlabel("times as bad (right) or as good (left)" if ratio else "change for the worse, %")
    for text, at, align in (("← better", 0.0, "left"), ("worse →", 1.0, "right")):
        axes.annotate(text, (at, 1.0), xytext=(0, 2), xycoords="axes fraction", textcoords="offset points",
                      ha=align, va="bottom", fontsize=9, color=GREY)  # fmt: skip
