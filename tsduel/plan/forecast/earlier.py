"""Time and memory of earlier runs with the same load and queries on the same kind of machine.

They are the best estimate for the next run. Prices and deadlines use the estimate of the workload instead,
which does not depend on the runs in results/.
"""

import statistics
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.core.rundir import Run, open_run
from tsduel.stats import calibration
from tsduel.workloads import workload_of

MOST_RUNS = 5  # only the newest, since a machine changes with time


@dataclass(frozen=True)
class Earlier:
    """Medians over `runs` runs: seconds of a measured and of a warm-up block; peak memory of one server.

    ``spreads``: rows of stats/comparison.json of the newest run.
    """

    runs: int
    block_s: float
    warmup_s: float
    rss_bytes: float | None
    newest: str
    spreads: list[dict[str, Any]]


def find(results: Path, plan: Plan, machine_kind: str) -> Earlier | None:
    """Return the figures of the newest runs of this shape on this kind of machine, or None."""
    runs = list(_alike(results, plan, machine_kind))
    if not runs:
        return None
    blocks = [block for run in runs for block in run.blocks if block.ok]
    measured = [block.seconds for block in blocks if block.kind != "warmup"]
    warmups = [block.seconds for block in blocks if block.kind == "warmup"]
    rows = [_rows(run) for run in runs]
    sides = [
        (row["baseline_median"], row["candidate_median"]) for row in chain(*rows) if row["metric"] == "rss_peak_bytes"
    ]
    return Earlier(
        runs=len(runs),
        block_s=statistics.median(measured),
        warmup_s=statistics.median(warmups or measured),
        rss_bytes=max((float(peak) for peak in chain(*sides) if peak), default=None),
        newest=runs[0].path.name,
        spreads=rows[0],
    )


def pace(results: Path, machine_kind: str, but: str) -> float | None:
    """Return how many times as long as planned the blocks of the newest other runs took on this kind of machine.

    None without such a run. Runs at fixed rates say nothing of it. ``but``: the name of the run that asks.
    """
    ratios = []
    others = (run for run in _on(results, machine_kind, but) if not run.plan.mixed_s)
    for run in islice(others, MOST_RUNS):
        took = [block.seconds for block in run.blocks if block.ok and block.kind != "warmup"]
        if run.plan.duration and run.plan.duration.block_s and took:
            ratios.append(statistics.median(took) / run.plan.duration.block_s)
    return statistics.median(ratios) if ratios else None


def _shape(plan: Plan) -> dict[str, Any]:
    return {"kind": plan.kind, "variants": len(plan.variants), **workload_of(plan).alike(plan)}


def _alike(results: Path, plan: Plan, machine_kind: str) -> Iterator[Run]:
    same = (run for run in _on(results, machine_kind, plan.run) if _shape(run.plan) == _shape(plan))
    return islice(same, MOST_RUNS)


def _on(results: Path, machine_kind: str, but: str) -> Iterator[Run]:
    """Yield the runs on this kind of machine that have a measured block, the newest first."""
    # Names begin with the time.
    for path in sorted(results.glob(f"*/{Plan.FILE}"), reverse=True):
        run_dir = path.parent.parent
        if run_dir.is_symlink() or run_dir.name == but:
            continue
        # A run that is damaged or of an older tsduel must not stop this one.
        with suppress(UserError):
            run = open_run(run_dir)
            if calibration.machine_kind(run) == machine_kind and any(
                block.ok and block.kind != "warmup" for block in run.blocks
            ):
                yield run


def _rows(run: Run) -> list[dict[str, Any]]:
    with suppress(UserError):  # as in `_on`
        return list(run.json("stats/comparison.json").get("rows", []))
    return []
