"""Pictures: every chart of every kind of run is drawn, and shows what its data says."""

import itertools
import json
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
import synthetic
from reports import SPEC, made, text

from plots import report
from plots.charts import curves, look
from plots.charts.change import Change, forest
from plots.charts.course import course
from plots.charts.load import load_rate
from plots.charts.order import Lane, by_round
from plots.charts.service import _ticks, service_times

LABELS = {"baseline": "v1.132.0", "candidate": "v1.133.0"}
CHANGE = Change("g", "Load rate", "candidate", 8.0, 5.0, 11.0, 5.0, higher_is_better=False, sure=True, screen=False)
THREE = (("baseline", "candidate", "third"), ("third", "baseline", "candidate"), ("candidate", "third", "baseline"))
ALL = {"load-rate", "course", "change-by-metric", "change-by-query", "service-times", "rounds"}


def drawn(run):
    """Return the names of the pictures of a run; each of them is there in both formats."""
    names = {path.stem for path in run.glob("plots/*.svg")}
    assert names == {path.stem for path in run.glob("plots/*.png")}
    assert all(ET.parse(path).getroot().tag.endswith("svg") for path in run.glob("plots/*.svg"))  # noqa: S314 - ours
    return names


def texts(figure):
    """Return all that is written in a figure."""
    return [artist.get_text() for artist in figure.findobj(match=lambda artist: hasattr(artist, "get_text"))]


def test_all_pictures_of_several_candidates(tmp_path):
    """With two candidates and a block that does not count, every picture is there."""

    def failed(run):
        path = next(run.glob("raw/02-*-third")) / "round.json"
        failure = {"phase": "load", "message": "killed"}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "failed", "failure": failure}))

    spec = synthetic.Spec(**(vars(SPEC) | {"order": THREE, "more_factors": {"third": {"rate": 1.1}}}))
    run = made(tmp_path, spec, failed)
    assert drawn(run) == ALL
    assert "v1.134.0" in text(run)


@pytest.mark.parametrize("blocks", [1, 24])
def test_few_and_many_blocks(tmp_path, blocks):
    """One block has pictures without intervals, and many blocks make no page that nobody can open."""
    run = made(tmp_path, synthetic.Spec(**(vars(SPEC) | {"blocks": blocks, "load_s": 30})))
    assert drawn(run) == ALL
    assert (run / "report.html").stat().st_size < 3_000_000


def test_what_is_missing_is_not_drawn(tmp_path):
    """A run without its time series has the other pictures, says which are missing, and keeps none of other data."""
    run = made(tmp_path)
    assert drawn(run) == ALL
    for name in ("timeseries", "phases"):
        (run / f"tidy/{name}.csv").unlink()
    report.main(run)
    assert drawn(run) == ALL - {"load-rate", "course"}
    assert "Not drawn" in text(run)
    assert "load rate over time, the server over the round" in text(run)


def test_worse_is_to_the_right():
    """A lower rate and more bytes are drawn on the same side; the figures keep the metric's own sign."""
    rate = Change(**(vars(CHANGE) | {"change": -8.0, "low": -11.0, "high": -5.0, "higher_is_better": True}))
    figure = forest([CHANGE, Change(**(vars(rate) | {"name": "Bytes"}))], LABELS, "t")
    marks = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert marks == [8.0, 8.0]
    assert {"+8.0 (+5.0 to +11.0)", "-8.0 (-11.0 to -5.0)", "worse →"} <= set(texts(figure))


def test_far_intervals_end_in_arrows():
    """An interval that would squeeze all others leaves the axis; its estimate never does."""
    far = Change(**(vars(CHANGE) | {"name": "far", "change": 20.0, "low": -90.0, "high": 900.0}))
    axes = forest([CHANGE, far], LABELS, "t").axes[0]
    assert [line.get_marker() for line in axes.lines if line.get_marker() in {"<", ">"}] == ["<", ">"]
    assert 20.0 < axes.get_xlim()[1] < 100.0


def test_no_mark_leaves_the_axis_without_intervals():
    """Changes without an interval and of nothing at all are drawn all the same."""
    for change in (0.0, -99.9, 2500.0):
        one = Change(**(vars(CHANGE) | {"change": change, "low": None, "high": None}))
        low, high = forest([one], LABELS, "t").axes[0].get_xlim()
        assert low < change < high


def test_chance_is_hollow():
    """What may be chance can be told from what is more, without colour."""
    unsure = Change(**(vars(CHANGE) | {"name": "other", "sure": False}))
    axes = forest([CHANGE, unsure], LABELS, "t").axes[0]
    assert [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "D"] == ["#D55E00", "white"]


def outside(figure, path):
    """Return how many inches of what is drawn lie beyond the edges of a figure when it is saved."""
    look.save(figure, path / "plots/one.png")
    box = figure.get_tightbbox()
    return max(0.0, -box.x0, -box.y0, box.x1 - figure.get_figwidth(), box.y1 - figure.get_figheight())


@pytest.mark.parametrize("candidates", [1, 3])
def test_nothing_is_written_outside_of_a_picture(tmp_path, candidates):
    """Names, ticks and figures stay inside, however wide they are."""
    labels = {f"v{i}": f"a branch with a long name, number {i}" for i in range(candidates + 1)}
    changes = [
        Change(**(vars(CHANGE) | {"name": name, "candidate": candidate, "low": -99.9, "high": 12345.6}))
        for name in ("x", "Mean, a query type with a name of its own")
        for candidate in list(labels)[1:]
    ]
    assert outside(forest(changes, labels, "Change by metric, %"), tmp_path) < 0.01
    loads = pd.concat([rates(variant, variant, [1e6, 2e6]) for variant in labels])
    assert outside(load_rate(loads, labels), tmp_path) < 0.01
    whole = pd.concat(
        [loads.assign(part=part, metric="rss_bytes", value=3e11) for part in ("load", "settle", "queries")]
    )
    assert outside(course(whole, labels), tmp_path) < 0.01


def rates(variant, number, values, **more):
    """Return the load of one round, a value a second."""
    seconds = np.arange(1.0, len(values) + 1)
    return pd.DataFrame({"variant": variant, "round": number, "elapsed_s": seconds, "value": values} | more)


def test_short_loads_are_steps_from_zero():
    """A load of one interval is a line and not a dot, from the begin to its end."""
    figure = load_rate(pd.concat([rates("baseline", "1", [5e5]), rates("candidate", "2", [4e5, 6e5])]), LABELS)
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
    figure = load_rate(rates("baseline", "1", np.full(1200, 2e6)), LABELS)
    assert figure.axes[0].get_ylabel() == "million samples/s, means of 10 s"


def test_a_level_stays_after_its_round_has_ended():
    """What was written stays written, so that the median does not jump where a round ends."""
    found = [(np.arange(1.0, n + 1), np.full(n, float(n))) for n in (2, 4, 9)]
    assert list(curves.median_curve(found, rates=False)[1]) == [4.0] * 4
    assert list(curves.median_curve(found)[1]) == [4.0, 4.0, 6.5, 4.0]


def test_median_curve_goes_to_the_median_end():
    """Rounds of different lengths: the median at a time is over those that still load."""
    found = [(np.arange(1.0, n + 1), np.full(n, float(n))) for n in (3, 4, 6)]
    x, y = curves.median_curve(found)
    assert (x[0], x[-1]) == (1.0, 4.0)
    assert list(y) == [4.0, 4.0, 4.0, 4.0]


def test_lanes_cross_out_what_does_not_count():
    """A round that does not count is crossed out, at the bottom where it has no value; the warm-up block is not."""
    values = pd.DataFrame({
        "order": range(1, 7), "block": [0, 0, 1, 1, 2, 2], "variant": ["baseline", "candidate"] * 3, "metric": "disk",
        "value": [5e6] * 5 + [float("nan")], "counts": [False, False, True, True, False, False],
    })  # fmt: skip
    figure = by_round(values, [Lane("disk", "on disk", "B", higher_is_better=False)], LABELS)
    crossed = [line for line in figure.axes[0].lines if line.get_marker() == "x"]
    assert [at for line in crossed for at in line.get_xdata() if np.isfinite(line.get_ydata()).all()] == [6]
    assert [(x, y) for line in crossed for x, y in zip(*line.get_data(), strict=True) if y > 1] == [(5, 5.0)]
    assert {"warm-up", "1", "2", "does not count", "on disk,\nMB"} <= set(texts(figure))


def test_each_part_has_its_own_clock():
    """The course has a column for each part that was recorded, and a row for each metric."""
    series = pd.concat(
        rates("baseline", "1", [1.0, 2.0], part=part, metric=metric)
        for part, metric in itertools.product(("load", "queries"), ("cpu_cores", "rss_bytes"))
    )
    figure = course(series, LABELS)
    assert len(figure.axes) == 4
    assert [axes.get_title() for axes in figure.axes[:2]] == ["load", "queries"]


def test_quantiles_that_were_not_measured_say_why():
    """A panel without p99 says that its queries were too few; zeros have no place on a logarithmic axis."""
    rows = [
        ("a", "query_p50_ms", 1.0),
        ("a", "query_p99_ms", 4.0),
        ("b", "query_p50_ms", 0.5),
        ("b", "query_p50_ms", 0.0),
    ]
    values = pd.DataFrame(rows, columns=["query_type", "metric", "value"]).assign(variant="baseline")
    assert texts(service_times(values, ["a", "b"], LABELS)).count("fewer than 1,000 queries") == 1


@pytest.mark.parametrize(("low", "high"), [(0.3, 10.0), (1.0, 1.01), (0.0001, 1e5), (7.9, 8.1), (99, 1001)])
def test_logarithmic_axes_have_ticks(low, high):
    """Whatever the range, there are two to six ticks inside of it."""
    found = _ticks(low, high)
    assert 2 <= len(found) <= 6
    assert all(low <= tick <= high for tick in found)


@pytest.mark.parametrize("names", [["v1", "v2"], ["x" * 200, "y" * 200], ["a" * 40] * 6, ["$x$", "_", "Größe <b>"]])
def test_legends_fit_above_the_axes(names, tmp_path):
    """Long, many and odd names stay inside the picture and off the axes."""
    labels = {f"v{i}": name for i, name in enumerate(names)}
    series = pd.concat([rates(variant, variant, [1e6, 2e6]) for variant in labels])
    figure = load_rate(series, labels)
    look.save(figure, tmp_path / "plots/one.png")
    legend, axes = figure.legends[0].get_window_extent(), figure.axes[0].get_window_extent()
    assert legend.y0 >= axes.y1
    assert legend.x1 <= figure.bbox.x1
    assert len(figure.legends[0].texts) == len(names)
