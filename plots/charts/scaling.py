"""Figures over settings: one panel a figure, both axes logarithmic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots import numbers
from plots.charts.style import dots, headed, key, literal, looks, panel_title, panels, styled

_COLUMNS, _APART, _LETTERS = 2, 0.03, 36
_FEW, _NARROW, _DECADES = 5, 0.6, 2.0
"""Number of ticks; fewest decades of logarithmic ticks; decades above which ticks stand at whole decades only."""


@dataclass(frozen=True)
class Panel:
    """One figure: its title, unit and direction, and the exponent of each variant in words, if it has one.

    `points`: columns at (place on the axis), setting, variant, block, value.
    """

    title: str
    unit: str
    better: str
    exponents: Mapping[str, str]
    points: pd.DataFrame


@styled
def scaling(
    figures: Sequence[Panel], axis: str, settings: Mapping[float, str], labels: Mapping[str, str],
    what: str = "Figures", *, narrow: bool = False,
) -> Figure:  # fmt: skip
    """Draw all blocks as points, their medians as a line, a colour a variant; exponents stand in their panels.

    `axis` is the x axis's label; without one, settings are not numeric and stand side by side under their names.
    `settings`: place on the axis -> their names; `labels`: variant -> name for people, baseline first;
    `what` begins the title. The `narrow` form, for a phone, has one panel in a row.
    """
    drawn = looks(labels)
    handles = [key(labels[name], look, marker=look.marker, linewidth=1.4) for name, look in drawn.items()]
    columns, width, height = (1, 3.7, 1.6) if narrow else (_COLUMNS, 6.5, 1.95)
    title = f"{what} by {axis or 'setting'}"
    if not narrow:
        title += f"{', both axes logarithmic' if axis else ''}: blocks and medians"
    figure = headed(title, handles, width, 0.45 + height * -(-len(figures) // columns))
    for axes, panel in zip(panels(figure, len(figures), columns), figures, strict=True):
        _panel(axes, panel, settings, labels, numeric=bool(axis))
    figure.supxlabel(axis, fontsize=9)
    return figure


def _panel(
    axes: Axes, panel: Panel, settings: Mapping[float, str], labels: Mapping[str, str], *, numeric: bool
) -> None:
    unit, factor = numbers.scaled(panel.unit, float(panel.points["value"].max()))
    places = sorted(settings)
    if numeric:
        axes.set_xscale("log")
    axes.set_yscale("log")
    for at, (variant, look) in enumerate(looks(labels).items()):
        of_variant = panel.points[panel.points["variant"] == variant]
        # Variants stand a little apart, so that none hides another.
        beside = (at - (len(labels) - 1) / 2) * _APART
        reach = np.log10(places[-1] / places[0]) if numeric else float(len(places))
        x = of_variant["at"] * 10 ** (beside * reach / 2) if numeric else of_variant["at"] + beside * reach
        y = of_variant["value"] / factor
        marks = zip(of_variant["setting"], of_variant["block"], y, strict=True)
        hints = [f"{labels[variant]}, {name}, block {b:.0f}: {numbers.number(v)} {unit}" for name, b, v in marks]
        dots(axes, x, y, look, hints, markersize=3.2, alpha=0.45, markeredgewidth=0)
        middle = of_variant.groupby("at")["value"].median() / factor
        axes.plot(
            middle.index.to_numpy(dtype=float), middle.to_numpy(), color=look.colour,
            linestyle=look.dashes if numeric else "", marker=look.marker if numeric else "_",
            markersize=4.5 if numeric else 14, markeredgewidth=0 if numeric else 1.6, linewidth=1.5, zorder=3,
        )  # fmt: skip
        if words := panel.exponents.get(variant):
            # The margin below leaves room above the curves.
            corner = (0.02, 0.97 - 0.1 * at)
            axes.text(*corner, words, transform=axes.transAxes, fontsize=7.2, color=look.colour, va="top", zorder=5)
    arrow = {"higher": " (↑ better)", "lower": " (↓ better)"}.get(panel.better, "")
    panel_title(axes, f"{panel.title}, " + f"{unit}{arrow}".replace(" ", "\N{NO-BREAK SPACE}"))
    low, high = (float(v) / factor for v in (panel.points["value"].min(), panel.points["value"].max()))
    room = max(np.log10(high / low), 0.15)
    head = 0.16 * len(panel.exponents)
    axes.set_ylim(low / 10 ** (0.08 * room), high * 10 ** ((0.1 + head) * room))
    _ticks(axes)
    if numeric:
        axes.xaxis.set_major_locator(ticker.FixedLocator(places if len(places) <= _FEW + 1 else places[::2]))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _short(value)))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
    else:
        # If only one key is swept, leave its name out.
        names = [settings[at] for at in places]
        values = [name if name.count("=") > 1 else name.partition("=")[2] or name for name in names]
        upright = len(values) * max(map(len, values)) > _LETTERS
        rotation, side = (20, "right") if upright else (0, "center")
        axes.set_xticks(places, [literal(value, 18) for value in values], fontsize=7, rotation=rotation, ha=side)
        axes.set_xlim(places[0] - 0.6, places[-1] + 0.6)


def _ticks(axes: Axes) -> None:
    axis, (low, high) = axes.yaxis, axes.get_ylim()
    decades = np.log10(high / low)
    if decades < _NARROW:
        axis.set_major_locator(ticker.MaxNLocator(nbins=_FEW - 1, steps=[1, 2, 2.5, 5, 10]))
    else:
        subs = (1.0,) if decades > _DECADES else (1.0, 3.0) if decades > 1 else (1.0, 2.0, 5.0)
        axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=8))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _short(value)))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_minor_formatter(ticker.NullFormatter())


def _short(value: float) -> str:
    """Return 1, 1.5, 10k, 2.5M."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            return f"{value / (1e3 if letter == 'k' else factor):,.4g}{letter}"
    return f"{value:,.4g}"
