"""The machines of a run, as they were provisioned: host/outputs.json, written and read here alone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core import files, rundir

FILE = "host/outputs.json"


def known(run_dir: Path) -> dict[str, dict[str, Any]]:
    """Return how each host is reached and what it is, by its name in the plan; none of this machine, or too early."""
    outputs = rundir.open_run(run_dir).json(FILE)
    # Of runs that are older than fleets.
    return outputs.get("hosts") or ({"host1": outputs["host"]} if outputs.get("host") else {})


def provisioned(run_dir: Path) -> bool:
    """Return whether machines were made for this run, and not given back since."""
    return bool(rundir.open_run(run_dir).json(FILE).get("provisioned"))


def write(run_dir: Path, *, kind: str, hosts: Mapping[str, Mapping[str, Any]], provisioned: bool) -> None:
    """Write it; each host as tsduel.places.ssh.ssh describes it, of this machine none."""
    outputs = {"target": kind, "provisioned": provisioned, "hosts": {name: dict(of) for name, of in hosts.items()}}
    (run_dir / FILE).parent.mkdir(parents=True, exist_ok=True)
    files.write(run_dir / FILE, json.dumps(outputs, indent=2) + "\n")
