"""When a rented machine is given back: all is at home, the run has failed, or somebody says so."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places import hosts
from tsduel.places.gcp import give_back, presence
from tsduel.places.ssh.link import FETCHED, Link, note_home
from tsduel.rounds import control
from tsduel.rounds.attend import EXIT_INTERRUPTED


def main(run_dir: Path, environment: Mapping[str, str], code: int, *, forced: bool) -> int:
    """Give the machine of a run back and return ``code``, the exit code of what failed before (0: nothing did).

    Unless ``forced``, it is kept with KEEP=1, when the terminal was detached, and while the run may go on unseen.
    """
    run = rundir.open_run(run_dir)
    place = run.plan.place
    if place.kind != "gcp":
        if forced:
            print(f"{run_dir.name} has no rented machine (its place is {place.kind})")
        return code
    if not forced and (not hosts.provisioned(run_dir) or code == EXIT_INTERRUPTED):
        return code
    if forced or not (kept := _why_kept(run_dir, environment, code)):
        give_back.main(run_dir, place)
        if code == 0 and not forced:
            # Also where a host was lost and nobody could stand in: it ends with what it has.
            note_home(run_dir / FETCHED)
    else:
        print(f"gcp: {kept}; it is deleted at its deadline, or with: make destroy RUN={run_dir.name}", file=sys.stderr)
    return code


def _why_kept(run_dir: Path, environment: Mapping[str, str], code: int) -> str:
    if environment.get("KEEP", "").strip() == "1":
        return "KEEP=1: the machine is kept"
    if code == 0 or presence.why_gone(run_dir):
        return ""
    return _fetch(run_dir)


def _fetch(run_dir: Path) -> str:
    """Bring all home; return why the machine has to stay where that fails."""
    try:
        # A host that has been collected says none, and so does one where nothing has begun.
        links = Link.all(run_dir)
        gone = [name for name in links if presence.why_gone(run_dir, name)]
        if all(link.state().word == "none" for name, link in links.items() if name not in gone):
            return ""
        control.fetch(run_dir, but=gone)
    except UserError as error:
        again = f"to come back: make {rundir.open_run(run_dir).plan.kind} RUN={run_dir.name}"
        return f"{error}\ngcp: not everything is at home, so the machine is kept; {again}"
    return ""
