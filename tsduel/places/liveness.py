"""Whether machines that were made for a run still exist, and another in place of one that does not."""

from pathlib import Path

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places import hosts
from tsduel.places.gcp.messages import CloudError
from tsduel.places.place import provider_of
from tsduel.places.ssh.link import Link


def why_gone(run_dir: Path, name: str = "") -> str:
    """Return a sentence if a host is gone, or without a name if all are; "" if one exists, or nobody knows."""
    run = rundir.open_run(run_dir)
    wanted = {each: host for each, host in hosts.known(run_dir).items() if name in {"", each}}
    if not wanted:
        return ""
    try:
        return provider_of(run.plan.place).why_gone(run, run.plan.place, wanted)
    except (CloudError, UserError):
        return ""


def replaced(link: Link, why: str) -> Link:
    """Return the link to another host in place of one that is gone; a UserError if there is none."""
    return provider_of(rundir.open_run(link.run_dir).plan.place).replaced(link, why)


def equip(link: Link) -> None:
    """Bring to a host what it lacks, if it has taken another's place."""
    provider_of(rundir.open_run(link.run_dir).plan.place).equip(link)
