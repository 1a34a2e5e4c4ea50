"""The second stage: where the blocks run. On a local target that is this machine, as it is; else one behind SSH."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core import files, rundir
from tsduel.places.gcp import provide
from tsduel.places.ssh import probe
from tsduel.places.ssh.link import is_home
from tsduel.places.ssh.ssh import Host


def main(run_dir: Path) -> None:
    """Write host/outputs.json (what was provisioned) and host/inventory.json (how Ansible reaches it)."""
    run = rundir.open_run(run_dir)
    place = run.plan.place
    rundir.refuse_imported(run_dir, run.plan)
    if place.kind == "local":
        write(run_dir, kind="local", host=None, provisioned=False)
    elif is_home(run_dir):
        return
    elif place.kind == "gcp":
        host = provide.machine(run_dir, place, os.environ)
        if host != run.json("host/outputs.json").get("host"):
            # Recorded once it has let us in: what is on record is logged in to by the stages that follow.
            provide.first_login(run_dir, place, os.environ, Host.from_outputs(host))
            write(run_dir, kind="gcp", host=host, provisioned=True)
    else:
        host = {
            **place.model_dump(include={"address", "port", "user", "config_file"}),
            "key_file": None,
            "known_hosts_file": None,
        }
        probe.check(Host.from_outputs(host), place.directory)
        write(run_dir, kind="ssh", host=host, provisioned=False)


def write(run_dir: Path, *, kind: str, host: Mapping[str, Any] | None, provisioned: bool) -> None:
    """Write host/outputs.json and host/inventory.json; ``host``: see tsduel.places.ssh.ssh, None for this machine."""
    directory = run_dir / "host"
    directory.mkdir(parents=True, exist_ok=True)
    outputs = {"target": kind, "provisioned": provisioned, "host": None if host is None else dict(host)}
    _write(directory / "outputs.json", outputs)
    name, variables = ("local", _local()) if host is None else ("measured", _over_ssh(Host.from_outputs(host)))
    variables["home_run_dir"] = str(run_dir.absolute())
    _write(directory / "inventory.json", {"all": {"hosts": {name: variables}}})


def _local() -> dict[str, Any]:
    return {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def _over_ssh(host: Host) -> dict[str, Any]:
    given = {"ansible_host": host.address, "ansible_user": host.user, "ansible_port": host.port}
    reached = {name: value for name, value in given.items() if value is not None}
    return {"ansible_connection": "ssh", **reached, "ansible_ssh_args": shlex.join(host.options())}


def _write(path: Path, value: Any) -> None:
    files.write(path, json.dumps(value, indent=2) + "\n")
