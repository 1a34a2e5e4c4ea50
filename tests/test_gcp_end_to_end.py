"""The whole way on a rented machine: a fake Google boots a bare Debian 12, and everything else is real."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import barehost
import fakecompute
import pytest
import terraforming
from barehost import STANDINS, BareHost, our_go
from checkout import CACHE, PROJECT, QUIET, Checkout, build, checks_of
from fakecompute import FakeCompute
from fakeproject import free_port

from tsduel.places.gcp.place import DIRECTORY
from tsduel.plan import resolve
from tsduel.question import read

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bare"), pytest.mark.timeout(2400)]


class Machines:
    """What the fake Google boots and shuts down: bare hosts, on which its guest agent makes the account."""

    def __init__(self, directory):
        self.directory = directory
        self.hosts = {}
        self.seeds = ()
        # A bare host ends with the thread that started it, and that of a request is soon over.
        self.thread = ThreadPoolExecutor(max_workers=1)

    def boot(self, instance):
        """Start one, and return its address; the key of the instance's metadata is let in a little later."""
        host = self.thread.submit(self._start, instance["name"]).result()
        made = self.thread.submit(self._make_account, host, instance["metadata"]["items"])
        made.add_done_callback(lambda ended: (wrong := ended.exception()) and traceback.print_exception(wrong))
        return host.address

    def _start(self, name):
        # To save minutes it sees our Go, and copies what is built here: tests/test_ssh_real.py builds there.
        mounts = {path: f"/seed/{path.relative_to(CACHE)}" for path in self.seeds} | {our_go(): "/usr/local/go"}
        host = BareHost(self.directory / f"m{len(self.hosts)}", mounts=mounts)
        self.hosts[name] = host
        return host.start()

    def _make_account(self, host, metadata):
        user, _, key = next(item["value"] for item in metadata if item["key"] == "ssh-keys").partition(":")
        for line in (
            STANDINS,
            f"useradd --create-home --shell /bin/bash {user}",
            f"printf '%s ALL=(ALL) NOPASSWD: ALL\\n' {user} >/etc/sudoers.d/{user}",
            f"umask 077; mkdir -p {DIRECTORY}/cache && cp -r /seed/* {DIRECTORY}/cache",
            f"chown -R {user}: {DIRECTORY}",
            f"umask 077; mkdir /home/{user}/.ssh",
            f"umask 077; printf '%s\\n' {shlex.quote(key)} >/home/{user}/.ssh/authorized_keys",
            f"chown -R {user}: /home/{user}",
        ):
            host.ssh(line, user="root")

    def host_keys(self, path):
        """Return one's host keys, as its guest agent tells Google."""
        return [self.hosts[path.rpartition("/")[2]].known_hosts.read_text().partition(" ")[2]]

    def shut_down(self, instance):
        """End one."""
        self.thread.submit(self.hosts[instance["name"]].stop).result()

    def close(self):
        """End all that a failed test has left."""
        for host in self.hosts.values():
            host.stop()
        self.thread.shutdown()


@pytest.fixture
def google(tmp_path):
    """Return a Google that boots real machines."""
    barehost.require()
    # What takes a minute the first time is not to be waited for in a request.
    barehost.tree()
    asked = read.read_file(PROJECT / "experiments/smoke.yml")
    plan = resolve.resolve(read.validate(asked, "smoke.yml"), run="built")
    resolve.write(tmp_path / "built", plan, cache=CACHE)
    build(tmp_path / "built")
    machines = Machines(tmp_path)
    # Not all of the cache: what other tests have built is gigabytes, and a login waits for the copy.
    built = [json.loads((tmp_path / f"built/build/{one.name}.json").read_text()) for one in plan.variants]
    machines.seeds = (CACHE / "agent", CACHE / "tsbs", *(Path(one["binary"]).parent for one in built))
    fake = FakeCompute(boot=machines.boot, shut_down=machines.shut_down, host_keys=machines.host_keys)
    fake.machines = machines
    yield fake
    fake.close()
    machines.close()


@pytest.fixture
def rented(google, tmp_path):
    """Return a checkout where `make` rents from the fake Google, and a run's name."""
    environment, pinned = terraforming.provider()
    name = f"rented-{os.getpid()}"
    checkout = Checkout(tmp_path / "checkout")
    work = checkout.cache / "terraform" / name
    work.mkdir(parents=True)
    (work / "test_override.tf").write_text(pinned)
    theirs = terraforming.ENVIRONMENT | environment | google.environment()
    checkout.environment = theirs | {"TSDUEL_CACHE": str(checkout.cache)}
    return checkout, name


KNOBS = (
    "EXPERIMENT=experiments/smoke.yml",
    "TARGET=gcp",
    f"GCP_PROJECT={fakecompute.PROJECT}",
    "SSH_FROM=10.213.0.0/16",
)


def waited(process, log, condition):
    """Wait until the condition holds, while `make` runs."""
    deadline = time.monotonic() + 1500
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.2)


def blocks(run_dir):
    """Return the records of the blocks that have come home, in order."""
    return [json.loads(path.read_text()) for path in sorted(run_dir.glob("raw/*/[0-9]*/block.json"))]


def test_a_rented_fleet_of_which_google_takes_one(google, rented, tmp_path):
    """The whole way to the report, over a connection that breaks; one machine's blocks are lacking, nothing is left."""
    checkout, name = rented
    run_dir, log = checkout.results(name), tmp_path / "log"
    asked = (*KNOBS, "HOSTS=2", "BLOCKS=4", "YES=1", "MAX_COST=2", f"SET=host.port={free_port()} {QUIET}")
    with checkout.making(log, "tsbs", f"RUN={name}", *asked) as process:
        waited(process, log, (run_dir / "raw/host1/events.jsonl").exists)
        first, _ = (host for _, host in sorted(google.machines.hosts.items()))
        assert first.kill_connections() > 0
        waited(process, log, lambda: "host2" in {block["host"] for block in blocks(run_dir)})
        google.preempt("host2")
        assert process.wait(timeout=1800) == 0, log.read_text()

    said = log.read_text()
    assert "machine   2 x e2-standard-8 in us-central1-a" in said
    assert "Google deletes them after 2.0 h, whatever becomes of you" in said
    assert "trying again in" in said
    assert "tsduel: host2 is lost: the machine tsduel-rented-" in said
    lost = re.search(r"it has: (\d) blocks were not run \((\d) of host2\), and the report says so\n", said)
    assert lost, said
    place = json.loads((run_dir / "plan/experiment.json").read_text())["place"]
    assert f"nothing of {place['name']} is left" in said
    assert google.names() == []
    assert [host.init for host in google.machines.hosts.values() if Path(f"/proc/{host.init}").exists()] == []
    with (run_dir / "tidy" / "blocks.csv").open(newline="") as stream:
        counted = {row["block"]: (row["host"], row["counts"], row["cause"]) for row in csv.DictReader(stream)}
    assert sorted(counted.values()) == [
        *[("host1", "true", "")] * 2,
        *[("host2", "false", "missing")] * int(lost[1]),
        *[("host2", "true", "")] * (2 - int(lost[1])),
    ]
    assert len(checks_of(run_dir)) > 30
    report = (run_dir / "report.md").read_text()
    assert "## Host by host" in report
    assert "e2-standard-8" in report

    # Everything is at home: the same stages once more rent nothing.
    before = len(google.requests)
    checkout.make("provision", "build", "run", "give-back", f"RUN={name}")
    assert len(google.requests) == before
