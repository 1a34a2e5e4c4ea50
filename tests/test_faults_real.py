"""The real database and load generator that are killed again and again, a disk that fills up, and `make` itself."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

import pytest
from checkout import CACHE, PROJECT, QUIET, Checkout, build
from fakeproject import PATIENCE_S, UNJUDGED, free_port, running, wait_for
from faults import Disturbed, kill, planned_blocks
from listening import not_loopback

from tsduel.plan import resolve
from tsduel.question import read

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("planted")]
PHASES = ("load", "settle", "exchange", "stop")
KINDS = ("driver", "everything", "power", "database", "loader")
VICTIMS = {"database": "-storageDataPath=", "loader": "/tsbs_load"}


@pytest.fixture
def real(project):
    """Return how to plan and build a run of the smoke experiment's baseline against itself, in the test's own cache."""

    def plan(**parts):
        data = read.read_file(PROJECT / "experiments" / "smoke.yml")
        base = {"noise": UNJUDGED, "host": {"port": free_port()}}
        for section, fields in (base | parts).items():
            data[section] = data.get(section, {}) | fields
        planned = resolve.resolve(read.validate(data, "test"), run="r", aa=True)
        project.cache.mkdir(exist_ok=True)
        resolve.write(project.run_dir, planned, cache=CACHE)
        build(project.run_dir)

    return plan


def test_victoriametrics_and_tsbs_are_killed_again_and_again(project, real, record_property):
    """Every planned block is there once, and nothing of ours listened for others meanwhile."""
    real(design={"blocks": 4, "max_failed_blocks": 99}, workload={"scale": 100})
    disturbed = Disturbed(project, VICTIMS, seed=1, look=not_loopback)
    disturbed.disturb(KINDS, PHASES)
    disturbed.finish()
    lost = disturbed.lost()
    record_property("faults", [len(disturbed.kills), len(lost), len(disturbed.repeated), len(disturbed.left)])
    assert (lost, disturbed.repeated, disturbed.left) == ([], [], [])
    assert len(disturbed.kills) == len(KINDS), disturbed.kills
    assert disturbed.looks > 0
    assert disturbed.seen == set()


def test_a_disk_that_fills_up_under_victoriametrics(project, real, small_disk):
    """It refuses to write: the run ends and says which disk, and goes on once there is room."""
    scratch = small_disk(project.cache / "scratch", 200)
    real(design={"blocks": 1, "max_failed_blocks": 0}, workload={"scale": 200, "workers": 2})
    plan = project.run_dir / "plan" / "experiment.json"
    # Small enough for the disk, and large enough that its version is not blamed.
    small = {"data_bytes": 1 << 20, "query_bytes": 1 << 20, "database_bytes": 120 << 20, "results_bytes": 1 << 20}
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"estimate": small}))
    process = project.start()
    wait_for(lambda: process.poll() is not None or project.loads())
    ballast = scratch / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as stream:
        while stream.write(bytes(1 << 20)):
            pass
    said = project.end(process)
    assert process.returncode == 2, said
    assert f"the disk of {scratch} is full (" in said
    assert project.blocks() == []
    ballast.unlink()
    project.run()
    assert project.block("001")["status"] == "ok"


def started_by(name, checkout):
    """Return pid -> command line of everything that this run's `make` has started: RUN is its name, or it is ours."""
    return running(lambda word: word == f"RUN={name}" or word.startswith(f"TSDUEL_SCRATCH={checkout.path}/"))


def test_make_is_killed_as_a_whole_while_it_builds_and_runs(tmp_path, record_property):
    """make, Python, Ansible, the Go program and all below it at once; the same command goes on to the report."""
    checkout = Checkout(tmp_path / "checkout")
    name = f"killed-{os.getpid()}"
    asked = ["EXPERIMENT=experiments/smoke.yml", f"SET=host.port={free_port()} {QUIET}"]
    moments = ("ansible-playbook", "-storageDataPath=")
    for moment in moments:
        with checkout.making(tmp_path / "log", "tsbs", f"RUN={name}", *asked) as process:
            deadline = time.monotonic() + PATIENCE_S
            while not any(moment in words for words in started_by(name, checkout).values()):
                assert process.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            time.sleep(0.5)
            kill(process.pid, *started_by(name, checkout))
            while rest := started_by(name, checkout):
                kill(*rest)
            assert process.wait() == -signal.SIGKILL
        asked = []
    said = checkout.make("tsbs", f"RUN={name}")
    run_dir = checkout.results(name)
    lost = set(planned_blocks(run_dir)) ^ {path.parent.name for path in run_dir.glob("raw/*/*/block.json")}
    left = started_by(name, checkout)
    record_property("faults", [len(moments), len(lost), 0, len(left)])
    assert (lost, left) == (set(), {})
    assert "all blocks are run" in said
    again = checkout.make("build", "run", f"RUN={name}")
    assert "everything is built already" in again
    assert " begins" not in again
