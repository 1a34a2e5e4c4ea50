"""What earlier runs of the same kind took: on the same kind of machine, with the same load and the same queries.

A run's own figures are the best estimate of the next one's. For what has a price and a deadline there is
tsduel.plan.duration, which does not depend on what happens to lie in results/.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tsduel.core.errors import UserError
from tsduel.core.rundir import open_run
from tsduel.stats import aa

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tsduel.core.rundir import Run

MOST_RUNS = 5
"""The newest so many are asked: what a machine did a year ago is of no use."""
SHAPE = {
    "workload": ("use_case", "scale", "start", "end", "interval", "workers", "batch_size"),
    "queries": ("workers", "count", "seconds", "cache", "responses"),
    "settle": ("mode", "polls", "poll_s"),
    "gobench": ("module", "package", "files", "seconds", "count", "cpu"),
}
"""What a round's length depends on, but for the versions. The kind of machine is compared beside it."""


@dataclass(frozen=True)
class Earlier:
    """Medians over the rounds of `runs` runs: seconds of a measured round and of a warm-up, and the memory it took."""

    runs: int
    round_s: float
    warmup_s: float
    rss_bytes: float | None


def shape(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two plans must share for a round of one to last as long as a round of the other."""
    found: dict[str, Any] = {
        section: {name: (plan.get(section) or {}).get(name) for name in names} for section, names in SHAPE.items()
    }
    found["types"] = sorted(entry["name"] for entry in (plan.get("queries") or {}).get("types", []))
    found["bench"] = sorted({str(variant.get("bench", "")) for variant in plan["variants"]})
    return {"kind": plan["kind"], **found}


def look(results: Path, plan: Mapping[str, Any], machine_kind: str) -> Earlier | None:
    """Return what the newest runs of this shape on this kind of machine took; None where there is none."""
    found = list(_alike(results, plan, machine_kind))
    measured = [r.ended - r.started for run in found for r in run.rounds if r.ok and r.kind != "warmup"]
    if not measured:
        return None
    warm = [r.ended - r.started for run in found for r in run.rounds if r.ok and r.kind == "warmup"]
    peaks = [peak for run in found for peak in _peaks(run)]
    each = statistics.median(measured)
    return Earlier(
        runs=len(found),
        round_s=each,
        warmup_s=statistics.median(warm) if warm else each,
        rss_bytes=max(peaks) if peaks else None,
    )


def _alike(results: Path, plan: Mapping[str, Any], machine_kind: str) -> Iterator[Run]:
    wanted, found = shape(plan), 0
    # Names begin with the time, so the newest comes first.
    for path in sorted(results.glob("*/plan/experiment.json"), reverse=True):
        run_dir = path.parent.parent
        if run_dir.is_symlink() or run_dir.name == plan["run"]:
            continue
        try:
            run = open_run(run_dir)
            same = not run.plan.get("imported") and shape(run.plan) == wanted and aa.machine_kind(run) == machine_kind
            if same and any(r.ok and r.kind != "warmup" for r in run.rounds):
                yield run
                found += 1
        # Somebody's half-copied or ancient run is no reason for this one not to start.
        except (UserError, KeyError, TypeError, AttributeError):
            continue
        if found == MOST_RUNS:
            return


def _peaks(run: Run) -> list[float]:
    try:
        rows = json.loads((run.path / "stats/comparison.json").read_text(encoding="utf-8"))["rows"]
        mine = [row for row in rows if row["metric"] == "rss_peak_bytes"]
        return [float(row[side]) for row in mine for side in ("baseline_median", "candidate_median") if row[side]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
