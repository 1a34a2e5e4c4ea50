"""The load rate over time."""

import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure

from plots.charts import curves
from plots.charts.style import STYLE, headed, key, looks, readable, scaled
from tsduel.core.wording import number_of


def load_rate(series: pd.DataFrame, labels: dict[str, str]) -> Figure:
    """Draw the load rate over time: all blocks thin, the median over blocks thick, each variant to its own end.

    A bar marks the median end of a variant's loads. Loads of many intervals are shown as means over longer ones, since
    a thousand points on 6 in are a smear; the axis says so. Loads of few are steps, which is what they are.

    `series`: columns block, variant, elapsed_s, value (samples/s, in the interval that ends then).
    `labels`: variant -> name for people, baseline first.
    """
    with style.context(STYLE):
        seconds = curves.window(series)
        unit, factor = scaled("samples/s", float(series["value"].max()))
        rates = series.assign(value=series["value"] / factor)
        found = {variant: curves.by_block(rates, variant, seconds) for variant in labels}
        handles = [
            key(labels[variant], look, f" (median of {_blocks(found[variant])})")
            for variant, look in looks(labels).items()
            if found[variant]
        ]
        figure = headed("Load rate over time, samples/s (higher is better)", handles, 6.5, 3.0)
        axes = figure.add_subplot()
        for variant, look in looks(labels).items():
            curves.draw(axes, found[variant], look, labels[variant])
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.04)
        axes.set_xlabel("seconds since the load began")
        axes.set_ylabel(unit + (f", means of {seconds:.0f} s" if seconds else ""))
        readable(axes, most=7)
        return figure


def _blocks(found: list[curves.Curve]) -> str:
    return number_of(len(found), "block")
