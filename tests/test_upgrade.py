"""Upgrading in place, from plan to report, below a fake database; and what is refused before it begins."""

from __future__ import annotations

import re
import shutil

import pandas as pd
import pytest
from asking import FAKES, TYPES, asked, planned
from reports import reported

from plots.sections import upgrade
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.record import Downgrade
from tsduel.core.rundir import open_run
from tsduel.plan.forecast import estimate
from tsduel.plan.forecast.spread import Forecast
from tsduel.stats.outcome import outcome

FAKE = {"source": "binary", "path": str(FAKES / "database")}


def test_new_data_continue_the_old_and_queries_know_which_they_ask(project):
    """As much again on the same series; each type over both windows and over the new one, in files of their own."""
    plan = project.plan(design={"start_from": "baseline"}, queries={"types": TYPES[1:]})
    work, more = plan.workload, plan.workload.continued
    assert (more.start, more.samples) == (work.end, work.samples)
    assert more.end == "2025-06-12T00:00:00Z"
    assert work.data[0].key != more.data[0].key
    # Eight hours: a quarter to three quarters of them on either side of midnight.
    half, new = plan.queries.windowed
    assert (half.name, half.start, half.end) == (f"{TYPES[1]}@half", "2025-06-10T18:00:00Z", "2025-06-11T06:00:00Z")
    assert (new.name, new.start, new.end) == (f"{TYPES[1]}@new", more.start, more.end)
    keys = [key for of in (*plan.queries.types, half, new) for key in of.keys.values()]
    assert len(set(keys)) == 3
    assert planned().workload.continued is None


@pytest.mark.parametrize(
    "parts",
    [{"queries": {"solo": True, "count": 9}}, {"duel": {"batches": True}}, {"duel": {"enabled": False}}],
)
def test_what_does_not_go_with_it_is_refused(parts):
    """It compares by duels on the same data."""
    with pytest.raises(UserError, match=r"design\.start_from: baseline compares versions of one database by duels"):
        asked(design={"start_from": "baseline"}, **parts)


def test_too_little_disk_for_the_copies_is_said_before_anything_is_made(project):
    """Two databases would fit, and three, of which two grow to twice the data, do not: the plan and the run say so."""
    scale = shutil.disk_usage(project.root).free // 26 // 14400
    size = {"scale": scale, "interval": "1m"}
    fits = project.plan(workload=size, queries={"max_count": 20})
    lines = estimate.lines(project.run_dir, fits, project.cache)
    assert not [line for line in lines if line.startswith("disk") and "TOO LITTLE" in line]
    plan = project.plan(workload=size, queries={"max_count": 20}, design={"start_from": "baseline"})
    said = "\n".join(estimate.lines(project.run_dir, plan, project.cache))
    assert "are free in" in said
    assert "that is TOO LITTLE: free some, or point TSDUEL_CACHE to a larger disk" in said
    assert re.search(
        r"MiB are free in .*, and the database and the results need about \d+ MiB: free some", project.run(2)
    )
    assert not list(project.cache.glob("workload/*/data.zst"))


def test_an_upgrade_from_plan_to_report(project):
    """One candidate refuses the directory, in its own words; the other goes all the way, and there is no way back."""
    sides = {
        "baseline": FAKE,
        "candidate": FAKE | {"env": {"FAKE_MODE": "refuse"}},
        "later": FAKE | {"env": {"FAKE_MODE": "leave-other"}},
    }
    project.plan(variants=sides, design={"start_from": "baseline"})
    project.run()
    run = open_run(project.run_dir)
    assert [block.status for block in run.blocks] == ["ok"]
    # What the forecast goes by, of the one that went all the way: every primary metric of the plan.
    wanted = {metric.name for metric, _ in Forecast(run.plan, (), {}).metrics}
    assert len(wanted) == 8
    assert set(project.block("001")["ratios"]["later"]) == wanted
    reported(run.path)
    table = pd.read_csv(run.path / "tidy/measurements.csv", keep_default_na=False)
    assert set(table["part"]) == {"upgrade"}
    of = table.groupby("variant")["metric"].agg(set)
    assert {"upgrade_right_after_typical_ms", "upgrade_half_cpu_us", "upgrade_new_typical_ms"} <= of["later"]
    assert {"upgrade_first_answer_seconds", "upgrade_ingest_rate", "upgrade_disk_bytes"} <= of["baseline"] & of["later"]
    assert of["candidate"] == {"upgrade_downgrade_starts", "upgrade_downgrade_same"}
    asked = pd.read_csv(run.path / "raw/host1/001/upgrade/after/exchanges.csv.gz")
    for window in ("half", "new"):
        ns = asked.loc[asked["query_type"] == f"{TYPES[0]}@{window}", "later_ns"]
        mine = table[(table["variant"] == "later") & (table["metric"] == f"upgrade_{window}_total_ms")]
        (value,) = mine.loc[(mine["query_type"] == TYPES[0]) & (mine["block"] == 1), "value"]
        assert float(value) == pytest.approx(ns.mean() / 1e6, rel=1e-5)
    pairs = pd.read_csv(run.path / "tidy/pairs.csv")
    assert set(pairs["phase"]) == {"before", "after"}
    code, why = outcome(read_json(run.path / "stats/comparison.json"), "", smoke=False)
    assert (code, why) == (4, "2 checks failed")

    text = (run.path / "report.md").read_text()
    first, rest = text.split("## Before and after the upgrade", 1)
    refused = "(baseline) has left**, in 1 of 1 block: "
    for part in (first, rest):
        assert refused in part.replace("\\", "")
        assert "panic: FATAL: cannot open the index: unknown version 7" in part
        assert "**The way back loses answers**" in part
    assert "old data: before → right after" in rest
    assert "of queries over the old data 0 of 8 are answered the same" in rest
    assert (run.path / "plots/upgrade.png").exists()


def test_a_way_back_on_which_nothing_was_answered_is_not_open():
    """A baseline that starts and is gone before it is asked, and one that starts in some blocks alone."""
    of = "of queries over the old data"
    gone = {"starts": True, "answers": [{"window": "old", "asked": 0, "same": 0, "what": "the downgraded one is out"}]}
    good = {"starts": True, "answers": [{"window": "old", "asked": 8, "same": 8}]}
    for down, how, said in (
        (
            [gone],
            "loses answers",
            f"1 of 1 block; {of} 0 of 0 are answered the same (e.g. `the downgraded one is out`).",
        ),
        ([gone | {"answers": None}], "loses answers", "1 of 1 block; no query was answered."),
        ([good, {"starts": False}], "fails at times", f"1 of 2 blocks; {of} 8 of 8 are answered the same."),
        ([good], "is open", f"1 of 1 block; {of} 8 of 8 are answered the same."),
    ):
        found = upgrade._downgrade([Downgrade.model_validate(one) for one in down], "a", "b")
        assert found == f"**The way back {how}**: a starts on the data that b leaves, in {said}"
