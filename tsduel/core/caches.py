"""The cache on this machine: where it lies, and that it is marked as ours before anything is put into it."""

import fcntl
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT


def directory(environment: Mapping[str, str]) -> Path:
    """Return the absolute path of the cache: TSDUEL_CACHE, else .cache in the checkout."""
    return Path(environment.get("TSDUEL_CACHE") or PROJECT / ".cache").absolute()


def own(cache: Path, environment: Mapping[str, str]) -> None:
    """Make the cache if need be, and mark it as ours unless it holds other things (`make clean-cache` asks for it)."""
    done = subprocess.run(
        [PROJECT / "scripts" / "mark-cache"],
        env={**environment, "TSDUEL_CACHE": str(cache)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise UserError(done.stderr.strip().removeprefix("tsduel: "))


def used_by(environment: Mapping[str, str]) -> str:
    """Return the directory of the run whose rounds use the cache now; empty if there is none. Only looks."""
    lock = directory(environment) / "run.lock"
    if not lock.is_file():
        return ""
    with lock.open(encoding="utf-8", errors="replace") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            # pid 4711, /home/me/tsduel/results/RUN, since 2026-11-21T09:00:00Z
            return stream.read().partition(", ")[2].rpartition(", since ")[0]
    return ""
