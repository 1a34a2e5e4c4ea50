"""The whole way on a rented machine: a fake Google boots a bare Debian 12, and everything else is real."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import barehost
import fakecompute
import pytest
import terraforming
from barehost import BareHost, our_go
from fakecompute import FakeCompute
from fakeproject import free_port
from gomodule import Module
from test_end_to_end import UNJUDGED

from tsduel.places.gcp.place import DIRECTORY

PROJECT = Path(__file__).resolve().parent.parent
LATEST = PROJECT / "results" / "latest"
# It builds and measures, as the other real ones do.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real"), pytest.mark.timeout(2400)]
ROUNDS = ["01-1", "01-2", "02-1", "02-2"]


class Machines:
    """What the fake Google boots and shuts down: bare hosts, on which its guest agent makes the account."""

    def __init__(self, directory):
        self.directory = directory
        self.hosts = []
        # A bare host ends with the thread that started it, and that of a request is soon over.
        self.thread = ThreadPoolExecutor(max_workers=1)

    def boot(self, instance):
        """Start one, and return its address; the key of the instance's metadata is let in a little later."""
        host = self.thread.submit(self._start).result()
        self.made = self.thread.submit(self._make_account, host, instance["metadata"]["items"])
        return host.address

    def _start(self):
        # To save minutes it sees our Go, and copies our module and build caches.
        mounts = {PROJECT / ".cache" / "go": "/seed", our_go(): "/usr/local/go"}
        host = BareHost(self.directory / f"m{len(self.hosts)}", mounts=mounts)
        self.hosts.append(host)
        return host.start()

    def _make_account(self, host, metadata):
        user, _, key = next(item["value"] for item in metadata if item["key"] == "ssh-keys").partition(":")
        for line in (
            f"useradd --create-home --shell /bin/bash {user}",
            f"printf '%s ALL=(ALL) NOPASSWD: ALL\\n' {user} >/etc/sudoers.d/{user}",
            f"umask 077; mkdir -p {DIRECTORY}/cache && cp -r /seed {DIRECTORY}/cache/go",
            f"chown -R {user}: {DIRECTORY}",
            f"umask 077; mkdir /home/{user}/.ssh",
            f"umask 077; printf '%s\\n' {shlex.quote(key)} >/home/{user}/.ssh/authorized_keys",
            f"chown -R {user}: /home/{user}",
        ):
            host.ssh(line, user="root")

    def host_keys(self, _):
        """Return the newest one's host keys, as its guest agent tells Google."""
        return [self.hosts[-1].known_hosts.read_text().partition(" ")[2]]

    def shut_down(self, _):
        """End the newest one."""
        self.thread.submit(self.hosts[-1].stop).result()

    def close(self):
        """End all that a failed test has left."""
        for host in self.hosts:
            host.stop()
        self.thread.shutdown()


@pytest.fixture
def google(tmp_path):
    """Return a Google that boots real machines."""
    barehost.require()
    # What takes a minute the first time is not to be waited for in a request.
    barehost.tree()
    machines = Machines(tmp_path)
    fake = FakeCompute(boot=machines.boot, shut_down=machines.shut_down, host_keys=machines.host_keys)
    fake.machines = machines
    yield fake
    fake.close()
    machines.close()


@pytest.fixture
def run_dir():
    """Give a run of our own in results/, and leave results/ and the cache as they were."""
    before = LATEST.readlink() if LATEST.is_symlink() else None
    directory = PROJECT / "results" / f"rented-{os.getpid()}"
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
    shutil.rmtree(terraforming.CACHE / "terraform" / directory.name, ignore_errors=True)
    LATEST.unlink(missing_ok=True)
    if before is not None:
        LATEST.symlink_to(before)


@pytest.fixture
def make(google, run_dir):
    """Return `make` for this run, against the fake Google."""
    environment, pinned = terraforming.provider()
    work = terraforming.CACHE / "terraform" / run_dir.name
    work.mkdir(parents=True)
    (work / "test_override.tf").write_text(pinned)
    log = run_dir.parent / f"{run_dir.name}.log"

    def start(*words):
        with log.open("a") as stream:
            return subprocess.Popen(
                ["make", *words, f"RUN={run_dir.name}"],
                cwd=PROJECT, env=terraforming.ENVIRONMENT | environment | google.environment(),
                stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
            )  # fmt: skip

    start.said = log.read_text
    yield start
    log.unlink(missing_ok=True)


KNOBS = (
    "EXPERIMENT=experiments/smoke.yml",
    "TARGET=gcp",
    f"GCP_PROJECT={fakecompute.PROJECT}",
    "SSH_FROM=10.213.0.0/16",
)


def test_make_tsbs_rents_measures_and_gives_back(google, make, run_dir):
    """`make tsbs TARGET=gcp` ends with a report at home and nothing at Google's; once the connection breaks."""
    process = make("tsbs", *KNOBS, "YES=1", "MAX_COST=1", f"SET=host.port={free_port()}")
    events = run_dir / "raw" / "events.jsonl"
    deadline = time.monotonic() + 1500
    while not (events.exists() and "round-start" in events.read_text()):
        assert process.poll() is None, make.said()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert google.machines.hosts[0].kill_connections() > 0
    assert process.wait(timeout=1800) == 0, make.said()

    said = make.said()
    assert "about 0.3 h; whatever happens, it is deleted after 2.0 h" in said
    assert "trying again in" in said
    assert f"nothing of {json.loads((run_dir / 'plan/experiment.json').read_text())['place']['name']} is left" in said
    assert google.names() == []
    assert not Path(f"/proc/{google.machines.hosts[0].init}").exists()

    rounds = {path.parent.name: json.loads(path.read_text()) for path in run_dir.glob("raw/*/round.json")}
    assert sorted(name[:4] for name in rounds) == ROUNDS
    assert {found["status"] for found in rounds.values()} == {"ok"}
    with (run_dir / "tidy" / "checks.csv").open(newline="") as stream:
        checks = list(csv.DictReader(stream))
    assert len(checks) > 50
    assert [c for c in checks if c["ok"] != "true"] == []
    assert "e2-standard-8" in (run_dir / "report.md").read_text()

    # Everything is at home: the same command once more rents nothing.
    asked = len(google.requests)
    assert make("tsbs").wait(timeout=300) == 0, make.said()
    assert len(google.requests) == asked


def test_make_gobench_rents_measures_and_gives_back(google, make, run_dir, tmp_path):
    """`make gobench TARGET=gcp` compares two checkouts that lie only here; nothing is left at Google's."""
    for side, allocs in (("old", 10), ("new", 11)):
        Module(tmp_path / side).commit(allocs=allocs)
    bench = ("PACKAGE=./work", "BENCH=^BenchmarkWork$/^alloc$", "BLOCKS=2", f"SET=gobench.seconds=0.05 {UNJUDGED}")
    sides = (f"BASELINE=path:{tmp_path}/old", f"CANDIDATE=path:{tmp_path}/new")
    process = make("gobench", *KNOBS[1:], "YES=1", "MAX_COST=1", *bench, *sides)
    assert process.wait(timeout=1200) == 0, make.said()

    assert (
        f"nothing of {json.loads((run_dir / 'plan/experiment.json').read_text())['place']['name']} is left"
        in make.said()
    )
    assert google.names() == []
    assert not Path(f"/proc/{google.machines.hosts[0].init}").exists()
    rows = {
        (r["metric"], r["query_type"]): r for r in json.loads((run_dir / "stats/comparison.json").read_text())["rows"]
    }
    assert rows["allocs/op", "Work/alloc"]["change_pct"] == pytest.approx(10.0)
    assert "e2-standard-8" in (run_dir / "report.md").read_text()
