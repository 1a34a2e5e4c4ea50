"""One run at a time on a machine: who holds its lock, which scripts/lib/lock.sh takes and the kernel gives back."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tsduel.places.ssh.ssh import Host

HOLDER = re.compile(r"(\d+) (\S+) ([0-9TZ:?-]+) (.+)")
SCRIPT = PROJECT / "scripts" / "lib" / "lock.sh"


@dataclass(frozen=True)
class Holder:
    """The run that measures on a machine now; ``pid`` is that of its scripts/run-rounds, 0 where nobody knows it."""

    pid: int
    user: str
    since: str  # UTC, 2026-11-21T09:00:00Z
    run_dir: str


def holder(host: Host | None = None, environment: Mapping[str, str] | None = None) -> Holder | None:
    """Return who measures on this machine, or on ``host``; None if nobody does. The kernel is asked, not a file.

    ``environment``: in place of our own, for where the lock of this machine is (TSDUEL_LOCK).
    """
    script = SCRIPT.read_text(encoding="utf-8") + "\nlock_holder\n"
    if host is None:
        words = ["bash", "-s"]
        done = subprocess.run(words, input=script, env=environment, capture_output=True, text=True, check=False)
    else:
        # Nothing of ours needs to be there yet.
        done = host.run("bash", "-s", text=script)
    if done.returncode != 0:
        raise UserError(done.stderr.strip().removeprefix("tsduel: "))
    # A login shell may greet first.
    found = [line for line in map(HOLDER.fullmatch, done.stdout.splitlines()) if line]
    return Holder(int(found[-1][1]), found[-1][2], found[-1][3], found[-1][4]) if found else None


def refuse_if_taken(run_dir: Path, kind: str, host: Host | None = None, there: str = "") -> None:
    """Raise where a run is going on on the machine, before minutes are spent on what could not be measured then.

    ``kind`` is the command that goes on with this run, ``there`` its directory on ``host``.
    """
    found = holder(host)
    if found is None:
        return
    where = f"on {host.name}" if host else "on this machine"
    who = f"pid {found.pid} of user {found.user}, since {found.since}" if found.pid else "nobody knows which"
    name = Path(found.run_dir).name
    if found.run_dir == (there or str(run_dir.resolve())):
        raise UserError(
            f"this run is going on already: {who}; look at it with 'make status RUN={name}', end it with "
            f"'make stop RUN={name}'"
        )
    if found.pid:
        who += f", {found.run_dir}; wait for it, or end it with 'make stop RUN={name}' there"
    else:
        who += "; wait for it"
    again = f"make {kind} RUN={run_dir.name}" if run_dir.exists() else "the same command again"
    raise UserError(f"another run is going on {where}: {who}, then: {again}")
