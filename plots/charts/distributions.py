"""Service times of each query type as distributions of all exchanges."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.charts.style import LEAST, dots, headed, key, looks, panel_title, panels, plain_log, styled
from plots.numbers import number

_COLUMNS, _LONGEST = 3, 24
_TICKS = {0.01: "1 %", 0.1: "10", 0.5: "50", 0.9: "90", 0.99: "99", 0.999: "99.9 %"}
_MARKED = (0.5, 0.95, 0.99)
_EDGE = 0.0012


@styled
def distributions(table: pd.DataFrame, query_types: Sequence[str], labels: Mapping[str, str]) -> Figure | None:
    """Draw a panel a query type: the share of the exchanges (y) that took at most a time (x).

    The y axis is logistic, so that both tails are visible. The x axis is logarithmic.

    `table`: columns variant, query_type, quantile (0 to 1), value_ms, n.
    """
    table = table[(table["value_ms"] > 0) & (table["n"] >= LEAST)]
    types = [name for name in query_types if (table["query_type"] == name).any()]
    if not types:
        return None
    rows = -(-len(types) // _COLUMNS)
    drawn = {v: look for v, look in looks(labels).items() if (table["variant"] == v).any()}
    handles = [key(labels[variant], look, marker=look.marker, markersize=4) for variant, look in drawn.items()]
    figure = headed("Query time of every exchange, ms (left is better)", handles, 6.5, 0.4 + 1.75 * rows)
    for axes, query_type in zip(panels(figure, len(types), _COLUMNS, sharey=True), types, strict=True):
        of_type = table[table["query_type"] == query_type]
        for variant, look in drawn.items():
            curve = of_type[of_type["variant"] == variant].sort_values("quantile")
            quantile, value = curve["quantile"].to_numpy(), curve["value_ms"].to_numpy()
            axes.plot(value, quantile, color=look.colour, linestyle=look.dashes, linewidth=1.3)
            marks = [q for q in _MARKED if len(quantile) and quantile[0] <= q <= quantile[-1]]
            times = np.interp(marks, quantile, value)
            pairs = zip(marks, times.tolist(), strict=True)
            hints = [f"{labels[variant]}, p{100 * q:g}: {number(ms)} ms" for q, ms in pairs]
            dots(axes, times, marks, look, hints, markersize=3.6)
        _axes(axes, of_type)
        panel_title(axes, query_type, _LONGEST)
    figure.supxlabel("ms, logarithmic", fontsize=9)
    figure.supylabel("exchanges done within, %", fontsize=9)
    return figure


def _axes(axes: Axes, values: pd.DataFrame) -> None:
    axes.set_xscale("log")
    axes.set_yscale("logit")
    inside = values[(values["quantile"] >= _EDGE) & (values["quantile"] <= 1 - _EDGE)]["value_ms"]
    shown = inside if len(inside) else values["value_ms"]
    low, high = float(shown.min()) / 1.05, float(shown.max()) * 1.05
    axes.set_xlim(low, high)
    axes.set_ylim(_EDGE, 1 - _EDGE / 1.6)
    axes.set_yticks(list(_TICKS), list(_TICKS.values()))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    # A number at an edge would overlap that of the next panel.
    axes.set_xticks(ticks(low * 1.06, high / 1.06) if high > 1.3 * low else ticks(low, high))
    plain_log(axes.xaxis)
    axes.tick_params(labelsize=7.5)


def ticks(low: float, high: float) -> list[float]:
    """Return three to five round numbers between two limits of a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    coarse: list[list[float]] = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7], [*range(1, 10)]]
    for steps in [*coarse, [1 + i / 10 for i in range(90)]]:
        values = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
        if len(values) >= 3:  # noqa: PLR2004 - fewer do not show a logarithmic scale
            return values[:: -(-len(values) // 5)]
    return [float(tick) for tick in np.geomspace(low, high, 4)[1:3]]
