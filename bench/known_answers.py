"""What quick.yml finds of differences that we planted, and in one version against itself: each again and again.

    .venv/bin/python -m bench.known_answers [TIMES]

TIMES runs (10 unless given) each of a handler that is 5 % and 3 % slower and of a thread that burns 5 % of a core, and
twice as many of a version against itself, in turns: eight minutes for one of each on a quiet machine of two cores. They
stay in results/, and one that is finished is not repeated.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import PROJECT, Figure
from tsduel.calibrate import planted
from tsduel.core import caches
from tsduel.stats.power import ALPHA

Primary = Mapping[str, Mapping[str, Any]]
TIMES = 10
TIME, CPU = "duel_typical_ms", "duel_cpu_us"
KINDS = ("slow-5", "same", "slow-3", "same-again", "burn-5")
HALF_WIDTH_PCT = 1.2


def main() -> int:
    """Make the runs, and print each figure beside its target."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else TIMES
    repository = planted.repository(caches.directory(os.environ))
    seeds = range(1, times + 1)
    found = {(kind, seed): _run(repository, kind, seed) for seed in seeds for kind in KINDS}
    figures = [*_figures({kind: [found[kind, seed] for seed in seeds] for kind in KINDS}, times)]
    sys.stdout.write("".join(f"{figure}\n" for figure in figures))
    return 0 if all(figure.met for figure in figures) else 1


def _run(repository: Path, kind: str, seed: int) -> Primary:
    """Return the primary rows of a run, by metric; made unless it is there."""
    run_dir = PROJECT / f"results/known-{kind}-{seed}"
    if not (run_dir / "stats/comparison.json").exists():
        sides = ["AA=1"] if kind.startswith("same") else [f"CANDIDATE=git:{repository}@{kind}"]
        words = ["make", "tsbs", "EXPERIMENT=experiments/quick.yml", f"BASELINE=git:{repository}@base", *sides]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
        said = subprocess.run(
            [*words, f"RUN={run_dir.name}", f"SET=design.seed={seed}", "VIEW=plain"],
            cwd=PROJECT, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        ).stdout  # fmt: skip
        # An A/A run that has not passed is a result as well.
        if not (run_dir / "stats/comparison.json").exists():
            sys.exit(f"bench: {run_dir.name} did not come to its end:\n{said[-2000:]}")
    rows = json.loads((run_dir / "stats/comparison.json").read_text(encoding="utf-8"))["rows"]
    primary = {row["metric"]: row for row in rows if row["family"] == "primary"}
    sys.stderr.write(f"{run_dir.name}: {', '.join(map(_said, primary.values()))}\n")
    return primary


def _said(row: Mapping[str, Any]) -> str:
    return (
        f"{row['metric']} {row['change_pct']:+.2f} % ({row['lo_pct']:+.2f} to {row['hi_pct']:+.2f}), {row['verdict']}"
    )


def _figures(found: Mapping[str, Sequence[Primary]], times: int) -> list[Figure]:
    def share(name: str, kind: str, is_found: Callable[[Primary], bool], of_ten: int, detail: str) -> Figure:
        return Figure(name, sum(map(is_found, found[kind])), of_ten * times / 10, at_most=False, unit=f"of {times}",
                      detail=detail)  # fmt: skip

    def flagged(rows: Primary) -> bool:
        return any(row["p_adj"] <= ALPHA for row in rows.values())

    same = [*found["same"], *found["same-again"]]
    widths = {m: [(r[m]["hi_pct"] - r[m]["lo_pct"]) / 2 for rs in found.values() for r in rs] for m in (TIME, CPU)}
    return [
        share("a handler 5 % slower is called a regression", "slow-5",
              lambda rows: any(row["verdict"] == "regression" for row in rows.values()), 9, _median(found["slow-5"])),
        share("one 3 % slower is flagged", "slow-3", flagged, 9, _median(found["slow-3"])),
        share("5 % of a core in the background, by CPU", "burn-5",
              lambda rows: rows[CPU]["verdict"] == "regression", 10, _median(found["burn-5"])),
        Figure("a version against itself is flagged", sum(map(flagged, same)), max(1, len(same) // 10), at_most=True,
               unit=f"of {len(same)}", detail=_median(same)),
        *(Figure(f"half-width of {name}", statistics.median(widths[metric]), HALF_WIDTH_PCT, at_most=True, unit="%",
                 detail=f"median; the widest {max(widths[metric]):.2f} %")
          for name, metric in (("typical, all types", TIME), ("CPU an operation", CPU))),
    ]  # fmt: skip


def _median(runs: Sequence[Primary]) -> str:
    parts = (f"{name} {statistics.median(rows[metric]['change_pct'] for rows in runs):+.2f} %"
             for name, metric in (("time", TIME), ("CPU", CPU)))  # fmt: skip
    return f"median {', '.join(parts)}"


if __name__ == "__main__":
    sys.exit(main())
