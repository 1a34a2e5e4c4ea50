"""results/RUN/run.log: what every stage of a run has printed, and how it ended, in UTC.

host/record/events.go writes lines of the same form where the blocks run, and ansible/plugins/plain.py during
the build.
"""

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO, cast

from tsduel.core import hidden
from tsduel.core.errors import UserError
from tsduel.core.wording import printable

NAME = "run.log"


def write(run_dir: Path, level: str, source: str, text: str) -> None:
    """Append each line of a text; `level` is INFO, WARNING or ERROR. Errors of the log are ignored."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = [
        f"{now} {level:<7} {source}: {printable(line)}\n" for line in hidden.sentence(text).splitlines() if line.strip()
    ]
    if lines:
        with suppress(OSError), (run_dir / NAME).open("a", encoding="utf-8", errors="replace") as stream:
            stream.writelines(lines)


@contextmanager
def recording(run_dir: Path, stage: str) -> Iterator[None]:
    """Log the output of a stage and how it ends. Lines wait until the stage has made the directory."""
    waiting: list[tuple[str, str]] = []
    alone = threading.RLock()  # hosts that are made at once are told by threads

    def log(level: str, text: str) -> None:
        with alone:
            waiting.append((level, text))
            while waiting and run_dir.is_dir():
                event, words = waiting.pop(0)
                write(run_dir, event, stage, words)

    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _Copied(stream, log)) for stream in before)
    log("INFO", f"stage {stage} begins")
    try:
        yield
    except UserError as error:
        log("ERROR", str(error))
        raise
    except Exception as error:
        stack = "\n".join(line.strip() for line in traceback.format_exc().splitlines())
        log("ERROR", f"a defect of ours: {error!r}\n{stack}")
        raise
    finally:
        sys.stdout, sys.stderr = before
        log("INFO", "")


class _Copied:
    """A stream that also logs its whole lines."""

    def __init__(self, stream: TextIO, log: Callable[[str, str], None]) -> None:
        self.beneath, self._log = stream, log
        self._rest = ""
        self._alone = threading.RLock()

    def write(self, text: str) -> int:
        with self._alone:
            *whole, self._rest = (self._rest + text).split("\n")
            if whole:
                self._log("INFO", "\n".join(whole))
        return self.beneath.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def unlogged(stream: Any) -> Any:
    """Return the stream without the copy to the log, for text that the log has already."""
    return stream.beneath if isinstance(stream, _Copied) else stream


def point_ansible(run_dir: Path) -> None:
    """Set the path of the log for ansible/plugins/plain.py."""
    os.environ["TSDUEL_RUN_LOG"] = str((run_dir / NAME).absolute())
