"""The provisioned machines of a run: host/outputs.json, which only this module writes and reads."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core import files, rundir

FILE = "host/outputs.json"


def known(run_dir: Path) -> dict[str, dict[str, Any]]:
    """Return address and facts of each host by its name in the plan; none before `make provision`, none for local."""
    recorded: dict[str, dict[str, Any]] = rundir.open_run(run_dir).json(FILE).get("hosts", {})
    return recorded


def provisioned(run_dir: Path) -> bool:
    """Return whether this run has rented machines that were not given back."""
    return bool(rundir.open_run(run_dir).json(FILE).get("provisioned"))


def write(run_dir: Path, hosts: Mapping[str, Mapping[str, Any]], *, provisioned: bool) -> None:
    """Write it; tsduel.places.ssh.ssh describes a host. For this machine there are none."""
    kind = rundir.open_run(run_dir).plan.place.kind
    outputs = {"target": kind, "provisioned": provisioned, "hosts": {name: dict(host) for name, host in hosts.items()}}
    (run_dir / FILE).parent.mkdir(parents=True, exist_ok=True)
    files.write(run_dir / FILE, json.dumps(outputs, indent=2) + "\n")
