"""What judgements of the yardstick took, and the settings with which they would take the minutes that are meant.

    .venv/bin/python -m bench.pace

It reads the runs in results/: a line for each judge of each pair. Whoever changes a setting of pairs.yaml by it raises
the PROTOCOL of the yardstick, since what a judge does has changed.
"""

import statistics
import sys
from collections.abc import Sequence

import pandas as pd

from bench import yardstick
from bench.pairs import truth
from tsduel.core.rundir import Run, open_run

PHASES = "tidy/phases.csv"


def main() -> int:
    """Print a line for each judgement that was made here."""
    book = truth()
    for name, pair in book.pairs.items():
        for judge in yardstick.JUDGES:
            if runs := [open_run(path) for path in yardstick.runs(name, judge) if (path / PHASES).exists()]:
                took = f"{yardstick.minutes(*runs):.1f} minutes; {book.minutes:g} with {fitting(runs, book.minutes)}"
                sys.stdout.write(f"{pair.load}, {judge}: {took} ({name})\n")
    return 0


def fitting(runs: Sequence[Run], minutes: float) -> str:
    """Return how many blocks of a duel, or queries of sides that ran alone, would have taken so many minutes."""
    plan = runs[0].plan
    if plan.duel and plan.duel.enabled:
        took = {block.block: block.ended - block.started for block in runs[0].blocks}
        warm = sum(took[number] for number in runs[0].warmups & took.keys())
        each = statistics.mean(seconds for number, seconds in took.items() if number not in runs[0].warmups)
        return f"design.blocks={max(1, (60 * minutes - warm) / each):.0f}"
    phases = pd.concat(pd.read_csv(run.path / PHASES) for run in runs)
    phases = phases[phases["phase"] == "query"]
    asked_s = float((phases["end"] - phases["begin"]).sum())
    left_s = 60 * (minutes - yardstick.minutes(*runs)) + asked_s
    count = (plan.queries.count or 0) if plan.queries else 0
    return f"queries.count={max(1, count * left_s / asked_s):.0f}"


if __name__ == "__main__":
    sys.exit(main())
