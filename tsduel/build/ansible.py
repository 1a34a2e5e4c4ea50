"""The third stage: Ansible prepares the machine and builds, here or over SSH, with the same roles."""

import os
import sys
from pathlib import Path

from tsduel.build import built
from tsduel.core import rundir, runlog
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.places import lock
from tsduel.places.ssh import pack
from tsduel.places.ssh.link import Link, is_home


def main(run_dir: Path) -> int:
    """Become ansible-playbook, unless there is nothing to prepare; return 0 then."""
    plan = rundir.open_run(run_dir).plan
    rundir.refuse_imported(run_dir, plan)
    if is_home(run_dir):
        # A rented machine is gone by now.
        return 0
    inventory = run_dir / "host" / "inventory.json"
    if not inventory.exists():
        raise UserError(f"{run_dir} is not provisioned: run 'make provision RUN={run_dir.name}'")
    if plan.is_local:
        lock.refuse_if_taken(run_dir, plan.kind)
        if built.is_whole(run_dir, plan):
            _say("everything is built already")
            return 0
    else:
        link = Link.open(run_dir)
        if _is_under_way(link):
            return 0
        lock.refuse_if_taken(run_dir, plan.kind, link.host, link.there)
        pack.main(run_dir)
    _say("building what the cache does not have; from nothing it takes some minutes")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory)]
    command += ["-e", f"@{run_dir}/plan/ansible-vars.json", str(PROJECT / "ansible" / "site.yml")]
    runlog.point_ansible(run_dir)
    os.environ["ANSIBLE_CONFIG"] = str(PROJECT / "ansible" / "ansible.cfg")
    return os.execv(command[0], command)  # noqa: S606 - its exit code and signals are ours


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _is_under_way(link: Link) -> bool:
    if link.state().word != "running":
        return False
    _say(f"the run goes on on {link.host.name} already: nothing is changed there")
    return True
