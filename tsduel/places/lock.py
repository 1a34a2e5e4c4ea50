"""One run at a time on a machine: finds the holder of the machine's lock, which the Go program takes."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.places.ssh.ssh import Host

# Needs no file of ours on the machine. Prints the lock's text if a process holds the lock. The text counts only if
# process id, start time (field 22 of its stat) and boot are those of a running process; else it prints `held`.
# The lock is shared, so that two lookers do not disturb each other; no O_CREAT because of fs.protected_regular.
WHO = r"""
lock=${TSDUEL_LOCK:-/tmp/tsduel.lock}
if [[ -z ${TSDUEL_LOCK:-} && -k /run/lock ]]; then lock=/run/lock/tsduel.lock; fi
[[ -e $lock ]] || exit 0
if [[ -L $lock || ! -f $lock ]] || ! { exec 6<"$lock"; } 2>/dev/null; then
  printf 'the lock of this machine, %s, cannot be opened: see who made it, and remove it\n' "$lock" >&2
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
    """The run that measures on a machine now; ``pid`` is that of its driver, 0 if unknown."""

    pid: int
    user: str
    since: str  # UTC, 2026-11-21T09:00:00Z
    run_dir: str


def holder(host: Host | None = None, environment: Mapping[str, str] | None = None) -> Holder | None:
    """Return the run that measures on this machine, or on ``host``; None if there is none.

    ``environment`` replaces our own; its TSDUEL_LOCK is the path of this machine's lock.
    """
    if host is None:
        command = ["bash", "-s"]
        done = subprocess.run(command, input=WHO, env=environment, capture_output=True, text=True, check=False)
    else:
        done = host.run("bash", "-s", text=WHO)
    if done.returncode != 0:
        raise UserError(
            done.stderr.strip() or f"the lock of {host.name if host else 'this machine'} cannot be looked at"
        )
    # A login shell may print a greeting first.
    for line in done.stdout.splitlines():
        if match := HOLDER.fullmatch(line):
            return Holder(int(match[1]), match[2], match[3], match[4])
    return Holder(0, "?", "?", "?") if "held" in done.stdout.splitlines() else None


def refuse_if_taken(run_dir: Path, kind: str, host: Host | None = None, there: str = "") -> None:
    """Raise a UserError if a run is going on on the machine, before time is spent on preparing another one.

    ``kind`` is the command that continues this run, ``there`` its directory on ``host``.
    """
    run = holder(host)
    if run is None:
        return
    where = f"on {host.name}" if host else "on this machine"
    words = f"pid {run.pid} of user {run.user}, since {run.since}" if run.pid else "its name is not known"
    name = Path(run.run_dir).name
    if run.run_dir == (there or str(run_dir.resolve())):
        raise UserError(
            f"this run is going on already: {words}; look at it with 'make status RUN={name}', end it with "
            f"'make stop RUN={name}'"
        )
    if run.pid:
        words += f", {run.run_dir}; wait for it, or end it with 'make stop RUN={name}' there"
    else:
        words += "; wait for it"
    again = f"make {kind} RUN={run_dir.name}" if run_dir.exists() else "the same command again"
    raise UserError(f"another run is going on {where}: {words}, then: {again}")
