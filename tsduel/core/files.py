"""Files that are whole or do not exist, also after kill -9, a power cut, or on a full disk."""

import bz2
import codecs
import csv
import errno
import gzip
import io
import json
import lzma
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tsduel.core import caches, results
from tsduel.core.errors import UserError

# Of one file: tables and snapshots of a long run; an object of JSON is far larger in memory.
MOST_BYTES, MOST_JSON = 512 << 20, 32 << 20
_REMEDIES = {
    errno.ENOSPC: "its disk is full; free some",
    errno.EDQUOT: "your quota on its disk is used up; free some",
    errno.EROFS: "its disk can only be read; a disk with errors is mounted so, see dmesg",
    errno.EIO: "its disk has errors, see dmesg; mend it",
    errno.EMFILE: "too many files are open; raise ulimit -n",
    errno.EACCES: "you may not; see who made it (a run of another user, or with sudo?)",
    errno.EPERM: "you may not; see who made it (a run of another user, or with sudo?)",
}


def private_directory(path: Path) -> None:
    """Make a directory with mode 0700, and its parents; a directory that exists keeps its mode."""
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)


def partial_of(path: Path) -> Path:
    """Return a name beside it that nobody else has; `tsduel.core.runlock` removes those that a kill leaves in a run."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")


def write(path: Path, content: str | bytes) -> None:
    """Write a file that gets its name only when all its bytes are on the disk."""
    partial = partial_of(path)
    try:
        with partial.open("wb") as stream:
            stream.write(content if isinstance(content, bytes) else content.encode())
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_names(path.parent)


def sync_names(directory: Path) -> None:
    """Have the names in a directory on the disk."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def content(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return what is in a file, of a .gz file what was packed; a ValueError if that is more than a host writes."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        found = stream.read(most + 1)
    if len(found) > most:
        raise ValueError(f"it has more than {most >> 20} MiB")
    return found


def from_home(text: str) -> Path:
    """Return the path that a user typed, also behind a ~ that the shell has left; one of nobody's home stays."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ~name/ without the slash
        return Path(text)


def end_of(path: Path, most: int = 1 << 16) -> str:
    """Return the last bytes of a file that somebody else writes, as text."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - most))
        return stream.read(most).decode(errors="replace")


def text(path: Path) -> str:
    """Return the content of a file as text with plain ends of lines, and a mark for each byte that is none."""
    return content(path).decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


_PACKED = {b"PK\3\4": "zip", b"7z\xbc\xaf": "7-Zip", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_UNPACK: dict[bytes, Any] = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ": lzma}
_TEXT_MOST = 1 << 28
_MARKS = (
    *((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
    *((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
)


def text_of(path: Path, most: int = _TEXT_MOST, errors: str = "strict") -> str:
    """Return the text of a user's file as an editor may have saved it, with LF at the end of its lines.

    Of a file that is packed with gzip, bzip2 or xz the text in it; a UserError says what else it is.
    """
    where = str(path)
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    for magic, packing in _UNPACK.items():
        if content.startswith(magic):
            try:
                content = packing.open(io.BytesIO(content)).read(most + 1)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise UserError(f"{where}: it is packed, and damaged: {error}; make the file anew") from None
    if len(content) > most:
        raise UserError(f"{where}: it has more than {most >> 20} MiB; give a part of it")
    for magic, name in _PACKED.items():
        if content.startswith(magic):
            raise UserError(f"{where}: it is packed with {name}; unpack it, or pack it with gzip")
    mark, encoding = next((marked for marked in _MARKS if content.startswith(marked[0])), (b"", "utf-8"))
    try:
        text = content[len(mark) :].decode(encoding, errors)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{where}:{line}: not {encoding.upper()} at byte {error.start}; save it as UTF-8") from None
    if (at := text.find("\0")) >= 0:
        line, what = text.count("\n", 0, at) + 1, "as UTF-16 without its first mark, archives and programs have"
        raise UserError(f"{where}:{line}: it has bytes of 0, {what}; save it as UTF-8")
    return text.replace("\r\n", "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; a UserError says where a file is none."""
    try:
        text = content(path, MOST_JSON).decode("utf-8")
        value = json.loads(text)
        if "\\ud" in text.lower():  # half of a letter cannot be written
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is missing: the stage that writes it has not run") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not JSON: not UTF-8 (the file may be damaged)") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON: {error.msg} (the file may be cut short)") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {error} (the file may be damaged)") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: a JSON object is expected here")
    return value


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Make a UserError of what a file of a finished block raises that is not there, or is no whole `what`."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} is missing, though its block was finished: the run directory is not whole") from None
    except (OSError, EOFError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
            csv.Error, zlib.error) as error:  # fmt: skip
        raise UserError(f"{path}: no whole {what}: {' '.join(str(error).split())}") from None


def sentence(error: OSError) -> str:
    """Return what is wrong with a file or its disk and what to do; "" if the machine is not the cause."""
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return ""
    name = error.filename or error.filename2
    if name is None:
        # The error of a stream has no name. We write to these places only: take the fullest disk.
        places = (results.home(), caches.directory(os.environ), Path())
        name = min((p for p in places if p.is_dir()), key=lambda p: shutil.disk_usage(p).free).resolve()
    return f"{name} cannot be written or read: {remedy}, then type the same command again"
