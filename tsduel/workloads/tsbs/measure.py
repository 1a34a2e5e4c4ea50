"""The solo part of a block -> its measurements: for each variant one value of each metric (and query type)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan, Variant
from tsduel.core.record import SOLO, Block, Phase, Solo, client_cpu_s
from tsduel.workloads.tsbs import output as tsbs
from tsduel.workloads.tsbs.exposition import OURS, Snapshot, difference, edge, of_roles, read_snapshots
from tsduel.workloads.tsbs.output import LoadOutput, LoadResults, QueryOutput, QueryResults

_T = TypeVar("_T")
Value = tuple[str, str, float | None]
"""A metric, a query type or role, and its value."""
_BEGIN = ("load", "begin")
P99_FROM = 1_000
P999_FROM = 10_000
_GROWN = {
    "load": {
        "load_cpu_user_seconds": "cpu_user", "load_cpu_system_seconds": "cpu_system",
        "load_io_read_bytes": "io_read", "load_io_written_bytes": "io_written",
        "load_storage_read_bytes": "storage_read", "load_storage_written_bytes": "storage_written",
    },
    # Work after the last acknowledgement belongs to the load.
    "settle": {"slow_inserts": "slow_inserts", "merges": "merges", "rows_merged": "rows_merged",
               "load_cache_misses": "cache_misses"},
    "stop": {"gc_cpu_seconds": "gc_cpu", "major_faults": "major_faults", "storage_written_bytes": "storage_written"},
}  # fmt: skip
"""The phase up to which a counter's growth since the load began is a metric."""


@dataclass(frozen=True)
class RawSolo:
    """The files of a variant's solo part; None, or empty, if a file is missing or cut short."""

    block: Block
    variant: str
    record: Solo
    cpu_s: dict[str, float]
    load: LoadOutput | None
    load_results: LoadResults | None
    queries: dict[str, tuple[QueryOutput, QueryResults]]
    snapshots: list[Snapshot]
    roles: Sequence[str]
    """Roles of its components; empty if every variant of the run has one component."""
    samples: int

    def moved(self, counter: str, begin: tuple[str, ...], end: tuple[str, ...]) -> float | None:
        """Return the growth of a counter between two edges, each (phase, begin|end, query type)."""
        return difference(edge(self.snapshots, *begin), edge(self.snapshots, *end), counter)

    def phase(self, name: str, query_type: str = "") -> Phase | None:
        """Return one of its phases."""
        return self.block.phase(self.variant, SOLO, name, query_type)


def parsed(path: Path, parse: Callable[[str], _T]) -> _T | None:
    """Return what a file of TSBS says, None if it is missing or cut short: the block may have failed before it.

    The host has checked these files. A file that cannot be read gives no value, never a wrong value.
    """
    try:
        with files.reading(path, "output of TSBS"):
            return parse(files.text(path))
    except UserError:
        return None


def read_solo(block: Block, variant: Variant, plan: Plan) -> RawSolo:
    """Read every file with numbers."""
    directory = block.path / variant.name
    roles = [component.role for component in variant.components if component.role in plan.roles]
    wanted = {**plan.targets[variant.target].counters, **OURS, **of_roles(roles)}
    try:
        snapshots = read_snapshots(directory / "metrics.prom.gz", wanted)
    except UserError:
        snapshots = []
    record = block.solo.get(variant.name, Solo())
    # Snapshots of the duel are in the same file.
    end = max((p.end for p in block.phases if (p.variant, p.part) == (variant.name, SOLO)), default=block.ended)
    return RawSolo(
        block=block,
        variant=variant.name,
        record=record,
        cpu_s={name: ns / 1e9 for name, ns in record.cpu_ns.items()},
        load=parsed(directory / "load.csv", tsbs.parse_load_stdout),
        load_results=parsed(directory / "load.json", tsbs.parse_load_json),
        queries={
            name: (output, results)
            for name in plan.query_types
            if (output := parsed(directory / f"query/{name}.stdout", tsbs.parse_query_stdout))
            and (results := parsed(directory / f"query/{name}.json", tsbs.parse_query_json))
        },
        snapshots=[snapshot for snapshot in snapshots if snapshot.epoch <= end],
        roles=roles,
        samples=plan.workload.samples if plan.workload else 0,
    )


def measure(raw: RawSolo) -> Iterator[Value]:
    """Yield every metric that can be computed from a variant's solo part, None if it is missing."""
    yield from (*_load(raw), *_grown(raw), *_whole(raw), *_by_role(raw))
    for query_type in raw.queries:
        yield from _query(raw, query_type)


def _load(raw: RawSolo) -> Iterator[Value]:
    load, phase = raw.load, raw.phase("load")
    summary = raw.load_results or load
    yield "load_rate", "", summary.rate if summary else None
    yield "load_seconds", "", summary.seconds if summary else None
    yield "load_first_interval_rate", "", next((i.rate for i in (load.intervals if load else ()) if i.total > 0), None)
    # By the clock of the process, until the end of the drain.
    yield "load_cpu_seconds", "", raw.cpu_s.get("drained")
    end = edge(raw.snapshots, "load", "end")
    yield "load_rss_end_bytes", "", end.values.get("rss") if end else None
    yield "load_rss_peak_bytes", "", end.values.get("rss_peak") if end else None
    yield "load_client_cpu_seconds", "", client_cpu_s(phase)
    yield "arrival_seconds", "", raw.record.arrive_s
    yield "drain_seconds", "", raw.record.drain_s


def _by_role(raw: RawSolo) -> Iterator[Value]:
    # All until the end of the drain: samples in an agent's queue reach the other components after the load's end.
    record, end = raw.record, edge(raw.snapshots, "settle", "end")
    for role in raw.roles:
        cpu = record.cpu_ns_by_role.get("drained", {}).get(role)
        yield "load_role_cpu_us", role, None if cpu is None or not raw.samples else cpu / raw.samples / 1e3
        yield "load_role_rss_peak_bytes", role, end.values.get(f"rss_peak@{role}") if end else None
        for counter in ("io_read", "io_written", "storage_written"):
            yield f"load_role_{counter}_bytes", role, raw.moved(f"{counter}@{role}", _BEGIN, ("settle", "end"))
        yield "disk_role_bytes", role, record.sizes_by_role.get("disk_bytes", {}).get(role)


def _grown(raw: RawSolo) -> Iterator[Value]:
    for phase, counters in _GROWN.items():
        end = (phase, "begin" if phase == "stop" else "end")
        yield from ((metric, "", raw.moved(counter, _BEGIN, end)) for metric, counter in counters.items())


def _query(raw: RawSolo, query_type: str) -> Iterator[Value]:
    output, results = raw.queries[query_type]
    values: dict[str, float | None] = {
        "query_rate": results.rate,
        "query_seconds": results.seconds,
        "query_p50_ms": results.quantiles_ms.get("q50"),
        "query_p95_ms": results.quantiles_ms.get("q95"),
        # The p99 of fewer requests is the time of a few of them.
        "query_p99_ms": results.quantiles_ms.get("q99") if output.count >= P99_FROM else None,
        "query_p999_ms": results.quantiles_ms.get("q999") if output.count >= P999_FROM else None,
        "query_mean_ms": tsbs.precise_mean_ms(output),
        **{f"query_{name}": getattr(output, name) for name in ("min_ms", "max_ms", "stddev_ms", "count")},
        "query_cpu_seconds": raw.cpu_s.get(f"query:{query_type}"),
        "query_client_cpu_seconds": client_cpu_s(raw.phase("query", query_type)),
    }
    yield from ((metric, query_type, value) for metric, value in values.items())


def _whole(raw: RawSolo) -> Iterator[Value]:
    settled, last = edge(raw.snapshots, "settle", "end"), edge(raw.snapshots, "stop", "begin")
    size, rows = (settled.values.get(name) for name in ("bytes_kept", "rows_kept")) if settled else (None, None)
    yield "bytes_per_sample", "", size / rows if size and rows else None
    user, system = (raw.moved(mode, _BEGIN, ("stop", "begin")) for mode in ("cpu_user", "cpu_system"))
    yield "cpu_seconds", "", None if user is None or system is None else user + system
    resident = [s.values["rss"] for s in raw.snapshots if not s.phase and "rss" in s.values]
    yield "rss_mean_bytes", "", sum(resident) / len(resident) if resident else None
    yield "rss_peak_bytes", "", last.values.get("rss_peak") if last else None
    if raw.queries:
        requests, misses = (
            raw.moved(name, ("settle", "end"), ("stop", "begin")) for name in ("cache_requests", "cache_misses")
        )
        yield "cache_hit_ratio", "", 1 - misses / requests if requests and misses is not None else None
    yield "disk_bytes", "", raw.record.sizes.get("disk_bytes")
    yield "start_seconds", "", raw.record.start_s or None
    yield "stop_seconds", "", raw.record.stop_s or None
