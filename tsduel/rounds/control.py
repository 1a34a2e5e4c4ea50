"""`make status`, `stop`, `fetch` and `ssh`, while a run goes on, here or elsewhere."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places import hosts, lock
from tsduel.places.ssh.link import Link, is_home
from tsduel.rounds import runstate

STOP_S = 180.0


def status(run_dir: Path, *, as_json: bool = False) -> None:
    """Print for each machine of a run what it does, and how many blocks are finished, there and here.

    ``as_json``: an object with `run`, `state` (as in `list`), and `finished` and `planned` blocks; no machine is asked.
    """
    run = rundir.open_run(run_dir)
    planned, here = len(run.due), len(run.blocks)
    if as_json:
        state = runstate.state(run, str(run_dir) if local_driver(run_dir) else "")
        print(json.dumps({"run": run_dir.name, "state": state, "finished": here, "planned": planned}))
        return
    if run.plan.place.is_local:
        driver = local_driver(run_dir)
        doing = f"running (pid {driver.pid}, since {driver.since})" if driver else "not running"
        if driver and (run_dir / "stop-requested").exists():
            doing += ", and ends after this block as asked"
        print(f"{run_dir.name} on this machine: {doing}; {here} of {planned} blocks are finished")
        return
    if is_home(run_dir):
        print(f"{run_dir.name}: ended; all {here} blocks of {planned} are here, their checksums compared")
        return
    if len(run.plan.every_host) > 1:
        print(f"{run_dir.name} on {len(run.plan.every_host)} hosts: {here} of {planned} blocks are here")
    _ask_all(Link.all(run_dir), lambda link: _status(run, link))


def _status(run: rundir.Run, link: Link) -> str:
    state = link.state()
    doing = {
        "none": "ended, all of it is here" if link.fetched.exists() else "not running",
        "running": "running",
        "ended": f"ended with exit code {state.code}",
        "lost": "ended unexpectedly",
    }[state.word]
    planned = sum(row.name in link.planned for row in run.due)
    here = sum(block.name in link.planned for block in run.blocks)
    finished = max(len(state.blocks), here if link.fetched.exists() else 0)
    what = run.plan.named(link.name) or run.path.name
    return f"{what} on {link.host.name}: {doing}; {finished} of {planned} blocks are finished, {here} of them are here"


def stop(run_dir: Path) -> None:
    """Let a run end after the running block. The second time, or between two blocks, it ends at once."""
    run = rundir.open_run(run_dir)
    if run.plan.place.is_local:
        print(_stopped(run, "this machine", _stop_here(run_dir)))
        return

    def ask(link: Link) -> str:
        answer = "" if link.state().word == "none" else link.ask("stop", timeout_s=STOP_S)
        where = f"{link.name} ({link.host.name})" if run.plan.named(link.name) else link.host.name
        return _stopped(run, where, answer)

    _ask_all(Link.all(run_dir), ask)


def _stopped(run: rundir.Run, where: str, answer: str) -> str:
    """Return the sentence for the answer of the Go program to a stop; "" is the answer if it does not run."""
    name, go_on = run.path.name, f"To go on: make {run.plan.kind} RUN={run.path.name}"
    if not answer:
        return f"{name} does not run on {where}"
    # A login shell may print other lines first.
    words = [line.split() for line in answer.splitlines() if line.startswith(("after ", "stopped", "still "))]
    if not words or words[-1][0] == "still":
        raise UserError(f"{name} did not end within {STOP_S:.0f} s on {where}; look at it with ps: {answer}")
    if words[-1][0] == "after":
        return (
            f"{name} finishes block {words[-1][-1]} on {where} and ends then; the same command again ends it "
            f"now, and that block is run again. {go_on}"
        )
    return f"{name} is stopped on {where}; finished blocks are kept. {go_on}"


def _ask_all(links: Mapping[str, Link], ask: Callable[[Link], str]) -> None:
    """Ask all hosts at the same time and print their sentences; raise their errors in the end."""
    with ThreadPoolExecutor(max(1, len(links))) as pool:
        futures = [pool.submit(ask, link) for link in links.values()]
    errors: list[BaseException] = []
    for future in futures:
        if error := future.exception():
            errors.append(error)
        else:
            print(future.result())
    if len(errors) > 1 and all(isinstance(error, UserError) for error in errors):
        raise UserError("\n".join(map(str, errors)))
    if errors:
        raise errors[0]


def _stop_here(run_dir: Path) -> str:
    driver = local_driver(run_dir)
    if not driver:
        return ""
    host = rundir.open_run(run_dir).plan.hosts[0]
    command = [str(runstate.agent(run_dir)), "stop", str(run_dir), host, str(driver.pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"{run_dir}: it could not be asked to stop ({done.stderr.strip()}); try: kill {driver.pid}")
    return done.stdout


def fetch(run_dir: Path, only: Collection[str] | None = None) -> None:
    """Bring home finished blocks; after the run, compare all checksums. ``only``: of these hosts, begun or not."""
    run = rundir.open_run(run_dir)
    # A host that was lost may have blocks that others have run as well.
    if run.plan.place.is_local or (is_home(run_dir) and not hosts.provisioned(run_dir)):
        print(f"{run_dir}: everything is here")
        return

    def bring(link: Link) -> str:
        state = link.state()
        if state.word == "none" and not state.blocks:
            if run.plan.named(link.name) or only is not None:
                return f"{link.name} ({link.host.name}): nothing is there"
            raise UserError(
                f"{run_dir.name} was not started on {link.host.name}: make {run.plan.kind} RUN={run_dir.name}"
            )
        link.fetch_blocks(state.blocks)
        if state.word != "running":
            link.bring_home()
        host = f"{link.name} ({link.host.name}): " if run.plan.named(link.name) else ""
        planned = sum(row.name in link.planned for row in run.due)
        return f"{host}{len(state.blocks)} of {planned} blocks are finished and in {run_dir / 'raw'}"

    links = Link.all(run_dir)
    _ask_all(links if only is None else {name: links[name] for name in only}, bring)


def login(run_dir: Path, environment: Mapping[str, str]) -> None:
    """Become an ssh session in the run's directory on its host, on the host ON, or the first."""
    if rundir.open_run(run_dir).plan.place.is_local:
        raise UserError(f"{run_dir.name} runs on this machine: there is nothing to log in to")
    links = Link.all(run_dir)
    name = environment.get("ON", "").strip() or next(iter(links))
    if name not in links:
        raise UserError(f"ON: {run_dir.name} has no {name!r}; it has: {', '.join(links)}")
    line = f'cd {shlex.quote(links[name].there)} 2>/dev/null; exec "${{SHELL:-bash}}" -l'
    command = links[name].host.interactive(line)
    os.execvp(command[0], command)  # noqa: S606 - the session is the user's


def local_driver(run_dir: Path, environment: Mapping[str, str] | None = None) -> lock.Holder | None:
    """Return the driver that runs this run on this machine now, or None."""
    holder = lock.holder(environment=environment)
    return holder if holder and holder.run_dir == str(run_dir.resolve()) else None
