"""Ansible's usual output, but a failure is told in the words of what failed: to be read, and pasted into a terminal."""  # noqa: INP001 - Ansible loads it

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.plugins.callback.default import CallbackModule as Default

if TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import CallbackTaskResult
    from ansible.playbook.task import Task

DOCUMENTATION = """
name: plain
type: stdout
short_description: Say why it failed in the words of what failed, and nothing after them
description:
  - What ansible.builtin.fail is given is printed as it is. Every other failure is a defect, and printed in full.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""


def _log(level: str, text: str) -> None:
    """Append a line to the run's log, as tsduel/core/runlog.py does, which Ansible's Python may not find."""
    path = os.environ.get("TSDUEL_RUN_LOG", "")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = "".join(letter if letter.isprintable() else " " for letter in text.strip())
    with contextlib.suppress(OSError):
        if path:
            with Path(path).open("a", encoding="utf-8", errors="replace") as stream:
                stream.write(f"{now} {level:<7} build: {line}\n")


class CallbackModule(Default):
    """Prints what `ansible.builtin.fail` is given as it is, and keeps in run.log what was done."""

    CALLBACK_NAME = "plain"

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:  # noqa: FBT001 - Ansible's signature
        """Name the task."""
        _log("INFO", task.get_name())
        super().v2_playbook_on_task_start(task, is_conditional)

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> Any:  # noqa: FBT001, FBT002 - the signature is Ansible's
        """Print why."""
        if not ignore_errors:
            _log("ERROR", f"{result.task.get_name()}: {result.result.get('msg', '')}")
        if result.task.action != "ansible.builtin.fail":
            return super().v2_runner_on_failed(result, ignore_errors)
        whose = f"{result.host.get_name()}: " if os.environ.get("TSDUEL_FLEET") else ""
        return self._display.display(f"\n{whose}" + str(result.result["msg"]).rstrip("\n"), stderr=True)

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> Any:
        """Say that the machine is gone, and how to go on."""
        _log("ERROR", str(result.result["msg"]))
        advice = "what was done there is kept: see that the machine is up, then go on with make tsbs RUN=..."
        return self._display.display(f"\n{result.result['msg'].rstrip()}\n{advice}", stderr=True)

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        """Count what was done, unless that would hide why not all was."""
        if not stats.failures and not stats.dark:
            super().v2_playbook_on_stats(stats)
