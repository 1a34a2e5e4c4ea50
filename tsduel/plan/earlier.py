"""What earlier runs of the same kind took: on the same kind of machine, with the same load and the same queries.

A run's own figures are the best estimate of the next one's. What has a price and a deadline is reckoned by the workload
alone, which does not depend on what happens to lie in results/.
"""

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.core.rundir import Run, open_run
from tsduel.stats import calibration
from tsduel.workloads import workload_of

MOST_RUNS = 5
"""The newest so many are asked: what a machine did a year ago is of no use."""


@dataclass(frozen=True)
class Earlier:
    """Medians over `runs` runs: seconds of a measured block and of a warm-up, and bytes of memory of one server.

    ``spreads`` are rows of the newest one's stats/comparison.json, by metric and query type.
    """

    runs: int
    block_s: float
    warmup_s: float
    rss_bytes: float | None
    newest: str
    spreads: dict[tuple[str, str], dict[str, Any]]


def look(results: Path, plan: Plan, machine_kind: str) -> Earlier | None:
    """Return what the newest runs of this shape on this kind of machine took; None where there is none."""
    found = list(_alike(results, plan, machine_kind))
    measured = [block.seconds for run in found for block in run.blocks if block.ok and block.kind != "warmup"]
    if not measured:
        return None
    warm = [block.seconds for run in found for block in run.blocks if block.ok and block.kind == "warmup"]
    rows = [_rows(run) for run in found]
    peaks = [
        float(row[side])
        for of_run in rows
        for row in of_run
        if row["metric"] == "rss_peak_bytes"
        for side in ("baseline_median", "candidate_median")
        if row[side]
    ]
    each = statistics.median(measured)
    return Earlier(
        runs=len(found),
        block_s=each,
        warmup_s=statistics.median(warm) if warm else each,
        rss_bytes=max(peaks, default=None),
        newest=found[0].path.name,
        spreads={(row["metric"], row["query_type"]): row for row in rows[0]},
    )


def _shape(plan: Plan) -> dict[str, Any]:
    return {"kind": plan.kind, "variants": len(plan.variants), **workload_of(plan).alike(plan)}


def _alike(results: Path, plan: Plan, machine_kind: str) -> Iterator[Run]:
    wanted, found = _shape(plan), 0
    # Names begin with the time, so the newest comes first.
    for path in sorted(results.glob(f"*/{plan.FILE}"), reverse=True):
        run_dir = path.parent.parent
        if run_dir.is_symlink() or run_dir.name == plan.run:
            continue
        try:
            run = open_run(run_dir)
            same = (
                not run.plan.imported and _shape(run.plan) == wanted and calibration.machine_kind(run) == machine_kind
            )
            if same and any(block.ok and block.kind != "warmup" for block in run.blocks):
                yield run
                found += 1
        # Somebody's half-copied or ancient run is no reason for this one not to start.
        except UserError:
            continue
        if found == MOST_RUNS:
            return


def _rows(run: Run) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads((run.path / "stats/comparison.json").read_text(encoding="utf-8"))[
            "rows"
        ]
        return [row for row in rows if {"metric", "query_type", "baseline_median", "candidate_median"} <= set(row)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
