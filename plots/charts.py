"""Charts: one function a chart, data -> Figure. The same data gives the same bytes (see `save`)."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

mpl.use("Agg")

from matplotlib import style, ticker
from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("bench.mplstyle")
# Okabe and Ito's palette is safe for colour-blind readers; the lightness and the dashes tell them apart in grey.
# The first is always the baseline.
LOOKS = (("#0072B2", "-"), ("#D55E00", (0, (4, 1.4))), ("#009E73", (0, (1, 1))), ("#CC79A7", (0, (6, 1, 1, 1))))
MOST_POINTS = 120
SHORT_NAME, LONGEST_NAME = 26, 44
_WINDOWS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_SCALES = ((1e6, "million "), (1e3, "thousand "), (1.0, ""))


def load_rate(series: pd.DataFrame, labels: dict[str, str]) -> Figure:
    """Draw the load rate over time: all rounds thin, the median over rounds thick, each variant to its own end.

    A bar marks the median end of a variant's loads. Loads of many intervals are shown as means over longer ones, since
    a thousand points on 6 in are a smear; the axis says so.

    `series`: columns variant, round, elapsed_s, value (samples/s, in the interval that ends then).
    `labels`: variant -> name for people, baseline first.
    """
    with style.context(STYLE):
        figure = Figure()
        axes = figure.add_subplot()
        divisor, prefix = next(s for s in _SCALES if series["value"].max() >= s[0] or s[0] == 1.0)
        window = _window(series)
        for (variant, label), (colour, dashes) in zip(labels.items(), LOOKS, strict=False):
            curves = [
                (curve["elapsed_s"].to_numpy(), curve["value"].to_numpy() / divisor)
                for _, curve in series[series["variant"] == variant].groupby("round", sort=True)
            ]
            if not curves:
                continue
            curves = [_averaged(x, y, window) for x, y in curves]
            few = all(len(x) == 1 for x, _ in curves)
            for x, y in curves:
                axes.plot(x, y, color=colour, linewidth=0.6, alpha=0.35, marker="o" if len(x) == 1 else None, zorder=2)
            x, y = median_curve(curves)
            rounds = f"{len(curves)} round{'s' if len(curves) > 1 else ''}"
            axes.plot(
                x, y, color=colour, linestyle=dashes, linewidth=2.0, zorder=3,
                marker="D" if few else None, markersize=5, label=f"{_literal(label)} (median of {rounds})",
            )  # fmt: skip
            axes.plot(x[-1:], y[-1:], color=colour, marker="|", markersize=11, markeredgewidth=2.0, zorder=4)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.04)
        axes.set_xlabel("seconds since the load began")
        axes.set_ylabel(f"{prefix}samples/s" + (f", means of {window:.0f} s" if window else ""))
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.4g}"))
        # Between title and axes, where it hides no curve: one row where the names are short enough for it.
        columns = 2 if max(len(_literal(label)) for label in labels.values()) <= SHORT_NAME else 1
        rows = -(-len(labels) // columns)
        axes.set_title("Load rate over time, samples/s (higher is better)", pad=8 + 14 * rows)
        legend = axes.legend(
            loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=columns, borderaxespad=0, handlelength=3.2
        )
        legend.set_in_layout(False)  # a long name must not squeeze the axes
        return figure


def _literal(text: str) -> str:
    """Shorten a long label, and keep matplotlib from reading it as mathematics or as one to hide."""
    text = text.lstrip("_")
    if len(text) > LONGEST_NAME:
        text = f"{text[: LONGEST_NAME // 2]}…{text[-LONGEST_NAME // 2 :]}"
    return text.replace("$", r"\$")


def _window(series: pd.DataFrame) -> float:
    """Return the seconds to average over: 0 for as it is, so that no curve has many more than MOST_POINTS points."""
    rounds = series.groupby("round")["elapsed_s"]
    if rounds.count().max() <= MOST_POINTS:
        return 0.0
    longest = float(rounds.max().max())
    return next((w for w in _WINDOWS if longest / w <= MOST_POINTS), _WINDOWS[-1])


def _averaged(x: np.ndarray, y: np.ndarray, window: float) -> tuple[np.ndarray, np.ndarray]:
    """Average rates over windows of time; each interval weighs as long as it lasted."""
    if not window:
        return x, y
    seconds = np.diff(x, prepend=0.0)
    ends = np.ceil(x / window)
    groups = np.unique(ends)
    weights = np.array([seconds[ends == g].sum() for g in groups])
    means = np.array([(y * seconds)[ends == g].sum() for g in groups]) / weights
    return np.minimum(groups * window, x[-1]), means


def median_curve(curves: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the median over rounds at each step of time, to the median end of the rounds.

    Beyond the end of a round it has no rate, so that the median there is over the rounds that still load.
    """
    end = float(np.median([x[-1] for x, _ in curves]))
    steps = np.concatenate([np.diff(x) for x, _ in curves])
    step = float(np.median(steps)) if len(steps) else end
    first = min(float(np.median([x[0] for x, _ in curves])), end)
    grid = np.arange(first, end, step) if step > 0 else np.array([end])
    grid = np.append(grid[grid < end - step / 4], end)
    values = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in curves])
    held = np.array([y[-1] for _, y in curves])
    values[:, -1] = np.where(np.isnan(values[:, -1]), held, values[:, -1])
    known = ~np.isnan(values).all(axis=0)
    return grid[known], np.nanmedian(values[:, known], axis=0)


def save(figure: Figure, path: Path) -> None:
    """Write SVG and PNG beside each other, without dates or versions in them."""
    path.parent.mkdir(exist_ok=True)
    with style.context(STYLE):
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
        figure.savefig(path.with_suffix(".png"), metadata={"Software": None})
