"""results/RUN/run.log: what every stage of a run has said, and how it ended, in UTC.

host/record/events.go writes the same lines where the blocks run, and ansible/plugins/plain.py while it builds.
"""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO, cast

from tsduel.core.errors import UserError

NAME = "run.log"


def write(run_dir: Path, level: str, source: str, text: str) -> None:
    """Append each line of a text; INFO, WARNING or ERROR. What cannot be logged is no reason to end."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = [line for line in text.splitlines() if line.strip()]
    lines = "".join(f"{now} {level:<7} {source}: {_plain(line)}\n" for line in said)
    if not lines or not run_dir.is_dir():
        return
    try:
        with (run_dir / NAME).open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(lines)
    except OSError:
        return


@contextmanager
def recording(run_dir: Path, stage: str) -> Iterator[None]:
    """Log all that is printed meanwhile, and how it ends. A run that is only being made has its log from then on."""
    log = _Log(run_dir, stage)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _Copied(stream, log)) for stream in before)
    log.add("INFO", f"stage {stage} begins")
    try:
        yield
    except UserError as error:
        log.add("ERROR", str(error))
        raise
    except Exception as error:
        stack = "\n".join(line.strip() for line in traceback.format_exc().splitlines())
        log.add("ERROR", f"a defect of ours: {error!r}\n{stack}")
        raise
    finally:
        sys.stdout, sys.stderr = before
        log.flush()


class _Log:
    """Lines of one stage; they wait until there is a directory for them."""

    def __init__(self, run_dir: Path, stage: str) -> None:
        self.run_dir, self.stage = run_dir, stage
        self._waiting: list[tuple[str, str]] = []

    def add(self, level: str, text: str) -> None:
        self._waiting.append((level, text))
        self.flush()

    def flush(self) -> None:
        if self.run_dir.is_dir():
            for level, text in self._waiting:
                write(self.run_dir, level, self.stage, text)
            self._waiting.clear()


class _Copied:
    """A stream whose whole lines are logged, too."""

    def __init__(self, stream: TextIO, log: _Log) -> None:
        self._stream, self._log = stream, log
        self._rest = ""

    def write(self, text: str) -> int:
        *whole, self._rest = (self._rest + text).split("\n")
        if whole:
            self._log.add("INFO", "\n".join(whole))
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def point_ansible(run_dir: Path) -> None:
    """Tell ansible/plugins/plain.py where the log is."""
    os.environ["TSDUEL_RUN_LOG"] = str((run_dir / NAME).absolute())
