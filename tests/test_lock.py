"""One run at a time on a machine, and a run that is asked to stop."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest
from fakeproject import free_port, wait_for

from tsduel.build import ansible as build
from tsduel.core.errors import UserError
from tsduel.plan import resolve as plan
from tsduel.rounds import control, lock

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture
def here(project, monkeypatch):
    """Give a project whose lock is also the one that this process looks at."""
    monkeypatch.setenv("TSDUEL_LOCK", project.env["TSDUEL_LOCK"])
    return project


def loading(project):
    """Start a run and return its driver once a load is under way."""
    process = project.start(FAKE_LOAD_S="60")
    wait_for(lambda: project.calls_log.exists() and "load" in project.calls_log.read_text())
    return process


def holder_text(project, **changed):
    """Return a lock's text of this process, with some of it changed."""
    pid = changed.get("pid", os.getpid())
    began = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19]
    boot = changed.get("boot", Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    text = f"pid {pid}, began {changed.get('began', began)}, boot {boot}, user me, since 2026-11-21T09:00:00Z, /a, b\n"
    Path(project.env["TSDUEL_LOCK"]).write_text(text)


class TestOneAtATime:
    """The lock of the machine."""

    def test_another_checkout_with_another_cache_waits_its_turn(self, here):
        """It says who is running and since when, ends with 2, and leaves the first alone; before it builds, too."""
        here.plan()
        first = loading(here)
        other = here.root / "results" / "other"
        shutil.copytree(here.run_dir, other, ignore=shutil.ignore_patterns("raw"))
        second = subprocess.run(
            [here.scripts / "run-rounds", other],
            env=here.env | {"TSDUEL_CACHE": str(here.root / "another cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 2
        sentence = f"another run is going on on this machine: pid {first.pid} of user "
        for said in (sentence, f", {here.run_dir}; wait for it", "'make stop RUN=r' there, then: make tsbs RUN=other"):
            assert said in second.stderr
        inventory = other / "host" / "inventory.json"
        inventory.parent.mkdir()
        inventory.write_text("{}")
        with pytest.raises(UserError, match=sentence):
            build.main(other)
        with pytest.raises(UserError, match="this run is going on already: pid"):
            lock.refuse_if_taken(here.run_dir, "tsbs")
        assert not (other / "raw" / "events.jsonl").exists()
        new = here.root / "results" / "new"
        with pytest.raises(UserError, match=f"{sentence}.* there, then: the same command again"):
            plan.main(new, {"KIND": "tsbs"})
        assert not new.exists()
        assert first.poll() is None
        first.kill()
        here.end(first)
        assert here.alive(patience_s=20) == []
        assert lock.holder() is None

    @pytest.mark.parametrize("stale", [{"pid": 4194305}, {"began": 1}, {"boot": "0-0"}])
    def test_a_stale_text_is_never_believed(self, here, stale):
        """Not if the lock is free, and not if somebody holds it whom the text does not name."""
        holder_text(here, **stale)
        assert lock.holder() is None
        with Path(here.env["TSDUEL_LOCK"]).open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert lock.holder() == lock.Holder(0, "?", "?", "?")
            with pytest.raises(UserError, match="nobody knows which; wait for it, then: the same command again"):
                lock.refuse_if_taken(here.run_dir, "tsbs")
            holder_text(here)
            assert lock.holder() == lock.Holder(os.getpid(), "me", "2026-11-21T09:00:00Z", "/a, b")

    def test_every_user_can_open_it_and_a_link_is_refused(self, here):
        """Whoever made the file, the next user takes the lock; what it leads to elsewhere is not written to."""
        here.plan()
        here.run()
        path = Path(here.env["TSDUEL_LOCK"])
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        precious = here.root / "precious"
        precious.write_text("mine")
        path.unlink()
        path.symlink_to(precious)
        assert f"{path}, by which runs on this machine exclude each other, cannot be opened" in here.run(expect=2)
        assert precious.read_text() == "mine"

    def test_a_lock_that_another_user_has_made(self, here):
        """A kernel may refuse to create in /run/lock what somebody else has made there; opening is enough."""
        if os.geteuid() != 0:
            pytest.skip("needs root, to make a file of another user's")
        shared = here.root / "shared"
        shared.mkdir()
        shared.chmod(0o1777)
        path = shared / "lock"
        path.touch()
        os.chown(path, 65534, 65534)
        path.chmod(0o666)
        here.plan()
        here.run(TSDUEL_LOCK=str(path))
        assert str(here.run_dir) in path.read_text()


class TestStop:
    """`make stop` finishes the round that is running; twice: now."""

    def test_once_finishes_the_round_and_twice_ends_it(self, here, capsys):
        """Each says what it did and what comes next; the same command goes on; the request does not outlive it."""
        here.plan(design={"blocks": 2})
        process = here.start(FAKE_LOAD_S="2")
        wait_for(lambda: here.calls_log.exists() and "load" in here.calls_log.read_text())
        control.stop(here.run_dir)
        running = here.order()[0]
        said = capsys.readouterr().out
        assert f"r finishes round {running} on this machine and ends then; the same command again ends it now" in said
        control.status(here.run_dir)
        assert "and ends after this round as asked; 0 of 4 rounds" in capsys.readouterr().out
        said = here.end(process)
        assert process.returncode == 130, said
        assert "stopped as asked; finished rounds are kept. To go on: make tsbs RUN=r" in said
        assert here.rounds() == [running]
        events = [json.loads(line) for line in (here.run_dir / "raw/events.jsonl").read_text().splitlines()]
        assert [e["round"] for e in events if e["event"] == "stop-requested"] == [running]
        assert (events[-1]["event"], events[-1]["message"]) == ("run-end", "stopped as asked")
        assert not (here.run_dir / "stop-requested").exists()

        here.calls_log.unlink()
        process = loading(here)
        begin = time.monotonic()
        control.stop(here.run_dir)
        control.stop(here.run_dir)
        assert time.monotonic() - begin < 30
        said = capsys.readouterr().out.splitlines()
        assert said[1] == "r is stopped on this machine; finished rounds are kept. To go on: make tsbs RUN=r"
        here.end(process)
        assert process.returncode == 130
        assert here.alive() == []
        control.stop(here.run_dir)
        assert capsys.readouterr().out == "r does not run on this machine\n"
        (here.run_dir / "stop-requested").touch()  # as a power cut leaves it
        here.run()
        assert here.rounds() == sorted(here.order())

    def test_between_rounds_there_is_nothing_to_finish(self, here, capsys):
        """While data is made, which may take an hour, a request ends the run at once."""
        here.plan(host={"port": free_port()})
        slow = here.scripts / "make-workload"
        slow.write_text("#!/usr/bin/env bash\n>$TSDUEL_SCRATCH/begun\nsleep 600\n")
        process = here.start()
        wait_for((here.cache / "scratch" / "begun").exists)
        control.stop(here.run_dir)
        assert "r is stopped on this machine" in capsys.readouterr().out
        here.end(process)
        assert process.returncode == 130
