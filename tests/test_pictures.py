"""Pictures: every chart of every kind of run is drawn, and shows what its data says."""

import itertools
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from reports import DRAW, drawn, made, text

from plots import report
from plots.charts import curves, style
from plots.charts.blocks import Lane, by_block
from plots.charts.curves import load_rate
from plots.charts.distributions import distributions, ticks
from plots.charts.forest import MOST_ROWS, Change, caption, forest, forest_of, shared_path
from plots.charts.server import course
from tsduel.core.errors import UserError

LABELS = {"baseline": "v1.132.0", "candidate": "v1.133.0"}
CHANGE = Change(
    "g", "Load rate", "candidate", 8.0, 5.0, 11.0, 5.0, higher_is_better=False, sure=True, screen=False, hint="8 % more"
)
LONG = "a type with a very long name of its own"
ALL = {"change", "change-narrow", "distributions", "load-rate", "server", "blocks"}


def pictures(run):
    """Return the names of the pictures of a run; each of them is there in both formats."""
    names = {path.stem for path in run.glob("plots/*.svg")}
    assert names == {path.stem for path in run.glob("plots/*.png")}
    assert all(ET.parse(path).getroot().tag.endswith("svg") for path in run.glob("plots/*.svg"))  # noqa: S314 - ours
    return names


def texts(figure):
    """Return all that is written in a figure."""
    return [artist.get_text() for artist in figure.findobj(match=lambda artist: hasattr(artist, "get_text"))]


def test_all_pictures_of_several_candidates(tmp_path):
    """With two candidates and a block that one of them does not count, every picture is there."""
    failed = {2: ("third", "solo", "killed")}
    run = drawn(tmp_path, variants=("baseline", "candidate", "third"), factors={"third": {"rate": 1.1}}, failed=failed)
    assert pictures(run) == ALL
    assert "v1.134.0" in text(run)
    assert text(run).count("**Answer.**") == 2


@pytest.mark.parametrize("blocks", [1, 24])
def test_few_and_many_blocks(tmp_path, blocks):
    """One block has pictures without intervals and none of blocks; of many blocks the page can still be opened."""
    run = drawn(tmp_path, blocks=blocks, load_s=30.0)
    assert pictures(run) == (ALL if blocks > 1 else ALL - {"blocks"})
    assert (run / "report.html").stat().st_size < 3_000_000


def test_what_is_missing_is_not_drawn(tmp_path):
    """A run without time series has the other pictures, names the missing ones, and deletes those of other data."""
    run = made(tmp_path)
    assert pictures(run) == ALL
    path = run / "tidy/timeseries.csv"
    path.write_text(path.read_text().partition("\n")[0] + "\n")
    report.main(run)
    assert pictures(run) == ALL - {"load-rate", "server"}
    assert "Left out, since" in text(run)
    assert "load rate over time, the server over time" in text(run)
    path.unlink()
    with pytest.raises(UserError, match=r"timeseries\.csv is missing: run `make tidy` first"):
        report.main(run)


def axes_of(*changes):
    """Draw changes, and return the axes."""
    return forest([replace(CHANGE, **change) for change in changes], LABELS, "t").axes[0]


def test_worse_is_to_the_right():
    """A lower rate and more bytes are drawn on the same side; the figures keep the metric's own sign."""
    axes = axes_of({}, {"name": "Bytes", "change": -8.0, "low": -11.0, "high": -5.0, "higher_is_better": True})
    assert [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"] == [8.0, 8.0]
    assert {"+8.0 (+5.0 to +11.0)", "-8.0 (-11.0 to -5.0)", "worse →"} <= set(texts(axes))


def test_far_intervals_end_in_arrows():
    """An interval that would squeeze all others leaves the axis; its estimate never does."""
    axes = axes_of({}, {"name": "far", "change": 20.0, "low": -90.0, "high": 900.0})
    assert [line.get_marker() for line in axes.lines if line.get_marker() in {"<", ">"}] == ["<", ">"]
    assert 20.0 < axes.get_xlim()[1] < 100.0


def test_no_mark_leaves_the_axis_without_intervals():
    """Changes without an interval and of nothing at all are drawn all the same."""
    for change in (0.0, -99.9, 2500.0):
        low, high = axes_of({"change": change, "low": None, "high": None}).get_xlim()
        assert low < change < high


def test_chance_is_hollow():
    """What may be chance can be told from what is more, without colour."""
    axes = axes_of({}, {"name": "other", "sure": False})
    assert [line.get_markerfacecolor() == "white" for line in axes.lines if line.get_marker() == "D"] == [False, True]


def test_a_row_has_the_mark_and_the_colour_of_its_verdict():
    """Of one candidate; the mark stands before the figure, so that a grey print has it."""
    axes = axes_of({"mark": "✗"}, {"name": "other", "mark": "✓"})
    worse, better = (line.get_color() for line in axes.lines if line.get_marker() == "D")
    assert worse != better
    assert [text.get_text()[:2] for text in axes.texts if "to" in text.get_text()] == ["✗ ", "✓ "]


def test_of_very_many_changes_the_largest_are_drawn():
    """The first group whole, of the others those that moved most by their thresholds; the title says how many not."""
    many = [replace(CHANGE, group="rows", name=f"r{i}", change=float(i)) for i in range(1, 60)]
    figure = forest_of([CHANGE, *many], LABELS, "t")
    shown = set(texts(figure))
    assert {"Load rate", "r59", f"r{60 - MOST_ROWS}"} <= shown
    assert not {"r1", f"r{59 - MOST_ROWS}"} & shown
    assert f"t; {59 - MOST_ROWS} smaller ones left out" in shown
    assert forest_of([], LABELS, "t") is None
    assert shared_path(["BenchmarkA/x/1", "BenchmarkA/y/1"]) == len("BenchmarkA/")
    assert shared_path(["BenchmarkA/x/1"]) == 0


def outside(figure, path):
    """Return how many inches of what is drawn lie beyond the edges of a figure when it is saved."""
    DRAW(figure, path / "plots/one.png")
    box = figure.get_tightbbox()
    return max(0.0, -box.x0, -box.y0, box.x1 - figure.get_figwidth(), box.y1 - figure.get_figheight())


@pytest.mark.parametrize("candidates", [1, 3])
def test_nothing_is_written_outside_of_a_picture(tmp_path, candidates):
    """Names, ticks and figures stay inside, however wide they are."""
    labels = {f"v{i}": f"a branch with a long name, number {i}" for i in range(candidates + 1)}
    changes = [
        replace(CHANGE, name=name, candidate=candidate, low=-99.9, high=12345.6)
        for name in ("x", "Mean, a query type with a name of its own")
        for candidate in list(labels)[1:]
    ]
    loads = pd.concat([rates(variant, 1, [1e6, 2e6, 2e6]) for variant in labels])
    phases = [loads.assign(phase=phase, metric="rss_bytes", value=3e11) for phase in ("load", "settle", "query")]
    for figure in (
        forest(changes, labels, "Change by metric, %"), load_rate(loads, labels), course(pd.concat(phases), labels),
        distributions(quantiles(labels), [LONG], labels),
    ):  # fmt: skip
        assert outside(figure, tmp_path) < 0.01


def rates(variant, block, values, **more):
    """Return the load of one block, a value a second."""
    seconds = np.arange(1.0, len(values) + 1)
    return pd.DataFrame({"variant": variant, "block": block, "elapsed_s": seconds, "value": values} | more)


def quantiles(labels):
    """Return distributions of one query type."""
    steps = np.linspace(0.001, 0.999, 99)
    parts = [
        pd.DataFrame({"variant": variant, "quantile": steps, "value_ms": (1 + n / 10) * (0.2 + steps**9), "n": 1000})
        for n, variant in enumerate(labels)
    ]
    return pd.concat(parts).assign(query_type=LONG)


def test_short_loads_are_steps_from_zero():
    """A load of one interval is a line and not a dot, from the begin to its end."""
    figure = load_rate(pd.concat([rates("baseline", 1, [5e5]), rates("candidate", 1, [4e5, 6e5])]), LABELS)
    line = figure.axes[0].lines[0]
    assert list(line.get_xdata()) == [0.0, 1.0]
    assert list(line.get_ydata()) == [500.0, 500.0]
    assert figure.axes[0].get_ylabel() == "thousand samples/s"


def test_long_loads_are_averaged():
    """A thousand intervals are means over longer ones, whose area is the same."""
    x, y = curves.averaged(np.arange(1.0, 1201.0), np.arange(1200.0), 10.0)
    assert len(x) == 120
    assert np.mean(y) == pytest.approx(np.mean(np.arange(1200.0)))
    assert x[-1] == 1200.0
    figure = load_rate(rates("baseline", 1, np.full(1200, 2e6)), LABELS)
    assert figure.axes[0].get_ylabel() == "million samples/s, means of 10 s"


def test_the_median_goes_to_the_median_end():
    """Blocks of different lengths: a rate's median is over those that still load, a level stays what it was."""
    found = [(np.arange(1.0, n + 1), np.full(n, float(n))) for n in (2, 4, 9)]
    assert list(curves.median_curve(found, rates=False)[1]) == [4.0] * 4
    x, y = curves.median_curve(found)
    assert (x[0], x[-1]) == (1.0, 4.0)
    assert list(y) == [4.0, 4.0, 6.5, 4.0]


def lanes(values, changes):
    """Draw a lane by these columns of the values, and of the candidate's changes."""
    lane = Lane("disk", "B", higher_is_better=False)
    changes = {"candidate": "candidate", "counts": True, "estimate": 1.0, "low": None, "high": None} | changes
    frames = (pd.DataFrame({"lane": lane.name} | columns) for columns in (values, changes))
    return by_block(*frames, [lane], LABELS)


def test_a_variant_without_a_value_leaves_the_others_as_they_are(tmp_path):
    """Marks keep their values under the pointer, and no letter of a text is lost."""
    values = {"block": [1, 2, 3], "variant": "candidate", "value": [1.0, 1.1, 1.2]}
    figure = lanes(values, {"block": [1, 2, 3], "change": [1.0, 1.1, 1.2], "low": 1.0, "high": 1.2})
    DRAW(figure, tmp_path / "blocks.png")
    drawn = ET.parse(tmp_path / "blocks.svg")  # noqa: S314 - ours
    titles = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 6
    assert all("block" in title for title in titles)


def test_blocks_that_do_not_count_are_crossed_out():
    """Values left, changes right with the estimate; the warm-up block is on the left only."""
    values = {"block": [0, 0, 1, 1, 2, 2], "variant": ["baseline", "candidate"] * 3, "value": [5e6] * 6}
    figure = lanes(values, {"block": [1, 2], "change": [1.0, 9.0], "counts": [True, False]})
    left, right = figure.axes
    assert [tuple(line.get_data()[0]) for line in right.lines if line.get_marker() == "x"] == [(2,)]
    assert left.get_ylabel() == "MB"
    assert {"does not count", "disk", "change, %: ↓ better"} <= set(texts(figure))


def test_each_phase_has_its_own_clock():
    """The server's course has a column for each phase that was recorded, and a row for each metric."""
    series = pd.concat(
        rates("baseline", 1, [1.0, 2.0, 3.0], phase=phase, metric=metric)
        for phase, metric in itertools.product(("load", "query"), ("cpu_cores", "rss_bytes"))
    )
    figure = course(series, LABELS)
    assert len(figure.axes) == 4
    assert [axes.get_title() for axes in figure.axes[:2]] == ["load", "query"]


def test_a_distribution_shows_both_tails():
    """One curve a variant from its least to its largest quantile, with p50, p95 and p99 marked."""
    figure = distributions(quantiles(LABELS), [LONG], LABELS)
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "logit")
    lines = [line for line in axes.lines if len(line.get_xdata()) == 99]
    assert len(lines) == 2
    assert [list(line.get_ydata()) for line in axes.lines if line.get_marker() in {"o", "D"}] == [[0.5, 0.95, 0.99]] * 2
    assert distributions(quantiles(LABELS).assign(value_ms=0.0), ["a"], LABELS) is None


@pytest.mark.parametrize(("low", "high"), [(0.3, 10.0), (1.0, 1.01), (0.0001, 1e5), (7.9, 8.1), (99, 1001)])
def test_logarithmic_axes_have_ticks(low, high):
    """Whatever the range, there are two to six ticks inside of it."""
    found = ticks(low, high)
    assert 2 <= len(found) <= 6
    assert all(low <= tick <= high for tick in found)


def test_twelve_variants_are_told_apart():
    """By colour, and in grey by marks and dashes; those beyond are all alike."""
    drawn = list(style.looks({f"v{i}": "" for i in range(14)}).values())
    twelve = drawn[:12]
    assert drawn[12:] == [style.REST] * 2
    for same in ("colour", "marker", "dashes"):
        assert len({str(getattr(look, same)) for look in twelve}) == 12
    rgb = [[int(look.colour[at : at + 2], 16) for at in (1, 3, 5)] for look in twelve]
    assert min(sum(map(abs, np.subtract(*pair))) for pair in itertools.combinations(rgb, 2)) > 60


def test_a_caption_says_what_is_drawn():
    """No dark band, no hollow mark, no arrow and no dotted line unless there is one; equal blocks have no range."""
    assert "Dotted" not in caption([replace(CHANGE, screen=True, low=8.0, high=8.0)])
    assert caption([CHANGE]) == ""
    all_of_it = caption([
        replace(CHANGE, floor=1.0), replace(CHANGE, sure=False, screen=True), replace(CHANGE, low=-90.0, high=900.0),
    ])  # fmt: skip
    for said in ("Dark band", "Hollow mark", "Arrow", "Dotted"):
        assert said in all_of_it


def test_panels_of_fewer_than_three_samples_are_left_out():
    """Of the server's course, and of distributions."""
    parts = [rates("baseline", 1, [1.0] * n, phase=p, metric="rss_bytes") for p, n in (("load", 9), ("settle", 2))]
    assert [axes.get_title(loc="center") for axes in course(pd.concat(parts), LABELS).axes] == ["load"]
    assert course(parts[1], LABELS) is None
    assert distributions(quantiles(LABELS).assign(n=2), [LONG], LABELS) is None


@pytest.mark.parametrize("names", [["v1", "v2"], ["x" * 200, "y" * 200], ["a" * 40] * 6, ["$x$", "_", "Größe <b>"]])
def test_legends_fit_above_the_axes(names, tmp_path):
    """Long, many and odd names stay inside the picture and off the axes."""
    labels = {f"v{i}": name for i, name in enumerate(names)}
    figure = load_rate(pd.concat([rates(variant, 1, [1e6, 2e6]) for variant in labels]), labels)
    DRAW(figure, tmp_path / "plots/one.png")
    legend, axes = figure.legends[0].get_window_extent(), figure.axes[0].get_window_extent()
    assert legend.y0 >= axes.y1
    assert legend.x1 <= figure.bbox.x1
    assert len(figure.legends[0].texts) == len(names)
