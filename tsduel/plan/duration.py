"""How long a run will take, roughly: for the deadline of a rented machine and its price, not for the report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# VictoriaMetrics' "Partition Index Performance Testing", 4 workers: the slower version's load (1,570,957 samples/s),
# the slowest of the light query types (617.68 queries/s), and double-groupby-1 over 100,000 hosts (1.34 queries/s),
# whose time goes with the hosts and metrics that it reads.
LOAD_SAMPLES_S = 1_500_000
LIGHT_QUERIES_S = 600
HEAVY_HOST_QUERIES_S = 134_000
HEAVY_METRICS = {"double-groupby-1": 1, "double-groupby-5": 5, "double-groupby-all": 10}
# Measured on two shared cores: 4.3 million lines in 30 s.
GENERATED_LINES_S = 150_000
# Measured there too: packages, Go, TSBS and two versions from an empty cache take 8 minutes; the rest is to boot.
PREPARE_S = 900
# Measured: canary, wipe, start, stop and sizes take 12 s, a settle with the wait for the cache reset 10 s. Partitions
# with a billion samples merge for longer: a minute is a guess.
ROUND_FIXED_S = 30
SETTLE_S = 10
MERGES_S = 50
MERGED_SAMPLES = 1_000_000_000
LEAST_QUERIES = 20


def estimate(plan: Mapping[str, Any], rounds: int) -> dict[str, int]:
    """Return whole seconds for the parts of a run: ``prepare_s``, ``workload_s``, ``round_s`` and their ``total_s``.

    ``plan``: workload, queries and settle of plan/experiment.json. ``rounds``: all of them, warm-up included.
    """
    workload, queries = plan["workload"], plan["queries"]
    names = [str(entry["name"]) for entry in queries["types"]]
    phases = sum(_phase_s(name, queries, int(workload["scale"])) for name in names)
    settle_s = SETTLE_S + MERGES_S * min(1, workload["samples"] / MERGED_SAMPLES)
    round_s = ROUND_FIXED_S + settle_s + workload["samples"] / LOAD_SAMPLES_S + phases
    made = len(names) * (queries["count"] or queries["max_count"])
    workload_s = workload["lines"] / GENERATED_LINES_S + made / 10_000
    parts = {"prepare_s": PREPARE_S, "workload_s": math.ceil(workload_s), "round_s": math.ceil(round_s)}
    return {**parts, "total_s": parts["prepare_s"] + parts["workload_s"] + rounds * parts["round_s"]}


def _phase_s(name: str, queries: Mapping[str, Any], scale: int) -> float:
    rate: float = LIGHT_QUERIES_S
    if name in HEAVY_METRICS:
        rate = min(rate, HEAVY_HOST_QUERIES_S / scale / HEAVY_METRICS[name])
    timed = queries["count"] / rate if queries["count"] else max(float(queries["seconds"]), LEAST_QUERIES / rate)
    warm: float = timed if queries["cache"] == "warm" else 0
    # The answers are asked for one at a time, where the timed phase has workers.
    return float(timed + warm + queries["responses"] / rate * min(4, queries["workers"]))
