"""Tidy, compare and report of a large run that tests/synthetic.py writes."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.figures import PROJECT, Cost, Figure, at_most, run

COMPARED = {12: 3.0, 20: 5.0}
"""Seconds that compare may take, by number of blocks: all 2,048 sign vectors of 12, 10,000 drawn ones of 20."""
STAGES = ("tidy", "compare", "report")


def stages(work: Path) -> Iterator[Figure]:
    """Yield seconds and memory of the three stages, for 20 rounds of 20 minutes with a snapshot a second."""
    home = work / "analysis"
    shutil.rmtree(home, ignore_errors=True)
    (home / "results").mkdir(parents=True)

    def costs(name: str, *shape: str, stages: tuple[str, ...]) -> list[Cost]:
        run([sys.executable, PROJECT / "tests/synthetic.py", home / "results" / name, *shape], cwd=home)
        env = {"PYTHONPATH": str(PROJECT)}
        return [run([sys.executable, "-m", "tsduel", stage, name], cwd=home, env=env) for stage in stages]

    large = costs("synthetic", stages=STAGES)
    each = ", ".join(f"{stage} {cost.wall_s:.1f} s" for stage, cost in zip(STAGES, large, strict=True))
    yield at_most("tidy + compare + report of 20 rounds: seconds", sum(cost.wall_s for cost in large), 20, "s", each)
    memory = max(cost.rss_bytes for cost in large) / 2**20
    yield at_most("the same: memory", memory, 1024, "MiB", "the largest resident set of the three")
    for blocks, target in COMPARED.items():
        cost = costs(f"blocks{blocks}", "--blocks", str(blocks), "--exchanges", "200", stages=("tidy", "compare"))[-1]
        yield at_most(f"compare of {blocks} blocks: seconds", cost.wall_s, target, "s", "more than 60 metrics")
    shutil.rmtree(home)
