"""The fourth stage: the rounds, on this machine or watched from it."""

from __future__ import annotations

import os
from pathlib import Path

from tsduel import place, rundir
from tsduel.remote import rounds

PROJECT = Path(__file__).resolve().parent.parent


def main(run_dir: Path) -> int:
    """Become scripts/run-rounds, so that no Python is there while a round runs; elsewhere: attend the rounds there."""
    if place.is_local(rundir.open_run(run_dir).plan):
        driver = str(PROJECT / "scripts" / "run-rounds")
        os.execv(driver, [driver, str(run_dir)])  # noqa: S606 - its exit code and signals are ours
    return rounds.main(run_dir)
