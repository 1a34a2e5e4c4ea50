"""The change of every metric with its interval: a forest plot."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from plots import markup, numbers
from plots.charts.style import DARK_BAND, GREY, PALE, Look, headed, hover, key, literal, looks, note, readable, styled

_ROW_IN, _DODGE, _LONGEST, _LINE = 0.21, 0.62, 40, 30
_NARROW_ROW_IN, _NARROW_IN = 0.27, 3.7
MOST_ROWS, MOST_NAMED = 44, 5
_MARKS = {
    **dict.fromkeys(("regression", "worse"), "✗"), **dict.fromkeys(("improvement", "better"), "✓"),
    "negligible": "≈", "equivalent": "=",
}  # fmt: skip
"""By verdict, as in the tables; any other is open."""
_COLOURS = {"✗": "#c4420d", "✓": "#0b7a5c", "≈": "#5a5a5a", "=": "#5a5a5a", "?": "#8a6d00"}
"""Of one candidate's rows, by mark. In grey, the mark beside the figure tells them apart."""
_SURE = {"regression", "improvement", "worse", "better", "negligible"}


@dataclass(frozen=True)
class Change:
    """One metric of one candidate: change and interval in percent, from the baseline to the candidate.

    A `screen` has no interval: `low` and `high` are its least and its largest block, None of a single block.
    `sure`: the change is more than chance. `threshold` and `floor` (the noise of this machine, if known) are
    in percent. `level` stands behind an interval that is not one of 95 %. `hint` is the row in words. Different
    databases have no threshold: `change`, `low` and `high` are logarithms of the ratio to base 2, and `ratio` is
    the ratio as text. `mark` is that of the verdict; empty where there is none.
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
    hint: str
    floor: float | None = None
    ratio: str = ""
    level: str = ""
    mark: str = ""
    places: int = numbers.DECIMALS

    @classmethod
    def of(cls, row: Mapping[str, Any], group: str, name: str, floor: float | None = None) -> Self:
        """Return the change of a row of comparison.json; the row must have one."""
        low, high, level = numbers.deciding(row)
        if low is None:
            low, high = row["range_pct"] or (None, None)
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
            hint=f"{name}: {' → '.join(sides)} {unit}, {size}, {row['verdict']}", floor=floor, ratio=ratio,
            level="" if level == 95 else f" ({level} %)",  # noqa: PLR2004 - the level of all others
            mark="" if row["verdict"] in {"shown", "inconclusive (n < 6)"} else _MARKS.get(row["verdict"], "?"),
            places=numbers.places(row),
        )  # fmt: skip


def shared_path(names: Sequence[str]) -> int:
    """Return the length of the path that all names begin with, its last slash included; 0 for a single name."""
    parts = [name.split("/")[:-1] for name in names]
    same = 0
    while len(parts) > 1 and all(len(part) > same and part[same] == parts[0][same] for part in parts):
        same += 1
    return len("".join(f"{element}/" for element in parts[0][:same])) if parts else 0


def caption(bars: Sequence[Change], without: Sequence[str] = ()) -> str:
    """Return how to read a picture of these changes; ``without``: the rows that have no percent. "" for no picture."""
    if not bars:
        return ""
    limit, has = _limit(bars), "it has" if len(without) == 1 else "they have"
    parts = [
        ("Every doubling is as wide.", all(bar.ratio for bar in bars)),
        ("Dark band: a binary's difference from itself.", any(b.floor for b in bars)),
        ("Hollow mark: may be chance.", not all(bar.sure for bar in bars)),
        ("Arrow: the interval goes on.", any(abs(e) > limit for b in bars for e in (b.low, b.high) if e)),
        ("Dotted: the range of fewer than six blocks.", any(b.screen and b.low != b.high for b in bars)),
        (f"Not drawn, since {has} no percent: {', '.join(markup.most(without, MOST_NAMED))}.", bool(without)),
    ]
    return " ".join(text for text, drawn in parts if drawn)


def forest_of(bars: Sequence[Change], labels: Mapping[str, str], title: str, *, narrow: bool = False) -> Figure | None:
    """Draw changes, the first group whole; of many others the largest, measured by thresholds. None without changes."""
    if not bars:
        return None
    first = bars[0].group
    ranked = sorted(bars, key=lambda bar: (bar.group != first, -abs(bar.change) / (bar.threshold or 1.0)))
    most = MOST_ROWS + len({bar.name for bar in bars if bar.group == first})
    kept = set(list(dict.fromkeys((bar.group, bar.name) for bar in ranked))[:most])
    shown = [bar for bar in bars if (bar.group, bar.name) in kept]
    left = len({(bar.group, bar.name) for bar in bars} - kept)
    return forest(shown, labels, f"{title}; {left} smaller ones left out" if left else title, narrow=narrow)


@styled
def forest(bars: Sequence[Change], labels: Mapping[str, str], title: str, *, narrow: bool = False) -> Figure:
    """Draw changes so that worse is always to the right; figures on the right have the metric's own sign.

    The grey band of each metric is its threshold both ways; a filled mark is more than chance, a hollow one
    may be chance; an interval that leaves the axis ends in an arrow. The `narrow` form, for a phone, has
    names and figures above the bars.
    """
    rows = list(dict.fromkeys((bar.group, bar.name) for bar in bars))
    order = _positions(rows)
    candidates = [name for name in labels if any(bar.candidate == name for bar in bars)]
    drawn = {name: look for name, look in looks(labels).items() if name in candidates}
    if len(candidates) == 1:
        drawn = {name: replace(look, colour=GREY) for name, look in drawn.items()}
    two = len(labels) == 2 and not narrow  # noqa: PLR2004 - sides
    against = f" against {next(iter(labels.values()))}" if two else ""
    handles = [key(labels[name], look, literal(against), line=False) for name, look in drawn.items()]
    bands = (("threshold", PALE, any(b.threshold for b in bars)), ("A/A here", DARK_BAND, any(b.floor for b in bars)))
    handles += [Line2D([], [], color=colour, linewidth=6, label=name) for name, colour, any_drawn in bands if any_drawn]
    row_in, width = (_NARROW_ROW_IN, _NARROW_IN) if narrow else (_ROW_IN, 6.5)
    names = [literal(name, 2 * _LINE) for _, name in order]
    if not narrow and max(map(len, names)) > _LONGEST:
        row_in, names = _NARROW_ROW_IN, [textwrap.fill(name, _LINE) if len(name) > _LONGEST else name for name in names]
    height = 0.75 + row_in * (max(order.values()) + 1) * max(1.0, 0.65 * len(candidates))
    figure = headed(title, handles, width, height)
    axes = figure.add_subplot()
    limit, named = _limit(bars), set[float]()
    for bar in bars:
        middle = order[bar.group, bar.name]
        _band(axes, bar, middle, limit)
        shift = (candidates.index(bar.candidate) - (len(candidates) - 1) / 2) / max(len(candidates), 1) * _DODGE
        look = drawn[bar.candidate]
        if len(candidates) == 1:
            look = replace(look, colour=_COLOURS.get(bar.mark, look.colour))
        _bar(axes, bar, middle + (0.62 * shift + 0.2 if narrow else shift), limit, look)
        if narrow:
            _above(axes, "" if middle in named else bar.name, _figure(bar) if len(candidates) == 1 else "", middle)
            named.add(middle)
        elif len(candidates) == 1:
            note(axes, _figure(bar), (1.0, middle), (9, 0), va="center")
    axes.axvline(0, color=GREY, linewidth=0.9, zorder=1.5)
    axes.set_xlim(-limit, limit)
    axes.set_ylim(max(order.values()) + 0.6, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_yticks([] if narrow else list(order.values()), [] if narrow else names, linespacing=0.95)
    axes.spines["left"].set_visible(not narrow)
    _directions(axes, ratio=all(bar.ratio for bar in bars))
    if len(candidates) == 1 and not narrow:
        what = "range" if all(bar.screen for bar in bars) else "95 % CI"
        how = "ratio" if bars[0].ratio else "change"
        note(axes, f"{how} ({what})", (1.0, 1.0), (9, 2), xycoords="axes fraction", va="bottom", color=GREY)
    return figure


def _positions(rows: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Return the height of each row, 0 at the top; half a row is left between groups."""
    heights, at, before = dict[tuple[str, str], float](), 0.0, ""
    for group, name in rows:
        at += 0.5 if before and group != before else 0.0
        heights[group, name], before = at, group
        at += 1.0
    return heights


def _worse(bar: Change, value: float) -> float:
    return -value if bar.higher_is_better else value


def _limit(bars: Sequence[Change]) -> float:
    """Return half the width of the axis: it holds all estimates and thresholds; long intervals are cut."""
    reach = [abs(edge) for bar in bars for edge in (bar.low, bar.high, bar.change) if edge is not None]
    estimates = [abs(bar.change) for bar in bars]
    wanted = max(2.0 * max(estimates), 2.5 * max(bar.threshold for bar in bars))
    most = max(min(max(reach), wanted), 1.2 * max(bar.threshold for bar in bars), 1.05 * max(estimates))
    return 1.08 * most or 1.0


def _band(axes: Axes, bar: Change, middle: float, limit: float) -> None:
    # As a ratio, a fall by 1 - 1/1.05 equals a rise by 5 %.
    fall = 100 * bar.threshold / (100 + bar.threshold)
    edges = sorted(min(max(_worse(bar, edge), -limit), limit) for edge in (-fall, bar.threshold))
    axes.add_patch(Rectangle((edges[0], middle - 0.5), edges[1] - edges[0], 1.0, color=PALE, linewidth=0, zorder=0.5))
    if bar.floor:
        floor = min(bar.floor, limit)
        axes.add_patch(Rectangle((-floor, middle - 0.5), 2 * floor, 1.0, color=DARK_BAND, linewidth=0, zorder=0.6))


def _bar(axes: Axes, bar: Change, at: float, limit: float, look: Look) -> None:
    if bar.low is not None and bar.high is not None:
        low, high = sorted((_worse(bar, bar.low), _worse(bar, bar.high)))
        axes.plot(
            [max(low, -limit), min(high, limit)], [at, at], color=look.colour, linewidth=1.5,
            linestyle=":" if bar.screen else "-", solid_capstyle="butt", zorder=3,
        )  # fmt: skip
        for beyond, marker, edge in ((low < -limit, "<", -limit), (high > limit, ">", limit)):
            if beyond:
                axes.plot([edge * 0.985], [at], marker=marker, color=look.colour, markersize=5, clip_on=False, zorder=3)
    axes.plot(
        [_worse(bar, bar.change)], [at], marker=look.marker, markersize=4.6, color=look.colour, zorder=4,
        markerfacecolor=look.colour if bar.sure else "white", markeredgewidth=1.2,
    )  # fmt: skip
    # The whole row shows the hint.
    hover(axes.add_patch(Rectangle((-limit, at - 0.35), 2 * limit, 0.7, color="white", alpha=0, zorder=6)), [bar.hint])


def _above(axes: Axes, name: str, figure: str, middle: float) -> None:
    short = name.removesuffix(", all types") if len(name) > _LONGEST else name
    for at, align, text in ((0.0, "left", literal(short, _LONGEST + 4)), (1.0, "right", figure)):
        note(axes, text, (at, middle - 0.22), (-4 if at else 4, 0), ha=align, va="center", zorder=5)


def _figure(bar: Change) -> str:
    figure = bar.ratio or numbers.change(bar.change, bar.places)
    if not bar.ratio and bar.low is not None and bar.high is not None:
        figure = f"{figure} ({numbers.reach(bar.low, bar.high, bar.places)}){bar.level}"
    return f"{bar.mark} {figure}".lstrip()


def _directions(axes: Axes, *, ratio: bool) -> None:
    readable(axes, which="x", most=7)
    if ratio:
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda power, _: f"{2 ** abs(power):.3g}"))
    axes.set_xlabel("times" if ratio else "%")
    for text, at, align in (("← better", 0.0, "left"), ("worse →", 1.0, "right")):
        above = {"xycoords": "axes fraction", "ha": align, "va": "bottom"}
        note(axes, text, (at, 1.0), (0, 2), fontsize=9, color=GREY, **above)
