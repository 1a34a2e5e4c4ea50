"""What happens to one of three hosts: its disk fills, it is frozen for a minute. Finished blocks are kept.

The other hosts go on, or, where a block needs all of them, the run ends with a sentence and goes on afterwards.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest
from barehost import USERS, require
from fakeproject import wait_for
from fleet import OURS, Fleet, left, missing
from network import Network

from tsduel.core.rundir import open_run
from tsduel.places.ssh.link import is_home

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bare")]
SCRATCH = f"{OURS}/cache/scratch"
FROZEN_S = 60.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Boot three hosts."""
    require()
    made = Fleet(tmp_path_factory.mktemp("faults"), 3)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def linked(fleet):
    """Link all of them."""
    network = Network(fleet.hosts)
    fleet.private = {host.address: f"/{at}" for host, at in zip(network.hosts, network.addresses, strict=True)}
    try:
        yield fleet.hosts
    finally:
        fleet.private = {}
        network.stop()


def with_a_small_disk(host):
    """Give the databases there a disk of their own, which is large enough for what the plan expects."""
    host.mount_small(SCRATCH, 768)
    host.ssh(f"chown {USERS[0]}: {OURS}/cache {SCRATCH}; chmod 700 {SCRATCH}", user="root")


def fill(host):
    """Fill that disk; others may have freed some of it by the next look."""
    host.ssh(f"cat /dev/zero >>{SCRATCH}/ballast || true")


@contextlib.contextmanager
def frozen(host):
    """Stop all that runs there, with its sshd, as where a hypervisor stops a machine."""
    pids = list(host.processes())
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def finished(run_dir):
    """Return the records of the blocks that are at home."""
    return {path.parent.name: path.read_bytes() for path in run_dir.glob("raw/[0-9]*/block.json")}


def some_at_home(fleet, run_dir, host, running):
    """Wait until this host has a finished block here; return all that are."""

    def there():
        assert running.poll() is None, fleet.said(run_dir).read_text()
        return any(block.host == host for block in open_run(run_dir).blocks)

    wait_for(there)
    return finished(run_dir)


def kept(run_dir, before):
    """Whether what was finished is what it was."""
    return before.items() <= finished(run_dir).items()


def test_the_disk_of_one_of_three_fills(fleet):
    """It stops with a sentence, the others end their blocks; with room again the same command runs the rest."""
    run_dir = fleet.prepare("full", fleet.hosts, design={"blocks": 12})
    with_a_small_disk(fleet.hosts[1])
    running = fleet.stage(run_dir)
    before = some_at_home(fleet, run_dir, "host2", running)
    fill(fleet.hosts[1])
    assert running.wait() == 2, fleet.said(run_dir).read_text()
    said = fleet.said(run_dir).read_text()
    assert "host2" in said
    assert "disk" in said
    assert f"{SCRATCH}" in said
    assert "Traceback" not in said
    assert kept(run_dir, before)
    owed = missing(run_dir)
    assert owed
    assert {row.host for row in open_run(run_dir).due if row.name in owed} == {"host2"}
    fleet.hosts[1].ssh(f"rm {SCRATCH}/ballast")
    assert fleet.stage(run_dir).wait() == 0, fleet.said(run_dir).read_text()
    assert (missing(run_dir), kept(run_dir, before), is_home(run_dir)) == ([], True, True)
    assert [left(host) for host in fleet.hosts] == [[], [], []]


def test_one_of_three_is_frozen_for_a_minute(fleet):
    """The others go on; it goes on where it was, and whoever attends finds it again."""
    run_dir = fleet.prepare("frozen", fleet.hosts, design={"blocks": 9, "max_failed_blocks": 99})
    running = fleet.stage(run_dir)
    before = some_at_home(fleet, run_dir, "host2", running)
    with frozen(fleet.hosts[1]):
        time.sleep(FROZEN_S)
        assert running.poll() is None
    assert running.wait() == 0, fleet.said(run_dir).read_text()
    assert (missing(run_dir), kept(run_dir, before), is_home(run_dir)) == ([], True, True)
    # It was no version's fault.
    assert {block.status for block in open_run(run_dir).blocks} == {"ok"}
    assert [left(host) for host in fleet.hosts] == [[], [], []]


def test_hosts_apart_of_which_one_is_full_or_frozen(fleet, linked):
    """A block needs all: the run ends with a sentence that names the host, and the same command goes on."""
    cluster = {"hosts": ["client", "client", "server"], "host": {"port": 43000, "pin": "auto"}}
    run_dir = fleet.prepare("apart3", list(linked), design={"blocks": 4}, workload={"scale": 4}, **cluster)
    with_a_small_disk(linked[2])
    running = fleet.stage(run_dir)
    before = some_at_home(fleet, run_dir, "host1", running)
    fill(linked[2])
    assert running.wait() == 2, fleet.said(run_dir).read_text()
    said = fleet.said(run_dir).read_text()
    assert "host3" in said.splitlines()[-1]
    assert "disk" in said.splitlines()[-1]
    assert kept(run_dir, before)
    linked[2].ssh(f"rm {SCRATCH}/ballast")

    running = fleet.stage(run_dir)
    wait_for(lambda: any("-storageDataPath=" in line for line in left(linked[2])) or running.poll() is not None)
    with frozen(linked[2]):
        assert running.wait() == 3, fleet.said(run_dir).read_text()
    said = fleet.said(run_dir).read_text()
    assert "the run has stopped: host3 does not answer any more" in said
    assert "Traceback" not in said
    assert kept(run_dir, before)

    wait_for(lambda: [left(host) for host in linked] == [[], [], []])
    assert fleet.stage(run_dir).wait() == 0, fleet.said(run_dir).read_text()
    assert (missing(run_dir), kept(run_dir, before), is_home(run_dir)) == ([], True, True)
    assert {block.status for block in open_run(run_dir).blocks} == {"ok"}
    wait_for(lambda: [left(host) for host in linked] == [[], [], []])
