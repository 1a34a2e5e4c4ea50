"""What a plan needs of the TSBS workload: data and queries with their cache keys, and the disk that they take."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar, cast

from tsduel.core import defaults
from tsduel.core import plan as planned
from tsduel.core.metrics import METRICS, MIX, Metric
from tsduel.core.sections import OWN_QUERIES, Rates, WorkloadAsked
from tsduel.core.tsbs import Alone, Continued, DataFile, Mixed, Queries, QueryType, Workload
from tsduel.core.wording import number_of
from tsduel.targets import Database, databases
from tsduel.targets.compared import compared
from tsduel.targets.database import Program, replicated
from tsduel.workloads.experiment import Experiment, Variant
from tsduel.workloads.own import dump
from tsduel.workloads.own.asked import is_own
from tsduel.workloads.protocol import Planned
from tsduel.workloads.tsbs import durations, own_types
from tsduel.workloads.tsbs.queries import MAY_BE_EMPTY, SAMPLES_PER_LINE, SERIES_A_HOST, point_s, window_hours
from tsduel.workloads.tsbs.schema import TsbsExperiment, behind

TSBS_VERSION = "v0.0.0-20230921131859-37fced794d56"

# Of `workload`: how data are loaded, and what other files are made; `churn` shapes only what `mixed` sends.
NOT_IN_BYTES = {"workers", "batch_size", "tenants", "churn", "solo_scale", "file", "shape"}
# Bytes of disk, each well above what was measured (docs/operating.md); by format of data and form of queries, "" for
# any other format or form.
DATA_BYTES_A_LINE = {"": 40, "prometheus": 100}
QUERY_BYTES = {"": 400, "prometheus": 3000}
SOLO_BYTES = 8 << 20
EXCHANGE_BYTES = 16
# Of a sample in an agent's queue, if the agent takes all samples before the first is stored; a packed one has 1 to 2.
QUEUED_BYTES = 4

RatesOf = TypeVar("RatesOf", bound=Rates)


class TsbsPlanned(Planned):
    """Databases under TSBS's load."""

    kind: ClassVar[str] = "tsbs"
    experiment: ClassVar[type[Experiment]] = TsbsExperiment
    registered: ClassVar[tuple[Metric, ...]] = tuple(METRICS.values())
    unwritten: ClassVar[Mapping[str, Any] | None] = None

    def program(self, _source: Experiment | planned.Plan, variant: Variant | planned.Variant, role: str) -> Program:
        """Return the program that has this role in the variant's database."""
        return databases()[variant.target].programs[replicated(role)]

    def sections(self, experiment: Experiment, variants: int) -> dict[str, Any]:
        """Return workload, queries, duel, settle, tsbs, targets, report and estimate."""
        experiment = cast("TsbsExperiment", experiment)
        used, work = _databases(experiment), experiment.workload
        loaded, more, alone = _counted(work, used), None, None
        if experiment.upgrades:
            # Data behind the first window, of the same hosts: with the same seed TSBS makes the same hosts.
            more = Continued(**_counted_behind(work, used, loaded["lines"], work.window_s))
        if scale := work.solo_scale:
            counted = _counted(work.model_copy(update={"scale": scale}), used)
            alone = Alone(scale=scale, estimated_bytes=_data_bytes(used, counted["lines"]), **counted)
        targets = {database.target.name: database.target for database in used}
        if in_place := dump.of(work):
            targets = {name: in_place.planned(target)[1] for name, target in targets.items()}
        workload = Workload(
            **work.model_dump(),
            interval_s=work.step_s,
            estimated_bytes=_data_bytes(used, loaded["lines"]),
            continued=more,
            alone=alone,
            **loaded,
        )
        count, alike = _query_count(experiment), len(used) > 1
        queried = _shape(work) | {"count": count} | ({"alike": True} if alike else {})
        if is_own(experiment.queries):
            own = own_types.planned_types(
                experiment.queries, work, used[0].target, count, upgrades=experiment.upgrades, loads=experiment.loads
            )
        else:
            types = enumerate(experiment.queries.types)
            own = {
                "types": tuple(_query_type(experiment, name, at, queried, used) for at, name in types),
                "windowed": tuple(_windowed(experiment, queried, used)) if experiment.upgrades else (),
            }
        counters = experiment.duel.counters or ("duel" if experiment.queries.cache == "as-loaded" else "type")
        enough = experiment.design.blocks >= 3 * defaults.FEWEST_BLOCKS and not experiment.upgrades
        by_work = "all" if experiment.design.judged == "work" else "third" if enough else "off"
        counting = experiment.duel.work or by_work
        in_each = experiment.loads_in_turn and not experiment.deployed
        all_data = {"batches": True, "load_s": None} if in_each else {}
        return {
            "tsbs": planned.Tsbs(version=TSBS_VERSION),
            "targets": targets,
            "workload": workload,
            "queries": Queries(**experiment.queries.model_dump(exclude={"types", "shared_seed"}), **own, alike=alike),
            "duel": experiment.duel.model_copy(update={"counters": counters, "work": counting} | all_data),
            "settle": experiment.settle,
            "limits": experiment.limits,
            "mixed": _mixed(experiment, used),
            "capacity": experiment.capacity and _typed(experiment.capacity, experiment),
            "report": experiment.report,
            "profile": experiment.profile,
            "estimate": _estimate(experiment, used, variants, count, workload),
        }

    def written(self, plan: planned.Plan) -> dict[str, bytes]:
        """Return the requests of the user's queries."""
        return own_types.written(plan)

    def duration(self, sections: Mapping[str, Any], experiment: Experiment, variants: int) -> planned.Duration:
        """Return times at the rates of tsduel.workloads.tsbs.durations."""
        experiment = cast("TsbsExperiment", experiment)
        return durations.duration(sections, experiment, variants, _query_count(experiment))

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
        exchanges = f"{duel.seconds:g} s of exchanges a type in {number_of(duel.sittings, 'sitting')}"
        if plan.deployed:
            loaded = "all data in batches once, then " if plan.design.load == "in_turn" else "nothing is loaded; "
            block = f"servers that run already, in turn: {loaded}{exchanges}"
        elif plan.loads_in_turn:
            sittings = number_of(duel.load_sittings, "sitting")
            block = f"side by side: all data in batches of {workload.batch_size:,} lines in {sittings}, {exchanges}"
        else:
            block = f"each alone: load with {workload.workers} workers"
            block += f", queries with {queries.workers} workers" if queries.solo else ""
            block += f"; side by side: {exchanges}" if duel.enabled else ""
        large = workload.alone
        lines = [f"warning   {sentence}" for sentence in queries.left_out]
        lines += [f"data      {workload.own_data}"] if workload.own_data else []
        return [
            f"workload  {workload.samples:,} samples of {workload.scale:,} hosts, {len(plan.query_types)} query types",
            f"block     {block}",
            *([f"warm-up   each alone: one load of {large.samples:,} samples, not judged"] if large else []),
            *([f"limits    {plan.limits.words} for each server of either side"] if plan.limits else []),
            *_at_rates(plan),
            *lines,
        ]

    def alike(self, plan: planned.Plan) -> dict[str, Any]:
        """Return load, queries, duel and settle, but for seeds and keys."""
        workload, queries = plan.workload, plan.queries
        return {
            "workload": workload
            and workload.model_dump(
                exclude={"data", "seed", "estimated_bytes", "alone", "file", "shape", "own_data", "loader"}
            ),
            "queries": queries and queries.model_dump(exclude={"types", "seed", "max_count", "left_out", *OWN_QUERIES}),
            "types": sorted(plan.query_types),
            "duel": plan.duel and plan.duel.model_dump(exclude={"most_differences", "counters", "work"}),
            "settle": plan.settle and plan.settle.model_dump(exclude={"timeout_s"}),
            "mixed": plan.mixed and plan.mixed.model_dump(exclude={"data"}),
            "capacity": plan.capacity and plan.capacity.model_dump(),
            "load": plan.design.load,
            "reload": plan.design.reload,
            # Absent unless needed, so that stored results of other runs keep their names.
            **({"own_data": [file.key for file in workload.data]} if workload and workload.own_data else {}),
            **({"own_queries": [kind.keys for kind in queries.types]} if queries and is_own(queries) else {}),
            **({"limits": plan.limits.model_dump()} if plan.limits else {}),
            **({"start_from": plan.design.start_from} if plan.design.start_from != "empty" else {}),
            **({"databases": " and ".join(v.target for v in plan.variants)} if plan.crosses else {}),
        }


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


def _databases(experiment: TsbsExperiment) -> list[Database]:
    return [databases()[name] for name in dict.fromkeys(variant.target for variant in experiment.variants.values())]


def _moved(time: str, seconds: int) -> str:
    return (datetime.fromisoformat(time) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _typed(rates: RatesOf, experiment: TsbsExperiment) -> RatesOf:
    """Name the query types: unless the experiment names some, all, or the mix, which has all of the user's."""
    types = experiment.queries.types
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
        "data": tuple(DataFile(format=name, key=_key(shape, format=name)) for name in formats),
    }


def _mixed(experiment: TsbsExperiment, used: Sequence[Database]) -> Mixed | None:
    """Return the data written at a rate: a window behind the loaded data, with churn if the experiment has it."""
    if experiment.mixed is None:
        return None
    work = experiment.workload
    churn = {"churn": work.churn.model_dump()} if work.churn else {}
    lines, seconds = behind(work, experiment.mixed)
    counted = _counted_behind(work, used, lines, seconds, **churn)
    return Mixed(**_typed(experiment.mixed, experiment).model_dump(), **counted)


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


def _query_count(experiment: TsbsExperiment) -> int:
    """Return the number of queries in a file: of the closed loop, or slices for the duels of all blocks."""
    count = experiment.queries.count or 0
    return (
        max(count, experiment.queries.max_count) if experiment.duel.enabled else count or experiment.queries.max_count
    )


def _query_type(
    experiment: TsbsExperiment, name: str, number: int, data: Mapping[str, Any], used: Sequence[Database]
) -> QueryType:
    """Return a type with a seed of its own: with one seed all types ask for the same hosts and warm each other."""
    seed = experiment.queries.seed if experiment.queries.shared_seed else experiment.queries.seed + 1 + number
    shape = {k: v for k, v in data.items() if k not in {"data_kind", "interval"}} | {"type": name, "seed": seed}
    keys = {}
    for target in (database.target for database in used):
        form = {"form": target.query_form} if target.query_form else {}
        keys[":".join((target.query_format, *form.values()))] = _key(shape, format=target.query_format, **form)
    window_s, (first, *others) = point_s(name), [database.target for database in used]
    return QueryType(
        name=name,
        seed=seed,
        keys=keys,
        may_be_empty=name in MAY_BE_EMPTY,
        window_s=window_s,
        compared={other.name: compared(first, other, window_s, experiment.workload) for other in others},
    )


def _of(table: Mapping[str, int], name: str) -> int:
    return table.get(name, table[""])


def _data_bytes(used: Sequence[Database], lines: int) -> int:
    """Return bytes of the largest data file."""
    return max(lines * _of(DATA_BYTES_A_LINE, database.target.data_format) for database in used)


def _windowed(experiment: TsbsExperiment, data: Mapping[str, Any], used: Sequence[Database]) -> Iterator[QueryType]:
    """Yield every type over both windows, a quarter to three quarters of each query in either, and over the new one."""
    seam, length = experiment.workload.end, experiment.workload.window_s
    for number, name in enumerate(experiment.queries.types):
        reach = window_hours(name) * 3600 * 3 // 4
        spans = {"half": (_moved(seam, -reach), _moved(seam, reach)), "new": (seam, _moved(seam, length))}
        for at, (window, (start, end)) in enumerate(spans.items(), 1):
            place = number + at * len(experiment.queries.types)
            windowed = _query_type(experiment, name, place, {**data, "start": start, "end": end}, used)
            yield windowed.model_copy(update={"name": f"{name}@{window}", "start": start, "end": end})


def _estimate(
    experiment: TsbsExperiment, used: Sequence[Database], variants: int, count: int, workload: Workload
) -> planned.Estimate:
    series, large = experiment.workload.scale * SERIES_A_HOST, workload.alone
    lines = workload.lines + (behind(experiment.workload, experiment.mixed)[0] if experiment.mixed else 0)
    samples = lines * workload.samples // workload.lines
    # The directories of all variants are kept for the parts after the solo parts.
    directories = variants if experiment.duel.enabled or experiment.mixed or experiment.capacity else 1
    directories *= not experiment.deployed
    # Of an upgrade: the data that the baseline leaves, and for each variant a copy, with as much data again in it.
    windows, source = (2, 1) if experiment.upgrades else (1, 0)
    queries = count * len(experiment.queries.types)
    roles = {part.role for variant in experiment.variants.values() for part in variant.parts}
    queues = roles & {role for database in used for role in database.target.queues}
    queued = QUEUED_BYTES * samples if queues else 0
    return planned.Estimate(
        data_bytes=experiment.loads
        * (windows * lines + (large.lines if large else 0))
        * sum(_of(DATA_BYTES_A_LINE, database.target.data_format) for database in used),
        query_bytes=(2 * windows - 1) * queries * sum(_of(QUERY_BYTES, d.target.query_form) for d in used),
        database_bytes=max(
            directories * (queued + database.needs.disk(series, windows * samples))
            + source * database.needs.disk(series, samples)
            + (database.needs.disk(large.scale * SERIES_A_HOST, large.samples) if large else 0)
            for database in used
        ),
        results_bytes=experiment.design.planned * variants * SOLO_BYTES + queries * EXCHANGE_BYTES,
    )
