"""The load rate over time."""

import pandas as pd
from matplotlib.figure import Figure

from plots.charts import curves
from plots.charts.style import headed, key, looks, readable, scaled, styled
from tsduel.core.wording import number_of


@styled
def load_rate(series: pd.DataFrame, labels: dict[str, str]) -> Figure:
    """Draw the load rate over time: all blocks thin, the median over blocks thick, each variant to its own end.

    A bar marks the median end of a variant's loads. Many intervals are averaged, and the axis says so; few
    are drawn as steps.

    `series`: columns block, variant, elapsed_s, value (samples/s in the interval that ends at elapsed_s).
    `labels`: variant -> name for people, baseline first.
    """
    seconds = curves.window(series)
    unit, factor = scaled("samples/s", float(series["value"].max()))
    rates = series.assign(value=series["value"] / factor)
    loads = {variant: curves.by_block(rates, variant, seconds) for variant in labels}
    notes = {v: f"median of {number_of(len(load), 'block')}" if load[1:] else "one load" for v, load in loads.items()}
    handles = [key(labels[v], look, f" ({notes[v]})") for v, look in looks(labels).items() if loads[v]]
    figure = headed("Ingestion rate over time, samples/s (higher is better)", handles, 6.5, 3.0)
    axes = figure.add_subplot()
    for variant, look in looks(labels).items():
        curves.draw(axes, loads[variant], look, labels[variant])
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.04)
    axes.set_xlabel("seconds since the load began")
    axes.set_ylabel(unit + (f", means of {seconds:.0f} s" if seconds else ""))
    readable(axes, most=7)
    return figure
