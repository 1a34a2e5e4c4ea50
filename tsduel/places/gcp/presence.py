"""Whether a rented machine is still there: Google may have taken it, or its life has ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.core.plan import GcpPlace
from tsduel.places import hosts
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError


def why_gone(run_dir: Path, name: str = "host1") -> str:
    """Return a sentence if the run has a rented machine that is no more; empty if it is there, or nobody knows."""
    run = rundir.open_run(run_dir)
    place = run.plan.place
    host = hosts.known(run_dir).get(name, {})
    if place.kind != "gcp" or not host or _is_there(place, host):
        return ""
    taken = "Google has taken it back, as it does with spot machines"
    reason = taken if place.spot else "its life has ended, or it has stopped"
    return (
        f"the machine {host['instance']} is gone ({reason}, or somebody has deleted it); {len(run.blocks)} of "
        f"{len(run.planned)} blocks are here. To begin anew on another: make {run.plan.kind} RUN={run_dir.name}"
    )


def _is_there(place: GcpPlace, host: Mapping[str, Any]) -> bool:
    try:
        return Compute(place.project).runs(host["zone"], host["instance"])
    except (CloudError, UserError):
        # No answer is no proof.
        return True
