"""Which host does what, where components have hosts of their own: `hosts:` beside what TARGET says."""

from collections.abc import Mapping
from typing import Any

from tsduel.core.errors import UserError


def refuse(topology: Mapping[str, tuple[str, ...]], where: Mapping[str, Any]) -> None:
    """Raise where the machines that were named cannot be those of the experiment; ``where``: see place.asked."""
    if where.get("kind") != "ssh":
        raise UserError(
            f"hosts: the experiment wants {len(topology)} machines that are reached over SSH, private addresses "
            f"between them: TARGET=ssh SSH_HOST={','.join(roles[0] for roles in topology.values())}, in this order"
        )
    hosts = where["hosts"]
    if len(hosts) != len(topology) or any(of.get("spare") for of in hosts.values()):
        raise UserError(
            f"hosts: the experiment wants {len(topology)} machines, and SSH_HOST names {len(hosts)}: "
            f"SSH_HOST={','.join(roles[0] for roles in topology.values())}, in this order, and no SPARE_HOSTS; "
            "a fleet of such groups is not to be had yet"
        )
    if len({of["directory"] for of in hosts.values()}) > 1:
        raise UserError("hosts: one directory on all machines is needed: the same user on each, or REMOTE_DIR=")
