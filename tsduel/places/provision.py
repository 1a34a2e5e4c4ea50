"""The second stage: provides the machines where the blocks run: this one, others over SSH, rented ones, or pods."""

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
from tsduel.core.place import GcpPlace, SshPlace
from tsduel.places import directories, hosts
from tsduel.places.gcp import give_back, provide
from tsduel.places.k8s import pods
from tsduel.places.ssh import probe
from tsduel.places.ssh.link import is_home
from tsduel.places.ssh.ssh import Host


def main(run_dir: Path) -> None:
    """Write host/outputs.json (the machines) and host/inventory.json (how Ansible reaches them)."""
    run = rundir.open_run(run_dir)
    place = run.plan.place
    if place.kind == "local":
        write(run_dir, kind="local", made={}, provisioned=False)
    elif is_home(run_dir):
        return
    elif place.kind == "gcp":
        made = _rented(run_dir.with_name(place.rented_by) if place.rented_by else run_dir, place)
        if place.rented_by:
            write(run_dir, kind="gcp", made=made, provisioned=False)
    elif place.kind == "k8s":
        with pods.on_failure(run_dir, place, os.environ):
            made = pods.provide(run_dir, place)
            write(run_dir, kind="k8s", made=made, provisioned=True)
    else:
        for_all = {"config_file": place.config_file, "key_file": None, "known_hosts_file": None}
        fields = {"address", "port", "user"}
        made = {name: host.model_dump(include=fields) | for_all for name, host in place.hosts.items()}
        _check(made, place, again=bool(hosts.known(run_dir)))
        write(run_dir, kind="ssh", made=made, provisioned=False)


def _rented(owner: Path, place: GcpPlace) -> dict[str, dict[str, Any]]:
    """Return the machines that a run rents, which are made if they are not there; ``owner``: its directory."""
    made, known = provide.machines(owner, place, os.environ), hosts.known(owner)
    if made != known:
        # Their addresses are recorded after the first login, since later stages log in to recorded machines.
        with give_back.on_failure(owner, place, os.environ, kept="blocks may be there" if known else ""):
            for name, host in made.items():
                if host != known.get(name):
                    provide.first_login(place, Host.from_outputs(host))
            write(owner, kind="gcp", made=made, provisioned=True)
    return made


def _check(made: Mapping[str, Mapping[str, Any]], place: SshPlace, *, again: bool) -> None:
    """Check all machines at once; a continued run (``again``) may have lost some of its hosts."""
    facts, failed = dict[str, dict[str, str]](), dict[str, UserError]()
    reached = {name: Host.from_outputs(host) for name, host in made.items()}
    with ThreadPoolExecutor(len(made)) as pool:
        checks = {name: pool.submit(probe.check, host, place.hosts[name].directory) for name, host in reached.items()}
    for name, check in checks.items():
        try:
            facts[reached[name].name] = check.result()
        except UserError as error:
            failed[name] = error
    if failed and (not again or len(failed) == len(made)):
        raise next(iter(failed.values())) if len(failed) == 1 else UserError("\n".join(map(str, failed.values())))
    lost = [f"{error}; the others go on without {name}" for name, error in failed.items()]
    sys.stderr.write("".join(f"{line}\n" for line in lost + probe.compare(facts)))


def write(run_dir: Path, *, kind: str, made: Mapping[str, Mapping[str, Any]], provisioned: bool) -> None:
    """Write host/outputs.json and host/inventory.json; ``made``: the hosts by name, none for this machine."""
    hosts.write(run_dir, kind=kind, hosts=made, provisioned=provisioned)
    plan, home = rundir.open_run(run_dir).plan, run_dir.absolute()
    local: dict[str, Any] = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    apart = {} if plan.builds_here else made
    inventory = {name: _over_ssh(Host.from_outputs(host)) for name, host in apart.items()} or {"local": local}
    for name, variables in inventory.items():
        variables["home_run_dir"] = str(home)
        variables["home_built_dir"] = str(home / "host" / name if apart else home)
        variables.update(directories.on_host(plan, name) if apart else {})
    files.write(run_dir / "host" / "inventory.json", json.dumps({"all": {"hosts": inventory}}, indent=2) + "\n")


def _over_ssh(host: Host) -> dict[str, Any]:
    variables = {"host": host.address, "user": host.user, "port": host.port, "ssh_args": shlex.join(host.options())}
    given = {f"ansible_{name}": value for name, value in variables.items() if value is not None}
    return {"ansible_connection": "ssh", **given}
