"""TARGET=ssh with one host: a bare Debian behind a real sshd, a fake database that waits, the real Go program."""

from __future__ import annotations

import subprocess

import pytest
from barehost import require
from fakeproject import wait_for
from fleet import OURS, Fleet, left, missing

from tsduel.places.ssh.link import is_home

pytestmark = pytest.mark.xdist_group("bare")
SUMS = "find . -type f | sort | xargs sha256sum"


@pytest.fixture
def fleet(tmp_path):
    """Boot one host."""
    require()
    made = Fleet(tmp_path, 1)
    try:
        yield made
    finally:
        made.stop()


def test_all_blocks_come_home_over_a_connection_that_breaks(fleet):
    """The run goes on there meanwhile; every file is at home as it is there, nothing runs on, nobody asks again."""
    (host,) = fleet.hosts
    run_dir = fleet.prepare("one", fleet.hosts, design={"blocks": 3})
    running = fleet.stage(run_dir)
    wait_for(lambda: list(run_dir.glob("raw/*/[0-9]*/block.json")) or running.poll() is not None)
    assert host.kill_connections() > 0
    assert running.wait() == 0, fleet.said(run_dir).read_text()
    assert "the run goes on there; trying again in 1 s" in fleet.said(run_dir).read_text()
    assert (missing(run_dir), is_home(run_dir), left(host)) == ([], True, [])
    here = subprocess.run(["bash", "-c", SUMS], cwd=run_dir / "raw", capture_output=True, text=True, check=True)
    assert here.stdout == host.ssh(f"cd {OURS}/runs/one/raw && {SUMS}").stdout
    assert not list(run_dir.rglob("*.partial"))
    with host.unplugged():
        assert "all blocks are here already" in fleet.do(run_dir, "run")
