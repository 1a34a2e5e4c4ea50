"""The second stage: where the blocks run. On a local target that is this machine, as it is; else one behind SSH."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tsduel.core import files, rundir
from tsduel.core.errors import UserError
from tsduel.core.plan import SshPlace
from tsduel.places import directories, hosts, lent
from tsduel.places.gcp import give_back, provide
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
        made = provide.machines(run_dir, place, os.environ)
        if made != hosts.known(run_dir):
            # Recorded once they have let us in: what is on record is logged in to by the stages that follow.
            known = hosts.known(run_dir)
            with give_back.unless_whole(run_dir, place, os.environ):
                for host in (of for name, of in made.items() if of != known.get(name)):
                    provide.first_login(place, Host.from_outputs(host))
                lent.write(run_dir, run.plan, made)
            write(run_dir, kind="gcp", made=made, provisioned=True)
    else:
        of_ssh = {"config_file": place.config_file, "key_file": None, "known_hosts_file": None}
        said = {"address", "port", "private", "user"}
        made = {name: of.model_dump(include=said) | of_ssh for name, of in place.hosts.items()}
        _look(made, place, again=bool(hosts.known(run_dir)), whole=bool(run.plan.topology))
        lent.write(run_dir, run.plan, made)
        write(run_dir, kind="ssh", made=made, provisioned=False)


def _look(made: Mapping[str, Mapping[str, Any]], place: SshPlace, *, again: bool, whole: bool) -> None:
    """Ask all machines at once whether they will do.

    A run that is gone on with (``again``) may have lost some of its hosts, unless they do a block together (``whole``).
    """
    reached = {name: Host.from_outputs(of) for name, of in made.items()}
    with ThreadPoolExecutor(len(made)) as pool:
        asked = {name: pool.submit(probe.check, host, place.hosts[name].directory) for name, host in reached.items()}
    failed = {name: error for name, of in asked.items() if (error := of.exception())}
    if others := [error for error in failed.values() if not isinstance(error, UserError)]:
        raise others[0]
    if failed and (not again or whole or len(failed) == len(made)):
        first = next(iter(failed.values()))
        raise first if len(failed) == 1 else UserError("\n".join(map(str, failed.values())))
    facts = {reached[name].name: of.result() for name, of in asked.items() if name not in failed}
    lost = [f"{error}; the others go on without {name}" for name, error in failed.items()]
    sys.stderr.write("".join(f"{said}\n" for said in lost + probe.compare(facts)))


def write(run_dir: Path, *, kind: str, made: Mapping[str, Mapping[str, Any]], provisioned: bool) -> None:
    """Write host/outputs.json and host/inventory.json; ``made``: the hosts by name, none for this machine."""
    hosts.write(run_dir, kind=kind, hosts=made, provisioned=provisioned)
    plan, home = rundir.open_run(run_dir).plan, run_dir.absolute()
    inventory = {name: _over_ssh(Host.from_outputs(host)) for name, host in made.items()} or {"local": _local()}
    for name, variables in inventory.items():
        variables["home_run_dir"] = str(home)
        variables["home_built_dir"] = str(home / "host" / name if plan.is_fleet or name in plan.lent_hosts else home)
        variables.update(directories.there(plan, name) if made else {})
    everything: dict[str, Any] = {"hosts": inventory}
    if plan.topology:  # whose groups are those who do the same
        in_group = {role: [name for name, of in plan.topology.items() if role in of] for role in plan.host_roles}
        everything["children"] = {role: {"hosts": {name: {} for name in names}} for role, names in in_group.items()}
    text = json.dumps({"all": everything}, indent=2) + "\n"
    files.write(run_dir / "host" / "inventory.json", text)


def _local() -> dict[str, Any]:
    return {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def _over_ssh(host: Host) -> dict[str, Any]:
    given = {"ansible_host": host.address, "ansible_user": host.user, "ansible_port": host.port}
    reached = {name: value for name, value in given.items() if value is not None}
    return {"ansible_connection": "ssh", **reached, "ansible_ssh_args": shlex.join(host.options())}
