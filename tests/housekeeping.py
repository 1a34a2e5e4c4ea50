"""What the tests of the housekeeping share: a cache with something of each kind in it, and a script with it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT = Path(__file__).resolve().parent.parent
SCRIPTS = PROJECT / "scripts"
MARKER = ".tsduel-cache"
KEY = "0123456789abcdef"
NOBODY = 65534
KNOBS = {"DRY", "YES", "TARGET", "RUN", "CACHE_LIMIT"}


def clean_environment() -> dict[str, str]:
    """Return the environment without make's variables and without our knobs."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "TSDUEL")) and k not in KNOBS}


def said(command: Sequence[Path | str], *, code: int = 0, cwd: Path = PROJECT, **more: str) -> str:
    """Run a command with nothing of ours in its environment but `more`; require its exit code, return its words."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environment() | more,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def call(
    script: str, cache: Path | str, *arguments: Path | str, code: int = 0, cwd: Path = PROJECT, **more: str
) -> str:
    """Run a script of ours with this cache."""
    return said([SCRIPTS / script, *arguments], code=code, cwd=cwd, TSDUEL_CACHE=str(cache), **more)


def write(path: Path, size: int = 0) -> Path:
    """Make a file of some bytes, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def fill(cache: Path) -> Path:
    """Put something of each kind into a cache; return it."""
    for name in ("go/mod/m/file", f"tsbs/{KEY}/tsbs_load", f"variants/{KEY}/binary", f"src/{KEY}.git/HEAD"):
        write(cache / name, 1000)
    write(cache / f"workload/{KEY}/data.zst", 2_000_000)
    for name in (f"variants/{KEY}.lock", f"tsbs/{KEY}.lock", f"src/{KEY}.lock", "scratch/data/x", "run.lock"):
        write(cache / name)
    write(cache / "scratch/data.tsduel-data")
    return cache


def give_to(user: int, directory: Path) -> None:
    """Make another user the owner of a directory and all in it, and let that user get there."""
    for path in (directory, *directory.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)
    for path in directory.parents:
        if path.stat().st_mode & 0o005 != 0o005:  # pytest's own, under /tmp
            path.chmod(0o755)
