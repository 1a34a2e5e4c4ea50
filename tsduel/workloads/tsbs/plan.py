"""The half of the TSBS workload that a plan is made with: data and queries by key, and what they take.

Durations are rough: for the deadline of a rented machine and its price.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar

from tsduel.core.metrics import METRICS, Metric
from tsduel.core.plan import Continued, DataFile, Duration, Estimate, Mixed, Plan, Queries, QueryType, Tsbs, Workload
from tsduel.core.plan import Variant as PlannedVariant
from tsduel.core.sections import Rates, WorkloadAsked
from tsduel.targets import Database, databases
from tsduel.targets.compared import compared
from tsduel.targets.database import Program
from tsduel.workloads.experiment import Experiment, Variant
from tsduel.workloads.tsbs import queries as tsbs_queries
from tsduel.workloads.tsbs.schema import TsbsExperiment, behind

TSBS_VERSION = "v0.0.0-20230921131859-37fced794d56"

# Bytes of disk, each well above what was measured (docs/operating.md); by format of data and form of queries, "" for
# any other one.
DATA_BYTES_A_LINE = {"": 40, "prometheus": 100}
QUERY_BYTES = {"": 400, "prometheus": 3000}
SOLO_BYTES = 8 << 20
EXCHANGE_BYTES = 16
# Of a sample in the queue of an agent, should it take all before the first is stored: packed they are 1 to 2.
QUEUED_BYTES = 4

# VictoriaMetrics' "Partition Index Performance Testing", 4 workers: the slower version loaded 1,570,957 samples/s;
# the slowest of the light query types (617.68 queries/s), and double-groupby-1 over 100,000 hosts (1.34 queries/s),
# whose time goes with the hosts and metrics that it reads.
LIGHT_QUERIES_S = 600
HEAVY_HOST_QUERIES_S = 134_000
HEAVY_METRICS = {"double-groupby-1": 1, "double-groupby-5": 5, "double-groupby-all": 10}
# Measured on two shared cores: 4.3 million lines in 30 s; 10,000 queries in 0.05 s of CPU.
GENERATED_LINES_S = {"": 150_000, "prometheus": 30_000}
GENERATED_QUERIES_S = 100_000
# Measured there too: packages, Go, TSBS and two versions from an empty cache take 8 minutes; the rest is to boot.
PREPARE_S = 900
# Canary, wipe, start, stop and sizes; partitions with a billion samples merge for longer: a minute is a guess.
SOLO_FIXED_S = 8
MERGES_S = 60
MERGED_SAMPLES = 1_000_000_000
# Start, idling and stop of all.
DUEL_FIXED_S = 8
# Start, lead-in and stop of one, and both looks at its counters, of a second each.
RATES_FIXED_S = 6
RATES_PHASE_S = 2.5
LEAST_QUERIES = 20
# Longer exchanges in the block that is profiled, and the rest of its windows.
PROFILE_S = 90

RatesOf = TypeVar("RatesOf", bound=Rates)


class TsbsPlanned:
    """Databases under TSBS's load."""

    kind: ClassVar[str] = "tsbs"
    experiment: ClassVar[type[Experiment]] = TsbsExperiment
    registered: ClassVar[tuple[Metric, ...]] = tuple(METRICS.values())
    unwritten: ClassVar[Mapping[str, Any] | None] = None

    def program(self, of: Experiment | Plan, variant: Variant | PlannedVariant, role: str) -> Program:  # noqa: ARG002 - of the protocol
        """Return the program that has this role in the variant's database."""
        return databases()[variant.target].programs[role]

    def variant_part(self, asked: Experiment, variant: Variant) -> dict[str, str]:  # noqa: ARG002 - of the protocol
        """Return nothing."""
        return {}

    def sections(self, asked: Experiment, variants: int) -> dict[str, Any]:
        """Return workload, queries, duel, settle, tsbs, targets, report and estimate."""
        asked = _tsbs(asked)
        used = _databases(asked)
        data = {
            name: getattr(asked.workload, name) for name in ("use_case", "scale", "start", "end", "interval", "seed")
        } | {"tsbs": TSBS_VERSION}
        # What TSBS itself makes keeps the key that it has in caches.
        changed = {} if asked.workload.data_kind == "regular" else {"data_kind": asked.workload.data_kind}
        files = {
            database.target.data_format: _key(data | changed | {"format": database.target.data_format})
            for database in used
        }
        lines = asked.workload.window_s // asked.workload.step_s * asked.workload.scale
        more = _continued(asked, data, used, asked.workload.window_s) if asked.upgrades else None
        count = _query_count(asked)
        alike = len(used) > 1
        types = [
            _query_type(asked, name, number, data | {"count": count} | ({"alike": True} if alike else {}), used)
            for number, name in enumerate(asked.queries.types)
        ]
        return {
            "tsbs": Tsbs(version=TSBS_VERSION),
            "targets": {database.target.name: database.target for database in used},
            "workload": Workload(
                **asked.workload.model_dump(),
                interval_s=asked.workload.step_s,
                lines=lines,
                samples=lines * tsbs_queries.SAMPLES_PER_LINE[asked.workload.use_case],
                estimated_bytes=max(lines * _of(DATA_BYTES_A_LINE, name) for name in files),
                data=tuple(DataFile(format=name, key=key) for name, key in files.items()),
                continued=more,
            ),
            "queries": Queries(
                **asked.queries.model_dump(exclude={"types", "shared_seed"}),
                types=tuple(types),
                alike=alike,
                windowed=tuple(_windowed(asked, data | {"count": count}, used)) if asked.upgrades else (),
            ),
            "duel": asked.duel,
            "settle": asked.settle,
            "mixed": _mixed(asked, data | changed, used),
            "capacity": asked.capacity and _typed(asked.capacity, asked),
            "report": asked.report,
            "profile": asked.profile,
            "estimate": _estimate(asked, used, variants, count, lines),
        }

    def duration(self, sections: Mapping[str, Any], asked: Experiment, variants: int) -> Duration:
        """Return times at the rates above, of the slowest database that is known."""
        asked, workload = _tsbs(asked), sections["workload"]
        settle_s = asked.settle.polls * asked.settle.poll_s + MERGES_S * min(1, workload.samples / MERGED_SAMPLES)
        rates = [_rate(name, workload.scale) for name in asked.queries.types]
        load_s = workload.samples / min(database.load_samples_s for database in _databases(asked))
        solo_s = SOLO_FIXED_S + settle_s + load_s
        if asked.queries.solo:
            solo_s += sum(_loop_s(asked.queries, rate) for rate in rates)
        duel_s = 0.0
        if asked.duel.enabled:
            # One at a time is slower than four workers, but not by so much: the rates are of a busy server.
            most = asked.queries.cache == "warm"
            duel_s = DUEL_FIXED_S + sum((1 + most) * _exchanges_s(asked, variants / rate) for rate in rates)
        for at, phases in ((asked.mixed, 1), (asked.capacity, len(asked.capacity.rates) if asked.capacity else 0)):
            if at:
                duel_s += variants * (RATES_FIXED_S + phases * (at.seconds + RATES_PHASE_S))
        first = variants * solo_s + duel_s
        later = first if asked.design.reload == "every" else duel_s
        if asked.upgrades:
            # A start and a load of each on its copy; three times the exchanges, in two duels; the downgrades.
            later = variants * (solo_s + SOLO_FIXED_S) + 3 * duel_s + SOLO_FIXED_S
            first = solo_s + later
            later = first if asked.design.reload == "every" else later
        made = len(rates) * _query_count(asked) / GENERATED_QUERIES_S
        behind_it = (sections["mixed"], workload.continued)
        lines = workload.lines + sum(more.lines for more in behind_it if more)
        files = (lines / _of(GENERATED_LINES_S, data.format) for data in workload.data)
        workload_s = math.ceil(sum(files) + made)
        total = PREPARE_S + workload_s + first + (asked.design.planned - 1) * later
        if asked.profile:
            total += later + PROFILE_S
        return Duration(prepare_s=PREPARE_S, workload_s=workload_s, block_s=math.ceil(later), total_s=math.ceil(total))

    def memory(self, workload: WorkloadAsked | None, variants: Iterable[tuple[str, int]]) -> int | None:
        """Return bytes by the number of series and components."""
        if workload is None:
            return None
        series = workload.scale * tsbs_queries.SERIES_A_HOST
        return max(databases()[name].needs.memory(series, components) for name, components in variants)

    def described(self, plan: Plan) -> list[str]:
        """Return the load, and the parts of a block."""
        workload, queries, duel = plan.workload, plan.queries, plan.duel
        if workload is None or queries is None or duel is None:
            return []
        loads = [load for cell in plan.cells if (load := plan.at(cell.name).workload)]
        samples, hosts = (_range(getattr(load, name) for load in loads) for name in ("samples", "scale"))
        parts = [f"load with {workload.workers} workers"]
        if queries.solo:
            parts.append(f"queries with {queries.workers} workers")
        if plan.design.start_from == "baseline" and workload.continued:
            size = (
                f"{workload.samples:,} samples of {workload.scale:,} hosts, then {workload.continued.samples:,} on top"
            )
            steps = (
                f"{duel.seconds:g} s of exchanges a type, the load on top, exchanges over old and new data, and back"
            )
            return [
                f"workload  {size}; {len(queries.types)} query types",
                f"block     {plan.variants[0].label} loads, each starts on a copy of its data: {steps}",
            ]
        alone = f"each alone: {', '.join(parts)}"
        beside = f"; side by side: {duel.seconds:g} s of exchanges a type" if duel.enabled else ""
        return [
            f"workload  {samples} samples of {hosts} hosts, {len(plan.query_types)} query types",
            f"block     {alone}{beside}",
            *_at_rates(plan),
        ]

    def alike(self, plan: Plan) -> dict[str, Any]:
        """Return load, queries, duel and settle, but for seeds and keys."""
        workload, queries = plan.workload, plan.queries
        return {
            "workload": workload and workload.model_dump(exclude={"data", "seed", "estimated_bytes"}),
            "queries": queries and queries.model_dump(exclude={"types", "seed", "max_count"}),
            "types": sorted(plan.query_types),
            "duel": plan.duel and plan.duel.model_dump(exclude={"most_differences", "counters"}),
            "settle": plan.settle and plan.settle.model_dump(exclude={"timeout_s"}),
            "mixed": plan.mixed and plan.mixed.model_dump(exclude={"data"}),
            "capacity": plan.capacity and plan.capacity.model_dump(),
            "reload": plan.design.reload,
            # So that what was kept of other runs keeps its name.
            **({"start_from": plan.design.start_from} if plan.design.start_from != "empty" else {}),
            **({"databases": " and ".join(v.target for v in plan.variants)} if plan.crosses else {}),
            **({"cells": {cell.name: cell.set for cell in plan.cells}} if plan.sweeps else {}),
        }


def _range(values: Iterable[int]) -> str:
    """Return 100, or 100 to 10,000."""
    found = sorted(set(values))
    return " to ".join(f"{value:,}" for value in (found[0], *found[1:][-1:]))


def _at_rates(plan: Plan) -> list[str]:
    said = []
    if mixed := plan.mixed:
        said.append(
            f"mixed     each alone: {mixed.ingest:,.0f} samples/s and {mixed.queries:,g} queries/s at once, "
            f"for {mixed.seconds:g} s"
        )
        first, last = plan.workload and plan.workload.start[:7], _moved(mixed.end, -1)[:7]
        if first != last:
            said.append(
                f"warning   mixed writes up to {mixed.end}, in another calendar month than the data begins: "
                "VictoriaMetrics begins a partition there, which is then part of what is measured"
            )
    if ladder := plan.capacity:
        said.append(
            f"capacity  each alone: {ladder.rates[0]:,g} to {ladder.rates[-1]:,g} queries/s in {len(ladder.rates)} "
            f"rungs of {ladder.seconds:g} s; {ladder.percentile} within {ladder.within_ms:g} ms"
        )
    return said


def _tsbs(asked: Experiment) -> TsbsExperiment:
    if not isinstance(asked, TsbsExperiment):
        raise TypeError(asked)
    return asked


def _databases(asked: TsbsExperiment) -> list[Database]:
    return [databases()[name] for name in dict.fromkeys(variant.target for variant in asked.variants.values())]


def _moved(time: str, seconds: int) -> str:
    return (datetime.fromisoformat(time) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _typed(rates: RatesOf, asked: TsbsExperiment) -> RatesOf:
    """Name the query types, which are all unless some were asked for."""
    return rates.model_copy(update={"types": rates.types or asked.queries.types})


def _mixed(asked: TsbsExperiment, data: Mapping[str, Any], used: list[Database]) -> Mixed | None:
    """Return what is written at a rate: as the loaded data goes on, with hosts that come and go where that is asked."""
    if asked.mixed is None:
        return None
    lines, seconds = behind(asked.workload, asked.mixed)
    end = _moved(asked.workload.end, seconds)
    churn = asked.workload.churn.model_dump() if asked.workload.churn else None
    shape = {**data, "start": asked.workload.end, "end": end, "churn": churn}
    formats = dict.fromkeys(database.target.data_format for database in used)
    return Mixed(
        **_typed(asked.mixed, asked).model_dump(),
        start=asked.workload.end,
        end=end,
        lines=lines,
        samples=lines * tsbs_queries.SAMPLES_PER_LINE[asked.workload.use_case],
        data=tuple(DataFile(format=name, key=_key(shape | {"format": name})) for name in formats),
    )


def _key(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _query_count(asked: TsbsExperiment) -> int:
    """Return how many queries a file holds: those of the closed loop, or slices for the duels of all blocks."""
    count = asked.queries.count or 0
    return max(count, asked.queries.max_count) if asked.duel.enabled else count or asked.queries.max_count


def _query_type(
    asked: TsbsExperiment, name: str, number: int, data: Mapping[str, Any], used: list[Database]
) -> QueryType:
    """Seeds: one for each type, since with one seed all types ask for the same hosts and warm each other."""
    seed = asked.queries.seed if asked.queries.shared_seed else asked.queries.seed + 1 + number
    shape = {k: v for k, v in data.items() if k != "interval"} | {"type": name, "seed": seed}
    targets = [database.target for database in used]
    keys = {of.query_format: _key(shape | {"format": of.query_format}) for of in targets if not of.query_form} | {
        f"{of.query_format}:{of.query_form}": _key(shape | {"format": of.query_format, "form": of.query_form})
        for of in targets
        if of.query_form
    }
    window_s, first = tsbs_queries.point_s(name), targets[0]
    found = {of.name: compared(first, of, name, window_s, asked.workload) for of in targets[1:]}
    empty = name in tsbs_queries.MAY_BE_EMPTY
    return QueryType(name=name, seed=seed, keys=keys, may_be_empty=empty, window_s=window_s, compared=found)


def _of(table: Mapping[str, int], name: str) -> int:
    return table.get(name, table[""])


def _continued(asked: TsbsExperiment, data: dict[str, Any], used: list[Database], seconds: int) -> Continued:
    """Return so many seconds of data behind the first, of the same hosts: of one seed TSBS makes the same."""
    start, lines = asked.workload.end, seconds // asked.workload.step_s * asked.workload.scale
    end = _moved(start, seconds)
    window = data | {"start": start, "end": end}
    return Continued(
        start=start,
        end=end,
        lines=lines,
        samples=lines * tsbs_queries.SAMPLES_PER_LINE[asked.workload.use_case],
        data=tuple(
            DataFile(format=name, key=_key(window | {"format": name}))
            for name in dict.fromkeys(database.target.data_format for database in used)
        ),
    )


def _windowed(asked: TsbsExperiment, data: dict[str, Any], used: list[Database]) -> Iterator[QueryType]:
    """Yield every type over the new window, and over both: a quarter to three quarters of each query in either."""
    seam, length = asked.workload.end, asked.workload.window_s
    for number, name in enumerate(asked.queries.types):
        reach = tsbs_queries.window_hours(name) * 3600 * 3 // 4
        spans = {"half": (_moved(seam, -reach), _moved(seam, reach)), "new": (seam, _moved(seam, length))}
        for at, (window, (start, end)) in enumerate(spans.items(), 1):
            place = number + at * len(asked.queries.types)
            of = _query_type(asked, name, place, data | {"start": start, "end": end}, used)
            yield of.model_copy(update={"name": f"{name}@{window}", "start": start, "end": end})


def _estimate(asked: TsbsExperiment, used: list[Database], variants: int, count: int, lines: int) -> Estimate:
    series = asked.workload.scale * tsbs_queries.SERIES_A_HOST
    lines += behind(asked.workload, asked.mixed)[0] if asked.mixed else 0
    samples = lines * tsbs_queries.SAMPLES_PER_LINE[asked.workload.use_case]
    # Every variant's is kept for what follows the solo parts.
    directories = variants if asked.duel.enabled or asked.mixed or asked.capacity else 1
    # Of an upgrade: what the baseline leaves, and a copy of each variant, with as much again in it.
    windows, source = (2, 1) if asked.upgrades else (1, 0)
    exchanges = count * len(asked.queries.types) * EXCHANGE_BYTES
    queues = {
        part.role for variant in asked.variants.values() for part in variant.parts
    } & {role for database in used for role in database.target.queues}  # fmt: skip
    queued = QUEUED_BYTES * samples if queues else 0
    return Estimate(
        data_bytes=windows * lines * sum(_of(DATA_BYTES_A_LINE, database.target.data_format) for database in used),
        query_bytes=(2 * windows - 1)
        * len(asked.queries.types)
        * count
        * sum(_of(QUERY_BYTES, d.target.query_form) for d in used),
        database_bytes=max(
            directories * (queued + database.needs.disk(series, windows * samples))
            + source * database.needs.disk(series, samples)
            for database in used
        ),
        results_bytes=asked.design.planned * variants * SOLO_BYTES + exchanges,
    )


def _rate(name: str, scale: int) -> float:
    if name in HEAVY_METRICS:
        return min(LIGHT_QUERIES_S, HEAVY_HOST_QUERIES_S / scale / HEAVY_METRICS[name])
    return LIGHT_QUERIES_S


def _loop_s(queries: Any, rate: float) -> float:
    timed = queries.count / rate if queries.count else max(queries.seconds, LEAST_QUERIES / rate)
    return float(timed * (2 if queries.cache == "warm" else 1))


def _exchanges_s(asked: TsbsExperiment, each: float) -> float:
    duel = asked.duel
    return max(duel.seconds, min(duel.longest_s, duel.least * each), duel.fewest * each)
