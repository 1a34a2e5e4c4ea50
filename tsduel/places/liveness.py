"""Whether machines that were made for a run still exist, and another in place of one that does not."""

from pathlib import Path
from typing import Any

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.core.place import GcpPlace
from tsduel.core.rundir import Run
from tsduel.places import hosts
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError
from tsduel.places.k8s import bring, pods
from tsduel.places.k8s.cluster import ApiError
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import NoConnectionError


def why_gone(run_dir: Path, name: str = "") -> str:
    """Return a sentence if a host is gone, or without a name if all are; "" if one exists, or nobody knows."""
    run = rundir.open_run(run_dir)
    place, known = run.plan.place, hosts.known(run_dir)
    wanted = [host for host_name, host in known.items() if name in {"", host_name}]
    if not wanted:
        return ""
    try:
        if place.kind == "k8s":
            return pods.why_gone(place, wanted)
        return _why_machines_are_gone(run, place, wanted, len(known)) if place.kind == "gcp" else ""
    except (CloudError, UserError):
        return ""


def _why_machines_are_gone(run: Run, place: GcpPlace, wanted: list[dict[str, Any]], count: int) -> str:
    """Google may have taken them, or their deadline has passed."""
    if any(Compute(place.project).runs(host["zone"], host["instance"]) for host in wanted):
        return ""
    taken = "Google has taken it back, as it does with spot machines"
    reason = taken if place.spot else "its life has ended, or it has stopped"
    names = ", ".join(host["instance"] for host in wanted)
    machines = f"the machines {names} are" if len(wanted) > 1 else f"the machine {names} is"
    gone = f"{machines} gone ({reason}, or somebody has deleted it)"
    if len(wanted) < count:
        return gone
    return (
        f"{gone}; {len(run.blocks)} of {len(run.planned)} blocks are here. To begin anew on another: make "
        f"{run.plan.kind} RUN={run.path.name}"
    )


def replaced(link: Link, why: str) -> Link:
    """Return the link to another host in place of one that is gone; a UserError if there is none.

    Only a pod is replaced.
    """
    if not link.host.through:
        raise UserError(why)
    try:
        pods.renew(link.run_dir, link.name, why)
    except ApiError as error:
        if error.passes:
            raise NoConnectionError(str(error)) from None
        raise
    return Link.all(link.run_dir)[link.name]


def equip(link: Link) -> None:
    """Bring to a pod what it lacks, if it has taken another's place."""
    if link.host.through and link.host.run("test", "-e", f"{link.there}/{bring.BROUGHT}").returncode:
        bring.one(link.run_dir, link.name)
