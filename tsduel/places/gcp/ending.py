"""When a rented machine goes: all is at home, the run has failed, somebody says so, or Google has taken it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places import place
from tsduel.places.gcp import give_back
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EXIT_INTERRUPTED = 130


def main(run_dir: Path, environment: Mapping[str, str], code: int, *, forced: bool) -> int:
    """Give the machine of a run back and return ``code``, the exit code of what failed before (0: nothing did).

    Unless ``forced``, it is kept with KEEP=1, when the terminal was detached, and while rounds may go on unseen.
    """
    run = rundir.open_run(run_dir)
    where = place.place_of(run.plan)
    if where["kind"] != "gcp":
        if forced:
            print(f"{run_dir.name} has no rented machine (its place is {where['kind']})")
        return code
    if not forced and (not run.json("host/outputs.json").get("provisioned") or code == EXIT_INTERRUPTED):
        return code
    if forced or not (kept := _why_kept(run_dir, environment, code)):
        give_back.main(run_dir, where)
    else:
        print(f"gcp: {kept}; it is deleted at its deadline, or with: make destroy RUN={run_dir.name}", file=sys.stderr)
    return code


def why_gone(run_dir: Path) -> str:
    """Return a sentence if the run has a rented machine that is no more; empty if it is there, or nobody knows."""
    run = rundir.open_run(run_dir)
    where = place.place_of(run.plan)
    host = run.json("host/outputs.json").get("host") or {}
    if where["kind"] != "gcp" or not host or _is_there(where, host):
        return ""
    reason = "Google has taken it back, as it does with spot machines" if where["spot"] else "its life has ended"
    return (
        f"the machine {host['instance']} is gone ({reason}, or somebody has deleted it); {len(run.rounds)} of "
        f"{len(run.planned)} rounds are here. To begin anew on another: make {run.kind} RUN={run_dir.name}"
    )


def _is_there(where: Mapping[str, Any], host: Mapping[str, Any]) -> bool:
    try:
        return Compute(where["project"]).runs(host["zone"], host["instance"])
    except (CloudError, UserError):
        # No answer is no proof.
        return True


def _why_kept(run_dir: Path, environment: Mapping[str, str], code: int) -> str:
    if environment.get("KEEP", "").strip() == "1":
        return "KEEP=1: the machine is kept"
    if code == 0 or why_gone(run_dir):
        return ""
    return _fetch(run_dir)


def _fetch(run_dir: Path) -> str:
    """Bring all home; return why the machine has to stay where that fails."""
    from tsduel.places.ssh import link  # noqa: PLC0415 - it imports this module
    from tsduel.rounds import control  # noqa: PLC0415 - it imports this module

    try:
        if link.Link.open(run_dir).state().word == "none":
            return ""
        control.fetch(run_dir)
    except UserError as error:
        again = f"to come back: make {rundir.open_run(run_dir).kind} RUN={run_dir.name}"
        return f"{error}\ngcp: not everything is at home, so the machine is kept; {again}"
    return ""
