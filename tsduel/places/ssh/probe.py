"""Can the blocks run there? Asked once, before anything is brought to the other machine."""

import shlex
from collections.abc import Iterator, Mapping

from tsduel.core.errors import UserError
from tsduel.places.ssh.ssh import Host

ARCHITECTURES = ("x86_64", "aarch64")
# Toolchain, modules and build cache of two versions; data and database come on top and are asked for by the plan.
LEAST_FREE_MIB = 4096

# For any shell of POSIX: the machine may have nothing else. Prints name=value lines. With a second word it only looks.
QUESTIONS = r"""
directory=$1 look=$2
printf 'system=%s\n' "$(uname -s)"
printf 'architecture=%s\n' "$(uname -m)"
printf 'python=%s\n' "$(command -v python3)"
printf 'bash=%s\n' "$(command -v bash)"
mine() { test -w "$directory" && test -O "$directory" && test ! -L "$directory"; }
parent=$directory
while test ! -e "$parent"; do parent=$(dirname -- "$parent"); done
if test -z "$look"; then
  made=$( (umask 077 && mkdir -p -- "$directory" && mine && chmod 700 -- "$directory") 2>&1) && usable=yes || usable=no
elif test -e "$directory"; then
  mine && usable=yes || usable=no
elif test -d "$parent" && test -w "$parent"; then
  usable=yes
else
  usable=no made="$parent cannot be written to"
fi
printf 'usable=%s\n' "$usable"
printf 'reason=%s\n' "$(printf '%s' "$made" | tr '\n' ' ')"
printf 'cpu=%s\n' "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)"
printf 'boot=%s\n' "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
printf 'inode=%s\n' "$(stat -c %d:%i -- "$directory" 2>/dev/null)"
printf 'free_mib=%s\n' "$(df -Pm -- "$parent" 2>/dev/null | awk 'NR == 2 { print $4 }')"
"""


def check(host: Host, directory: str) -> dict[str, str]:
    """Ask the machine what it is and make our directory there; a UserError says what it lacks and what to do."""
    facts = _facts(host, directory, "")
    if refused := next(refusals(host.name, facts, directory), None):
        raise UserError(refused)
    return facts


def compare(facts: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return what is odd about the hosts of a fleet beside each other; a UserError where two of them are the same one.

    ``facts``: what `check` has returned of each, by the name that a person calls it.
    """
    directories, machines = dict[tuple[str, str], str](), dict[str, list[str]]()
    for name, of in facts.items():
        boot, inode = of.get("boot", ""), of.get("inode", "")
        if boot and inode and (other := directories.setdefault((boot, inode), name)) != name:
            raise UserError(f"{other} and {name} are the same machine by two names; name it once")
        if boot:
            machines.setdefault(boot, []).append(name)
    said = [
        f"{', '.join(names)} share a machine, and so disturb each other's blocks"
        for names in machines.values()
        if len(names) > 1
    ]
    models = dict[str, list[str]]()
    for name, of in facts.items():
        models.setdefault(of.get("cpu") or "an unnamed CPU", []).append(name)
    if len(models) > 1:
        each = "; ".join(f"{', '.join(names)}: {model}" for model, names in models.items())
        said.append(f"the hosts differ in their CPU, and what is true on one may not be on another ({each})")
    return said


def look(host: Host, directory: str) -> list[str]:
    """Ask the same, make nothing, and return a sentence for each thing that it lacks."""
    return list(refusals(host.name, _facts(host, directory, "look"), directory))


def _facts(host: Host, directory: str, only_look: str) -> dict[str, str]:
    said = host.run("sh", "-s", "--", directory, only_look, text=QUESTIONS).stdout
    # A login shell may greet before it does what it is told.
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)


def refusals(name: str, facts: Mapping[str, str], directory: str) -> Iterator[str]:
    """Yield why the blocks cannot run on a machine that has said these facts of itself, the weightiest first."""
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
    if facts.get("usable") != "yes":
        reason = facts.get("reason", "").strip() or "it belongs to somebody else"
        yield (
            f"{name}: {directory} cannot be used ({reason}); see to that, or name another directory with REMOTE_DIR="
        )
    free = int(facts.get("free_mib") or 0)
    if free < LEAST_FREE_MIB:
        yield (
            f"{name}: {free} MiB are free for {directory}, and Go, its modules and the binaries alone take "
            f"{LEAST_FREE_MIB} MiB; free some (what is ours goes with: {shlex.join(['rm', '-rf', directory])}), "
            "or name a directory on a larger disk with REMOTE_DIR="
        )
