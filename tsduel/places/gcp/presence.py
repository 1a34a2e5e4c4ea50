"""Whether rented machines still exist: Google may have taken them, or their deadline has passed."""

from pathlib import Path

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places import hosts
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError


def why_gone(run_dir: Path, name: str = "") -> str:
    """Return a sentence if the rented host of this name is gone, or without a name if all are.

    It is empty if a host exists, or if Google's API does not answer.
    """
    run = rundir.open_run(run_dir)
    place, known = run.plan.place, hosts.known(run_dir)
    wanted = [host for host_name, host in known.items() if name in {"", host_name}]
    if place.kind != "gcp" or not wanted:
        return ""
    try:
        if any(Compute(place.project).runs(host["zone"], host["instance"]) for host in wanted):
            return ""
    except (CloudError, UserError):
        return ""
    taken = "Google has taken it back, as it does with spot machines"
    reason = taken if place.spot else "its life has ended, or it has stopped"
    names = ", ".join(host["instance"] for host in wanted)
    machines = f"the machines {names} are" if len(wanted) > 1 else f"the machine {names} is"
    gone = f"{machines} gone ({reason}, or somebody has deleted it)"
    if len(wanted) < len(known) and not place.ports_between:
        return gone
    return (
        f"{gone}; {len(run.blocks)} of {len(run.planned)} blocks are here. To begin anew on another: make "
        f"{run.plan.kind} RUN={run_dir.name}"
    )
