"""The provisioned machines of a run: host/outputs.json, which only this module writes and reads."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core import files, rundir

FILE = "host/outputs.json"
_PATHS = ("config_file", "key_file", "known_hosts_file")
"""Of a rented host they lie in the run that rents it, and go where the results go: relative to this run."""


def known(run_dir: Path) -> dict[str, dict[str, Any]]:
    """Return address and facts of each host by its name in the plan; none before `make provision`, none for local."""
    recorded: dict[str, dict[str, Any]] = rundir.open_run(run_dir).json(FILE).get("hosts", {})
    return {
        name: host | {of: str((run_dir / host[of]).resolve()) for of in _PATHS if host.get(of)}
        for name, host in recorded.items()
    }


def provisioned(run_dir: Path) -> bool:
    """Return whether this run has rented machines that were not given back."""
    return bool(rundir.open_run(run_dir).json(FILE).get("provisioned"))


def made_anew(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether rented machines of one name are others: these have another deadline."""
    return any(host.get("expires") != now.get(name, host).get("expires") for name, host in before.items())


def write(run_dir: Path, hosts: Mapping[str, Mapping[str, Any]], *, provisioned: bool) -> None:
    """Write it; tsduel.places.ssh.ssh describes a host. For this machine there are none."""
    kind = rundir.open_run(run_dir).plan.place.kind
    relative = {name: dict(host) | _from(run_dir.absolute(), host) for name, host in hosts.items()}
    outputs = {"target": kind, "provisioned": provisioned, "hosts": relative}
    (run_dir / FILE).parent.mkdir(parents=True, exist_ok=True)
    files.write(run_dir / FILE, json.dumps(outputs, indent=2) + "\n")


def _from(run_dir: Path, host: Mapping[str, Any]) -> dict[str, str]:
    paths = {of: Path(host[of]) for of in _PATHS if host.get(of)}
    return {of: os.path.relpath(path, run_dir) for of, path in paths.items() if path.is_relative_to(run_dir.parent)}
