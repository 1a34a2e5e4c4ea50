"""`make status`, `stop`, `fetch` and `ssh`: for the time while the rounds run, here or elsewhere."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tsduel import place, rundir
from tsduel.errors import UserError
from tsduel.remote import rounds
from tsduel.remote.link import Link

if TYPE_CHECKING:
    from collections.abc import Mapping

STOP_S = 180.0


def status(run_dir: Path, environment: Mapping[str, str]) -> None:
    """Print where the run is, what it does, and how many rounds are finished, there and here."""
    run = rundir.open_run(run_dir)
    planned, here = _planned(run), len(run.rounds)
    if place.is_local(run.plan):
        pid = local_pid(run_dir, environment)
        doing = f"running (pid {pid})" if pid else "not running"
        print(f"{run_dir.name} on this machine: {doing}; {here} of {planned} rounds are finished")
        return
    if rounds.is_home(run_dir):
        print(f"{run_dir.name}: ended; all {here} rounds of {planned} are here, their checksums compared")
        return
    link = Link.open(run_dir)
    state = link.state()
    doing = {
        "none": "not running",
        "running": "running",
        "ended": f"ended with exit code {state.code}",
        "lost": "ended without a last word",
    }[state.word]
    print(
        f"{run_dir.name} on {link.host.name}: {doing}; {len(state.rounds)} of {planned} rounds are finished, "
        f"{here} of them are here"
    )


def stop(run_dir: Path, environment: Mapping[str, str]) -> None:
    """End the rounds wherever they run; return when nothing of them is left."""
    run = rundir.open_run(run_dir)
    if not place.is_local(run.plan):
        link = Link.open(run_dir)
        if link.state().word == "none":
            print(f"{run_dir.name} does not run on {link.host.name}")
            return
        link.ask("stop", timeout_s=STOP_S)
        print(f"{run_dir.name} is stopped on {link.host.name}; finished rounds are kept. {_go_on(run_dir)}")
        return
    pid = local_pid(run_dir, environment)
    if not pid:
        print(f"{run_dir.name} does not run on this machine")
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while local_pid(run_dir, environment) == pid:
        if time.monotonic() > deadline:
            raise UserError(f"{run_dir}: process {pid} did not end within {STOP_S:.0f} s; look at it with ps")
        time.sleep(0.1)
    print(f"{run_dir.name} is stopped; finished rounds are kept. {_go_on(run_dir)}")


def fetch(run_dir: Path) -> None:
    """Bring home the rounds that are finished by now; when all have ended, compare every checksum."""
    run = rundir.open_run(run_dir)
    if place.is_local(run.plan) or rounds.is_home(run_dir):
        print(f"{run_dir}: everything is here")
        return
    link = Link.open(run_dir)
    state = link.state()
    if state.word == "none" and not state.rounds:
        raise UserError(f"{run_dir.name} was not started on {link.host.name}: make {run.kind} RUN={run_dir.name}")
    for name in state.rounds:
        if not (link.raw / name / "round.json").exists():
            link.fetch_round(name)
    if state.word != "running":
        rounds.bring_home(link)
    print(f"{len(state.rounds)} of {_planned(run)} rounds are finished and in {run_dir / 'raw'}")


def login(run_dir: Path) -> None:
    """Become an ssh session in the run's directory there."""
    if place.is_local(rundir.open_run(run_dir).plan):
        raise UserError(f"{run_dir.name} runs on this machine: there is nothing to log in to")
    link = Link.open(run_dir)
    line = f'cd {shlex.quote(link.there)} 2>/dev/null; exec "$SHELL" -l'
    command = link.host.interactive(line)
    os.execvp(command[0], command)  # noqa: S606 - the session is the user's


def _planned(run: rundir.Run) -> int:
    """Return how many rounds there are if no block has to be replaced by a spare one."""
    return sum(row["kind"] != "spare" for row in run.planned)


def _go_on(run_dir: Path) -> str:
    return f"To go on: make {rundir.open_run(run_dir).kind} RUN={run_dir.name}"


def local_pid(run_dir: Path, environment: Mapping[str, str]) -> int:
    """Return the pid of the driver that holds the cache's lock for this run; 0 when there is none."""
    lock = Path(environment.get("TSDUEL_CACHE") or ".cache") / "run.lock"
    if not lock.exists():
        return 0
    with lock.open() as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            words = stream.read().split(", ")
            return int(words[0].removeprefix("pid ")) if words[1] == str(run_dir.resolve()) else 0
    return 0
