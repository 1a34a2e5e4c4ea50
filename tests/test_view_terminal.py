"""The screen on a pseudo-terminal, with the real Go program and a fake database."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
from pathlib import Path

import pytest
from fakeproject import FAKES, wait_for
from terminal import Terminal

from tsduel.rounds import control
from tsduel.rounds.view.events import Tail

PROJECT = Path(__file__).resolve().parent.parent
HEAD = "import os, sys; from pathlib import Path; from tsduel.rounds import follow, run; "
RUN = f"{HEAD}sys.exit(run.main(Path(sys.argv[1])))"
FOLLOW = f"{HEAD}follow.SILENCE_S = 1; sys.exit(follow.main(Path(sys.argv[1]), os.environ))"
BINARY = {"source": "binary", "path": str(FAKES / "database")}
BROKEN = BINARY | {"env": {"FAKE_MODE": "bad-flag"}}
# Blocks are only to be short here.
SHORT = {"duel": {"enabled": False}}


@pytest.fixture
def terminal(project):
    """Return a function that starts Python code on a terminal; the fixture ends what is left."""
    started = []

    def start(code, *words, columns=80, **env):
        environment = project.env | {"PYTHONPATH": str(PROJECT)} | env
        started.append(Terminal([sys.executable, "-c", code, *words], columns=columns, env=environment))
        return started[-1]

    yield start
    for process in started:
        if process.code is None:
            os.kill(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)
        os.close(process.master)


def last_event(project):
    """Return name and status of the newest event."""
    last = Tail(project.run_dir / "raw/host1/events.jsonl").read()[-1]
    return last.name, last.text("status")


@pytest.mark.parametrize("columns", [80, 120])
def test_what_is_left_of_a_whole_run(project, terminal, columns):
    """A line a block, the reason of a failure, and the end; no line is broken, and the cursor is not hidden."""
    project.plan(variants={"baseline": BROKEN, "candidate": BINARY}, design={"blocks": 2, "seed": 3}, **SHORT)
    shown = terminal(RUN, project.run_dir, columns=columns, FAKE_LOAD_S="3")
    assert shown.wait() == 0
    seen = " ".join(line.strip() for line in shown.seen.lines)
    assert "block 1 " in seen
    assert "flag provided but not defined: -nonsense" in seen
    assert "tsduel: 2 of the blocks failed; the report says which and why" in seen
    assert re.search(r"all 2 blocks are run, 2 failed, in [0-9:]+", seen)
    # The foot is gone.
    assert "the whole run" not in seen
    assert "the whole run" in shown.raw.decode()
    assert shown.seen.wrapped == 0
    assert b"\x1b[?25l" not in shown.raw
    assert termios.tcgetattr(shown.master) == shown.attributes
    assert project.alive() == []
    log = (project.run_dir / "run.log").read_text()
    assert "WARNING tsduel-host: block 1 FAILED in baseline" in log
    assert "INFO    tsduel-host: all blocks are run" in log


@pytest.mark.parametrize("how", ["ctrl-c", "term", "hang-up", "kill"])
def test_whatever_ends_the_terminal_ends_the_run(project, terminal, how):
    """Ctrl-C, a signal to the parent alone, a closed window, kill -9: no process is left, and the run can resume."""
    project.plan(**SHORT)
    shown = terminal(RUN, project.run_dir, FAKE_LOAD_S="3600")
    shown.until("the whole run")
    wait_for(project.loads)
    if how == "ctrl-c":
        os.write(shown.master, b"\x03")
    elif how == "hang-up":
        os.close(shown.master)
        # The fixture closes this one.
        shown.master = os.open("/dev/null", os.O_RDWR)
    else:
        os.kill(shown.pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
    assert shown.wait() == (-9 if how == "kill" else 130)
    # The load would take an hour: it does not end by itself.
    wait_for(lambda: not project.alive())
    # After kill -9 of its parent, the driver lives until it has ended the other processes.
    wait_for(lambda: not control.local_driver(project.run_dir, project.env))
    assert last_event(project) == ("run-end", "interrupted")
    if how in {"ctrl-c", "term"}:
        assert " ".join(shown.seen.lines).count("To go on: make tsbs RUN=r") == 1
        assert termios.tcgetattr(shown.master) == shown.attributes
    # And the same command goes on.
    assert "all blocks are run" in project.run()


def test_a_driver_that_go_has_ended_is_a_defect_of_ours(project, terminal):
    """Its exit code is not that of a user's mistake, its stack is shown at once, and the run can resume."""
    project.plan(**SHORT)
    shown = terminal(RUN, project.run_dir, FAKE_LOAD_S="3600")
    shown.until("the whole run")
    wait_for(project.loads)
    os.kill(control.local_driver(project.run_dir, project.env).pid, signal.SIGABRT)
    shown.until("SIGABRT: abort")
    drawn = shown.raw.count(b"the whole run")
    assert shown.wait() == 1
    # Drawn again after each of its lines, the foot would take a busy machine minutes.
    assert shown.raw.count(b"the whole run") - drawn < len(shown.seen.lines) / 10
    seen = " ".join(shown.seen.lines)
    assert "SIGABRT: abort" in seen
    assert "the driver has crashed; its stack is above" in seen
    wait_for(lambda: not project.alive())
    assert "all blocks are run" in project.run()


def test_a_screen_that_breaks_does_not_end_the_run(project, terminal):
    """run.log has the error; the blocks run, and the program's last words are shown."""
    project.plan(variants={"baseline": BROKEN, "candidate": BINARY}, **SHORT)
    broken = RUN.replace("sys.exit", "from tsduel.rounds.view import screen; screen.panel = lambda *_: 1 / 0; sys.exit")
    shown = terminal(broken, project.run_dir)
    assert shown.wait() == 0
    assert "tsduel: 1 of the blocks failed; the report says which and why" in " ".join(shown.seen.lines)
    log = (project.run_dir / "run.log").read_text()
    assert "ERROR   view: the view broke, and the run goes on without: ZeroDivisionError" in log
    assert project.blocks() == ["001"]


def test_a_second_view_shows_the_same_and_ends_with_the_run(project, terminal):
    """`make follow` from the middle on a terminal, and plain after the end; both say how the run ended."""
    project.plan(**SHORT)
    driver = project.start(FAKE_LOAD_S="4")
    wait_for(project.loads)
    shown = terminal(FOLLOW, project.run_dir, columns=120)
    assert shown.wait() == 0
    assert "all 1 blocks are run" in shown.seen.lines[-2]
    assert b"load    " in shown.raw
    assert shown.seen.wrapped == 0
    project.end(driver)
    plain = terminal(FOLLOW, project.run_dir, VIEW="verbose")
    assert plain.wait() == 0
    events = Tail(project.run_dir / "raw/host1/events.jsonl").read()
    seen = [line.partition("; about ")[0] for line in plain.seen.lines if line and " forecast after " not in line]
    assert seen == [line for e in events if (line := e.line())]


def test_a_second_view_can_leave_and_knows_a_run_that_was_killed(project, terminal):
    """Ctrl-C ends the view alone; after the driver was killed, the view says that the run does not run."""
    project.plan(**SHORT)
    driver = project.start(FAKE_LOAD_S="60")
    wait_for(project.loads)
    shown = terminal(FOLLOW, project.run_dir)
    shown.until("the whole run")
    os.write(shown.master, b"\x03")
    assert shown.wait() == 0
    assert driver.poll() is None
    shown = terminal(FOLLOW, project.run_dir)
    shown.until("the whole run")
    assert control.local_driver(project.run_dir, project.env).pid == driver.pid
    driver.kill()
    project.end(driver)
    assert shown.wait() == 0
    assert "r does not run any more. To go on: make tsbs RUN=r" in " ".join(shown.seen.lines)
