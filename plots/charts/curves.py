"""Curves of blocks over time: averaged where they have too many points, and their median; the load rate as such."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.charts.style import Look, headed, hover, key, looks, readable, scaled, styled
from plots.numbers import number
from tsduel.core.wording import number_of

MOST_POINTS = 120
STEPS_BELOW = 40
_MOST_STEPS = 5000
_WINDOWS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_MANY_BLOCKS, _MOST_HINTS = 12, 24
Curve = tuple[np.ndarray, np.ndarray]


def window(series: pd.DataFrame, most: int = MOST_POINTS) -> float:
    """Return the seconds of an average, so that no curve has many more than `most` points; 0 averages nothing."""
    curves = series.groupby(["block", "variant"])["elapsed_s"]
    if curves.count().max() <= most:
        return 0.0
    longest = float(curves.max().max())
    return next((w for w in _WINDOWS if longest / w <= most), _WINDOWS[-1])


def averaged(x: np.ndarray, y: np.ndarray, seconds: float) -> Curve:
    """Return averages over windows of `seconds`, weighted by the length of each interval; 0 averages nothing."""
    if not seconds:
        return x, y
    lasted = np.diff(x, prepend=min(0.0, x[0]))
    ends = np.ceil(x / seconds)
    groups, inverse = np.unique(ends, return_inverse=True)
    weights = np.bincount(inverse, weights=lasted)
    # A window with a single point at 0 s has weight 0: take its plain mean.
    plain = np.bincount(inverse, weights=y) / np.bincount(inverse)
    sums = np.bincount(inverse, weights=y * lasted)
    means = np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), plain)
    return np.minimum(groups * seconds, x[-1]), means


def by_block(series: pd.DataFrame, variant: str, seconds: float = 0.0) -> list[Curve]:
    """Return the curve of each block of a variant. `series`: columns block, variant, elapsed_s, value."""
    return [
        averaged(curve["elapsed_s"].to_numpy(), curve["value"].to_numpy(), seconds)
        for _, curve in series[series["variant"] == variant].groupby("block", sort=True)
    ]


def median_curve(curves: list[Curve], *, rates: bool = True) -> Curve:
    """Return the median over blocks at each step of time, until the median end of the blocks.

    After the end of a block, its `rates` are left out of the median; levels keep the block's last value.
    """
    end = float(np.median([x[-1] for x, _ in curves]))
    steps = np.concatenate([np.diff(x) for x, _ in curves])
    first = min(float(np.median([x[0] for x, _ in curves])), end)
    # A clock that stepped makes a curve of years.
    step = max(float(np.median(steps)), (end - first) / _MOST_STEPS) if len(steps) else end
    grid = np.arange(first, end, step) if step > 0 else np.array([end])
    grid = np.append(grid[grid < end - step / 4], end)
    values = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan if rates else y[-1]) for x, y in curves])
    last = np.array([y[-1] for _, y in curves])
    values[:, -1] = np.where(np.isnan(values[:, -1]), last, values[:, -1])
    columns = ~np.isnan(values).all(axis=0)
    return grid[columns], np.nanmedian(values[:, columns], axis=0)


def draw(axes: Axes, curves: list[Curve], look: Look, name: str, *, rates: bool = True) -> None:
    """Draw all blocks thin, and their median thick with a bar at its end; the pointer shows the median's values.

    `rates` are means over the interval that ends at each point. Few of them are drawn as steps.
    """
    if not curves:
        return
    steps = rates and max(len(x) for x, _ in curves) <= STEPS_BELOW
    alpha = 0.4 if len(curves) <= _MANY_BLOCKS else 0.22
    for x, y in curves:
        axes.plot(*_stepped(x, y, steps=steps), color=look.colour, linewidth=0.6, alpha=alpha, zorder=2)
    x, y = median_curve(curves, rates=rates)
    axes.plot(*_stepped(x, y, steps=steps), color=look.colour, linestyle=look.dashes, linewidth=2.0, zorder=3)
    axes.plot(x[-1:], y[-1:], color=look.colour, marker="|", markersize=9, markeredgewidth=1.8, zorder=4)
    x, y = (values[:: -(-len(x) // _MOST_HINTS)] for values in (x, y))
    hints = [f"{name}: {number(v)} at {number(at, 3)} s" for at, v in zip(x.tolist(), y.tolist(), strict=True)]
    (points,) = axes.plot(x, y, linestyle="", marker="o", markersize=8, alpha=0, zorder=5)
    hover(points, hints)


def _stepped(x: np.ndarray, y: np.ndarray, *, steps: bool) -> Curve:
    if not steps:
        return x, y
    edges = np.concatenate([[0.0], np.repeat(x, 2)])[:-1]
    return edges, np.repeat(y, 2)


@styled
def load_rate(series: pd.DataFrame, labels: dict[str, str]) -> Figure:
    """Draw the load rate over time: all blocks thin, the median over blocks thick, each variant to its own end.

    A bar marks the median end of a variant's loads. Many intervals are averaged, and the axis says so; few
    are drawn as steps.

    `series`: columns block, variant, elapsed_s, value (samples/s in the interval that ends at elapsed_s).
    `labels`: variant -> name for people, baseline first.
    """
    seconds = window(series)
    unit, factor = scaled("samples/s", float(series["value"].max()))
    rates = series.assign(value=series["value"] / factor)
    loads = {variant: by_block(rates, variant, seconds) for variant in labels}
    notes = {v: f"median of {number_of(len(load), 'block')}" if load[1:] else "one load" for v, load in loads.items()}
    handles = [key(labels[v], look, f" ({notes[v]})") for v, look in looks(labels).items() if loads[v]]
    figure = headed("Ingestion rate over time, samples/s (higher is better)", handles, 6.5, 3.0)
    axes = figure.add_subplot()
    for variant, look in looks(labels).items():
        draw(axes, loads[variant], look, labels[variant])
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.04)
    axes.set_xlabel("seconds since the load began")
    axes.set_ylabel(unit + (f", means of {seconds:.0f} s" if seconds else ""))
    readable(axes, most=7)
    return figure
