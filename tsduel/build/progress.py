"""Shows a build: a bar on a terminal, else a line for each program that took a while."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tsduel.core.plan import Plan
from tsduel.core.wording import printable

TASK = "task: "
"""Begins a line of ansible/plugins/plain.py with the name of a task that begins."""
_STEP = "Build, unless the cache has it, "
_LONG_S = 2.0


@dataclass
class Shown:
    """Takes the lines of ansible-playbook, and moves the bar."""

    plan: Plan
    bar: Progress
    step: str = ""
    since: float = field(default_factory=time.monotonic)

    def take(self, line: str) -> None:
        """Show a line, or the step that it begins; it may be what another machine says."""
        line = printable(line)
        if not line.startswith(TASK):
            self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif title := line.partition(_STEP)[2]:
            self.begin(self._named(title))

    def begin(self, step: str) -> None:
        """End the step before, and begin the next; "" after the last."""
        took = time.monotonic() - self.since
        if self.step and took > _LONG_S:
            self.bar.console.print(f"{self.step}: {took:.0f} s", markup=False, highlight=False)
        for task in self.bar.task_ids:
            self.bar.update(task, advance=1, description=step)
        self.step, self.since = step, time.monotonic()

    def _named(self, title: str) -> str:
        labels = {variant.name: variant.label for variant in self.plan.variants}
        labels |= {"agent": "the program that measures", "tsbs": "TSBS"}
        return labels.get(title, title)


@contextmanager
def shown(plan: Plan) -> Iterator[Shown]:
    """Show a bar while a build goes on."""
    on_terminal = sys.stderr.isatty() and not os.environ.get("VIEW") and os.environ.get("TERM", "dumb") != "dumb"
    columns = (TextColumn("building"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True, disable=not on_terminal) as bar:
        # What the machine needs, our own program, TSBS, and the variants.
        bar.add_task("what the machine needs", total=2 + bool(plan.tsbs) + len(plan.variants))
        made = Shown(plan, bar)
        yield made
        made.begin("")
