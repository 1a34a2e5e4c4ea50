"""Who measures on a machine, and a run that is asked to stop, as Python sees them; the other half is in host/run."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import asking
import plans
import pytest

from tsduel.build import ansible
from tsduel.core.errors import UserError
from tsduel.places import lock
from tsduel.plan import resolve
from tsduel.rounds import control


@pytest.fixture
def held(tmp_path, monkeypatch):
    """Hold a lock of our own; return a function that writes the text of one who does, this process unless told else."""
    path = tmp_path / "lock"
    monkeypatch.setenv("TSDUEL_LOCK", str(path))
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    boot_now = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def write(run_dir="/a, b", *, pid=0, began=ticks, boot=boot_now):
        path.write_text(
            f"pid {pid or os.getpid()}, began {began}, boot {boot}, user me, since 2026-11-21T09:00:00Z, {run_dir}\n"
        )

    write()
    with path.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield write


@pytest.mark.parametrize("stale", [{"pid": 4194305}, {"began": 1}, {"boot": "0-0"}])
def test_a_stale_text_is_never_believed(held, tmp_path, stale):
    """Not if somebody holds the lock whom it does not name; the sentence says who has it, or that nobody knows."""
    held(**stale)
    assert lock.holder() == lock.Holder(0, "?", "?", "?")
    with pytest.raises(UserError, match="its name is not known; wait for it, then: the same command again"):
        lock.refuse_if_taken(tmp_path / "r", "tsbs")
    held()
    assert lock.holder() == lock.Holder(os.getpid(), "me", "2026-11-21T09:00:00Z", "/a, b")
    (tmp_path / "r").mkdir()
    with pytest.raises(
        UserError, match=r"/a, b; wait for it, or end it with 'make stop RUN=a, b' there, then: make tsbs"
    ):
        lock.refuse_if_taken(tmp_path / "r", "tsbs")
    held(tmp_path / "r")
    with pytest.raises(UserError, match="this run is going on already: pid"):
        lock.refuse_if_taken(tmp_path / "r", "tsbs")


@pytest.mark.usefixtures("held")
def test_nothing_is_planned_or_built_while_another_run_goes_on(tmp_path, monkeypatch):
    """`make tsbs` makes no cache and no plan then, and the build is refused again, if one has begun meanwhile."""
    environment = os.environ | {"EXPERIMENT": str(tmp_path / "asked.yml"), "TSDUEL_CACHE": str(tmp_path / "cache")}
    (tmp_path / "asked.yml").write_text(json.dumps(asking.written()))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="another run is going on on this machine"):
        resolve.main(tmp_path / "results/r", environment | {"KIND": "tsbs"})
    assert not (tmp_path / "cache").exists()
    plans.write(tmp_path / "r")
    (tmp_path / "r/host").mkdir()
    (tmp_path / "r/host/inventory.json").write_text("{}")
    with pytest.raises(UserError, match="another run is going on on this machine"):
        ansible.main(tmp_path / "r")


@pytest.mark.usefixtures("held")
def test_a_lock_that_nobody_holds_names_nobody(tmp_path, monkeypatch):
    """Whatever its text says; and one that is a link is refused."""
    (tmp_path / "free").write_text((tmp_path / "lock").read_text())
    monkeypatch.setenv("TSDUEL_LOCK", str(tmp_path / "free"))
    assert lock.holder() is None
    (tmp_path / "link").symlink_to(tmp_path / "free")
    monkeypatch.setenv("TSDUEL_LOCK", str(tmp_path / "link"))
    with pytest.raises(UserError, match="cannot be opened: see who made it, and remove it"):
        lock.holder()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("after block 1", "r finishes block 1 on this machine and ends then; the same command again ends it now"),
        ("stopped", "r is stopped on this machine; finished blocks are kept. To go on: make tsbs RUN=r"),
        ("still there", "r did not end within 180 s on this machine"),
    ],
)
def test_stop_says_what_was_done(held, tmp_path, capsys, answer, said):
    """The driver that holds the lock is asked; status says so meanwhile."""
    run_dir = tmp_path / "r"
    plans.write(run_dir)
    agent = tmp_path / "agent"
    agent.write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/asked"\necho {answer}\n')
    agent.chmod(0o755)
    (run_dir / "build").mkdir()
    (run_dir / "build/agent.json").write_text(json.dumps({"binary": str(agent)}))
    control.stop(run_dir)
    assert capsys.readouterr().out == "r does not run on this machine\n"
    held(run_dir)
    (run_dir / "stop-requested").touch()
    control.status(run_dir)
    assert "and ends after this block as asked; 0 of 3 blocks are finished" in capsys.readouterr().out
    if answer == "still there":
        with pytest.raises(UserError, match=said):
            control.stop(run_dir)
    else:
        control.stop(run_dir)
        assert said in capsys.readouterr().out
    assert (tmp_path / "asked").read_text() == f"stop {run_dir} host1 {os.getpid()}\n"
