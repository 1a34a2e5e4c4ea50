"""One run at a time on a machine: who holds its lock, which the Go program takes and the kernel gives back."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.places.ssh.ssh import Host

# For a machine where nothing of ours lies yet. Prints the lock's text if somebody holds it: the kernel is asked, and
# the text believed only if it names a process of this boot that is that very one (its start, field 22 of its stat).
# Shared, so that two who look do not see each other; opened without O_CREAT (fs.protected_regular).
WHO = r"""
lock=${TSDUEL_LOCK:-/tmp/tsduel.lock}
if [[ -z ${TSDUEL_LOCK:-} && -k /run/lock ]]; then lock=/run/lock/tsduel.lock; fi
[[ -e $lock ]] || exit 0
if [[ -L $lock || ! -f $lock ]] || ! { exec 6<"$lock"; } 2>/dev/null; then
  said='by which runs on this machine exclude each other, cannot be opened: see who made it, and remove it'
  printf '%s, %s\n' "$lock" "$said" >&2
  exit 2
fi
flock -s -n 6 && exit 0
text=$(<"$lock")
if [[ $text =~ ^pid\ ([0-9]+),\ began\ ([0-9]+),\ boot\ ([0-9a-f-]+), ]]; then
  pid=${BASH_REMATCH[1]} began=${BASH_REMATCH[2]} boot=${BASH_REMATCH[3]}
  { stat=$(<"/proc/$pid/stat"); } 2>/dev/null || stat=
  read -r -a fields <<<"${stat##*) }"
  if [[ ${fields[19]:-} == "$began" && $boot == "$(</proc/sys/kernel/random/boot_id)" ]]; then
    printf '%s\n' "$text"
    exit 0
  fi
fi
printf 'held\n'
"""
HOLDER = re.compile(r"pid (\d+), began \d+, boot [0-9a-f-]+, user ([^,]*), since ([0-9TZ:-]+), (.+)")


@dataclass(frozen=True)
class Holder:
    """The run that measures on a machine now; ``pid`` is that of its driver, 0 where nobody knows it."""

    pid: int
    user: str
    since: str  # UTC, 2026-11-21T09:00:00Z
    run_dir: str


def holder(host: Host | None = None, environment: Mapping[str, str] | None = None) -> Holder | None:
    """Return who measures on this machine, or on ``host``; None if nobody does. The kernel is asked, not a file.

    ``environment``: in place of our own, for where the lock of this machine is (TSDUEL_LOCK).
    """
    if host is None:
        command = ["bash", "-s"]
        done = subprocess.run(command, input=WHO, env=environment, capture_output=True, text=True, check=False)
    else:
        done = host.run("bash", "-s", text=WHO)
    if done.returncode != 0:
        raise UserError(done.stderr.strip())
    # A login shell may greet first.
    for line in done.stdout.splitlines():
        if found := HOLDER.fullmatch(line):
            return Holder(int(found[1]), found[2], found[3], found[4])
    return Holder(0, "?", "?", "?") if "held" in done.stdout.splitlines() else None


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
