"""Whether machines that were made for a run still exist, and another in place of one that does not."""

from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.places.gcp import presence as gcp
from tsduel.places.k8s import bring, pods
from tsduel.places.ssh.link import Link


def why_gone(run_dir: Path, name: str = "") -> str:
    """Return a sentence if a host is gone, or without a name if all are; "" if it exists, or nobody knows."""
    return gcp.why_gone(run_dir, name) or pods.why_gone(run_dir, name)


def replaced(link: Link, why: str) -> Link:
    """Return the link to another host in place of one that is gone, with its finished blocks; a UserError if none is.

    Only a pod is replaced. In a topology its address is known to the others: then the run has to begin again.
    """
    if not link.host.through:
        raise UserError(why)
    if Link.lent(link.run_dir):
        raise UserError(
            f"{why}; what is finished is kept. To go on with another: make {link.kind} RUN={link.run_dir.name}"
        )
    pods.renew(link.run_dir, link.name, why)
    bring.main(link.run_dir, [link.name])
    return Link.all(link.run_dir)[link.name]
