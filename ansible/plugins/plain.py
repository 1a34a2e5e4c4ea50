"""Output of Ansible: a line a task; with VIEW=verbose its own lines, too."""  # noqa: INP001 - Ansible loads it

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.plugins.callback.default import CallbackModule as Default

if TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import CallbackTaskResult as Result
    from ansible.playbook.task import Task

DOCUMENTATION = """
name: plain
type: stdout
short_description: Print tasks and failures
description:
  - What a command or ansible.builtin.fail says is printed as it is. Another failure is a defect, and printed in full.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""


VERBOSE = os.environ.get("VIEW", "").strip() == "verbose"


def _log(level: str, text: str) -> None:
    """Append a line to the run's log like tsduel/core/runlog.py, which Ansible's Python may not find."""
    path = os.environ.get("TSDUEL_RUN_LOG")
    line = "".join(letter if letter.isprintable() else " " for letter in text.strip())
    if path:
        with contextlib.suppress(OSError), Path(path).open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {level:<7} build: {line}\n")


class CallbackModule(Default):
    """Prints why a command has failed in its own words, and writes tasks and failures to run.log."""

    CALLBACK_NAME = "plain"
    logged: Task | None = None

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:  # noqa: FBT001 - Ansible's signature
        """Name the task."""
        if VERBOSE:
            super().v2_playbook_on_task_start(task, is_conditional)
        self._display.display(f"task: {task.get_name()}")

    def v2_runner_on_ok(self, result: Result) -> None:
        """Write the task into run.log, once for all machines: one that was skipped was not done."""
        if self.logged != result.task:
            self.logged = result.task
            _log("INFO", result.task.get_name())
        if VERBOSE:
            super().v2_runner_on_ok(result)

    def v2_runner_on_failed(self, result: Result, ignore_errors: bool = False) -> Any:  # noqa: FBT001, FBT002 - same
        """Print the reason: what a command said, or was said of it by ansible.builtin.fail."""
        reason = str(result.result.get("stderr") or result.result.get("msg", "")).rstrip("\n")
        if not ignore_errors:
            _log("ERROR", f"{result.task.get_name()}: {reason}")
        if result.task.action not in {"ansible.builtin.command", "ansible.builtin.fail"}:
            return super().v2_runner_on_failed(result, ignore_errors)
        host = f"{result.host.get_name()}: " if os.environ.get("TSDUEL_FLEET") else ""
        return self._display.display(f"\n{host}{reason}", stderr=True)

    def v2_runner_on_unreachable(self, result: Result) -> Any:
        """Print that the machine is gone, and the next step."""
        _log("ERROR", str(result.result["msg"]))
        advice = "what was done there is kept: see that the machine is up, then go on with make tsbs RUN=..."
        return self._display.display(f"\n{result.result['msg'].rstrip()}\n{advice}", stderr=True)

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        """Print the counts, except after a failure, whose reason must stay last."""
        if VERBOSE and not stats.failures and not stats.dark:
            super().v2_playbook_on_stats(stats)


def _nothing(*_: object) -> None:
    """Print nothing of an event that is no step and no failure."""


if not VERBOSE:
    for event in ("playbook_on_play_start", "playbook_on_include", "runner_item_on_ok"):
        setattr(CallbackModule, f"v2_{event}", _nothing)
