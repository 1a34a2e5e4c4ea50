"""What a plan needs of the TSBS workload: data and queries with their cache keys, and the time and disk that they take.

Durations are rough: for the deadline and the price of a rented machine.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar, cast

from tsduel.core import plan as planned
from tsduel.core.metrics import METRICS, MIX, Metric
from tsduel.core.sections import Rates, WorkloadAsked
from tsduel.core.wording import number_of
from tsduel.targets import Database, databases
from tsduel.targets.compared import compared
from tsduel.targets.database import Program, replicated
from tsduel.workloads.experiment import Experiment, Variant
from tsduel.workloads.own import dump
from tsduel.workloads.own.asked import is_own
from tsduel.workloads.tsbs import own_types
from tsduel.workloads.tsbs.queries import MAY_BE_EMPTY, SAMPLES_PER_LINE, SERIES_A_HOST, point_s, window_hours
from tsduel.workloads.tsbs.schema import TsbsExperiment, behind

TSBS_VERSION = "v0.0.0-20230921131859-37fced794d56"

# Of `workload`: how data are loaded, and what other files are made; `churn` shapes only what `mixed` sends.
NOT_IN_BYTES = {"workers", "batch_size", "churn", "solo_scale", "file", "shape"}
_OF_OWN_DATA = ("file", "shape", "told", "loader")
# Bytes of disk, each well above what was measured (docs/operating.md); by format of data and form of queries, "" for
# any other format or form.
DATA_BYTES_A_LINE = {"": 40, "prometheus": 100}
QUERY_BYTES = {"": 400, "prometheus": 3000}
SOLO_BYTES = 8 << 20
EXCHANGE_BYTES = 16
# Of a sample in an agent's queue, if the agent takes all samples before the first is stored; a packed one has 1 to 2.
QUEUED_BYTES = 4

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

RatesOf = TypeVar("RatesOf", bound=Rates)


class TsbsPlanned:
    """Databases under TSBS's load."""

    kind: ClassVar[str] = "tsbs"
    experiment: ClassVar[type[Experiment]] = TsbsExperiment
    registered: ClassVar[tuple[Metric, ...]] = tuple(METRICS.values())
    unwritten: ClassVar[Mapping[str, Any] | None] = None

    def program(self, _source: Experiment | planned.Plan, variant: Variant | planned.Variant, role: str) -> Program:
        """Return the program that has this role in the variant's database."""
        return databases()[variant.target].programs[replicated(role)]

    def variant_part(self, _asked: Experiment, _variant: Variant) -> dict[str, str]:
        """Return nothing."""
        return {}

    def sections(self, asked: Experiment, variants: int) -> dict[str, Any]:
        """Return workload, queries, duel, settle, tsbs, targets, report and estimate."""
        asked = cast("TsbsExperiment", asked)
        used, work = _databases(asked), asked.workload
        loaded, more, alone = _counted(work, used), None, None
        if asked.upgrades:
            # Data behind the first window, of the same hosts: with the same seed TSBS makes the same hosts.
            more = planned.Continued(**_counted_behind(work, used, loaded["lines"], work.window_s))
        if scale := work.solo_scale:
            counted = _counted(work.model_copy(update={"scale": scale}), used)
            alone = planned.Alone(scale=scale, estimated_bytes=_data_bytes(used, counted["lines"]), **counted)
        targets = {database.target.name: database.target for database in used}
        if in_place := dump.of(work):
            targets = {name: in_place.planned(target)[1] for name, target in targets.items()}
        workload = planned.Workload(
            **work.model_dump(),
            interval_s=work.step_s,
            estimated_bytes=_data_bytes(used, loaded["lines"]),
            continued=more,
            alone=alone,
            **loaded,
        )
        count, alike = _query_count(asked), len(used) > 1
        queried = _shape(work) | {"count": count} | ({"alike": True} if alike else {})
        if is_own(asked.queries):
            mine = own_types.planned_types(asked.queries, work, used[0].target, count, upgrades=asked.upgrades)
        else:
            mine = own_types.Planned(
                tuple(_query_type(asked, name, at, queried, used) for at, name in enumerate(asked.queries.types)),
                tuple(_windowed(asked, queried, used)) if asked.upgrades else (),
            )
        counters = asked.duel.counters or ("duel" if asked.queries.cache == "as-loaded" else "type")
        all_data = {"load": True, "load_s": None} if asked.loads_in_turn else {}
        return {
            "tsbs": planned.Tsbs(version=TSBS_VERSION),
            "targets": targets,
            "workload": workload,
            "queries": planned.Queries(
                **asked.queries.model_dump(exclude={"types", "shared_seed"}),
                types=mine.types,
                alike=alike,
                windowed=mine.windowed,
                left_out=mine.left_out,
            ),
            "duel": asked.duel.model_copy(update={"counters": counters} | all_data),
            "settle": asked.settle,
            "mixed": _mixed(asked, used),
            "capacity": asked.capacity and _typed(asked.capacity, asked),
            "report": asked.report,
            "profile": asked.profile,
            "estimate": _estimate(asked, used, variants, count, workload),
        }

    def written(self, plan: planned.Plan) -> dict[str, bytes]:
        """Return the requests of the user's queries."""
        cells = [plan.at(cell.name) for cell in plan.cells]
        return own_types.written([cell for cell in cells if cell.queries and is_own(cell.queries)])

    def duration(self, sections: Mapping[str, Any], asked: Experiment, variants: int) -> planned.Duration:
        """Return times at the rates above, of the slowest database."""
        asked, workload = cast("TsbsExperiment", asked), sections["workload"]
        settle_s = asked.settle.polls * asked.settle.poll_s + MERGES_S * min(1, workload.samples / MERGED_SAMPLES)
        rates = [_rate(name, workload.scale) for name in asked.queries.types]
        load_s = workload.samples / min(database.load_samples_s for database in _databases(asked))
        solo_s = SOLO_FIXED_S + settle_s + load_s
        alone_s = 0.0
        if asked.loads_in_turn:
            solo_s = 0
            if workload.alone:
                alone_s = SOLO_FIXED_S + settle_s + workload.alone.samples / workload.samples * load_s
        if asked.queries.solo:
            solo_s += sum(_loop_s(asked.queries, rate) for rate in rates)
        duel_s = 0.0
        if asked.duel.enabled:
            # One query at a time is slower than four workers, but not much: the rates are of a busy server.
            passes = 2 if asked.queries.cache == "warm" else 1
            duel_s = DUEL_FIXED_S + sum(passes * _exchanges_s(asked, variants / rate) for rate in rates)
            duel_s += asked.duel.sittings * variants * RESTART_S
            if asked.loads_in_turn or asked.duel.load:
                in_turn_s = variants * IN_TURN * load_s + settle_s
                duel_s += in_turn_s if asked.loads_in_turn else min(asked.duel.load_s or in_turn_s, in_turn_s)
                duel_s += asked.duel.load_sittings * variants * RESTART_S
        for part, phases in ((asked.mixed, 1), (asked.capacity, len(asked.capacity.rates) if asked.capacity else 0)):
            if part:
                duel_s += variants * (RATES_FIXED_S + phases * (part.seconds + RATES_PHASE_S))
        first = variants * solo_s + duel_s
        later = first if asked.design.reload == "every" else duel_s
        if asked.upgrades:
            # A start and a load of each variant on its copy; three times the exchanges, in two duels; the downgrades.
            later = variants * (solo_s + SOLO_FIXED_S) + 3 * duel_s + SOLO_FIXED_S
            first = solo_s + later
            later = first if asked.design.reload == "every" else later
        made = len(rates) * _query_count(asked) / GENERATED_QUERIES_S
        lines = workload.lines + sum(
            part.lines for part in (sections["mixed"], workload.continued, workload.alone) if part
        )
        files = (lines / _of(GENERATED_LINES_S, data.format) for data in workload.data)
        workload_s = math.ceil(sum(files) + made)
        total = PREPARE_S + workload_s + first + (asked.design.planned - 1) * later + variants * alone_s
        if asked.profile:
            total += later + PROFILE_S
        return planned.Duration(
            prepare_s=PREPARE_S, workload_s=workload_s, block_s=math.ceil(later), total_s=math.ceil(total)
        )

    def memory(self, workload: WorkloadAsked | None, variants: Iterable[tuple[str, int]]) -> int | None:
        """Return bytes by the number of series and components."""
        if workload is None:
            return None
        sizes = list(variants)
        # A variant has the machine to itself for the large load, and shares it with all others otherwise.
        series = max(workload.scale, (workload.solo_scale or 0) // len(sizes)) * SERIES_A_HOST
        return max(databases()[name].needs.memory(series, components) for name, components in sizes)

    def described(self, plan: planned.Plan) -> list[str]:
        """Return the load, and the parts of a block."""
        workload, queries, duel = plan.workload, plan.queries, plan.duel
        if workload is None or queries is None or duel is None:
            return []
        if workload.continued:
            size = f"{workload.samples:,} samples of {workload.scale:,} hosts"
            steps = "exchanges a type, the load on top, exchanges over old and new data, and back"
            first = f"{plan.variants[0].label} loads, each starts on a copy of its data: {duel.seconds:g} s of {steps}"
            types = f"{len(queries.types)} query types"
            return [f"workload  {size}, then {workload.continued.samples:,} on top; {types}", f"block     {first}"]
        loads = [load for cell in plan.cells if (load := plan.at(cell.name).workload)]
        samples, hosts = (_range(getattr(load, name) for load in loads) for name in ("samples", "scale"))
        exchanges = f"{duel.seconds:g} s of exchanges a type in {number_of(duel.sittings, 'sitting')}"
        if plan.loads_in_turn:
            sittings = number_of(duel.load_sittings, "sitting")
            block = f"side by side: all data in batches of {workload.batch_size:,} lines in {sittings}, {exchanges}"
        else:
            block = f"each alone: load with {workload.workers} workers"
            block += f", queries with {queries.workers} workers" if queries.solo else ""
            block += f"; side by side: {exchanges}" if duel.enabled else ""
        large = workload.alone
        told = [f"warning   {sentence}" for sentence in queries.left_out]
        told += [f"data      {workload.told}"] if workload.told else []
        return [
            f"workload  {samples} samples of {hosts} hosts, {len(plan.query_types)} query types",
            f"block     {block}",
            *([f"warm-up   each alone: one load of {large.samples:,} samples, not judged"] if large else []),
            *_at_rates(plan),
            *told,
        ]

    def alike(self, plan: planned.Plan) -> dict[str, Any]:
        """Return load, queries, duel and settle, but for seeds and keys."""
        workload, queries = plan.workload, plan.queries
        return {
            "workload": workload
            and workload.model_dump(
                exclude={"data", "seed", "estimated_bytes", "alone", "file", "shape", "told", "loader"}
            ),
            "queries": queries
            and queries.model_dump(exclude={"types", "seed", "max_count", "file", "log", "rules", "left_out"}),
            "types": sorted(plan.query_types),
            "duel": plan.duel and plan.duel.model_dump(exclude={"most_differences", "counters"}),
            "settle": plan.settle and plan.settle.model_dump(exclude={"timeout_s"}),
            "mixed": plan.mixed and plan.mixed.model_dump(exclude={"data"}),
            "capacity": plan.capacity and plan.capacity.model_dump(),
            "load": plan.design.load,
            "reload": plan.design.reload,
            # Absent unless needed, so that stored results of other runs keep their names.
            **({"own_data": [file.key for file in workload.data]} if workload and workload.told else {}),
            **({"own_queries": [kind.keys for kind in queries.types]} if queries and is_own(queries) else {}),
            **({"start_from": plan.design.start_from} if plan.design.start_from != "empty" else {}),
            **({"databases": " and ".join(v.target for v in plan.variants)} if plan.crosses else {}),
            **({"cells": {cell.name: cell.set for cell in plan.cells}} if plan.sweeps else {}),
        }


def _range(values: Iterable[int]) -> str:
    """Return 100, or 100 to 10,000."""
    ordered = sorted(set(values))
    return " to ".join(f"{value:,}" for value in (ordered[0], *ordered[1:][-1:]))


def _at_rates(plan: planned.Plan) -> Iterator[str]:
    if mixed := plan.mixed:
        yield (
            f"mixed     each alone: {mixed.ingest:,.0f} samples/s and {mixed.queries:,g} queries/s at once, "
            f"for {mixed.seconds:g} s"
        )
        if plan.workload and plan.workload.start[:7] != _moved(mixed.end, -1)[:7]:
            yield (
                f"warning   mixed writes up to {mixed.end}, in another calendar month than the data begins: "
                "VictoriaMetrics begins a partition there, which is then part of what is measured"
            )
    if ladder := plan.capacity:
        yield (
            f"capacity  each alone: {ladder.rates[0]:,g} to {ladder.rates[-1]:,g} queries/s in {len(ladder.rates)} "
            f"rungs of {ladder.seconds:g} s; {ladder.percentile} within {ladder.within_ms:g} ms"
        )


def _databases(asked: TsbsExperiment) -> list[Database]:
    return [databases()[name] for name in dict.fromkeys(variant.target for variant in asked.variants.values())]


def _moved(time: str, seconds: int) -> str:
    return (datetime.fromisoformat(time) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _typed(rates: RatesOf, asked: TsbsExperiment) -> RatesOf:
    """Name the query types: unless the experiment names some, all, or the mix, which has all of the user's."""
    types = asked.queries.types
    return rates.model_copy(update={"types": rates.types or ((MIX,) if MIX in types else types)})


def _shape(work: WorkloadAsked) -> dict[str, Any]:
    """Return all that shapes the bytes of files. A setting that is new counts, unless it stands in NOT_IN_BYTES."""
    shape = work.model_dump(exclude=NOT_IN_BYTES) | {"tsbs": TSBS_VERSION}
    if work.data_kind == "regular":
        del shape["data_kind"]  # regular data keep the keys that they have in caches
    return shape


def _counted(work: WorkloadAsked, used: Sequence[Database], **more: Any) -> dict[str, Any]:
    """Return lines, samples and the files of a window's data, a file for each format; ``more`` shapes them too."""
    if found := dump.of(work):
        return found.planned(used[0].target)[0]
    lines = work.window_s // work.step_s * work.scale
    formats = dict.fromkeys(database.target.data_format for database in used)
    shape = _shape(work) | more
    return {
        "lines": lines,
        "samples": lines * SAMPLES_PER_LINE[work.use_case],
        "data": tuple(planned.DataFile(format=name, key=_key(shape, format=name)) for name in formats),
    }


def _mixed(asked: TsbsExperiment, used: Sequence[Database]) -> planned.Mixed | None:
    """Return the data written at a rate: a window behind the loaded data, with churn if the experiment has it."""
    if asked.mixed is None:
        return None
    lines, seconds = behind(asked.workload, asked.mixed)
    churn = {"churn": asked.workload.churn.model_dump()} if asked.workload.churn else {}
    counted = _counted_behind(asked.workload, used, lines, seconds, **churn)
    return planned.Mixed(**_typed(asked.mixed, asked).model_dump(), **counted)


def _counted_behind(
    work: WorkloadAsked, used: Sequence[Database], lines: int, seconds: int, **more: Any
) -> dict[str, Any]:
    """Return the same of the window behind the loaded data, and the window; ``lines`` are of the user's data."""
    window: dict[str, Any] = {"start": work.end, "end": _moved(work.end, seconds)}
    if found := dump.of(work):
        return window | found.later(lines, work.window_s, used[0].target)
    return window | _counted(work.model_copy(update=window), used, **more)


def _key(shape: Mapping[str, Any], **more: str) -> str:
    return hashlib.sha256(json.dumps({**shape, **more}, sort_keys=True).encode()).hexdigest()[:16]


def _query_count(asked: TsbsExperiment) -> int:
    """Return the number of queries in a file: of the closed loop, or slices for the duels of all blocks."""
    count = asked.queries.count or 0
    return max(count, asked.queries.max_count) if asked.duel.enabled else count or asked.queries.max_count


def _query_type(
    asked: TsbsExperiment, name: str, number: int, data: Mapping[str, Any], used: Sequence[Database]
) -> planned.QueryType:
    """Return a type with a seed of its own: with one seed all types ask for the same hosts and warm each other."""
    seed = asked.queries.seed if asked.queries.shared_seed else asked.queries.seed + 1 + number
    shape = {k: v for k, v in data.items() if k not in {"data_kind", "interval"}} | {"type": name, "seed": seed}
    keys = {}
    for target in (database.target for database in used):
        form = {"form": target.query_form} if target.query_form else {}
        keys[":".join((target.query_format, *form.values()))] = _key(shape, format=target.query_format, **form)
    window_s, (first, *others) = point_s(name), [database.target for database in used]
    return planned.QueryType(
        name=name,
        seed=seed,
        keys=keys,
        may_be_empty=name in MAY_BE_EMPTY,
        window_s=window_s,
        compared={other.name: compared(first, other, window_s, asked.workload) for other in others},
    )


def _of(table: Mapping[str, int], name: str) -> int:
    return table.get(name, table[""])


def _data_bytes(used: Sequence[Database], lines: int) -> int:
    """Return bytes of the largest data file."""
    return max(lines * _of(DATA_BYTES_A_LINE, database.target.data_format) for database in used)


def _windowed(asked: TsbsExperiment, data: Mapping[str, Any], used: Sequence[Database]) -> Iterator[planned.QueryType]:
    """Yield every type over both windows, a quarter to three quarters of each query in either, and over the new one."""
    seam, length = asked.workload.end, asked.workload.window_s
    for number, name in enumerate(asked.queries.types):
        reach = window_hours(name) * 3600 * 3 // 4
        spans = {"half": (_moved(seam, -reach), _moved(seam, reach)), "new": (seam, _moved(seam, length))}
        for at, (window, (start, end)) in enumerate(spans.items(), 1):
            place = number + at * len(asked.queries.types)
            windowed = _query_type(asked, name, place, {**data, "start": start, "end": end}, used)
            yield windowed.model_copy(update={"name": f"{name}@{window}", "start": start, "end": end})


def _estimate(
    asked: TsbsExperiment, used: Sequence[Database], variants: int, count: int, workload: planned.Workload
) -> planned.Estimate:
    series, large = asked.workload.scale * SERIES_A_HOST, workload.alone
    lines = workload.lines + (behind(asked.workload, asked.mixed)[0] if asked.mixed else 0)
    samples = lines * workload.samples // workload.lines
    # The directories of all variants are kept for the parts after the solo parts.
    directories = variants if asked.duel.enabled or asked.mixed or asked.capacity else 1
    # Of an upgrade: the data that the baseline leaves, and for each variant a copy, with as much data again in it.
    windows, source = (2, 1) if asked.upgrades else (1, 0)
    queries = count * len(asked.queries.types)
    roles = {part.role for variant in asked.variants.values() for part in variant.parts}
    queues = roles & {role for database in used for role in database.target.queues}
    queued = QUEUED_BYTES * samples if queues else 0
    return planned.Estimate(
        data_bytes=(windows * lines + (large.lines if large else 0))
        * sum(_of(DATA_BYTES_A_LINE, database.target.data_format) for database in used),
        query_bytes=(2 * windows - 1) * queries * sum(_of(QUERY_BYTES, d.target.query_form) for d in used),
        database_bytes=max(
            directories * (queued + database.needs.disk(series, windows * samples))
            + source * database.needs.disk(series, samples)
            + (database.needs.disk(large.scale * SERIES_A_HOST, large.samples) if large else 0)
            for database in used
        ),
        results_bytes=asked.design.planned * variants * SOLO_BYTES + queries * EXCHANGE_BYTES,
    )


def _rate(name: str, scale: int) -> float:
    heavy = HEAVY_METRICS.get(name)
    return min(LIGHT_QUERIES_S, HEAVY_HOST_QUERIES_S / scale / heavy) if heavy else LIGHT_QUERIES_S


def _loop_s(queries: Any, rate: float) -> float:
    timed = queries.count / rate if queries.count else max(queries.seconds, LEAST_QUERIES / rate)
    return float(timed * (2 if queries.cache == "warm" else 1))


def _exchanges_s(asked: TsbsExperiment, each: float) -> float:
    duel = asked.duel
    return max(duel.seconds, min(duel.longest_s, duel.least * each), duel.fewest * each)
