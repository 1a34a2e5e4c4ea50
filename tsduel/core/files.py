"""Files that are there whole or not at all, whatever ends us: kill -9, a power cut, a full disk."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError

_REMEDIES = {
    errno.ENOSPC: "its disk is full; free some",
    errno.EDQUOT: "your quota on its disk is used up; free some",
    errno.EROFS: "its disk can only be read; a disk with errors is mounted so, see dmesg",
    errno.EACCES: "you may not; see who made it (a run of another user, or with sudo?)",
    errno.EPERM: "you may not; see who made it (a run of another user, or with sudo?)",
}


def private_directory(path: Path) -> None:
    """Make a directory for its user alone, and its parents, unless it is there: then its modes are the user's."""
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)


def write(path: Path, text: str) -> None:
    """Write a file whose existence says that it is whole: its bytes are on the disk before it has its name."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or say where it is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: the stage that writes it has not run") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not JSON: not UTF-8 (the file may be damaged)") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON: {error.msg} (the file may be cut short)") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: a JSON object is expected here")
    return found


def sentence(error: OSError) -> str:
    """Return what is the matter with a file or its disk and what to do; empty if it is no matter of the machine."""
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return ""
    name = error.filename or error.filename2
    if name is None:
        # A stream does not know its file. Everything is written below the project or the cache.
        cache = Path(os.environ.get("TSDUEL_CACHE") or ".cache")
        fullest = min(
            (p for p in (Path("results"), cache, Path()) if p.is_dir()), key=lambda p: shutil.disk_usage(p).free
        )
        name = str(fullest.resolve())
    return f"{name} cannot be written or read: {remedy}, then type the same command again"
