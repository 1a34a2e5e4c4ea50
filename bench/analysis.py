"""Tidy, compare and report of a large run that tests/synthetic.py writes."""

import shutil
import sys
from pathlib import Path

from bench.figures import PROJECT, Figure, run

STAGES = ("tidy", "compare", "report")


def stages(work: Path) -> list[Figure]:
    """Return seconds and memory of the three stages, for 20 rounds of 20 minutes with a snapshot a second."""
    home = work / "analysis"
    shutil.rmtree(home, ignore_errors=True)
    (home / "results").mkdir(parents=True)
    run([sys.executable, PROJECT / "tests/synthetic.py", home / "results/synthetic"], cwd=home)
    env = {"PYTHONPATH": str(PROJECT)}
    costs = {s: run([sys.executable, "-m", "tsduel", s, "synthetic"], cwd=home, env=env) for s in STAGES}
    shutil.rmtree(home)
    each = ", ".join(f"{stage} {cost.wall_s:.1f} s" for stage, cost in costs.items())
    return [
        Figure("tidy + compare + report of 20 rounds: seconds", sum(c.wall_s for c in costs.values()), 20, at_most=True,
               unit="s", detail=each),
        Figure("the same: memory", max(c.rss_bytes for c in costs.values()) / 2**20, 1024, at_most=True, unit="MiB",
               detail="the largest resident set of the three"),
    ]  # fmt: skip
