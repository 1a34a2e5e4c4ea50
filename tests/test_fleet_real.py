"""TARGET=ssh with several hosts: bare Debians behind real sshds, a fake database that waits, the real Go program.

Other moments to be killed at: TSDUEL_TEST_SEEDS="5 6 7"; more kills: TSDUEL_TEST_KILLS=20.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time

import pytest
from barehost import require, send
from fakeproject import wait_for
from fleet import OURS, Fleet, left, missing

from tsduel.core.rundir import open_run
from tsduel.places.ssh.link import Link, is_home
from tsduel.rounds import remote
from tsduel.rounds.view.events import parse
from tsduel.rounds.view.show import View
from tsduel.tidy import blocks as decided

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("fleets")]
KILLS = int(os.environ.get("TSDUEL_TEST_KILLS", "8"))
SEEDS = [int(seed) for seed in os.environ.get("TSDUEL_TEST_SEEDS", "1").split()]
VICTIMS = {
    "driver": "tsduel-host run",
    "rounds": "detached rounds",
    "database": "-storageDataPath=",
    "loader": "tsbs_load",
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Boot four hosts."""
    require()
    made = Fleet(tmp_path_factory.mktemp("fleet"), 4)
    try:
        yield made
    finally:
        made.stop()


def host_json(run_dir, name):
    """Return raw/HOST.json."""
    return json.loads((run_dir / f"raw/{name}.json").read_text())


def test_four_hosts_work_at_once(fleet):
    """Each is complete in itself; all comes home as it is published; one view has all of it."""
    run_dir = fleet.prepare("four", fleet.hosts, design={"blocks": 8})
    running = fleet.stage(run_dir)
    wait_for(lambda: list(run_dir.glob("raw/*/[0-9]*/block.json")) or running.poll() is not None)
    follower = fleet.stage(run_dir, "follow", fleet.root / "followed")
    status = fleet.do(run_dir, "status")
    assert running.wait() == 0, fleet.said(run_dir).read_text()
    assert follower.wait() == 0
    said, followed = fleet.said(run_dir).read_text(), (fleet.root / "followed").read_text()
    run = open_run(run_dir)
    assert missing(run_dir) == []
    assert is_home(run_dir)
    assert len(run.blocks) == 4 + 8
    spans = []
    for number in range(1, 5):
        name = f"host{number}"
        mine = [block for block in run.blocks if block.host == name]
        assert [block.kind for block in mine] == ["warmup", *["measured"] * 2]
        spans.append((min(block.started for block in mine), max(block.ended for block in mine)))
        assert (host_json(run_dir, name)["host"], status.count(f"{name} on tester@")) == (name, 1)
        assert run.of_host(name, "workload.json")["data"]
        assert len(run.of_host(name, "noise.json")["blocks"]) == 2
        for text in (said, followed):
            assert text.count(f" {name} all blocks are run") == 1, text
        for block in mine:
            assert f" {name} block {block.block} ok in " in said
    assert len({run.of_host(f"host{n}", "workload.json")["data"][0]["content_checksum"] for n in range(1, 5)}) == 1
    # The last to begin did so before the first was done.
    assert max(begin for begin, _ in spans) < min(end for _, end in spans)
    assert "all blocks are here already" in fleet.do(run_dir, "run")
    assert [left(host) for host in fleet.hosts] == [[], [], [], []]
    assert {line.reason for line in decided.decide(run)} == {"", "a warm-up block"}


@pytest.mark.parametrize("spares", [1, 0], ids=["with a spare", "without"])
def test_a_host_that_is_lost(fleet, spares, capsys):
    """Its blocks go to the spare one; without one the run ends with what it has, and says so. No other host minds."""
    hosts, spare = fleet.hosts[:2], fleet.hosts[2 : 2 + spares]
    run_dir = fleet.prepare(f"lost{spares}", hosts, spare, design={"blocks": 8})
    links = Link.all(run_dir)
    attending = remote.Fleet(run_dir, links, lambda name: View({}, lambda _: None, host=name), patience_s=15)
    lost = []

    def view_of(name):
        view = View({}, lambda _: None, host=name)
        take = view.take

        def taken(events):
            take(events)
            if (
                name == "host2"
                and not lost
                and any(e.name == "block-end" and e.text("kind") == "measured" for e in events)
            ):
                lost.append(hosts[1].kill_everything())

        view.take = taken
        return view

    attending.view_of = view_of
    assert attending.attend() == 0
    said = capsys.readouterr().err
    assert lost
    assert "tsduel: host2 is lost: the run on tester@" in said
    run = open_run(run_dir)
    owed = run.json("host/lost.json")["host2"]
    assert owed["blocks"]
    counted = [line for line in decided.decide(run) if not line.cause]
    if spares:
        assert f"host3 (tester@{spare[0].address}) runs {len(owed['blocks'])} blocks in its place" in said
        assert is_home(run_dir)
        assert len(counted) == 8
        assert {block.host for block in run.blocks} == {"host1", "host2", "host3"}
    else:
        assert f"the run ends with what it has: {len(owed['blocks'])} blocks were not run" in said
        assert len(counted) == 8 - len(owed["blocks"])
        reasons = {line.reason for line in decided.decide(run) if line.cause == "missing"}
        assert len(reasons) == 1
        assert "it was not run, since host2 was lost: the run on tester@" in reasons.pop()
        # It was not the machine's end: the same command has it go on.
        assert fleet.stage(run_dir).wait() == 0
        assert (missing(run_dir), is_home(run_dir)) == ([], True)


class Watch:
    """Remembers each block that has come home; one that is another one now, or is begun again, was repeated."""

    def __init__(self, run_dir):
        self.run_dir = run_dir
        self.published = {}
        self.repeated = []

    def look(self):
        """Look at all that is at home."""
        for path in self.run_dir.glob("raw/*/[0-9]*/block.json"):
            if self.published.setdefault(path.parent.name, path.read_bytes()) != path.read_bytes():
                self.repeated.append(path.parent.name)
        # Not below: what is being copied home moves meanwhile.
        for path in self.run_dir.glob("raw/*/events.jsonl"):
            ended = set()
            for event in filter(None, map(parse, path.read_bytes().splitlines())):
                if event.name == "block-start" and event.text("block") in ended:
                    self.repeated.append(f"{path.parent.name} {event.text('block')}")
                if event.name == "block-end":
                    ended.add(event.text("block"))


def kill(kind, host, running):
    """Kill what was drawn; return how many processes or connections that were."""
    if kind == "attendant":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        return running.wait() == -signal.SIGKILL
    if kind == "connections":
        return host.kill_connections()
    if kind == "everything":
        return host.kill_everything()
    return send(signal.SIGKILL, [pid for pid, line in host.processes().items() if VICTIMS.get(kind, kind) in line])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fleet_that_is_killed_again_and_again_comes_to_the_same_blocks(fleet, seed, record_property):
    """Whoever attends, drivers, all of a host at once, connections: no block is lost or repeated, nothing stays."""
    draw = random.Random(seed)  # noqa: S311 - moments, no secret
    hosts = fleet.hosts[:3]
    run_dir = fleet.prepare(f"killed{seed}", hosts, design={"blocks": max(9, KILLS * 3 // 2), "max_failed_blocks": 99})
    watch, kills, kinds = Watch(run_dir), [], ["attendant", "attendant", "everything", "connections", *VICTIMS]
    running = fleet.stage(run_dir)
    while len(kills) < KILLS and not is_home(run_dir):
        time.sleep(draw.uniform(0.3, 2.0))
        kind, host = draw.choice(kinds), draw.choice(hosts)
        if kill(kind, host, running):
            kills.append(f"{kind} of h{1 + hosts.index(host)}")
        watch.look()
        if running.poll() is not None:
            running = fleet.stage(run_dir)
    for _ in range(5):
        running.wait()
        watch.look()
        if is_home(run_dir):
            break
        running = fleet.stage(run_dir)
    assert is_home(run_dir), fleet.said(run_dir).read_text()[-3000:]
    lost = missing(run_dir)
    there = [line for host in hosts for line in left(host)]
    record_property("faults", [len(kills), len(lost), len(watch.repeated), len(there)])
    assert (lost, watch.repeated, there) == ([], [], []), kills
    assert len(kills) == KILLS
    blocks = open_run(run_dir).blocks
    for number, host in enumerate(hosts, 1):
        names = host.ssh(f"cd {OURS}/runs/killed{seed}/raw && ls -d host*/[0-9]* | sed s,.*/,,").stdout.split()
        assert names == sorted(block.name for block in blocks if block.host == f"host{number}")
    # A block has failed only where its own database or loader was killed.
    allowed = sum(one.startswith(("database", "loader")) for one in kills)
    assert sum(block.status != "ok" for block in blocks) <= allowed, kills


def listening(host):
    """Return the ports on which somebody listens there, but for ssh."""
    tables = host.ssh("cat /proc/net/tcp /proc/net/tcp6", user="root").stdout
    rows = [line.split() for line in tables.splitlines() if ": " in line]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"} - {22}
