"""A small git repository for the tests of sources and builds."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Nothing of the user's git configuration, and an author.
SETTINGS = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "core.hooksPath=/dev/null")


class Repository:
    """A directory under git, changed by the methods below."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        """Run git in it and return what it prints."""
        command = ["git", *SETTINGS, "-C", str(self.path), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        """Write a file and leave it uncommitted."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def commit(self, name: str = "file", text: str = "text\n") -> str:
        """Commit one file and return the commit's full hash."""
        self.write(name, text)
        return self.commit_all(name)

    def commit_all(self, message: str) -> str:
        """Commit everything and return the commit's full hash."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")
