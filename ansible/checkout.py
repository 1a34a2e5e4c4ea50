#!/usr/bin/env python3
"""The files of a git checkout as they lie there: `checkout.py DIRECTORY [COPY]`, for plans and builds.

They are those that git tracks and the new ones that it does not ignore, in submodules too; a file that a sparse
checkout leaves out is that of the index. It prints JSON: `changes`, a sha256 over what differs from HEAD ("" where
nothing does), and `notes`. Bytes decide, and no setting of git: the execute bit and the ends of lines are no change.
With COPY it copies the files there, and says that of what it copied. Python 3.9 with its standard library is enough.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GIT = Path(__file__).resolve().parent.parent / "scripts/git"
CHUNK = 1 << 20
MOST_TEXT = 64 << 20  # bytes; a larger file has no ends of lines for us
SHA256_DIGITS = 64


class CheckoutError(Exception):
    """An error that the user can correct, in a sentence."""


def git(directory: Path, *words: str) -> bytes:
    """Return what git prints; a CheckoutError has its own sentence."""
    done = subprocess.run([GIT, "-C", directory, *words], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise CheckoutError(f"{directory}: {' '.join(done.stderr.decode(errors='replace').split())}")
    return done.stdout


def listed(directory: Path, *words: str) -> list[str]:
    """Return the entries that git prints between NUL characters; file names may be any bytes."""
    return [os.fsdecode(entry) for entry in git(directory, *words).split(b"\0") if entry]


class Checkout:
    """A checkout. `here`: its files, with their mode and object in the index; `head`: objects of HEAD; by path."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.here: dict[str, tuple[int, str]] = {}
        self.sparse: set[str] = set()
        self.head: dict[str, str] = {}
        self.notes: list[str] = []
        self.absent: list[str] = []  # submodules
        self._read("", "HEAD")

    def _read(self, below: str, commit: str) -> None:
        """Add a repository and its submodules; `commit`: that of HEAD."""
        directory, links = self.top / below, self._tracked(below)
        subs = self._committed(below, commit)
        for name in listed(directory, "ls-files", "-z", "--others", "--exclude-standard"):
            if name.endswith("/"):
                self.notes.append(f"{below + name} is a repository of its own, and no submodule: left out")
            else:
                self.here[below + name] = (0, "")
        for name in links:
            if os.path.lexists(directory / name / ".git"):
                self._read(f"{below}{name}/", subs.get(name, "HEAD"))
            else:
                self.absent.append(below + name)
                why = "is not checked out, so nothing of it is built: git submodule update --init --recursive"
                self.notes.append(f"the submodule {below + name} {why}")

    def _tracked(self, below: str) -> list[str]:
        """Add the files that a repository tracks; return the names of its submodules."""
        links = []
        for entry in listed(self.top / below, "ls-files", "-z", "-s", "-t"):
            facts, name = entry.split("\t", 1)
            tag, mode, of, _ = facts.split()
            if mode == "160000":
                links.append(name)
                continue
            self.here[below + name] = (int(mode, 8), of)
            if tag == "S" and not os.path.lexists(self.top / below / name):
                self.sparse.add(below + name)
        return links

    def _committed(self, below: str, commit: str) -> dict[str, str]:
        """Add the files of a commit; return the commits of its submodules."""
        subs = {}
        try:
            entries = listed(self.top / below, "ls-tree", "-r", "-z", "--full-tree", commit)
        except CheckoutError:
            if not below:
                raise
            return {}  # a submodule at another commit need not know that of HEAD
        for entry in entries:
            facts, name = entry.split("\t", 1)
            _, kind, of = facts.split()
            if kind == "commit":
                subs[name] = of
            else:
                self.head[below + name] = of
        return subs

    def take(self, copy: Path | None = None) -> dict[str, Any]:
        """Return `changes` and `notes`; with `copy`, of the copies that are made there."""
        lines, left = dict[str, str](), dict(self.head)
        for name, (mode, of) in self.here.items():
            path, target = self.top / name, copy and copy / name
            try:
                if name in self.sparse:
                    left.pop(name, None)
                    _write(target, [git(self.top, "cat-file", "blob", of)] if target else [], mode)
                    continue
                kind = path.lstat().st_mode
                if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
                    continue  # a directory in the place of a file: git lists what is in it
                digest, same = _taken(path, left.get(name, ""), target, kind | mode)
            except (FileNotFoundError, NotADirectoryError):
                continue  # deleted: it stays in `left`
            except OSError as error:
                raise CheckoutError(f"{path} cannot be read: {error.strerror}") from None
            left.pop(name, None)
            if not same:
                lines[name] = digest
        lines |= dict.fromkeys(left, "deleted") | dict.fromkeys(self.absent, "not checked out")
        text = "".join(f"{name}\0{digest}\n" for name, digest in sorted(lines.items()))
        return {"changes": hashlib.sha256(os.fsencode(text)).hexdigest() if lines else "", "notes": self.notes}


def _taken(path: Path, of: str, target: Path | None, mode: int) -> tuple[str, bool]:
    """Copy a file, and return its sha256 and whether it is the object `of`, perhaps with other ends of lines."""
    if path.is_symlink():
        link = path.readlink()
        if target:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(link)
        content = os.fsencode(link)
        return hashlib.sha256(content).hexdigest(), _object(content, of) == of
    size, digest, git_hash = path.stat().st_size, hashlib.sha256(), _hash(of)
    git_hash.update(b"blob %d\0" % size)
    with path.open("rb") as stream:

        def chunks() -> Iterator[bytes]:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                git_hash.update(chunk)
                yield chunk

        _write(target, chunks(), mode)
        if git_hash.hexdigest() == of or not of or size > MOST_TEXT:
            return digest.hexdigest(), git_hash.hexdigest() == of
        stream.seek(0)
        content = stream.read()
    return digest.hexdigest(), b"\r\n" in content and _object(content.replace(b"\r\n", b"\n"), of) == of


def _hash(of: str) -> Any:
    return hashlib.sha256() if len(of) == SHA256_DIGITS else hashlib.sha1(usedforsecurity=False)


def _object(content: bytes, of: str) -> str:
    git_hash = _hash(of)
    git_hash.update(b"blob %d\0" % len(content) + content)
    return str(git_hash.hexdigest())


def _write(target: Path | None, chunks: Iterable[bytes], mode: int) -> None:
    if target is None:
        for _ in chunks:
            pass
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as stream:
        stream.writelines(chunks)
    target.chmod(0o755 if mode & 0o111 else 0o644)


def main() -> int:
    """Say what there is of a checkout; return the exit code."""
    directory, *copy = map(Path, sys.argv[1:3])
    try:
        print(json.dumps(Checkout(directory).take(*copy)))
    except CheckoutError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
