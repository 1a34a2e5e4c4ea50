"""The cache on this machine: its path and its mark."""

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
