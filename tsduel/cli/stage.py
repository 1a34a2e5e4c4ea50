"""Runs one command in this process, and turns whatever goes wrong into a sentence and an exit code."""

import importlib
import os
import re
import sys
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tsduel.cli.commands import COMMANDS, PARTS, RUN, WHILE, Command
from tsduel.core import codes, files, hidden, results, runlock, runlog
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT

GIVING_BACK = ("destroy", "give-back")
TYPED = "TSDUEL_TYPED"
"""Set if `tsduel` was typed, and not `make`: sentences then name commands of `tsduel`."""
_MAKE = re.compile(rf"\bmake (?=(?:{'|'.join(COMMANDS)})\b)")


def execute(name: str, run: str) -> int:
    """Run a command and return its exit code; a UserError is left to the caller. ``run``: the name of its run."""
    command = (COMMANDS | PARTS)[name]
    if os.environ.get(TYPED) and name != "comment":
        sys.stdout, sys.stderr = _Typed(sys.stdout), _Typed(sys.stderr)
    try:
        # A wrong FAIL_ON or VIEW is refused before the first block, not after the last one.
        codes.fail_on(os.environ.get("FAIL_ON", ""))
        if os.environ.get("VIEW") and "VIEW" in command.knobs:
            importlib.import_module("tsduel.rounds.view.show").wants_screen(os.environ)
        return _execute(command, name, run) or codes.DONE
    except UserError:
        raise
    except BrokenPipeError:
        return codes.DONE
    except KeyboardInterrupt:
        print("tsduel: interrupted", file=sys.stderr)
        return codes.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a stack trace helps only developers; run.log has it
        sentence = files.sentence(error) if isinstance(error, OSError) else ""
        print(f"tsduel: {sentence or _defect(error, command, name, run)}", file=sys.stderr)
        return codes.USER if sentence else codes.DEFECT


def _execute(command: Command, name: str, run: str) -> int | None:
    if command.scope != RUN:
        # The terminal or file may not have every character.
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a text stream has it
        return command.call(importlib.import_module(command.module), results.home())
    run_dir = results.run_directory(run, must_exist=not command.makes_run)
    if not command.of_study and (run_dir / results.STUDY).exists():
        # A stage of a study is that of each of its runs; what is about the blocks now, of the one that is going on.
        settings = importlib.import_module("tsduel.studies.settings")
        each = [settings.now(run_dir)] if command.topic == WHILE else [one.path for _, one in settings.runs(run_dir)]
        return _of_each(command, name, [one.name for one in each])
    with ExitStack() as stack:
        if command.logged:
            stack.enter_context(runlog.recording(run_dir, name))
        if command.alone:
            stack.enter_context(runlock.holding(run_dir, name))
        return command.call(importlib.import_module(command.module), run_dir)


def _of_each(command: Command, name: str, runs: list[str]) -> int | None:
    """Run a command for each run of a study; one that cannot be given back does not keep the others."""
    found, wrong = list[int | None](), list[str]()
    for run in runs:
        try:
            found.append(_execute(command, name, run))
        except UserError as error:
            wrong.append(str(error))
        if (wrong or found[-1]) and name not in GIVING_BACK:
            break
    if wrong:
        raise UserError("\n".join(wrong))
    return next(filter(None, found), None)


def _defect(error: Exception, command: Command, name: str, run: str) -> str:
    """Describe an unexpected error in a sentence: what, in which line of our files, and what to send us."""
    ours = tuple(str(room) for room in (Path(__file__).parents[1], PROJECT / "plots"))
    stack = traceback.extract_tb(error.__traceback__)
    at = next((frame for frame in reversed(stack) if frame.filename.startswith(ours)), stack[-1])
    what = f"{hidden.sentence(' '.join(repr(error).split()))[:300]} in {Path(at.filename).name}, line {at.lineno}"
    log = f", with run.log of {run}, which has all of it" if command.logged else ""
    return f"a defect of ours in `{name}` ({what}); nothing that was measured is lost. Please report it{log}"


class _Typed:
    """A stream that says `tsduel status` where our sentences say `make status`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(_MAKE.sub("tsduel ", text)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
