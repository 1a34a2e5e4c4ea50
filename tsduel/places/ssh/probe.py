"""Checks whether blocks can run on another machine, before anything is copied there."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tsduel.core.errors import UserError
from tsduel.places.ssh.ssh import Host

ARCHITECTURES = ("x86_64", "aarch64")
# Toolchain, modules and build cache of two versions; the plan's estimate has data and databases.
LEAST_FREE_MIB = 4096

# For any POSIX shell. Prints name=value lines. With a second argument it makes no directory.
QUESTIONS = r"""
directory=$1 look=$2
printf 'system=%s\narchitecture=%s\n' "$(uname -s)" "$(uname -m)"
printf 'python=%s\nbash=%s\n' "$(command -v python3)" "$(command -v bash)"
printf 'new_python=%s\n' "$(python3 -c 'import sys; print(sys.version_info >= (3, 9))' 2>/dev/null)"
mine() {
  test -w "$directory" && test -O "$directory" && test ! -L "$directory" || return
  # Ours has no more: one that others use would be closed to them, and be removed by uninstall.
  other=$(ls -A -- "$directory" | grep -vxE 'cache|runs' | head -n 1)
  test -z "$other" || { echo "it has files of others, such as $other"; return 1; }
}
parent=$directory
while test ! -e "$parent"; do parent=$(dirname -- "$parent"); done
if test -z "$look"; then
  made=$( (umask 077 && mkdir -p -- "$directory" && mine && chmod 700 -- "$directory") 2>&1) && usable=yes || usable=no
elif test -e "$directory"; then
  made=$(mine 2>&1) && usable=yes || usable=no
elif test -d "$parent" && test -w "$parent"; then
  usable=yes
else
  usable=no made="$parent cannot be written to"
fi
printf 'usable=%s\nreason=%s\n' "$usable" "$(printf '%s' "$made" | tr '\n' ' ')"
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
# An Arm CPU has no name there, but numbers: implementer, architecture, variant, part, revision.
test -n "$cpu" || cpu=$(sed -n 's/^CPU [^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 5 | tr '\n' ' ')
printf 'cpu=%s\n' "$cpu"
printf 'boot=%s\n' "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
printf 'inode=%s\n' "$(stat -c %d:%i -- "$directory" 2>/dev/null)"
printf 'free_mib=%s\n' "$(df -Pm -- "$parent" 2>/dev/null | awk 'NR == 2 { print $4 }')"
"""


def check(host: Host, directory: str) -> dict[str, str]:
    """Return the facts of a machine and make our directory there; a UserError says what is missing and what to do."""
    facts = _facts(host, directory, "")
    for refusal in refusals(host.name, facts, directory):
        raise UserError(refusal)
    return facts


def compare(facts: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return warnings about the hosts of a fleet; a UserError if two of them are the same machine.

    ``facts``: what `check` returned for each, by `Host.name`.
    """
    directories = dict[tuple[str, str], str]()
    machines, models = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for name, host in facts.items():
        boot, inode = host.get("boot", ""), host.get("inode", "")
        if boot and inode and (other := directories.setdefault((boot, inode), name)) != name:
            raise UserError(f"{other} and {name} are the same machine by two names; name it once")
        machines[boot or name].append(name)
        models[host.get("cpu") or "an unnamed CPU"].append(name)
    shared = [", ".join(names) for names in machines.values() if len(names) > 1]
    warnings = [f"{names} share a machine, and so disturb each other's blocks" for names in shared]
    if len(models) > 1:
        each = "; ".join(f"{', '.join(names)}: {model}" for model, names in models.items())
        warnings.append(f"the hosts differ in their CPU, and what is true on one may not be on another ({each})")
    return warnings


def examine(host: Host, directory: str) -> list[str]:
    """Return a sentence for each thing that the machine lacks; make nothing."""
    return list(refusals(host.name, _facts(host, directory, "look"), directory))


def _facts(host: Host, directory: str, only_look: str) -> dict[str, str]:
    output = host.run("sh", "-s", "--", directory, only_look, text=QUESTIONS).stdout
    # A login shell may print a greeting first.
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


def refusals(name: str, facts: Mapping[str, str], directory: str) -> Iterator[str]:
    """Yield the reasons why blocks cannot run on a machine with these facts, the most important first."""
    system, architecture = facts.get("system", "?"), facts.get("architecture", "?")
    if system != "Linux" or architecture not in ARCHITECTURES:
        yield (
            f"{name} is {system} on {architecture}; the blocks run on Linux on {' or '.join(ARCHITECTURES)}: "
            "give another SSH_HOST"
        )
    for program in ("python3", "bash"):
        if not facts.get(program.removesuffix("3")):
            yield (
                f"{name} has no {program}, without which nothing can be prepared there; install it "
                f"(Debian, as root: apt-get install -y {program}), then try again"
            )
    if facts.get("new_python") == "False":
        yield f"{name} has a python3 older than 3.9, with which nothing can be built there; install a newer python3"
    if facts.get("usable") != "yes":
        reason = facts.get("reason", "").strip() or "it belongs to somebody else"
        yield (
            f"{name}: {directory} cannot be used ({reason}); see to that, or name another directory with REMOTE_DIR="
        )
    free_mib = re.fullmatch(r"\d{1,15}", facts.get("free_mib", ""))
    if (free := int(free_mib[0]) if free_mib else 0) < LEAST_FREE_MIB:
        yield (
            f"{name}: {free} MiB are free for {directory}, and Go, its modules and the binaries alone take "
            f"{LEAST_FREE_MIB} MiB; free some (make uninstall TARGET=ssh, with the same SSH_HOST, removes what tsduel "
            "has there), or name a directory on a larger disk with REMOTE_DIR="
        )
