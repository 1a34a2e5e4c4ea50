"""Whether machines that were made for a run still exist, and another in place of one that does not."""

from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.places.gcp import presence as gcp
from tsduel.places.k8s import bring, pods
from tsduel.places.k8s.cluster import ApiError
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import NoConnectionError


def why_gone(run_dir: Path, name: str = "") -> str:
    """Return a sentence if a host is gone, or without a name if all are; "" if it exists, or nobody knows."""
    return gcp.why_gone(run_dir, name) or pods.why_gone(run_dir, name)


def replaced(link: Link, why: str) -> Link:
    """Return the link to another host in place of one that is gone; a UserError if there is none.

    Only a pod is replaced. In a topology its address is known to the others: then the run has to begin again.
    """
    if not link.host.through:
        raise UserError(why)
    if Link.lent(link.run_dir):
        raise UserError(
            f"{why}; what is finished is kept. To go on with another: make {link.kind} RUN={link.run_dir.name}"
        )
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
