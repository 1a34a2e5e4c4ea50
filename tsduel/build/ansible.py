"""The third stage: Ansible prepares the machine and builds the programs, here or over SSH, with the same roles."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tsduel.build import built, progress
from tsduel.core import children, rundir, runlog
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.places import lent, lock
from tsduel.places.ssh import pack
from tsduel.places.ssh.link import Link, is_home
from tsduel.places.ssh.ssh import NoConnectionError, RefusedError

# Ansible's exit code if a host was not reached and nothing else went wrong.
UNREACHABLE = 4


def main(run_dir: Path) -> int:
    """Run ansible-playbook and return its exit code; 0 if there is nothing to prepare."""
    plan = rundir.open_run(run_dir).plan
    if is_home(run_dir):
        # A rented machine is deleted by now.
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
        links = Link.all(run_dir)
        with ThreadPoolExecutor(len(links)) as pool:
            wanted = pool.map(_needs_build, links.values())
        chosen = [name for name, needs in zip(links, wanted, strict=True) if needs]
        if not chosen:
            return 0
        lent.take_back(run_dir)
        for link in Link.lent(run_dir).values():
            lock.refuse_if_taken(run_dir, plan.kind, link.host, link.there)
        pack.main(run_dir)
    _say("building what the cache does not have; from nothing it takes some minutes")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory)]
    command += ["-e", f"@{run_dir}/plan/ansible-vars.json", str(PROJECT / "ansible" / "site.yml")]
    runlog.point_ansible(run_dir)
    os.environ["ANSIBLE_CONFIG"] = str(PROJECT / "ansible" / "ansible.cfg")
    if plan.is_fleet:
        # All hosts at once. If a host is lost meanwhile, the others go on.
        os.environ["TSDUEL_FLEET"] = "1"
        command += ["--limit", ",".join(chosen), "--forks", str(len(chosen))]
    with progress.shown(plan) as bar:
        code = children.call(command, take=bar.take)
    if not plan.is_fleet:
        return code
    lost = [name for name in chosen if not (links[name].apart / "build" / "agent.json").exists()]
    if code == UNREACHABLE and len(lost) < len(chosen):
        _say("the others go on without what was not reached")
        return 0
    return code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _needs_build(link: Link) -> bool:
    """Return whether a host has to be prepared: neither blocks of this run nor of another run there yet."""
    try:
        if link.fetched.exists():
            return False
        if link.state().word == "running":
            _say(f"the run goes on on {link.host.name} already: nothing is changed there")
            return False
        lock.refuse_if_taken(link.run_dir, link.kind, link.host, link.there)
    except (NoConnectionError, RefusedError) as error:
        if not link.of_fleet:
            raise
        # The stage before refused to begin without this host, so it was lost since then.
        _say(f"{error}; the others go on without {link.name}")
        return False
    return True
