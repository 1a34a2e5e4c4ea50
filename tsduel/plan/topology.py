"""The machines of a topology: `hosts:` of the experiment against TARGET and the other knobs."""

from collections.abc import Iterable, Mapping
from typing import Any

from tsduel.core.defaults import LENT_PORT
from tsduel.core.errors import UserError
from tsduel.core.place import GCP_SWEPT


def machines(
    topology: Mapping[str, tuple[str, ...]], where: Mapping[str, Any], *, port: int, swept: Iterable[str]
) -> Mapping[str, Any]:
    """Return ``where`` (see place.asked) with the machines of the experiment; a UserError if they do not fit.

    ``port``: host.port, the first port of components; ``swept``: the keys of the matrix.
    """
    in_order = f"SSH_HOST={','.join(roles[0] for roles in topology.values())}, in this order"
    rented, opened = where.get("kind") == "gcp", {"ports_between": f"{port}-{port + LENT_PORT}"}
    if where.get("kind") == "k8s":
        if len(where["hosts"]) > 1:
            raise UserError(f"hosts: TARGET=k8s makes the {len(topology)} pods of the experiment: leave HOSTS out")
        return {**where, **opened, "hosts": {name: {} for name in topology}}
    if not rented and where.get("kind") != "ssh":
        raise UserError(
            f"hosts: the experiment wants {len(topology)} machines, private addresses between them: "
            f"TARGET=ssh {in_order}, or TARGET=gcp, or TARGET=k8s"
        )
    if rented:
        away = ["HOSTS and SPARE_HOSTS"] if where["each"] > 1 or where["spare"] else []
        if away := away + [f"matrix.{key}" for key in swept if key in GCP_SWEPT]:
            raise UserError(
                f"hosts: TARGET=gcp rents the {len(topology)} machines of the experiment, all of one type, and a fleet "
                f"of such groups is not possible yet: leave {' and '.join(away)} out"
            )
        return {**where, **opened, "each": len(topology)}
    hosts = where["hosts"]
    if len(hosts) != len(topology) or any(host.get("spare") for host in hosts.values()):
        raise UserError(
            f"hosts: the experiment wants {len(topology)} machines, and SSH_HOST names {len(hosts)}: {in_order}, and "
            "no SPARE_HOSTS; "
            "a fleet of such groups is not possible yet"
        )
    if len({host["directory"] for host in hosts.values()}) > 1:
        raise UserError("hosts: one directory on all machines is needed: the same user on each, or REMOTE_DIR=")
    return where
