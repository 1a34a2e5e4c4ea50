"""The second stage: provides the machines where the blocks run: this one, others over SSH, rented ones, or pods."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from tsduel.core import files, rundir
from tsduel.places import directories, hosts
from tsduel.places.place import provider_of
from tsduel.places.provider import Made
from tsduel.places.ssh.link import is_home
from tsduel.places.ssh.ssh import Host


def main(run_dir: Path) -> None:
    """Write host/outputs.json (the machines) and host/inventory.json (how Ansible reaches them)."""
    place = rundir.open_run(run_dir).plan.place
    if not is_home(run_dir):
        provider_of(place).provide(run_dir, place, write)


def write(run_dir: Path, made: Made, *, provisioned: bool) -> None:
    """Write host/outputs.json and host/inventory.json; ``made``: the hosts by name, none for this machine."""
    hosts.write(run_dir, made, provisioned=provisioned)
    plan, home = rundir.open_run(run_dir).plan, run_dir.absolute()
    here: dict[str, Any] = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    remote = {} if plan.place.builds_here else made
    inventory = {name: _over_ssh(Host.from_outputs(host)) for name, host in remote.items()} or {"local": here}
    for name, variables in inventory.items():
        variables["home_run_dir"] = str(home)
        variables.update(directories.on_host(plan, name) if remote else {})
    files.write(run_dir / "host" / "inventory.json", json.dumps({"all": {"hosts": inventory}}, indent=2) + "\n")


def _over_ssh(host: Host) -> dict[str, Any]:
    variables = {"host": host.address, "user": host.user, "port": host.port, "ssh_args": shlex.join(host.options())}
    renamed = {f"ansible_{name}": value for name, value in variables.items() if value is not None}
    return {"ansible_connection": "ssh", **renamed}
