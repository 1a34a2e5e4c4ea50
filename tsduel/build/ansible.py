"""The third stage: Ansible prepares the machine and builds the programs, here or over SSH, with the same roles."""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tsduel.build import built, progress
from tsduel.core import caches, children, codes, files, rundir, runlog, secret_store
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.core.project import PROJECT
from tsduel.places import directories, hosts, lock
from tsduel.places.place import provider_of
from tsduel.places.ssh import pack
from tsduel.places.ssh.link import Link, is_home
from tsduel.places.ssh.ssh import NoConnectionError, RefusedError

# Ansible's exit code if a host was not reached and nothing else went wrong.
UNREACHABLE = 4
# And after Ctrl-C.
ABORTED = 99
# Prints the sum of the plan there, if blocks were run by it.
_PLAN = """
cd -- "$1" 2>/dev/null || exit 0
set -- raw/*/[0-9]*/block.json
if [ -e "$1" ]; then sha256sum <plan/experiment.json | cut -d " " -f 1; fi
"""


def main(run_dir: Path) -> int:
    """Run ansible-playbook and return its exit code; 0 if there is nothing to prepare."""
    plan = rundir.open_run(run_dir).plan
    if is_home(run_dir):
        # A rented machine is deleted by now.
        return 0
    inventory = run_dir / "host" / "inventory.json"
    if not inventory.exists():
        raise UserError(f"{run_dir} is not provisioned: run 'make provision RUN={run_dir.name}'")
    secret_store.refuse_missing(os.environ, plan)
    provider = provider_of(plan.place)
    provider.refuse_if_busy(run_dir, plan.kind)
    links = Link.all(run_dir) if hosts.known(run_dir) else {}
    chosen = _chosen(links) if links else []
    if links and not chosen:
        return 0
    if plan.place.builds_here and built.is_whole(run_dir, plan):
        _say("everything is built already")
        provider.bring(run_dir, chosen)
        return 0
    if not plan.place.builds_here:
        pack.main(run_dir)
    _say("building what the cache does not have; from nothing it takes some minutes")
    # With variables of ours: it refuses a locale that is not UTF-8, and every setting has one.
    settings = {"ANSIBLE_CONFIG": PROJECT / "ansible" / "ansible.cfg", "ANSIBLE_HOME": os.environ.get("ANSIBLE_HOME")}
    command = [str(PROJECT / "scripts" / "clean"), *(f"{name}={value}" for name, value in settings.items() if value)]
    command += [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory)]
    command += ["-e", f"@{run_dir}/plan/ansible-vars.json", str(PROJECT / "ansible" / "site.yml")]
    runlog.point_ansible(run_dir)
    # The checkout or its cache may lie elsewhere than when it was planned.
    here = directories.on_this_host(run_dir=run_dir.absolute(), cache=caches.directory(os.environ), project=PROJECT)
    command += ["-e", json.dumps(here)] if plan.place.builds_here else []
    if not plan.place.builds_here:
        if len(links) > 1:
            os.environ["TSDUEL_FLEET"] = "1"
        # All hosts at once. If a host is lost meanwhile, the others go on.
        command += ["--limit", ",".join(chosen), "--forks", str(len(chosen))]
    with progress.shown(plan) as bar:
        code = outcome(children.call(command, take=bar.take))
    if not plan.place.builds_here:
        programs = ["agent", *(["tsbs"] if plan.kind == "tsbs" else []), *(variant.name for variant in plan.variants)]
        return _gather(run_dir, links, chosen, programs, code)
    if code == 0:
        provider.bring(run_dir, chosen)
    return code


def outcome(code: int) -> int:
    """Return the exit code of a build for that of ansible-playbook: that of an interruption blames no version."""
    return codes.INTERRUPTED if code == ABORTED or codes.interrupted(code) else code


def _gather(run_dir: Path, links: dict[str, Link], chosen: list[str], programs: list[str], code: int) -> int:
    """Copy the builds of all hosts home; return 0 if only hosts that the others replace were not reached."""
    for name in chosen:
        links[name].host.hang_up()
    if code == codes.INTERRUPTED:
        return code
    for name in chosen:
        try:
            _take_builds(links[name])
        except (NoConnectionError, RefusedError) as error:
            _say(str(error))
            code = code or UNREACHABLE
        except UserError:
            if not code:  # else there may be none
                raise
    compare_builds(run_dir, links)
    lost = [name for name in chosen if not all((run_dir / f"host/{name}/build/{of}.json").exists() for of in programs)]
    # Records of an attempt before may be there: then it is not known whom to do without.
    if code == UNREACHABLE and 0 < len(lost) < len(chosen):
        _say(f"the others go on without {', '.join(lost)}, which could not be reached any more")
        return 0
    return codes.USER if code == UNREACHABLE else code


def _take_builds(link: Link) -> None:
    """Copy the records and logs of a host's builds home; where versions ran, nothing is told anew but our program."""
    begun = link.raw.exists()
    link.fetch_files(["build/"], link.received, again=not begun)
    if begun:
        link.fetch_files(["build/agent.json"], link.received)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _chosen(links: Mapping[str, Link]) -> list[str]:
    """Return the hosts that have to be prepared."""
    with ThreadPoolExecutor(len(links)) as pool:
        answers = {name: pool.submit(_needs_build, link) for name, link in links.items()}
    chosen = []
    for name, answer in answers.items():
        try:
            chosen += [name] * answer.result()
        except (NoConnectionError, RefusedError) as error:
            if links[name].host.through and isinstance(error, NoConnectionError):
                chosen.append(name)  # a pod that may be back by then
                continue
            if len(links) == 1:
                raise
            # The stage before refused to begin without this host, so it was lost since then.
            _say(f"{error}; the others go on without {name}")
    return chosen


def _needs_build(link: Link) -> bool:
    """Return whether a host has to be prepared: neither blocks of this run nor of another run there yet."""
    if link.fetched.exists():
        return False
    if link.state().word == "running":
        _say(f"the run goes on on {link.host.name} already: nothing is changed there")
        return False
    lock.refuse_if_taken(link.run_dir, link.kind, link.host, link.there)
    _refuse_another(link)
    return True


def _refuse_another(link: Link) -> None:
    """Raise if an earlier run of this name has left blocks there, which would be taken for this run's."""
    done = link.host.run("sh", "-s", "--", link.there, text=_PLAN)
    found, ours = re.findall(r"^[0-9a-f]{64}$", done.stdout, re.MULTILINE), (link.run_dir / Plan.FILE).read_bytes()
    if found and found[-1] != hashlib.sha256(ours).hexdigest():  # a login shell may print a greeting first
        raise UserError(
            f"{link.host.name}: another run of the name {link.run_dir.name} has left its blocks in {link.there}: begin "
            f"a run with another RUN=, or remove that directory"
        )


def compare_builds(run_dir: Path, links: dict[str, Link]) -> None:
    """Copy the first host's records and logs of builds to build/, and name the hosts with different builds."""
    builds: dict[str, dict[str, list[object]]] = {}
    for name, link in reversed(links.items()):
        if (link.received / "build").is_dir():
            shutil.copytree(link.received / "build", run_dir / "build", dirs_exist_ok=True)
        for path in sorted(link.received.glob("build/*.json")):
            record = files.read_json(path)
            identity = [record.get(key) for key in ("revision", "go_version", "sha256")]
            builds[path.stem] = {name: identity, **builds.get(path.stem, {})}
    for program, by_host in builds.items():
        first, *others = by_host
        if odd := [name for name in others if by_host[name] != by_host[first]]:
            _say(
                f"{program} is not byte for byte the same on {', '.join(odd)} as on {first} (another Go?): hosts are "
                f"compared with care, see host/HOST/build/{program}.json"
            )
