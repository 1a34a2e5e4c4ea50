"""`make status`, `stop`, `fetch` and `ssh`: for the time while a run goes on, here or elsewhere."""

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places import lock
from tsduel.places.ssh.link import Link, is_home
from tsduel.rounds import attend
from tsduel.rounds.run import agent

STOP_S = 180.0


def status(run_dir: Path) -> None:
    """Print where the run is, what it does, and how many blocks are finished, there and here."""
    run = rundir.open_run(run_dir)
    planned, here = _planned(run), len(run.blocks)
    if run.plan.is_local:
        found = local_driver(run_dir)
        doing = f"running (pid {found.pid}, since {found.since})" if found else "not running"
        if found and (run_dir / "stop-requested").exists():
            doing += ", and ends after this block as asked"
        print(f"{run_dir.name} on this machine: {doing}; {here} of {planned} blocks are finished")
        return
    if is_home(run_dir):
        print(f"{run_dir.name}: ended; all {here} blocks of {planned} are here, their checksums compared")
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
        f"{run_dir.name} on {link.host.name}: {doing}; {len(state.blocks)} of {planned} blocks are finished, "
        f"{here} of them are here"
    )


def stop(run_dir: Path) -> None:
    """Let a run end after the block that is running; asked again, or between two blocks, end it at once."""
    run = rundir.open_run(run_dir)
    if run.plan.is_local:
        where, said = "this machine", _stop_here(run_dir)
    else:
        link = Link.open(run_dir)
        where = link.host.name
        said = "" if link.state().word == "none" else link.ask("stop", timeout_s=STOP_S)
    # A login shell may greet first.
    words = [line.split() for line in said.splitlines() if line.startswith(("after ", "stopped", "still "))]
    if not said:
        print(f"{run_dir.name} does not run on {where}")
    elif not words or words[-1][0] == "still":
        raise UserError(f"{run_dir.name} did not end within {STOP_S:.0f} s on {where}; look at it with ps: {said}")
    elif words[-1][0] == "after":
        print(
            f"{run_dir.name} finishes block {words[-1][-1]} on {where} and ends then; the same command again ends it "
            f"now, and that block is run again. {_go_on(run.plan.kind, run_dir)}"
        )
    else:
        print(f"{run_dir.name} is stopped on {where}; finished blocks are kept. {_go_on(run.plan.kind, run_dir)}")


def _stop_here(run_dir: Path) -> str:
    found = local_driver(run_dir)
    if not found:
        return ""
    command = [str(agent(run_dir)), "stop", str(run_dir), str(found.pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"{run_dir}: it could not be asked to stop ({done.stderr.strip()}); try: kill {found.pid}")
    return done.stdout


def fetch(run_dir: Path) -> None:
    """Bring home the blocks that are finished by now; once the run has ended, compare every checksum."""
    run = rundir.open_run(run_dir)
    if run.plan.is_local or is_home(run_dir):
        print(f"{run_dir}: everything is here")
        return
    link = Link.open(run_dir)
    state = link.state()
    if state.word == "none" and not state.blocks:
        raise UserError(f"{run_dir.name} was not started on {link.host.name}: make {run.plan.kind} RUN={run_dir.name}")
    link.fetch_blocks(state.blocks)
    if state.word != "running":
        attend.bring_home(link)
    print(f"{len(state.blocks)} of {_planned(run)} blocks are finished and in {run_dir / 'raw'}")


def login(run_dir: Path) -> None:
    """Become an ssh session in the run's directory there."""
    if rundir.open_run(run_dir).plan.is_local:
        raise UserError(f"{run_dir.name} runs on this machine: there is nothing to log in to")
    link = Link.open(run_dir)
    line = f'cd {shlex.quote(link.there)} 2>/dev/null; exec "$SHELL" -l'
    command = link.host.interactive(line)
    os.execvp(command[0], command)  # noqa: S606 - the session is the user's


def _planned(run: rundir.Run) -> int:
    """Return how many blocks there are if none has to be replaced by a spare one."""
    return sum(row.kind != "spare" for row in run.planned)


def _go_on(kind: str, run_dir: Path) -> str:
    return f"To go on: make {kind} RUN={run_dir.name}"


def local_driver(run_dir: Path, environment: Mapping[str, str] | None = None) -> lock.Holder | None:
    """Return the driver that measures this run on this machine now."""
    found = lock.holder(environment=environment)
    return found if found and found.run_dir == str(run_dir.resolve()) else None
