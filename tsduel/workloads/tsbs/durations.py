"""How long a run of databases takes, roughly: for the deadline and the price of a rented machine."""

import math
from collections.abc import Mapping
from typing import Any

from tsduel.core.plan import Duration
from tsduel.targets import databases
from tsduel.workloads.tsbs.schema import TsbsExperiment

# From VictoriaMetrics' "Partition Index Performance Testing" with 4 workers, where the slower version loaded 1,570,957
# samples/s: the slowest light query type (617.68 queries/s), and double-groupby-1 over 100,000 hosts (1.34 queries/s),
# whose time is proportional to the hosts and metrics that it reads.
LIGHT_QUERIES_S = 600
HEAVY_HOST_QUERIES_S = 134_000
HEAVY_METRICS = {"double-groupby-1": 1, "double-groupby-5": 5, "double-groupby-all": 10}
# Measured on two shared cores: 4.3 million lines in 30 s; 10,000 queries in 0.05 s of CPU.
GENERATED_LINES_S = {"": 150_000, "prometheus": 30_000}
GENERATED_QUERIES_S = 100_000
# Measured there: packages, Go, TSBS and two versions take 8 minutes from an empty cache. The rest is for booting.
PREPARE_S = 900
# Canary, wipe, start, stop and sizes. Partitions with a billion samples merge for longer: a minute is a guess.
SOLO_FIXED_S = 8
MERGES_S = 60
MERGED_SAMPLES = 1_000_000_000
# Start, idling and stop of all variants.
DUEL_FIXED_S = 8
# Stop and start of one variant between two sittings; batches with one in flight, beside a loader with several workers.
RESTART_S = 0.3
IN_TURN = 2
# Start, lead-in and stop of one variant, and two reads of its counters, of a second each.
RATES_FIXED_S = 6
RATES_PHASE_S = 2.5
LEAST_QUERIES = 20
# Longer exchanges in the block that is profiled, and the rest of its windows.
PROFILE_S = 90


def duration(sections: Mapping[str, Any], experiment: TsbsExperiment, variants: int, query_count: int) -> Duration:
    """Return times at the rates above, of the slowest database; ``query_count``: the queries of a file."""
    workload, used = sections["workload"], {variant.target for variant in experiment.variants.values()}
    settle_s = experiment.settle.polls * experiment.settle.poll_s + MERGES_S * min(1, workload.samples / MERGED_SAMPLES)
    rates = [_rate(name, workload.scale) for name in experiment.queries.types]
    load_s = workload.samples / min(databases()[name].load_samples_s for name in used)
    solo_s = SOLO_FIXED_S + settle_s + load_s
    alone_s = 0.0
    if experiment.loads_in_turn or experiment.deployed:
        solo_s = 0
        if workload.alone:
            alone_s = SOLO_FIXED_S + settle_s + workload.alone.samples / workload.samples * load_s
    if experiment.queries.solo:
        solo_s += sum(_loop_s(experiment.queries, rate) for rate in rates)
    duel_s, once_s = 0.0, 0.0
    if experiment.duel.enabled:
        # One query at a time is slower than four workers, but not much: the rates are of a busy server.
        passes = 2 if experiment.queries.cache == "warm" else 1
        duel_s = DUEL_FIXED_S + sum(passes * _exchanges_s(experiment, variants / rate) for rate in rates)
        duel_s += experiment.duel.sittings * variants * RESTART_S
        if experiment.loads_in_turn or experiment.duel.batches:
            in_turn_s = variants * IN_TURN * load_s + settle_s
            in_turn_s = in_turn_s if experiment.loads_in_turn else min(experiment.duel.load_s or in_turn_s, in_turn_s)
            in_turn_s += experiment.duel.load_sittings * variants * RESTART_S
            duel_s += in_turn_s
            once_s = in_turn_s if experiment.loads_in_turn else 0.0
    for part, phases in (
        (experiment.mixed, 1),
        (experiment.capacity, len(experiment.capacity.rates) if experiment.capacity else 0),
    ):
        if part:
            duel_s += variants * (RATES_FIXED_S + phases * (part.seconds + RATES_PHASE_S))
    first = variants * solo_s + duel_s
    later = first if experiment.design.reload == "every" else duel_s - once_s
    if experiment.upgrades:
        # A start and a load of each variant on its copy; three times the exchanges, in two duels; the downgrades.
        later = variants * (solo_s + SOLO_FIXED_S) + 3 * duel_s + SOLO_FIXED_S
        first = solo_s + later
        later = first if experiment.design.reload == "every" else later
    made = len(rates) * query_count / GENERATED_QUERIES_S
    lines = workload.lines + sum(part.lines for part in (sections["mixed"], workload.continued, workload.alone) if part)
    files = (lines / GENERATED_LINES_S.get(data.format, GENERATED_LINES_S[""]) for data in workload.data)
    workload_s = math.ceil(experiment.loads * sum(files) + made)
    total = PREPARE_S + workload_s + first + (experiment.design.planned - 1) * later + variants * alone_s
    if experiment.profile:
        total += later + PROFILE_S
    return Duration(prepare_s=PREPARE_S, workload_s=workload_s, block_s=math.ceil(later), total_s=math.ceil(total))


def _rate(name: str, scale: int) -> float:
    heavy = HEAVY_METRICS.get(name)
    return min(LIGHT_QUERIES_S, HEAVY_HOST_QUERIES_S / scale / heavy) if heavy else LIGHT_QUERIES_S


def _loop_s(queries: Any, rate: float) -> float:
    timed = queries.count / rate if queries.count else max(queries.seconds, LEAST_QUERIES / rate)
    return float(timed * (2 if queries.cache == "warm" else 1))


def _exchanges_s(experiment: TsbsExperiment, each: float) -> float:
    duel = experiment.duel
    return max(duel.seconds, min(duel.max_seconds, duel.min_exchanges * each), duel.floor_exchanges * each)
