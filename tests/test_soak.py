"""A soak: what grows from hour to hour, when a limit is reached, what is too short to be judged, and a kill in it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from asking import TYPES
from fakeproject import PROJECT, wait_for
from reports import analysed, reported
from scipy import stats

from plots.charts.soak import NAMES, over_hours
from plots.sections import soak as section
from plots.source import open_source
from tsduel.cli import next_steps
from tsduel.core.limits import ServerLimits
from tsduel.stats import soak
from tsduel.tidy.read import read_table

SOAK = {"seconds": 4, "window_s": 0.3, "ingest": 2000, "queries": 20, "batch_size": 10, "late_pct": 100}


def windows(hours, slope, *, life=1.0, metric="rss_bytes", variant="baseline", limit=1e9, start=1e8, seed=1):
    """Return windows of a minute, whose noise is much like the minute before it."""
    draw, count = np.random.default_rng(seed), int(hours * 60)
    noise = np.zeros(count)
    for at in range(1, count):
        noise[at] = 0.8 * noise[at - 1] + draw.normal(0, 1e5)
    elapsed = 60.0 * np.arange(1, count + 1)
    return pd.DataFrame(
        {
            "block": 1, "variant": variant, "life": life, "elapsed_s": elapsed, "metric": metric,
            "value": start + slope * elapsed / 3600 + noise, "limit": "" if limit is None else f"{limit:g}",
        }
    )  # fmt: skip


def sourced(path, labels):
    """Return what the sentences of a soak read of its source."""
    sides = [SimpleNamespace(name=name, components=[None]) for name in labels]
    plan = SimpleNamespace(limits=None, variants=sides)
    return SimpleNamespace(run=SimpleNamespace(path=path), labels=labels, baseline="baseline", plan=plan)


def test_a_slope_of_one_life_is_scipys():
    """With ties and without; of several lives a restart is no slope."""
    draw = np.random.default_rng(3)
    hours, values = np.arange(16.0), np.round(draw.normal(0, 2, 16) + 0.3 * np.arange(16.0))
    of = stats.theilslopes(values, hours, alpha=0.95)
    assert soak.theil_sen([(hours, values)]) == pytest.approx((of.slope, of.low_slope, of.high_slope))
    flat = (hours, np.zeros(16))
    assert soak.theil_sen([flat, (hours, np.full(16, 1e9))]) == (0, 0, 0)
    assert soak.theil_sen([(hours[:5], values[:5])]) is None
    assert soak.theil_sen([(np.ones(16), values)]) is None


def test_what_grows_is_found_and_what_does_not_grow_is_not():
    """A megabyte an hour in noise of a tenth that remembers; the limit is where a line through it arrives."""
    (slope,) = soak.slopes(windows(6, 1e6))
    assert (slope.verdict, slope.lives, slope.limit) == ("grows", 1, 1e9)
    assert slope.lo < 1e6 < slope.hi
    assert slope.hours == pytest.approx(5.4)
    assert slope.reached_h == pytest.approx(((1e9 - slope.level) / slope.slope, (1e9 - slope.level) / slope.hi))
    assert next(soak.slopes(windows(6, -1e6))).verdict == "falls"
    assert next(soak.slopes(windows(6, 1e6, limit=None))).reached_h is None


@pytest.mark.long
def test_intervals_hold_what_they_promise():
    """Of 200 soaks without a slope few are said to have one, though each window is much like the one before."""
    wrong = sum(next(soak.slopes(windows(6, 0, seed=seed))).verdict != "none" for seed in range(200))
    assert wrong <= 24  # 5 % are 10; what windows remember beyond a piece makes it a little more


def test_lives_are_put_together():
    """A server that was started again begins where it began at first: no life says more than the other."""
    both = pd.concat([windows(3, 2e6), windows(3, 2e6, life=2.0, seed=2)])
    (slope,) = soak.slopes(both)
    assert (slope.verdict, slope.lives) == ("grows", 2)
    assert slope.hours == pytest.approx(5.4, abs=0.1)
    assert slope.slope == pytest.approx(2e6, rel=0.05)


def test_fewer_than_four_hours_are_not_judged():
    """However steep it is; the slope stands there as a look."""
    (slope,) = soak.slopes(windows(4, 1e8))
    assert (slope.verdict, slope.lo > 0) == ("short", True)
    (shortest,) = soak.slopes(windows(0.05, 1e8))
    assert (shortest.verdict, shortest.slope, shortest.reached_h) == ("short", None, None)


def test_what_is_not_judged_is_named_beside_what_is(tmp_path):
    """A version that was sampled for five hours is judged, also where the other one was cut off after one."""
    table = pd.concat([windows(6, 1e6), windows(1, 1e6, variant="candidate", seed=2)])
    (tmp_path / "stats").mkdir()
    (tmp_path / soak.FILE).write_text(json.dumps([asdict(slope) for slope in soak.slopes(table)]))
    labels = {"baseline": "v1", "candidate": "v2"}
    lines = section.sentences(sourced(tmp_path, labels))
    assert lines[0].startswith("**v2 is not judged**: it was sampled for 0.90 hours, and in less than 4 hours ")
    assert lines[1].startswith("v1: memory grows by ")
    assert len(lines) == 2
    table = pd.concat([table, windows(1, 1e6, variant="third", seed=3)])
    (tmp_path / soak.FILE).write_text(json.dumps([asdict(slope) for slope in soak.slopes(table)]))
    source = sourced(tmp_path, labels | {"third": "v3"})
    assert section.sentences(source)[0].startswith("**v2 and v3 are not judged**: one was sampled for 0.90 hours")


def test_what_does_not_grow_is_not_said_to_grow_less(tmp_path):
    """A slope lies above or below that of the other side, whatever the signs of both."""
    table = pd.concat([windows(6, 4e6), windows(6, -1e6, variant="candidate", seed=2)])
    (tmp_path / "stats").mkdir()
    (tmp_path / soak.FILE).write_text(json.dumps([asdict(slope) for slope in soak.slopes(table)]))
    labels = {"baseline": "v1", "candidate": "v2"}
    lines = section.sentences(sourced(tmp_path, labels))
    assert len(lines) == 2
    assert lines[0].startswith("v1: memory grows by ")
    assert lines[1].startswith("v2: memory: the slope is ")
    assert " an hour below that of v1 (95 % CI " in lines[1]


@pytest.mark.parametrize(("limits", "metric", "whose"), [
    (None, "rss_bytes", "the machine's"), (ServerLimits(memory_mb=512), "rss_bytes", "its"),
    (ServerLimits(memory_mb=1 << 20), "rss_bytes", "the machine's"), (None, "disk_bytes", "the machine's"),
    (ServerLimits(memory_mb=512), "cpu_cores", "the machine's"), (None, "open_files", "its"),
])  # fmt: skip
def test_whose_limit_is_reached_is_said(limits, metric, whose):
    """A server that is held to less than the machine has meets that; open files are those of a process."""
    (slope,) = soak.slopes(windows(6, 1e6, metric=metric, limit=512 << 20))
    side = SimpleNamespace(name="baseline", components=[None])
    source = SimpleNamespace(plan=SimpleNamespace(limits=limits, variants=[side]))
    assert f": {whose} 537" in section._grows(source, slope)


def test_a_difference_has_the_interval_of_both():
    """Of slopes of 1 and 4 MB an hour it is 3, wider than either."""
    one, four = (next(soak.slopes(windows(6, slope, seed=seed))) for slope, seed in ((1e6, 1), (4e6, 2)))
    estimate, lo, hi = soak.difference(one, four)
    assert lo < 3e6 < hi
    assert estimate == pytest.approx(four.slope - one.slope)
    assert hi - lo == pytest.approx(math.hypot(one.hi - one.slope, four.slope - four.lo)
                                    + math.hypot(one.slope - one.lo, four.hi - four.slope))  # fmt: skip


def test_the_picture_has_a_panel_a_metric():
    """All that was looked at, for each variant; nothing of nothing."""
    table = pd.concat(windows(1, 1e6, metric=name, variant=v) for name in NAMES for v in ("baseline", "candidate"))
    figure = over_hours(table, list(soak.slopes(table)), {"baseline": "v1", "candidate": "v2"})
    assert [axes.get_title("left").split(",")[0] for axes in figure.axes] == [title for title, _ in NAMES.values()]
    assert over_hours(table[:0], [], {"baseline": "v1", "candidate": "v2"}) is None


def test_the_experiment_is_long_enough_to_be_judged():
    """Each version is sampled for four hours in one start, without the time in which caches fill."""
    mixed = yaml.safe_load((PROJECT / "experiments/soak.yml").read_text())["mixed"]
    assert mixed["seconds"] * (1 - soak.SETTLING) / 3600 > soak.LEAST_HOURS
    said = re.search(r"`mixed.seconds` .*; ([0-9,]+) at least for a verdict", (PROJECT / "docs/soak.md").read_text())
    (slope,) = soak.slopes(windows(int(said[1].replace(",", "")) / 3600, 1e6))
    assert slope.verdict == "grows"
    wide = windows(int(said[1].replace(",", "")) / 3600, 1e6)
    assert next(soak.slopes(wide[wide["elapsed_s"] % 900 == 0])).verdict == "grows"


@pytest.fixture
def soaked(project):
    """Return a project with a soak of seconds in its plan, of the fake database."""
    project.plan(
        mixed=SOAK, duel={"enabled": False}, design={"blocks": 1, "warmup_blocks": 0}, queries={"types": TYPES[:1]}
    )
    return project


def told(project):
    """Return the events of windows so far."""
    return [event for event in project.events() if event["event"] == "window"]


@pytest.mark.slow
def test_a_soak_that_is_killed_keeps_its_windows_and_goes_on(soaked):
    """The block is run again, once; what the killed one had shown is judged with it, as another life."""
    process = soaked.start()
    wait_for(lambda: len(told(soaked)) >= 4)
    process.kill()
    process.wait()
    wait_for(lambda: not soaked.alive())
    assert soaked.blocks() == []
    before = told(soaked)
    said = soaked.run()
    assert " open files, p99 of queries " in said
    assert soaked.blocks() == ["001"]
    assert soaked.block("001")["failures"] == []
    assert told(soaked)[: len(before)] == before
    # A few directories come on top of a variant's file; both variants have twice that.
    alone = {name: solo["sizes"]["data_bytes"] for name, solo in soaked.block("001")["solo"].items()}
    assert all(alone[event["variant"]] <= event["disk_bytes"] < 3 * alone[event["variant"]] for event in told(soaked))

    run = soaked.run_dir
    reported(run)
    table = read_table(run, "windows")
    assert set(table["metric"]) == set(NAMES)
    assert sorted(table.groupby("variant")["life"].nunique()) == [1, 2]  # who came first was killed
    assert (table["value"] > 0).all()
    limits = table[~table["metric"].str.endswith("_ms")]
    assert (limits["limit"].astype(float) > limits["value"]).all()
    text = (run / "report.md").read_text()
    assert "## Hour after hour" in text
    first_screen = text[: text.index("**Answer.**")]
    assert "**No slope is judged**" in first_screen
    assert "**Block against block it is a first look:** 1 valid block" in first_screen
    assert text.count("No slope is judged") == 1
    assert "BLOCKS=" not in next_steps.text(run)
    assert (run / "plots/soak.svg").exists()

    # The same windows, as if each had lasted for hours, and memory grew.
    lines = (run / "raw/host1/events.jsonl").read_text().splitlines()
    slow = [event | {"elapsed_s": event["elapsed_s"] * 7200, "rss_bytes": 1e8 + 1e6 * number} if
            event["event"] == "window" else event for number, event in enumerate(map(json.loads, lines))]  # fmt: skip
    # Half a line is what a power cut leaves.
    text = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in slow)
    (run / "raw/host1/events.jsonl").write_text(text + '{"event":"window","blo')
    analysed(run)
    found = " ".join(section.sentences(open_source(run)))
    assert "No slope is judged" not in found
    assert ": memory grows by" in found
    assert " would be reached in " in found
