"""The kinds of places, each with its knobs and its provider: this machine, others over SSH, rented ones, and pods."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tsduel.core.errors import UserError
from tsduel.core.wording import allowed
from tsduel.places.gcp import place as gcp
from tsduel.places.k8s import place as k8s
from tsduel.places.ssh import place as ssh

if TYPE_CHECKING:
    from tsduel.core.place import Place
    from tsduel.places.provider import Provider


@dataclass(frozen=True)
class Kind:
    """One kind of place. ``provider``: module and name, since a fresh clone has no libraries for it yet.

    ``asked``: returns the knobs as fields of tsduel.core.place; ``takes``: knobs that it has a use for, and others not;
    ``rents``: every run rents machines of its own, which the runs of a study can share.
    """

    asked: Callable[[Mapping[str, str]], dict[str, Any]]
    provider: str
    takes: tuple[str, ...] = ()
    rents: bool = False


PLACES = {
    "local": Kind(lambda _: {}, "own.LOCAL"),
    "ssh": Kind(ssh.asked, "own.SSH", ssh.KNOBS),
    "gcp": Kind(gcp.asked, "gcp.provider.PROVIDER", ("HOSTS", "SPARE_HOSTS"), rents=True),
    "k8s": Kind(k8s.asked, "k8s.provider.PROVIDER", ("HOSTS", "SPARE_HOSTS", "NODE_SELECTOR", "STORAGE_CLASS")),
}
_PODS = "is for pods; add TARGET=k8s"
# Refused where they have no use. GCP_PROJECT, SSH_FROM, KUBE_CONTEXT, NAMESPACE and IMAGE may always be in the user's
# environment.
ELSEWHERE = {"NODE_SELECTOR": _PODS, "STORAGE_CLASS": _PODS} | dict.fromkeys(
    ssh.KNOBS, "is for another machine; add TARGET=ssh"
)
KNOBS = ("TARGET", *ssh.KNOBS, *gcp.KNOBS, *k8s.KNOBS)


def asked(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the knobs TARGET, SSH_HOST and so on as fields of tsduel.core.place, which a provider completes.

    The values are plain, since `make doctor` works without pydantic.
    """
    knobs = {name: environment.get(name, "").strip() for name in KNOBS}
    kind = knobs["TARGET"] or "local"
    takes = PLACES[kind].takes if kind in PLACES else ()
    if knobs["HOSTS"] and "HOSTS" not in takes:
        raise UserError(
            "HOSTS: so many machines are rented with TARGET=gcp, or pods made with TARGET=k8s; machines of your own: "
            "TARGET=ssh SSH_HOST=a,b,c"
        )
    if kind not in PLACES:
        raise UserError(f"TARGET: {kind!r} is no place for the blocks; {allowed(kind, tuple(PLACES))}")
    for name, why in ELSEWHERE.items():
        if knobs[name] and name not in takes:
            raise UserError(f"{name} {why}, or leave {name} away")
    return {"kind": kind, **PLACES[kind].asked(knobs)}


def provider_of(where: "Place | Mapping[str, Any]") -> "Provider":
    """Return the provider of a place of a plan, or of what `asked` has returned."""
    kind = where["kind"] if isinstance(where, Mapping) else where.kind
    module, _, name = PLACES[kind].provider.rpartition(".")
    found: Provider = getattr(importlib.import_module(f"tsduel.places.{module}"), name)
    return found
