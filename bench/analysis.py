"""Tidy, compare and report of a large run that tests/synthetic.py writes."""

import shutil
import sys
from pathlib import Path

from bench.figures import PROJECT, Figure, run

JUDGED = {12: 3.0, 20: 5.0}
"""Seconds that compare may take, by number of blocks."""
STAGES = ("tidy", "compare", "report")


def stages(work: Path) -> list[Figure]:
    """Return seconds and memory of the three stages, for 20 rounds of 20 minutes with a snapshot a second."""
    home = work / "analysis"
    shutil.rmtree(home, ignore_errors=True)
    (home / "results").mkdir(parents=True)
    run([sys.executable, PROJECT / "tests/synthetic.py", home / "results/synthetic"], cwd=home)
    env = {"PYTHONPATH": str(PROJECT)}
    costs = {s: run([sys.executable, "-m", "tsduel", s, "synthetic"], cwd=home, env=env) for s in STAGES}
    judged = [_judging(home, env, blocks, target) for blocks, target in JUDGED.items()]
    shutil.rmtree(home)
    each = ", ".join(f"{stage} {cost.wall_s:.1f} s" for stage, cost in costs.items())
    return [
        Figure("tidy + compare + report of 20 rounds: seconds", sum(c.wall_s for c in costs.values()), 20, at_most=True,
               unit="s", detail=each),
        Figure("the same: memory", max(c.rss_bytes for c in costs.values()) / 2**20, 1024, at_most=True, unit="MiB",
               detail="the largest resident set of the three"),
        *judged,
    ]  # fmt: skip


def _judging(home: Path, env: dict[str, str], blocks: int, target: float) -> Figure:
    """Return seconds of compare alone: all 2,048 sign vectors of 12 blocks, 10,000 drawn ones of 20."""
    name = f"blocks{blocks}"
    shape = ["--blocks", str(blocks), "--ticks", "20"]
    run([sys.executable, PROJECT / "tests/synthetic.py", home / "results" / name, *shape], cwd=home)
    run([sys.executable, "-m", "tsduel", "tidy", name], cwd=home, env=env)
    cost = run([sys.executable, "-m", "tsduel", "compare", name], cwd=home, env=env)
    return Figure(f"compare of {blocks} blocks: seconds", cost.wall_s, target, at_most=True, unit="s",
                  detail="more than 60 metrics")  # fmt: skip
