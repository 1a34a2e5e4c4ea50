"""A run that is killed again and again, with a fake database and fake TSBS: nothing is lost, repeated or left.

Other moments than these: TSDUEL_TEST_SEEDS="5 6 7" pytest tests/test_faults.py
"""

from __future__ import annotations

import csv
import os
import subprocess

import pytest
from fakeproject import TYPES
from faults import Disturbed, planned_rounds

from tsduel.tidy import tables as tidy

SEEDS = [int(seed) for seed in os.environ.get("TSDUEL_TEST_SEEDS", "1 2 3 4").split()]
PHASES = ("begin", "prepare", "start", "load", "settle", "responses", "query", "stop", "between")
KINDS = (
    *("driver", "driver", "stopped driver", "round", "round", "everything", "everything", "everything"),
    *("power", "power", "power", "database", "client"),
)
VICTIMS = {"round": "/round-tsbs", "database": "fakes/database", "client": "fakes/tsbs_"}
SHAPE = {
    "design": {"blocks": 4, "warmup_blocks": 1, "max_failed_rounds": 99},
    "queries": {"types": TYPES[:1], "count": None, "seconds": 0.2, "max_count": 40},
}


def tables(run_dir):
    """Make the tables of a run; return the names of the rounds that are in them, each as often as in phases.csv."""
    tidy.main(run_dir)
    with (run_dir / "tidy" / "phases.csv").open(newline="") as stream:
        stops = [row["round"] for row in csv.DictReader(stream) if row["phase"] == "start"]
    with (run_dir / "tidy" / "checks.csv").open(newline="") as stream:
        checked = {row["round"] for row in csv.DictReader(stream)}
    assert set(stops) <= checked
    return sorted(checked), stops


def test_an_undisturbed_run_has_every_planned_round_in_its_tables(project):
    """What the others are held against."""
    project.plan(**SHAPE)
    project.run()
    checked, started = tables(project.run_dir)
    assert checked == sorted(started) == planned_rounds(project.run_dir)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_killed_again_and_again_comes_to_the_same_rounds(project, seed, record_property):
    """13 kills, in a drawn order, at drawn moments of drawn phases; three leave files as a power cut does."""
    project.plan(**SHAPE)
    disturbed = Disturbed(
        run_dir=project.run_dir,
        scratch=project.cache / "scratch",
        start=lambda: project.start(FAKE_LOAD_S="0.6", FAKE_QUERY_S="0.3"),
        victims=VICTIMS,
        seed=seed,
    )
    project.said = project.run_dir.parent / "said"
    disturbed.disturb(KINDS, PHASES)
    disturbed.finish()
    lost = disturbed.lost(planned_rounds(project.run_dir))
    record_property("faults", [len(disturbed.kills), len(lost), len(disturbed.repeated), len(disturbed.left)])

    assert len(disturbed.kills) == len(KINDS), disturbed.kills
    assert (lost, disturbed.repeated, disturbed.left) == ([], [], [])
    checked, _ = tables(project.run_dir)
    assert checked == planned_rounds(project.run_dir)
    # A round has failed only where its own database or client was killed.
    failed = {name: project.round(name)["failure"] for name in project.rounds()}
    failed = {name: failure["message"] for name, failure in failed.items() if failure}
    assert len(failed) <= 2, failed
    assert not [message for message in failed.values() if "a step of ours" in message], failed
    assert not list((project.run_dir / "raw").glob("*.partial*"))
    assert not (project.run_dir / "stop-requested").exists()
    assert subprocess.run(["flock", "-n", project.env["TSDUEL_LOCK"], "true"], check=False).returncode == 0
    assert project.run().count("begins") == 0
