"""The real VictoriaMetrics in bad luck: every way a round of it can fail ends soon, with a sentence."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fakeproject import PATIENCE_S, free_port, wait_for

from tsduel.places import provision
from tsduel.plan import resolve as plan
from tsduel.question import experiment

PROJECT = Path(__file__).resolve().parent.parent
# One after the other, whatever runs beside them: they share the cache and load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Build TSBS and the smoke experiment's baseline as `make build` does; return the directory of the records."""
    run_dir = tmp_path_factory.mktemp("results") / "built"
    asked = experiment.validate(experiment.read(PROJECT / "experiments" / "smoke.yml"), "smoke")
    # Both sides the same: one version is enough to see it fail.
    resolved = plan.resolve(asked, run=run_dir.name, aa=True)
    cache = Path(os.environ.get("TSDUEL_CACHE") or PROJECT / ".cache").absolute()
    plan._write(run_dir, resolved, plan.ansible_vars(resolved, run_dir=run_dir, cache=cache))
    provision.main(run_dir)
    playbook = [PROJECT / ".venv/bin/ansible-playbook", "-i", run_dir / "host" / "inventory.json"]
    playbook += ["-e", f"@{run_dir}/plan/ansible-vars.json", PROJECT / "ansible" / "site.yml"]
    environment = os.environ | {"ANSIBLE_CONFIG": str(PROJECT / "ansible" / "ansible.cfg")}
    done = subprocess.run(playbook, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return run_dir / "build"


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Return a place for the data, the lock and the database's files of these tests alone."""
    return tmp_path_factory.mktemp("cache")


class RealRun:
    """One run of the real thing whose variants have flags of the test's own."""

    def __init__(self, root, built, cache):
        self.root, self.built, self.cache = root, built, cache
        self.run_dir = root / "run"

    def plan(self, *flags, blocks=1, failed=0, scale=500):
        """Write the plan and the records of its builds."""
        record = json.loads((self.built / "baseline.json").read_text())
        variant = {"source": "binary", "path": record["binary"], "flags": list(flags)}
        data = {
            "name": "real",
            "variants": {"baseline": variant, "candidate": variant},
            # Enough that a load takes some seconds.
            "workload": {"scale": scale, "workers": 2},
            "queries": {"types": ["double-groupby-1"], "count": 20, "responses": 2},
            "settle": {"polls": 1},
            "design": {"blocks": blocks, "warmup_blocks": 0, "max_failed_rounds": failed},
            # Other tests run beside, which is not what these look at.
            "noise": {"steal_pct": None, "foreign_cpu_pct": None, "canary_pct": None, "clock_step_s": None},
            "host": {"port": free_port()},
        }
        resolved = plan.resolve(experiment.validate(data, "test"), run="run")
        plan._write(self.run_dir, resolved, plan.ansible_vars(resolved, run_dir=self.run_dir, cache=self.cache))
        build = self.run_dir / "build"
        build.mkdir()
        for name in ("baseline", "candidate"):
            (build / f"{name}.json").write_text(json.dumps(record | {"variant": name}))
        (build / "tsbs.json").write_bytes((self.built / "tsbs.json").read_bytes())

    def start(self, *flags):
        """Plan, and start run-rounds, which stops at the first round that fails."""
        self.plan(*flags)
        with (self.root / "said").open("wb") as said:
            return subprocess.Popen(
                [PROJECT / "scripts" / "run-rounds", self.run_dir],
                env=os.environ | {"TSDUEL_CACHE": str(self.cache)},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def failed(self, process):
        """Wait for the end, require that the first round failed and nothing runs; return its record."""
        process.wait(timeout=PATIENCE_S)
        said = (self.root / "said").read_text()
        assert process.returncode == 3, said
        assert "1 rounds have failed" in said
        assert self.alive() == []
        (path,) = (self.run_dir / "raw").glob("*/round.json")
        assert path.parent.suffix != ".partial"
        return json.loads(path.read_text())

    def alive(self):
        """Return the pids of everything that belongs to a round of ours."""
        mark = f"TSDUEL_SCRATCH={self.cache}/scratch".encode()
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (directory / "environ").read_bytes().split(b"\0"):
                    found.append(int(directory.name))
        return found


@pytest.fixture
def run(tmp_path, built, cache):
    """Return a run of which nothing is left after the test."""
    real = RealRun(tmp_path, built, cache)
    yield real
    for pid in real.alive():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def test_a_flag_that_it_does_not_know(run):
    """It ends at once; the sentence has its own words and the place of its log."""
    failure = run.failed(run.start("-no.such.flag=1"))["failure"]
    assert failure["phase"] == "start"
    assert "died: " in failure["message"]
    assert "flag provided but not defined: -no.such.flag" in failure["message"]
    assert failure["message"].endswith("server.log)")


def test_killed_in_the_middle_of_a_load(run):
    """The load is over within seconds, and the sentence says that the server died."""
    process = run.start()

    def loading():
        files = list((run.run_dir / "raw").glob("*.partial/load.stdout"))
        lines = files[0].read_text().splitlines() if files else []
        return len(lines) >= 2 or process.poll() is not None

    wait_for(loading)
    os.kill(int((run.cache / "scratch" / "server.pid").read_text()), signal.SIGKILL)
    killed = time.time()
    result = run.failed(process)
    assert result["failure"]["phase"] == "load"
    assert f"the server (pid {result['server_pid']}) died: " in result["failure"]["message"]
    assert result["ended"] - killed < 20


def test_503_for_ever(run):
    """Read-only for want of disk: the loader would retry for ever; it is ended within 30 s and the status is named."""
    result = run.failed(run.start("-storage.minFreeDiskSpaceBytes=9999999999999"))
    assert result["failure"]["phase"] == "load"
    assert "no sample was acknowledged for 20 s: the server answers HTTP status 503" in result["failure"]["message"]
    events = [json.loads(line) for line in (run.run_dir / "raw" / "events.jsonl").read_text().splitlines()]
    (begin,) = (event["t"] for event in events if event["event"] == "phase-start" and event["phase"] == "load")
    assert result["ended"] - begin < 30


def test_a_query_that_is_answered_with_an_error(run):
    """run_queries panics; the sentence has the query type and what the server answered."""
    failure = run.failed(run.start("-search.maxUniqueTimeseries=1"))["failure"]
    assert failure["phase"] == "responses"
    assert failure["query_type"] == "double-groupby-1"
    assert "queries of double-groupby-1 ended with exit code 2: panic: " in failure["message"]
