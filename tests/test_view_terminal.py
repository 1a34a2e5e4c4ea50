"""The screen on a real pseudo-terminal, above the real program with a fake database: what is seen, and how it ends."""

from __future__ import annotations

import os
import signal
import sys
import termios
import time
from pathlib import Path

import pytest
from fakeproject import FAKES, wait_for
from terminal import Terminal

from tsduel.rounds import control
from tsduel.rounds.view import lines
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
    """Return how to start a piece of Python on a terminal, and end what is left of it."""
    started = []

    def start(code, *words, columns=80, **env):
        environment = project.env | {"PYTHONPATH": str(PROJECT)} | env
        started.append(Terminal([sys.executable, "-c", code, *words], columns=columns, env=environment))
        return started[-1]

    yield start
    for one in started:
        if one.code is None:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        os.close(one.master)


def loading(project):
    """Whether a load is under way."""
    return any(event["event"] == "phase-start" and event["phase"] == "load" for event in project.events())


def last_event(project):
    """Return name and status of the newest event."""
    last = Tail(project.run_dir / "raw/events.jsonl").read()[-1]
    return last.name, last.text("status")


@pytest.mark.parametrize("columns", [80, 120])
def test_what_is_left_of_a_whole_run(project, terminal, columns):
    """Below each other: a line a block, the reason of one that failed, how it ended; no line broken, nothing hidden."""
    project.plan(variants={"baseline": BROKEN, "candidate": BINARY}, design={"blocks": 2, "seed": 3}, **SHORT)
    shown = terminal(RUN, project.run_dir, columns=columns, FAKE_LOAD_S="3")
    assert shown.wait() == 0
    seen = " ".join(line.strip() for line in shown.seen.lines)
    assert "block 1 " in seen
    assert "flag provided but not defined: -nonsense" in seen
    assert "tsduel: 2 of the blocks failed; the report says which and why" in seen
    assert "all 2 blocks are run, 2 failed, in 0:" in seen
    # What moved is gone.
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
    """Ctrl-C, a signal to the parent alone, a window that is closed, kill -9: nothing is left, and it can go on."""
    project.plan(**SHORT)
    shown = terminal(RUN, project.run_dir, FAKE_LOAD_S="60")
    shown.until("the whole run")
    wait_for(lambda: loading(project))
    begin = time.monotonic()
    if how == "ctrl-c":
        os.write(shown.master, b"\x03")
    elif how == "hang-up":
        os.close(shown.master)
        # So that the fixture has one to close.
        shown.master = os.open("/dev/null", os.O_RDWR)
    else:
        os.kill(shown.pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
    if how == "kill":
        assert shown.wait() == -9
    else:
        assert shown.wait() == 130
    assert project.alive(patience_s=15) == []
    assert time.monotonic() - begin < 30
    # The driver outlives a parent that was killed by as much as it takes to end the rest.
    wait_for(lambda: not control.local_driver(project.run_dir, project.env))
    assert last_event(project) == ("run-end", "interrupted")
    if how in {"ctrl-c", "term"}:
        assert " ".join(shown.seen.lines).count("To go on: make tsbs RUN=r") == 1
        assert termios.tcgetattr(shown.master) == shown.attributes
    # And the same command goes on.
    assert "all blocks are run" in project.run()


def test_a_screen_that_breaks_does_not_end_the_run(project, terminal):
    """What is wrong with it is in run.log; the blocks are run, and what the program said at the end is shown."""
    project.plan(variants={"baseline": BROKEN, "candidate": BINARY}, **SHORT)
    broken = RUN.replace("sys.exit", "from tsduel.rounds.view import screen; screen.panel = lambda *_: 1 / 0; sys.exit")
    shown = terminal(broken, project.run_dir)
    assert shown.wait() == 0
    assert "tsduel: 1 of the blocks failed; the report says which and why" in " ".join(shown.seen.lines)
    assert (
        "ERROR   view: the view broke, and the run goes on without: ZeroDivisionError"
        in (project.run_dir / "run.log").read_text()
    )
    assert project.blocks() == ["001"]


def test_a_second_view_shows_the_same_and_ends_with_the_run(project, terminal):
    """`make follow` on a terminal and in a pipe, from the middle on; it says how the run ended, and after it too."""
    project.plan(**SHORT)
    driver = project.start(FAKE_LOAD_S="4")
    wait_for(lambda: loading(project))
    shown = terminal(FOLLOW, project.run_dir, columns=120)
    assert shown.wait() == 0
    assert "all 1 blocks are run" in shown.seen.lines[-2]
    assert b"load    " in shown.raw
    assert shown.seen.wrapped == 0
    project.end(driver)
    plain = terminal(FOLLOW, project.run_dir, VIEW="plain")
    assert plain.wait() == 0
    events = Tail(project.run_dir / "raw/events.jsonl").read()
    seen = [line for line in plain.seen.lines if line and " forecast after " not in line]
    assert seen == [line for e in events if (line := lines.plain(e))]


def test_a_second_view_can_leave_and_knows_a_run_that_was_killed(project, terminal):
    """Ctrl-C ends the view alone; a run that nobody runs any more is told as such."""
    project.plan(**SHORT)
    driver = project.start(FAKE_LOAD_S="60")
    wait_for(lambda: loading(project))
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
