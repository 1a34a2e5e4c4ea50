"""The hosts that people have already: this machine, and machines behind SSH. They are checked, and stay."""

import functools
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.place import LocalPlace, SshPlace
from tsduel.places import hosts, lock
from tsduel.places.provider import Made, Provider, Write
from tsduel.places.ssh import probe
from tsduel.places.ssh.ssh import Host

PATIENCE_S = 20


@functools.cache
def _described(cache: Path) -> dict[str, Any] | None:
    """Ask tsduel-host about this machine; None before its first build."""
    built = sorted(cache.glob("agent/*/tsduel-host"), key=lambda path: path.stat().st_mtime)
    try:
        words = [str(built[-1]), "describe", str(cache)]
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=True)
        facts: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return facts


def memory_here() -> int:
    """Return the bytes of memory of this machine, or of our cgroup if that has less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # a cgroup without a limit says "max"
            limits.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")))
    return min(limits)


def _described_hosts(place: SshPlace) -> list[str]:
    named = [f"{name} {host.address}{' (spare)' if host.spare else ''}" for name, host in place.hosts.items()]
    return [f"hosts     {', '.join(named)}; they share the blocks evenly"] if len(named) > 1 else []


def _provide(run_dir: Path, place: SshPlace, write: Write) -> None:
    for_all = {"config_file": place.config_file, "key_file": None, "known_hosts_file": None}
    fields = {"address", "port", "user"}
    made = {name: host.model_dump(include=fields) | for_all for name, host in place.hosts.items()}
    _check(made, place, again=bool(hosts.known(run_dir)))
    write(run_dir, made, provisioned=False)


def _check(made: Made, place: SshPlace, *, again: bool) -> None:
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


LOCAL = Provider(
    complete=lambda *_: LocalPlace(),
    provide=lambda run_dir, _, write: write(run_dir, {}, provisioned=False),
    refuse_if_busy=lock.refuse_if_taken,
    machine=_described,
    free_bytes=lambda cache: shutil.disk_usage(next(path for path in (cache, *cache.parents) if path.is_dir())).free,
    memory_bytes=lambda _: memory_here(),
    unseen="not known yet: this machine has not been described, which its first run does",
)
SSH = Provider(complete=lambda asked, *_: SshPlace.model_validate(asked), provide=_provide, described=_described_hosts)
