"""What a run needs of a machine, reckoned before it is there: bytes of disk, and roughly of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsduel.question.experiment import Experiment
from tsduel.workloads.gobench import plan as go_plan
from tsduel.workloads.tsbs import queries as tsbs_queries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tsduel.question.experiment import Workload
    from tsduel.question.read import AnyExperiment

# For the estimate of disk, per sample or query; each well above what was measured (docs/operating.md).
DATA_BYTES_A_LINE = 40
QUERY_BYTES = 400
DATABASE_BYTES_A_SAMPLE = 6
DATABASE_BYTES_A_SERIES = 3000
DATABASE_BYTES_LEAST = 300 << 20
ROUND_BYTES = 10 << 20
# A server with 4,000 series had 286 MB at most (results/example); beyond it a series is an index entry and caches.
MEMORY_BYTES_LEAST = 400 << 20
MEMORY_BYTES_A_SERIES = 4000
SERIES_A_HOST = 10


def lines(workload: Workload) -> int:
    """Return how many lines of data a workload has, one a host and interval."""
    return workload.window_s // workload.interval_s * workload.scale


def disk(asked: AnyExperiment, variants: int) -> dict[str, int]:
    """Return plan/experiment.json's ``estimate``: bytes of what lies in the cache and in results/."""
    if not isinstance(asked, Experiment):
        return go_plan.disk(asked)
    workload, queries = asked.workload, asked.queries
    samples = lines(workload) * tsbs_queries.SAMPLES_PER_LINE[workload.use_case]
    blocks = asked.design.blocks + asked.design.warmup_blocks + asked.noise.spares(asked.design.blocks)
    return {
        "data_bytes": lines(workload) * DATA_BYTES_A_LINE,
        "query_bytes": len(queries.types) * ((queries.count or queries.max_count) + queries.responses) * QUERY_BYTES,
        "database_bytes": max(
            DATABASE_BYTES_LEAST,
            samples * DATABASE_BYTES_A_SAMPLE + workload.scale * SERIES_A_HOST * DATABASE_BYTES_A_SERIES,
        ),
        "results_bytes": blocks * variants * ROUND_BYTES,
    }


def memory(workload: Mapping[str, Any] | None) -> int | None:
    """Return bytes that the server will roughly need for the ``workload`` of a plan; None for Go benchmarks."""
    if not workload:
        return None
    return MEMORY_BYTES_LEAST + int(workload["scale"]) * SERIES_A_HOST * MEMORY_BYTES_A_SERIES
