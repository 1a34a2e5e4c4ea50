"""A run that is killed again and again, with a fake database and fake TSBS: nothing is lost, repeated or left.

Other moments than these: TSDUEL_TEST_SEEDS="5 6 7" pytest tests/test_faults.py; `make bench` takes two.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakeproject import TYPES
from faults import Disturbed, planned_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable

SEEDS = [int(seed) for seed in os.environ.get("TSDUEL_TEST_SEEDS", "1").split()]
# The driver is the client of the exchanges, so killing it there kills the client.
PHASES = ("begin", "prepare", "start", "load", "settle", "stop", "idle", "exchange", "between")
KINDS = (
    *("driver", "driver", "driver", "stopped driver", "everything", "everything", "everything"),
    *("power", "power", "power", "database", "database", "loader"),
)
VICTIMS = {"database": "-storageDataPath=", "loader": "fakes/tsbs_load"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_killed_again_and_again_comes_to_the_same_blocks(project, seed, record_property):
    """13 kills, in a drawn order, at drawn moments of drawn phases; three leave files as a power cut does."""
    project.plan(
        design={"blocks": 8, "warmup_blocks": 1},
        queries={"types": TYPES[:1], "max_count": 2000},
        duel={"seconds": 0.3, "sittings": 1},
    )
    disturbed = Disturbed(project, VICTIMS, seed, environment={"FAKE_LOAD_S": "0.6"})
    disturbed.disturb(KINDS, PHASES)
    disturbed.finish()
    planned, lost = planned_blocks(project.run_dir), disturbed.lost()
    record_property("faults", [len(disturbed.kills), len(lost), len(disturbed.repeated), len(disturbed.left)])

    assert len(disturbed.kills) == len(KINDS), disturbed.kills
    assert (lost, disturbed.repeated, disturbed.left) == ([], [], [])
    assert project.blocks() == planned
    # A block has failed only where its own database or loader was killed: of the duel both databases at once.
    blocks = [failures for name in planned if (failures := project.block(name)["failures"])]
    failed = [failure for failures in blocks for failure in failures]
    assert len(blocks) <= 3, failed
    for failure in failed:
        assert failure["variant"] in {"baseline", "candidate"}, failed
        assert "a step of ours" not in failure["message"], failed
    assert not list((project.run_dir / "raw/host1").glob("*.partial*"))
    assert not (project.run_dir / "stop-requested").exists()
    assert subprocess.run(["flock", "-n", project.env["TSDUEL_LOCK"], "true"], check=False).returncode == 0
    assert project.run().count("begins") == 0


def held(pids: Iterable[int]) -> set[str]:
    """Return how processes among these stand still: frozen by their control group, or stopped by a signal."""
    states = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            if (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "T":
                states.add("T")
            group = (Path("/proc") / str(pid) / "cgroup").read_text().rpartition("0::")[2].strip()
            for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
                events = Path(f"{mount}{group}/cgroup.events")
                if events.exists() and "frozen 1" in events.read_text():
                    states.add("frozen")
    return states


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_kills_in_the_middle_of_turns_leave_nothing_that_stands_still(project, seed, record_property):
    """Four kills while one side is held: its server ends, or goes on, and no block is lost or repeated."""
    project.plan(
        design={"blocks": 4, "warmup_blocks": 1},
        queries={"types": TYPES[:1], "max_count": 20000},
        duel={"seconds": 1.5, "sittings": 1},
    )
    disturbed = Disturbed(project, VICTIMS, seed, look=held, environment={"FAKE_LOAD_S": "0.1"})
    disturbed.disturb(("driver", "driver", "stopped driver", "everything"), ["exchange"], longest_s=0.3)
    disturbed.finish()
    lost = disturbed.lost()
    record_property("faults", [len(disturbed.kills), len(lost), len(disturbed.repeated), len(disturbed.left)])
    assert len(disturbed.kills) == 4, disturbed.kills
    assert disturbed.seen & {"T", "frozen"}, "no kill met a side that was held"
    assert (lost, disturbed.repeated, disturbed.left) == ([], [], [])
