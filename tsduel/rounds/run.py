"""The fourth stage: the rounds, on this machine or watched from it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tsduel.core import rundir
from tsduel.core.project import PROJECT
from tsduel.places import place
from tsduel.rounds import attend as rounds
from tsduel.rounds.view import local, show

if TYPE_CHECKING:
    from pathlib import Path


def main(run_dir: Path) -> int:
    """Show the rounds on a terminal, or become scripts/run-rounds without one; elsewhere: attend the rounds there."""
    if not place.is_local(rundir.open_run(run_dir).plan):
        return rounds.main(run_dir)
    driver = PROJECT / "scripts" / "run-rounds"
    if show.wants_screen(os.environ):
        return local.main(driver, run_dir)
    return os.execv(driver, [str(driver), str(run_dir)])  # noqa: S606 - its exit code and signals are ours
