"""The map of a search: the change over each field, a small panel each."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from plots.charts.style import GREY, LOOKS, headed, literal, styled

ACROSS = 3


@styled
def worst_map(
    fields: Mapping[str, Sequence[str]],
    points: Sequence[tuple[Sequence[int], float, bool]],
    title: str,
    threshold: float,
) -> Figure:
    """Draw every point in each panel: `fields` name -> its values in words, in their order.

    `points`: the place of each field's value, the change in percent, and whether it was measured anew. The dashed line
    is the threshold in percent.
    """
    rows = -(-len(fields) // ACROSS)
    figure = headed(title, [], 6.5, 0.6 + 1.9 * rows)
    panels = figure.subplots(rows, min(ACROSS, len(fields)), sharey=True, squeeze=False)
    for at, axes in enumerate(panels.flat):
        axes.set_visible(at < len(fields))
    for at, (name, values) in enumerate(fields.items()):
        axes = panels.flat[at]
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.axhline(threshold, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)))
        for anew, size in ((False, 3.0), (True, 6.0)):
            shown = [(places[at], change) for places, change, is_anew in points if is_anew is anew]
            axes.plot(
                [x for x, _ in shown], [y for _, y in shown], "o", markersize=size, color=LOOKS[int(anew)].colour,
                markerfacecolor=LOOKS[1].colour if anew else "none",
            )  # fmt: skip
        axes.set_xticks(
            range(len(values)), [literal(value, 12) for value in values], fontsize=7, rotation=30, ha="right"
        )
        axes.set_xlim(-0.5, len(values) - 0.5)
        axes.set_title(literal(name, 28), fontsize=8)
    for row in panels:
        row[0].set_ylabel("change, %")
    return figure
