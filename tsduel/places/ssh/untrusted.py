"""Reads what a measured host sends. Whoever measures there may lie: it is bounded, checked, and never obeyed."""

import os
import selectors
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn, Self

from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.wording import printable

CHUNK = 1 << 16
# The answer to one question; a checksum a file is the longest.
MOST_TEXT = 16 << 20
MOST_ERRORS = CHUNK
# What comes in one archive: a block is the largest.
MOST_BYTES, MOST_FILES = 4 << 30, 20_000
# Of one host, as long as a command of ours runs.
MOST_OF_HOST = 16 << 30
# tarfile reads the headers of long names whole.
MOST_HEADER = CHUNK
MOST_NAME, MOST_PART = 1024, 255
# An archive brings so many bytes in so much time, or it is a broken connection.
SILENCE_S, LEAST_BYTES = 120.0, CHUNK
# To bring the largest data over the slowest link.
LONGEST_S = 86_400.0
# Of what is said before the end, so much later at most.
LAST_WORDS_S = 5.0


class LieError(UserError):
    """A host sends what it was not asked for, or more than there can be."""


class SilentError(Exception):
    """A host sends nothing, or next to nothing, for too long."""


def clean(text: bytes | bytearray) -> str:
    """Return a text of lines without any other character that a terminal would obey."""
    # A tab moves no cursor upwards, and parts the columns of what our scripts say.
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.decode(errors="replace").split("\n"))


@contextmanager
def started(
    command: list[str], feed: IO[bytes] | int = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[float], str]]]:
    """Start a command; yield it, and a function that waits for its end and returns the last of its errors."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=feed, stdout=pipe, stderr=pipe, bufsize=0) as process:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        errors, stream = bytearray(), process.stderr

        def hear() -> None:
            with suppress(OSError, ValueError):  # closed meanwhile
                while chunk := stream.read(CHUNK):
                    errors.extend(chunk)
                    del errors[:-MOST_ERRORS]

        # Read beside: a full pipe would stop the command.
        ear = threading.Thread(target=hear, daemon=True)
        ear.start()

        def ended(patience_s: float) -> str:
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                raise SilentError from None
            ear.join(LAST_WORDS_S)
            return clean(errors)

        try:
            yield process, ended
        finally:
            process.kill()


def ask(
    command: list[str], feed: IO[bytes] | int = subprocess.DEVNULL, timeout_s: float = LONGEST_S
) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it says; a SilentError after so long, a LieError if it says too much."""
    until, said = time.monotonic() + timeout_s, bytearray()
    with started(command, feed) as (process, ended):
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for chunk in _chunks(process.stdout.fileno(), lambda: until - time.monotonic()):
            said += chunk
            if len(said) > MOST_TEXT:
                raise LieError(f"an answer has more than {MOST_TEXT >> 20} MiB")
        # Who has closed its output has ended, or stays for nothing.
        errors = ended(min(SILENCE_S, max(0.0, until - time.monotonic())))
    return subprocess.CompletedProcess(command, process.returncode, clean(said), errors)


def _chunks(stream: int, patience_s: Callable[[], float], size: int = CHUNK) -> Iterator[bytes]:
    """Yield what comes until the end; a SilentError if nothing comes for so long."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            # Less than nothing would be for ever.
            if not selector.select(max(1e-3, patience_s())):
                raise SilentError
            if not (chunk := os.read(stream, size)):
                return
            yield chunk


class _Archive:
    """A stream of bytes for tarfile; it has an end, and comes at some rate."""

    def __init__(self, stream: int, most: int) -> None:
        self._chunks = _chunks(stream, lambda: SILENCE_S)
        self._rest, self.left = b"", most
        self._since, self._got = time.monotonic(), 0

    def read(self, count: int) -> bytes:
        if not self._rest:
            self._rest = next(self._chunks, b"")
            self._watch(len(self._rest))
        content, self._rest = self._rest[:count], self._rest[count:]
        return content

    def _watch(self, count: int) -> None:
        self.left -= count
        self._got += count
        if self.left < 0:
            raise LieError("an archive has more than there can be")
        if (now := time.monotonic()) - self._since > SILENCE_S:
            if count and self._got < LEAST_BYTES:
                raise SilentError
            self._since, self._got = now, 0


class _Member(tarfile.TarInfo):
    """A member whose headers are bounded, and which is no sparse file: a few bytes would make any size of it."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # its end, without which it is cut short
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from None

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in tarfile.REGULAR_TYPES and self.size > MOST_HEADER:
            raise LieError(f"an archive has a header of {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]  # tarfile's own seam for this

    def _refuse(self, *_: object) -> NoReturn:
        raise LieError("an archive has a sparse file")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse


def unpack(stream: int, wanted: Collection[str], into: Path, most: int = MOST_BYTES) -> int:
    """Unpack an archive of regular files, each one of ``wanted``, or below one that ends in /; have it on the disk.

    Return how many bytes came, of ``most`` at most. A LieError for everything else that an archive can have, and for
    two members of one name; a tarfile.TarError if it is cut short.
    """
    archive = _Archive(stream, most := min(most, MOST_BYTES))
    try:
        with tarfile.open(fileobj=archive, mode="r|", tarinfo=_Member) as members:  # type: ignore[call-overload]
            for count, member in enumerate(members, 1):
                if count > MOST_FILES:
                    raise LieError(f"an archive has more than {MOST_FILES} members")
                path_here = into / _asked_for(member, wanted)
                if member.isdir():
                    path_here.mkdir(parents=True, exist_ok=True)
                else:
                    path_here.parent.mkdir(parents=True, exist_ok=True)
                    _write(members, member, path_here)
        while archive.read(CHUNK):
            pass
    except (FileExistsError, NotADirectoryError) as error:
        raise LieError(f"an archive has {Path(error.filename).name!r} twice") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise tarfile.ReadError(f"no archive: {error}") from None
    for directory in (into, *filter(Path.is_dir, into.rglob("*"))):
        files.sync_names(directory)
    return most - archive.left


def is_plain(name: str) -> bool:
    """Return whether a name can be that of a file below a directory of ours."""
    parts = PurePosixPath(name).parts
    fits = len(name) <= MOST_NAME and printable(name) == name
    return fits and parts[:1] != ("/",) and ".." not in parts and all(len(part.encode()) <= MOST_PART for part in parts)


def _asked_for(member: tarfile.TarInfo, wanted: Collection[str]) -> PurePosixPath:
    path = PurePosixPath(member.name)
    if not is_plain(member.name):
        raise LieError(f"an archive has a member {member.name[:80]!r}")
    for name in wanted:
        if str(path) == name and member.isreg():
            return path
        if name.endswith("/") and PurePosixPath(name) in ((*path.parents, path) if member.isdir() else path.parents):
            if not (member.isreg() or member.isdir()) or member.issparse():
                raise LieError(f"an archive has {member.name!r}, which is no regular file")
            return path
    raise LieError(f"an archive has {member.name!r}, for which nobody has asked")


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, path_here: Path) -> None:
    content = members.extractfile(member)
    assert content is not None  # noqa: S101 - a regular file has content
    left = member.size
    with path_here.open("xb") as target:
        while left and (chunk := content.read(min(CHUNK, left))):
            target.write(chunk)
            left -= len(chunk)
        if left:
            raise tarfile.ReadError("unexpected end of data")
        target.flush()
        os.fsync(target.fileno())
