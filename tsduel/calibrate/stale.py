"""Two copies of an executable: an old file, whose pages are scattered in memory, and one written just now.

Where the pages of a program lie changes its time and CPU by some percent (docs/surprises.md), so a comparison of these
two must show no difference.
"""

import ctypes
import mmap
import os
import random
import shutil
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from tsduel.core import files
from tsduel.core.errors import UserError

PAGE = mmap.PAGESIZE
TWINS = ("1/victoria-metrics", "2/victoria-metrics")
_COMPACT = Path("/proc/sys/vm/compact_memory")
_FRAME = (1 << 55) - 1


def twins(program: Path, directory: Path) -> tuple[Path, Path]:
    """Return two copies of a program, with one and two bytes more, since equal files are one build."""
    text = program.read_bytes()
    made = directory / TWINS[0], directory / TWINS[1]
    for size, twin in enumerate(made, 1):
        twin.parent.mkdir(parents=True, exist_ok=True)
        partial = twin.with_suffix(".partial")
        partial.write_bytes(text + bytes(size))
        partial.chmod(0o755)
        partial.replace(twin)
    return made


def executable(run_dir: Path, variant: str) -> Path:
    """Return the executable of a variant of a run."""
    return Path(files.read_json(run_dir / f"build/{variant}.json")["binary"])


def let_go(file: Path) -> None:
    """Drop a file's pages from memory, so that it is read from the disk again."""
    with file.open("rb") as stream:
        # Pages that are not on the disk yet are not dropped.
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def scatter(file: Path) -> None:
    """Scatter the pages of a file in memory, as if it had been read bit by bit, long ago."""
    let_go(file)
    pages = list(range(-(-file.stat().st_size // PAGE)))
    random.Random(len(pages)).shuffle(pages)  # noqa: S311 - any order will do
    with file.open("rb") as stream, mmap.mmap(-1, len(pages) * PAGE) as between:
        between.madvise(mmap.MADV_NOHUGEPAGE)
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for at, page in enumerate(pages):
            between[at * PAGE] = 1
            os.pread(stream.fileno(), 1, page * PAGE)
    pieces = runs(file)
    if pieces is not None and pieces < len(pages) // 2:
        raise UserError(
            f"{file} cannot be made stale: its {len(pages)} pages are in {pieces} pieces of memory still; its file "
            "system keeps them (tmpfs does), or it is running: put TSDUEL_CACHE on a disk"
        )


def renew(file: Path) -> None:
    """Write a file anew; before that, compact the memory where that is allowed, as after a boot."""
    with suppress(OSError):
        _COMPACT.write_text("1", encoding="ascii")
    partial = file.with_suffix(".partial")
    shutil.copy(file, partial)
    partial.replace(file)


def runs(file: Path) -> int | None:
    """Return in how many runs of adjacent page frames a file lies; None without the right to see it (root)."""
    size = file.stat().st_size
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        for at in range(0, size, PAGE):
            mapped[at]
        first = ctypes.c_char.from_buffer(mapped)
        begin = ctypes.addressof(first) // PAGE
        del first
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
            pagemap.seek(begin * 8)
            frames = [entry & _FRAME for entry in memoryview(pagemap.read(-(-size // PAGE) * 8)).cast("Q")]
    if not all(frames):
        return None
    return 1 + sum(after != before + 1 for before, after in pairwise(frames))


def age(run_dir: Path) -> str:
    """Scatter the baseline of a built run, and renew its candidate; say where they lie, if that is known."""
    old, new = (executable(run_dir, variant) for variant in ("baseline", "candidate"))
    scatter(old)
    renew(new)
    pieces = [runs(file) for file in (old, new)]
    if None in pieces:
        return ""
    return f"The old file lies in {pieces[0]} pieces of memory, the new one in {pieces[1]}.\n"
