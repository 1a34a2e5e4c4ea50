"""Runs the commands of a build with its log, and publishes an entry of the cache. Python 3.9 is enough."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wholefiles import remove

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).resolve().parent.parent
GIT = PROJECT / "scripts/git"
LOG_LINES = 20
PAUSES_S = (2, 8)
LOOK_S = 1
NETWORK_FAILED = re.compile(
    r"(?i:connection (reset|refused))|i/o timeout|TLS handshake|(?<!syntax error: )unexpected EOF|Temporary failure"
    r"|server misbehaving|stream error|no such host|(?i:could not resolve host)|early EOF|RPC failed"
    r"|\b50[0-4] [A-Z]|\b429\b"
)
MACHINE_FAILED = re.compile(r"no space left|signal: killed|cannot allocate memory", re.IGNORECASE)
NEWER_GO = re.compile(r"requires go >= (\d+\.\d+(?:\.\d+)?) \(running go\S+; GOTOOLCHAIN=local\)")
AT_FAULT = "the sources do not build"
"""Ends the log of a build that failed neither by the network nor by the machine (tsduel/build/built.py)."""


class BuildError(Exception):
    """An error that the user can correct, in a sentence."""


@dataclass
class Builder:
    """Makes one entry of the cache under its lock, and publishes it when it is complete. Each has its own log."""

    name: str
    log: Path
    output: Any = None

    def run(self, *command: object, cwd: Path, capture: bool = False) -> str:
        """Run a command with its output in the log; it and its children end with this program."""
        with subprocess.Popen(
            [str(word) for word in command], cwd=cwd, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if capture else self.output, stderr=self.output,
            text=True, errors="surrogateescape",  # file names may be any bytes
        ) as process:  # fmt: skip
            try:
                output = None
                # A signal that comes just before a wait does not end it, and is seen when the next one begins.
                while output is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        output = process.communicate(timeout=LOOK_S)[0] or ""
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            raise BuildError(output.strip())
        return output

    def fetching(self, *command: object, cwd: Path, capture: bool = False) -> str:
        """Run a command that may download something; try it up to three times if the network fails."""
        for pause in PAUSES_S:
            before = Path(self.output.name).stat().st_size
            try:
                return self.run(*command, cwd=cwd, capture=capture)
            except BuildError as failure:
                logged = Path(self.output.name).read_bytes()[before:].decode(errors="replace")
                if not NETWORK_FAILED.search(f"{failure}{logged}"):
                    raise
                print(f"the network failed; again in {pause} s", file=self.output, flush=True)
            time.sleep(pause)
        return self.run(*command, cwd=cwd, capture=capture)

    def compiling(self, *command: object, cwd: Path) -> None:
        """Run the build command; of a failure, say in the log whether the sources are at fault."""
        before = Path(self.output.name).stat().st_size
        try:
            self.fetching(*command, cwd=cwd)
        except BuildError as failure:
            logged = Path(self.output.name).read_bytes()[before:].decode(errors="replace")
            if NETWORK_FAILED.search(logged) or MACHINE_FAILED.search(logged):
                raise
            if newer := NEWER_GO.search(logged):
                go = f"go{newer[1]}"
                raise BuildError(
                    f"it needs {go}, which is downloaded for all variants if you say so: "
                    f'SET="variants.baseline.go={go} variants.candidate.go={go}"'
                ) from None
            raise BuildError(f"{failure}\n{AT_FAULT}".strip()) from None

    def git(self, *words: object) -> str:
        """Run git, and return what it prints."""
        return self.run(GIT, *words, cwd=PROJECT, capture=True).rstrip("\n")

    def publish(self, directory: Path, is_whole: Callable[[Path], bool], make: Callable[[Path], None]) -> None:
        """Have ``make`` fill WORK/publish, which becomes the entry, unless the entry is complete. One at a time."""
        # The checkout may be private.
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            fcntl.flock(stack.enter_context(Path(f"{directory}.lock").open("a")), fcntl.LOCK_EX)
            if not is_whole(directory):
                # A killed build left these; the lock shows that no build works on them.
                for left in directory.parent.glob(f"{directory.name}.partial.*"):
                    remove(left)
                work = Path(tempfile.mkdtemp(prefix=f"{directory.name}.partial.", dir=directory.parent))
                stack.callback(remove, work)
                (work / "publish").mkdir(mode=0o755)
                self.output = stack.enter_context(self.log.open("a", encoding="utf-8"))
                try:
                    make(work)
                except BuildError as failure:
                    print(failure, file=self.output, flush=True)
                    last = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
                    raise BuildError(f"{self.name}: the build failed; the last lines of {self.log}:\n{last}") from None
                remove(directory)
                # After a power cut no program may be empty.
                subprocess.run(["sync", "-f", work], check=True)
                (work / "publish").rename(directory)
                print("built", flush=True)
            # A cache that is too large loses first what was unused for longest.
            (directory / ".used").touch()
