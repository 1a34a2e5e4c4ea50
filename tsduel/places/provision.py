"""The second stage: where the blocks run. On a local target that is this machine, as it is; else one behind SSH."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core import files, rundir
from tsduel.places import hosts
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
        write(run_dir, kind="local", made={}, provisioned=False)
    elif is_home(run_dir):
        return
    elif place.kind == "gcp":
        host = provide.machine(run_dir, place, os.environ)
        if host != hosts.known(run_dir).get("host1"):
            # Recorded once it has let us in: what is on record is logged in to by the stages that follow.
            provide.first_login(run_dir, place, os.environ, Host.from_outputs(host))
            write(run_dir, kind="gcp", made={"host1": host}, provisioned=True)
    else:
        host = {
            **place.model_dump(include={"address", "port", "user", "config_file"}),
            "key_file": None,
            "known_hosts_file": None,
        }
        probe.check(Host.from_outputs(host), place.directory)
        write(run_dir, kind="ssh", made={"host1": host}, provisioned=False)


def write(run_dir: Path, *, kind: str, made: Mapping[str, Mapping[str, Any]], provisioned: bool) -> None:
    """Write host/outputs.json and host/inventory.json; ``made``: the hosts by name, none for this machine."""
    hosts.write(run_dir, kind=kind, hosts=made, provisioned=provisioned)
    inventory = {name: _over_ssh(Host.from_outputs(host)) for name, host in made.items()} or {"local": _local()}
    for variables in inventory.values():
        variables["home_run_dir"] = str(run_dir.absolute())
    text = json.dumps({"all": {"hosts": inventory}}, indent=2) + "\n"
    files.write(run_dir / "host" / "inventory.json", text)


def _local() -> dict[str, Any]:
    return {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def _over_ssh(host: Host) -> dict[str, Any]:
    given = {"ansible_host": host.address, "ansible_user": host.user, "ansible_port": host.port}
    reached = {name: value for name, value in given.items() if value is not None}
    return {"ansible_connection": "ssh", **reached, "ansible_ssh_args": shlex.join(host.options())}
