"""What all charts share: the look of each variant, titles and legends, harmless text, how a file is written."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import style, ticker
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots import numbers

STYLE = Path(__file__).with_name("bench.mplstyle")
GREY, PALE, DARK_BAND = "#5f5f5f", "#ececec", "#c4c4c4"
LONGEST_NAME = 44
_TITLE_IN, _LEGEND_IN = 0.26, 0.2
_KEY, _LETTERS_AN_INCH = 6, 12
"""Letters that the line before a name takes in a legend; letters in an inch."""
_SAID = "said:"
_SCALES = ((1e6, 1e6, "million "), (1e4, 1e3, "thousand "), (0.0, 1.0, ""))
"""From which value on, divided by what, in words."""


@dataclass(frozen=True)
class Look:
    """How one variant is drawn: `dashes` as matplotlib takes them."""

    colour: str
    dashes: str | tuple[float, tuple[float, ...]]
    marker: str


# Okabe and Ito's palette is safe for colour-blind readers; dashes and markers tell the variants apart in grey.
# The first is always the baseline.
LOOKS = (
    Look("#0072B2", "-", "o"),
    Look("#D55E00", (0, (4, 1.4)), "D"),
    Look("#009E73", (0, (1, 1)), "^"),
    Look("#CC79A7", (0, (6, 1, 1, 1)), "s"),
    Look("#E69F00", (0, (3, 1, 1, 1, 1, 1)), "v"),
    Look("#56B4E9", (0, (8, 2)), "P"),
)


def looks(labels: Mapping[str, str]) -> dict[str, Look]:
    """Return the look of each variant; the keys of `labels` are variants, baseline first."""
    return {variant: LOOKS[i % len(LOOKS)] for i, variant in enumerate(labels)}


def literal(text: str, longest: int = LONGEST_NAME) -> str:
    """Shorten a long label, and keep matplotlib from reading it as mathematics or as one to hide."""
    text = text.lstrip("_")
    if len(text) > longest:
        text = f"{text[: longest // 2]}…{text[-(longest // 2) :]}"
    return text.replace("$", r"\$")


def headed(title: str, handles: Sequence[Line2D], width: float, height: float) -> Figure:
    """Return a figure of `height` inches and as much more as its title and its legend need, above whatever is drawn.

    The legend is a row where its names are short enough for it: it hides no curve and squeezes no axes.
    """
    names = [str(handle.get_label()) for handle in handles]
    columns = max(1, min(len(names), 4))
    while columns > 1 and columns * _KEY + sum(sorted(map(len, names))[-columns:]) > width * _LETTERS_AN_INCH:
        columns -= 1
    rows = -(-len(names) // columns)
    above = _TITLE_IN + _LEGEND_IN * rows + 0.04
    figure = Figure(figsize=(width, height + above))
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0, 0, 1, height / (height + above)))  # type: ignore[call-arg]  # only some engines take it, and the style names one that does
    top = 1 - 0.05 / (height + above)
    figure.text(0.012, top, title, fontsize=10, fontweight="bold", va="top")
    legend = figure.legend(
        handles=list(handles), loc="upper left", bbox_to_anchor=(0.006, 1 - _TITLE_IN / (height + above)),
        ncols=columns, borderaxespad=0, handlelength=3.2, columnspacing=1.6,
    )  # fmt: skip
    legend.set_in_layout(False)
    return figure


def key(label: str, look: Look, note: str = "", *, line: bool = True, **changes: object) -> Line2D:
    """Return a legend's entry for a variant: its line or its marker, its name and a note that is never shortened."""
    style_ = {"linestyle": look.dashes, "linewidth": 2.0} if line else {"linestyle": "", "marker": look.marker}
    options = {"markersize": 5} | style_ | changes
    return Line2D([], [], color=look.colour, label=literal(label) + note, **options)  # type: ignore[arg-type]  # of many types


def readable(axes: Axes, *, which: str = "y", most: int = 5) -> None:
    """Print few ticks on an axis, with separators and without powers of ten at its corner."""
    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_locator(ticker.MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))


def scaled(unit: str, largest: float) -> tuple[str, float]:
    """Return the unit that suits an axis's largest value, and its factor: ("GB", 1e9), ("million samples/s", 1e6).

    Of Go benchmarks, whose units have no prefix of their own: sec/op is ("µs/op", 1e-6), B/op is ("KiB/op", 1024.0).
    """
    if unit in {"B", "us"} or unit.endswith("/op"):
        return numbers.scaled(unit, largest)
    _, factor, word = next((scale for scale in _SCALES if largest >= scale[0]), _SCALES[-1])
    return f"{word}{unit}", factor


def hover(artist: Artist, said: Sequence[str]) -> None:
    """Say what a browser shows of a part of the SVG under the pointer: one line for all of it, or one a marker."""
    artist.set_gid(f"{_SAID}{chr(10).join(said)}")


def _titled(svg: str) -> str:
    head, *parts = svg.split(f'<g id="{_SAID}')
    for part in parts:
        escaped, _, rest = part.partition('">')
        lines = escaped.split("&#10;")
        if len(lines) == 1:
            head += f"<g><title>{lines[0]}</title>{rest}"
            continue
        first, *marks = rest.split("<use ", len(lines))
        titled = zip(marks, lines, strict=False)
        head += f"<g>{first}" + "".join(
            "<use " + mark.replace("/>", f"><title>{line}</title></use>", 1) for mark, line in titled
        )
    return head


def save(figure: Figure, path: Path) -> None:
    """Write SVG and PNG beside each other, without dates or versions in them."""
    path.parent.mkdir(exist_ok=True)
    with style.context(STYLE):
        # The layout costs as much as drawing: once for both files, in two steps, as the first moves what it measured.
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
            engine.execute(figure)
        figure.set_layout_engine("none")
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        path.with_suffix(".svg").write_text(_titled(drawn.getvalue()), encoding="utf-8")
        figure.savefig(path.with_suffix(".png"), metadata={"Software": None})
