"""The cache on this machine: its path, its mark, and the run that uses it."""

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
    """Make the cache if it is missing, and mark an empty one as ours; `make clean-cache` removes no other."""
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
    """Return the directory of the run that uses the cache now, "" if none does. Changes nothing."""
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
