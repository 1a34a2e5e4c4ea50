"""What all charts share: the look of each variant, titles and legends, escaped text, writing files."""

import io
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd

mpl.use("Agg")

from matplotlib import font_manager, style, ticker
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from plots import numbers

# Names of rules are in any script. Of a letter that no font here has there is a box, and tables have the name.
_WIDE = ("Noto Sans CJK SC", "WenQuanYi Zen Hei", "Noto Sans Devanagari", "Noto Sans Thai", "FreeSans", "Unifont")
_FONTS = ["DejaVu Sans", *sorted(set(_WIDE) & set(font_manager.get_font_names()))]
STYLE: list[str | Path | dict[str, Any]] = [Path(__file__).with_name("bench.mplstyle"), {"font.family": _FONTS}]
styled = style.context(STYLE)
"""Decorator of a function that draws a figure: it draws with the settings of bench.mplstyle."""
GREY, PALE, DARK_BAND = "#5f5f5f", "#ececec", "#c4c4c4"
LONGEST_NAME = 44
_TITLE_IN, _LEGEND_IN = 0.26, 0.2
_KEY, _LETTERS_AN_INCH = 6, 12
"""Width of the line before a name in a legend, in letters; letters in an inch."""
_HINT = "hint:"
_SCALES = ((1e6, 1e6, "million "), (1e4, 1e3, "thousand "), (0.0, 1.0, ""))
"""The least value of a scale, its divisor, its word."""


@dataclass(frozen=True)
class Look:
    """How a variant is drawn: `dashes` as matplotlib takes them."""

    colour: str
    dashes: str | tuple[float, tuple[float, ...]]
    marker: str


# Okabe and Ito's palette is safe for colour-blind readers; dashes and markers differ in grey, too.
# The first is always the baseline.
LOOKS = (
    Look("#0072B2", "-", "o"),
    Look("#D55E00", (0, (4, 1.4)), "D"),
    Look("#009E73", (0, (1, 1)), "^"),
    Look("#CC79A7", (0, (6, 1, 1, 1)), "s"),
    Look("#E69F00", (0, (3, 1, 1, 1, 1, 1)), "v"),
    Look("#56B4E9", (0, (8, 2)), "P"),
    Look("#000000", (0, (2, 2)), "X"),
    Look("#882255", (0, (5, 1, 1, 1, 1, 1)), "p"),
    Look("#999933", (0, (10, 3)), "<"),
    Look("#44337A", (0, (3, 3)), ">"),
    Look("#A0522D", (0, (7, 1, 3, 1)), "h"),
    Look("#00CED1", (0, (1, 2.5)), "*"),
)
REST = Look("#9A9A9A", "-", ".")
"""All variants beyond the last look."""
LEAST = 3
"""Fewest samples of a panel; fewer show no course and no spread."""


def looks(labels: Mapping[str, str]) -> dict[str, Look]:
    """Return the look of each variant; the keys of `labels` are variants, baseline first."""
    return dict(zip(labels, (*LOOKS, *(REST for _ in labels)), strict=False))


def literal(text: str, longest: int = LONGEST_NAME) -> str:
    """Shorten a long label; escape a dollar, which begins mathematics, and drop leading underscores, which hide it."""
    text = text.lstrip("_")
    if len(text) > longest:
        text = f"{text[: longest // 2]}…{text[-(longest // 2) :]}"
    return text.replace("$", r"\$")


def headed(title: str, handles: Sequence[Line2D], width: float, height: float) -> Figure:
    """Return a figure of `height` inches plus the height of its title and legend, which stand above the axes.

    The legend has as many names in a row as fit, at most four.
    """
    names = [str(handle.get_label()) for handle in handles]
    columns = max(1, min(len(names), 4))
    while columns > 1 and columns * _KEY + sum(sorted(map(len, names))[-columns:]) > width * _LETTERS_AN_INCH:
        columns -= 1
    rows = -(-len(names) // columns)
    whole = height + (_TITLE_IN + _LEGEND_IN * rows + 0.04)
    figure = Figure(figsize=(width, whole), layout=ConstrainedLayoutEngine(rect=(0, 0, 1, height / whole)))
    figure.text(0.012, 1 - 0.05 / whole, title, fontsize=10, fontweight="bold", va="top")
    legend = figure.legend(
        handles=list(handles), loc="upper left", bbox_to_anchor=(0.006, 1 - _TITLE_IN / whole),
        ncols=columns, borderaxespad=0, handlelength=3.2, columnspacing=1.6,
    )  # fmt: skip
    legend.set_in_layout(False)
    return figure


def enough(table: pd.DataFrame, *panel: str) -> pd.DataFrame:
    """Return the rows of the panels (columns of their names) in which a curve has at least LEAST samples.

    `table`: columns variant and block beside those of the panel.
    """
    sizes = table.groupby([*panel, "variant", "block"])["value"].transform("size")
    of_panel = [table[column] for column in panel] or [pd.Series(0, table.index)]
    return table[sizes.groupby(of_panel).transform("max") >= LEAST]


def panels(figure: Figure, count: int, columns: int, **options: Any) -> list[Axes]:
    """Return axes in rows of at most `columns`."""
    columns = min(columns, count)
    axes = figure.subplots(-(-count // columns), columns, squeeze=False, **options).ravel().tolist()
    for unused in axes[count:]:
        unused.remove()
    return list(axes[:count])


def panel_title(axes: Axes, text: str, longest: int = LONGEST_NAME) -> None:
    """Write the title of one of several panels, in two lines if it is long."""
    lines = textwrap.wrap(text, longest, max_lines=2, placeholder="…")
    axes.set_title("\n".join(map(literal, lines)), fontsize=8.5, fontweight="normal")


def key(label: str, look: Look, note: str = "", *, line: bool = True, **changes: Any) -> Line2D:
    """Return a legend's entry for a variant: its line or its marker, its name and a note that is never shortened."""
    shape = {"linestyle": look.dashes, "linewidth": 2.0} if line else {"linestyle": "", "marker": look.marker}
    options: dict[str, Any] = {"markersize": 5} | shape | changes
    return Line2D([], [], color=look.colour, label=literal(label) + note, **options)


def dots(axes: Axes, x: Any, y: Any, look: Look, hints: Sequence[str], **changes: Any) -> None:
    """Draw a variant's markers without a line; the pointer shows the hint of each."""
    options = {"linestyle": "", "marker": look.marker, "color": look.colour} | changes
    (points,) = axes.plot(x, y, **options)
    hover(points, hints)


def note(axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float], **options: Any) -> None:
    """Write a text beside a place: x from 0 to 1 across the axes, y in data; `shift` in points."""
    anchor: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 7.5}
    axes.annotate(text, at, xytext=shift, **(anchor | options))


def readable(axes: Axes, *, which: str = "y", most: int = 5) -> None:
    """Print few ticks on an axis, with separators and without powers of ten at its corner."""
    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_locator(ticker.MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))


def plain_log(axis: Axis) -> None:
    """Print plain numbers on a logarithmic axis, and no ticks between them."""
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axis.set_minor_locator(ticker.NullLocator())


def scaled(unit: str, largest: float) -> tuple[str, float]:
    """Return the unit that suits an axis's largest value, and its factor: ("GB", 1e9), ("million samples/s", 1e6).

    Units of Go benchmarks are scaled by their prefix: sec/op is ("µs/op", 1e-6), B/op is ("KiB/op", 1024.0).
    """
    if unit in {"B", "us"} or unit.endswith("/op"):
        return numbers.scaled(unit, largest)
    _, factor, word = next((scale for scale in _SCALES if largest >= scale[0]), _SCALES[-1])
    return f"{word}{unit}", factor


def hover(artist: Artist, lines: Sequence[str]) -> None:
    """Set what a browser shows when the pointer is on a part of the SVG: one line for the whole, or one a marker."""
    artist.set_gid(f"{_HINT}{chr(10).join(lines)}")


def _with_titles(svg: str) -> str:
    """Replace the ids that `hover` has set by <title> elements."""
    head, *parts = svg.split(f'<g id="{_HINT}')
    for part in parts:
        escaped, _, rest = part.partition('"')
        # A group in which nothing is drawn closes itself.
        if rest.startswith("/>"):
            head += f"<g{rest}"
            continue
        # Matplotlib escapes the ends of lines, or leaves them.
        lines, rest = escaped.replace("&#10;", "\n").split("\n"), rest[1:]
        if len(lines) == 1:
            head += f"<g><title>{lines[0]}</title>{rest}"
            continue
        first, *marks = rest.split("<use ", len(lines))
        pairs = zip(marks, lines, strict=False)
        head += f"<g>{first}" + "".join("<use " + m.replace("/>", f"><title>{t}</title></use>", 1) for m, t in pairs)
    return head


def save(figure: Figure, path: Path) -> None:
    """Write SVG and PNG beside each other, without dates or versions in them."""
    path.parent.mkdir(exist_ok=True)
    with style.context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        # The layout takes as long as drawing: make it once for both files. The second step corrects the first.
        if engine := figure.get_layout_engine():
            engine.execute(figure)
            engine.execute(figure)
        figure.set_layout_engine("none")
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        path.with_suffix(".svg").write_text(_with_titles(drawn.getvalue()), encoding="utf-8")
        figure.savefig(path.with_suffix(".png"), metadata={"Software": None})
