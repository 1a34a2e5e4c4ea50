"""Gives a rented machine or a pod back: after all blocks came home, after a failure, or on request."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tsduel.core import rundir
from tsduel.core.codes import interrupted
from tsduel.core.errors import UserError
from tsduel.places import hosts, liveness
from tsduel.places.place import provider_of
from tsduel.places.ssh.link import FETCHED, Link, is_home, note_home
from tsduel.rounds import control
from tsduel.rounds.remote import LOST


def main(run_dir: Path, environment: Mapping[str, str], code: int, *, forced: bool) -> int:
    """Give the machine of a run back and return ``code``, the exit code of the stage that failed, or 0.

    Unless ``forced``, keep it with KEEP=1, after Ctrl-C of the terminal, and if the run may still go on.
    """
    run = rundir.open_run(run_dir)
    place = run.plan.place
    if not (place.rented or place.in_pods):
        if forced:
            print(f"{run_dir.name} has no rented machine and no pod (its place is {place.kind})")
        return code
    owner = run_dir.with_name(place.of("", "rented_by") or run_dir.name)
    if forced and owner != run_dir:
        print(f"{run_dir.name} runs on the machines of {owner.name}: make destroy RUN={owner.name}")
        return code
    if not forced and not hosts.provisioned(owner):
        return code
    if not forced and interrupted(code):
        print(
            f"{place.kind}: interrupted: what was made is kept, and is deleted at its deadline, or with: make destroy "
            f"RUN={owner.name}",
            file=sys.stderr,
        )
        return code
    if forced or not (kept := _why_kept(run_dir, environment, code)):
        # Other runs of a study are still to come.
        if forced or not environment.get("TSDUEL_SHARED"):
            provider_of(place).give_back(owner, place)
        # Other pods may still run what is missing.
        if code == 0 and not forced and place.rented:
            # Also if a host was lost and no spare host took over: the run ends with the blocks that it has.
            note_home(run_dir / FETCHED)
    else:
        print(
            f"{place.kind}: {kept}; it is deleted at its deadline, or with: make destroy RUN={run_dir.name}",
            file=sys.stderr,
        )
    return code


def _why_kept(run_dir: Path, environment: Mapping[str, str], code: int) -> str:
    if environment.get("KEEP", "").strip() == "1":
        return "KEEP=1: what was made is kept"
    # Without a known host nobody has logged in yet, and nothing is to be fetched.
    if not hosts.known(run_dir):
        return ""
    # Where other runs of a study are still to come, its machines stay anyway.
    owed = () if environment.get("TSDUEL_SHARED") else _owed(run_dir)
    return _fetch(run_dir, code) or next(filter(None, (_fetch(other, 0) for other in owed)), "")


def _owed(run_dir: Path) -> Iterator[Path]:
    """Yield the other runs of a study on the same machines that have lost a host, which may answer again."""
    machines, made = rundir.open_run(run_dir).plan.place.of("", "name"), hosts.known(run_dir)
    for path in sorted(run_dir.parent.glob(f"*/{LOST}")):
        other = path.parents[1]
        if other == run_dir or not machines or is_home(other):
            continue
        with suppress(UserError):  # a run of an earlier tsduel, or a damaged one, keeps no machine
            same = rundir.open_run(other).plan.place.of("", "name") == machines
            if same and not hosts.made_anew(hosts.known(other), made):
                yield other


def _fetch(run_dir: Path, code: int) -> str:
    """Bring home what is on hosts that did not end well; return why the machines have to stay, else "".

    After a good end that is a host that was lost: it may answer again, and has what it finished before and since.
    """
    run = rundir.open_run(run_dir)
    lost, back = run.json(LOST), f"to come back: make {run.plan.kind} RUN={run_dir.name}"
    try:
        links = Link.all(run_dir)
        owing = [
            name for name, link in links.items()
            if not link.fetched.exists() and (code or link.raw.exists() or name in lost)
        ]  # fmt: skip
        owing = [name for name in owing if not liveness.why_gone(run_dir, name)]
        control.fetch(run_dir, owing)
        # Who attended was killed, or has no room: the blocks go on. Those of a lost host others have run.
        if any(links[name].state().word == "running" for name in owing if code and name not in lost):
            return f"blocks are still run there, so what was made is kept; {back}"
    except (UserError, OSError) as error:  # also a full disk here
        return (
            f"{error}\nnot all blocks are here, so what was made is kept. To fetch them: make fetch "
            f"RUN={run_dir.name}; {back}"
        )
    return ""
