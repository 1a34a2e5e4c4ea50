"""results/RUN/lock: one command at a time writes a run. The kernel frees the lock however its holder ends.

A command of several stages takes it once, and its stages inherit it. What only looks (status, follow, ssh, list) takes
none, and neither does `stop`, which asks the host.
"""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tsduel.core.errors import UserError

FILE = "lock"
INHERITED = "TSDUEL_RUN_LOCK"
"""For a stage: the descriptor of the lock that the command of several stages holds."""
ATTENDING = "run"
# The holder before may be about to end, and `holder` has the lock for a moment.
PATIENCE_S = 2.0
# Never cut, so that who reads it meanwhile has a whole line.
WIDTH = 200
_HOLDER = re.compile(r"pid (\d+), (\S+), since (\S+), stage (\S+), pid (\d+)")


@dataclass(frozen=True)
class Holder:
    """The command that writes a run now, and the stage that it is at; ``pid`` is 0 if it is not known."""

    pid: int
    command: str
    since: str  # UTC, 2026-11-21T09:00:00Z
    stage: str

    def __str__(self) -> str:
        """Name the command and its process."""
        return f"`make {self.command}` (pid {self.pid}, since {self.since})" if self.pid else "another command"


@contextmanager
def holding(run_dir: Path, command: str) -> Iterator[int]:
    """Be the only command that writes a run; yield the descriptor for `passed_on`. A UserError names another one."""
    path = run_dir / FILE
    descriptor, text = _inherited(path), ""
    if descriptor is None:
        descriptor = _taken(path, command)
        _remove_leftovers(run_dir)
        text = f"pid {os.getpid()}, {command}, since {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    try:
        text = text or os.pread(descriptor, WIDTH, 0).decode(errors="replace").partition(", stage ")[0]
        os.pwrite(descriptor, f"{f'{text}, stage {command}, pid {os.getpid()}':<{WIDTH}}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def claimed(run_dir: Path, command: str, whole: str) -> Iterator[None]:
    """Make the directory of a new run, or go on with one that was killed before the file ``whole`` was there."""
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    try:
        run_dir.mkdir(mode=0o700)
    except FileExistsError:
        if not (run_dir / FILE).exists() and any(path.name != "run.log" for path in run_dir.iterdir()):
            raise UserError(f"{run_dir} is there already and is no run: give another name, RUN=") from None
    with holding(run_dir, command):
        if (run_dir / whole).exists():
            raise UserError(f"{run_dir} was planned by another command a moment ago: give another name, RUN=")
        yield


def passed_on(descriptor: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a stage that gets the descriptor of a lock that is held."""
    return {**environment, INHERITED: str(descriptor)}


def holder(run_dir: Path) -> Holder | None:
    """Return the command that writes a run now, or None."""
    try:
        with (run_dir / FILE).open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return _read(run_dir / FILE)
    return None


def is_attended(run_dir: Path) -> bool:
    """Return whether a command copies this run's events home now."""
    owner = holder(run_dir)
    return owner is not None and owner.stage == ATTENDING


def _inherited(path: Path) -> int | None:
    """Return the descriptor of a lock that our parent holds, if it is the one of this run."""
    with suppress(OSError, ValueError):
        descriptor = int(os.environ.pop(INHERITED, ""))
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - its name for it
            return descriptor
    return None


def _taken(path: Path, command: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < end:
                time.sleep(0.05)
                continue
            os.close(descriptor)
            raise UserError(_refusal(path.parent, command)) from None
        return descriptor


def _read(path: Path) -> Holder:
    match = _HOLDER.match(path.read_text(encoding="utf-8", errors="replace"))
    if not match:
        return Holder(0, "?", "?", "?")
    # A stage goes on if the command that called it was killed.
    pid = next((pid for pid in (match[1], match[5]) if Path(f"/proc/{pid}").exists()), match[1])
    return Holder(int(pid), match[2], match[3], match[4])


def _refusal(run_dir: Path, command: str) -> str:
    owner, name = _read(run_dir / FILE), run_dir.name
    end = f"end it with kill {owner.pid}" if owner.pid else "end it"
    if owner.stage == ATTENDING:
        end = f"watch it with make follow RUN={name} (each finished block is here at once), or {end}"
    return (
        f"{run_dir}: {owner} writes this run now, and one command at a time may; wait for it, or {end}, then: "
        f"make {command} RUN={name}"
    )


def _remove_leftovers(run_dir: Path) -> None:
    """Remove what killed commands have left half written; of raw/ that is the driver's duty."""
    for part in run_dir.iterdir():
        for left in (part, *(part.rglob("*.partial") if part.is_dir() and part.name != "raw" else ())):
            if left.suffix == ".partial" and left.is_dir():
                shutil.rmtree(left)
            elif left.suffix == ".partial":
                left.unlink(missing_ok=True)
