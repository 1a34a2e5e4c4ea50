"""How soon the command line answers: its help, and what is mistyped."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import PROJECT, Figure, at_most

TIMES = 7
TARGETS_S = {"--help": 0.3, "plan CANDIDTE=v1.134.0": 0.5, "plan EXPERIMENT=quik": 0.5, "raport": 0.5}


def answers(_: Path) -> Iterator[Figure]:
    """Yield the median seconds of each command."""
    for words, target in TARGETS_S.items():
        took = []
        for _attempt in range(TIMES):
            begin = time.monotonic()
            command = [sys.executable, "-m", "tsduel", *words.split()]
            subprocess.run(command, cwd=PROJECT, capture_output=True, check=False)
            took.append(time.monotonic() - begin)
        yield at_most(f"`tsduel {words}`", statistics.median(took), target, "s", f"the median of {TIMES}")
