"""Real databases, real load generators and real benchmarks that are killed again and again, and `make` itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fakeproject import PATIENCE_S, free_port, wait_for
from faults import Disturbed, kill, planned_rounds
from gomodule import Module
from gomodule import Run as BenchRun
from listening import not_loopback
from test_disk import fill, small_estimates
from test_end_to_end import UNJUDGED
from test_faults import tables
from test_rounds_real import RealRun, built, cache  # noqa: F401 - they are fixtures

PROJECT = Path(__file__).resolve().parent.parent
# One after the other, whatever runs beside them: they share the cache and load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]
PHASES = ("prepare", "load", "settle", "query", "stop")
KINDS = ("driver", "round", "everything", "power", "database", "client")


def started(run, words, environment):
    """Return a function that begins or goes on with a run, its words in a file."""

    def start():
        with (run.parent / "said").open("ab") as said:
            return subprocess.Popen(
                words, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
            )

    return start


def figures(disturbed, planned, record_property):
    """Report what came of it, and require that it is nothing."""
    lost = disturbed.lost(planned)
    record_property("faults", [len(disturbed.kills), len(lost), len(disturbed.repeated), len(disturbed.left)])
    assert (lost, disturbed.repeated, disturbed.left) == ([], [], [])


def test_victoriametrics_and_tsbs_are_killed_again_and_again(tmp_path, built, cache, record_property):  # noqa: F811 - fixtures
    """Six kills; every planned round is in the tables once, and nothing of ours listened for others meanwhile."""
    real = RealRun(tmp_path / "home", built, cache)
    real.root.mkdir()
    real.plan(blocks=3, failed=99, scale=100)
    environment = os.environ | {"TSDUEL_CACHE": str(cache)}
    disturbed = Disturbed(
        run_dir=real.run_dir,
        scratch=cache / "scratch",
        start=started(real.run_dir, [PROJECT / "scripts" / "run-rounds", real.run_dir], environment),
        victims={"round": "/round-tsbs", "database": "-storageDataPath=", "client": "/tsbs_"},
        seed=1,
        look=not_loopback,
    )
    disturbed.disturb(KINDS, PHASES)
    disturbed.finish()
    figures(disturbed, planned_rounds(real.run_dir), record_property)
    assert len(disturbed.kills) == len(KINDS), disturbed.kills
    checked, _ = tables(real.run_dir)
    assert checked == planned_rounds(real.run_dir)
    assert disturbed.looks > 0
    assert disturbed.seen == set()


def test_a_disk_that_fills_up_under_victoriametrics(tmp_path, built, small_disk):  # noqa: F811 - a fixture
    """It refuses to write: the run ends and says which disk, and goes on once there is room."""
    real = RealRun(tmp_path / "home", built, tmp_path / "cache")
    real.root.mkdir()
    # Too small for the unpacked data to come to lie there as well.
    scratch = small_disk(real.cache / "scratch", 160)
    real.plan(blocks=1, failed=0, scale=300)
    small_estimates(real.run_dir, 120)
    start = started(
        real.run_dir, [PROJECT / "scripts/run-rounds", real.run_dir], os.environ | {"TSDUEL_CACHE": str(real.cache)}
    )
    process = start()
    events = real.run_dir / "raw" / "events.jsonl"
    wait_for(lambda: process.poll() is not None or (events.exists() and '"phase":"load"' in events.read_text()))
    ballast = fill(scratch)
    process.wait(timeout=PATIENCE_S)
    said = (real.run_dir.parent / "said").read_text()
    assert process.returncode == 2, said
    assert f"the disk of {scratch} is full (" in said
    assert list((real.run_dir / "raw").glob("0*")) == []
    ballast.unlink()
    process = start()
    process.wait(timeout=PATIENCE_S)
    assert process.returncode == 0, (real.run_dir.parent / "said").read_text()
    assert [json.loads(p.read_text())["status"] for p in real.run_dir.glob("raw/*/round.json")] == ["ok", "ok"]
    assert real.alive() == []


def test_go_benchmarks_are_killed_again_and_again(tmp_path, record_property):
    """The driver, the round, the test binary, everything: the same rounds in the end, and nothing is left."""
    module = Module(tmp_path / "module")
    plain = module.commit()
    run = BenchRun(tmp_path)
    run.plan(
        {"baseline": plain, "candidate": plain},
        gobench={"seconds": 0.5},
        design={"blocks": 3, "max_failed_rounds": 99},
    )
    run.build()
    disturbed = Disturbed(
        run_dir=run.directory,
        scratch=run.cache / "scratch",
        start=started(run.directory, [run.scripts / "run-rounds", run.directory], run.env),
        victims={"round": "/round-gobench", "client": "-test.run="},
        seed=1,
    )
    disturbed.disturb(("driver", "stopped driver", "round", "power", "client"), ("prepare", "bench"))
    disturbed.finish()
    figures(disturbed, planned_rounds(run.directory), record_property)
    assert not list((run.directory / "raw").glob("*.partial"))


@pytest.fixture
def named_run():
    """Give a run of our own in results/, and leave results/ as it was."""
    latest = PROJECT / "results" / "latest"
    before = latest.readlink() if latest.is_symlink() else None
    directory = PROJECT / "results" / f"killed-{os.getpid()}"
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
    latest.unlink(missing_ok=True)
    if before is not None:
        latest.symlink_to(before)


def of_make(name):
    """Return the pids of everything that this run's `make` has started: they have its name in their environment."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"RUN={name}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append(int(directory.name))
        except OSError:
            continue
    return found


@pytest.mark.usefixtures("built")
def test_make_is_killed_as_a_whole_while_it_builds(named_run, record_property):
    """make, Python, Ansible and its workers are killed at once; the same command builds, runs and reports."""
    words = ["make", "tsbs", f"RUN={named_run.name}"]
    asked = ["EXPERIMENT=experiments/smoke.yml", f"SET=host.port={free_port()} {UNJUDGED}", "BLOCKS=1"]
    kills = 0
    for moment in (0.5, 3.0):
        process = subprocess.Popen(
            [*words, *(asked if not (named_run / "plan" / "experiment.json").exists() else [])],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        wait_for(lambda: "ansible-playbook" in "".join(_words(pid) for pid in of_make(named_run.name)))
        time.sleep(moment)
        kill(process.pid, *of_make(named_run.name))
        while rest := of_make(named_run.name):
            kill(*rest)
        process.wait()
        assert process.returncode == -signal.SIGKILL
        kills += 1
    done = subprocess.run(words, cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lost = set(planned_rounds(named_run)) ^ {p.parent.name for p in named_run.glob("raw/*/round.json")}
    left = of_make(named_run.name)
    record_property("faults", [kills, len(lost), 0, len(left)])
    assert not lost
    assert left == []
    again = subprocess.run(words, cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert "everything is built already" in again.stderr
    assert not re.search("begins", again.stderr)


def _words(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
