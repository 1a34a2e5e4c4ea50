"""Whether rented machines are still there: Google may have taken them, or their life has ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.core.plan import GcpPlace
from tsduel.places import hosts
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError


def why_gone(run_dir: Path, name: str = "") -> str:
    """Return a sentence if a host was rented and is gone, or without a name all of them are.

    It is empty if one is there, or nobody knows.
    """
    run = rundir.open_run(run_dir)
    place, known = run.plan.place, hosts.known(run_dir)
    asked = {host: of for host, of in known.items() if name in {"", host}}
    if place.kind != "gcp" or not asked or any(_is_there(place, of) for of in asked.values()):
        return ""
    taken = "Google has taken it back, as it does with spot machines"
    reason = taken if place.spot else "its life has ended, or it has stopped"
    named = ", ".join(of["instance"] for of in asked.values())
    machines = f"the machines {named} are" if len(asked) > 1 else f"the machine {named} is"
    said = f"{machines} gone ({reason}, or somebody has deleted it)"
    if len(asked) < len(known) and not place.ports_between:
        return said
    return (
        f"{said}; {len(run.blocks)} of {len(run.planned)} blocks are here. To begin anew on another: make "
        f"{run.plan.kind} RUN={run_dir.name}"
    )


def _is_there(place: GcpPlace, host: Mapping[str, Any]) -> bool:
    try:
        return Compute(place.project).runs(host["zone"], host["instance"])
    except (CloudError, UserError):
        # No answer is no proof.
        return True
