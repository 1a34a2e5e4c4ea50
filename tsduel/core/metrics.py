"""The registry of metrics. A new metric takes a line here, and a line where its workload measures it.

`family`: the family of tests (docs/statistics.md) is `primary` or `secondary`. A `shown` metric is printed and
never judged, since another metric says the same: in a closed loop, queries/s is workers / mean service time.
`threshold`: the smallest change that matters, in percent. A name is unique without its phase.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Better = Literal["higher", "lower", "none"]
Family = Literal["primary", "secondary", "work", "shown"]
Further = Literal["", "mixed", "capacity", "upgrade"]
"""A part of the block; "": the phase says whether it is solo, duel or bench."""

GEOMEAN, ALL = "geomean", "all"
"""Names in place of a query type: the geometric mean over types, and all exchanges together."""
MIX = "mix"
"""The query type whose requests are drawn from all of the user's queries by weight. GEOMEAN and ALL are its figures."""
EXCHANGE, IDLE = "exchange", "idle"


@dataclass(frozen=True)
class Metric:
    """One metric. `phase`: where it is measured, "" for the whole part; `known_as`: its name in /metrics."""

    name: str
    phase: str
    unit: str
    better: Better
    threshold: float
    family: Family
    title: str
    known_as: str = ""
    headline: bool = False  # on the first screen, in the order of the registry
    words: tuple[str, str] = ("more", "less")  # for a larger value and for a smaller one
    # The key in Target.counters of a metric of the database; its `name` there is what the report calls it.
    counter: str = ""
    per_type: bool = False
    column: str = ""  # head of the column in the report's tables of query types; "": no column
    per_role: bool = False  # one row a component, if variants have several, by its role
    geomean: Family | None = None  # family of the geometric mean over query types; None: no such row
    together: Family | None = None  # family of the row of all query types together (ALL); None: no such row
    native: bool = False  # compared by differences in its own unit, since values may be near zero
    # The smallest difference that matters, in its own unit; for values so near zero that percent say nothing.
    floor: float = 0.0
    least_n: int = 0  # judged from this number of operations a block and variant on, else only shown
    # A less precise metric of the same thing. If both are measured, they swap families.
    instead_of: str = ""
    further: Further = ""
    work: bool = False  # what a server did for an operation, by its own counters (docs/work.md)

    def named(self, query_type: str) -> str:
        """Return the name in reports, with its query type or component, or with `all types`."""
        return ", ".join(filter(None, (self.title, self.every if query_type in {GEOMEAN, ALL} else query_type)))

    @property
    def every(self) -> str:
        """All query types together, in words."""
        return "all benchmarks" if self.phase == "bench" else "all types"

    @property
    def part(self) -> str:
        """Part of the block: solo, duel, bench, or `further`."""
        return self.further or {EXCHANGE: "duel", IDLE: "duel", "bench": "bench"}.get(self.phase, "solo")


UPGRADE_STATES = {
    "right_after": ("before", "right after", "right after the upgrade"),
    "half": ("after", "half new", "over half old, half new data"),
    "new": ("after", "all new", "over new data only"),
}
"""State of an upgrade in which queries are asked -> its phase, short and long words."""
_SLOWER, _FASTER = ("slower", "faster"), ("faster", "slower")

# Default thresholds of docs/statistics.md in percent.
_SERVICE, _RATE, _CPU, _RSS, _DISK, _P99, _OTHER, _WORK = 2.0, 3.0, 3.0, 5.0, 5.0, 10.0, 5.0, 1.0


def _rows(*phase: str, **common: Any) -> Callable[..., Metric]:
    """Return a maker of metrics from columns and other fields. The default of `better` is lower."""
    columns = ("phase", "unit", "threshold", "family", "title", "known_as")

    def metric(name: str, *values: Any, **more: Any) -> Metric:
        row: dict[str, Any] = dict(zip(columns, (*phase, *values), strict=False))
        return Metric(name, **{"better": "lower", **row, **common, **more})

    return metric


_at, _role, _upgrade = _rows(), _rows(per_role=True), _rows(further="upgrade")
_load, _settle, _solo, _mixed = _rows("load"), _rows("settle"), _rows(""), _rows("mixed", further="mixed")
_duel, _each, _query = _rows(EXCHANGE), _rows(EXCHANGE, per_type=True), _rows("query", per_type=True)
_work = _rows(EXCHANGE, work=True)


def _counted(name: str, unit: str, title: str, counter: str, better: Better = "none") -> Metric:
    return _each(name, unit, _OTHER, "shown", title, better=better, counter=counter, together="shown")


# fmt: off
_ALL = (
    _each("duel_typical_ms", "ms", _SERVICE, "secondary", "Query time",
          column="typical, ms", geomean="primary", headline=True, words=_SLOWER),
    _each("duel_cpu_us", "us", _SERVICE, "shown", "CPU of a query",
          column="CPU, µs", together="primary", headline=True),
    _load("load_rate", "samples/s", _RATE, "primary", "Ingestion rate",
          better="higher", headline=True, words=_FASTER),
    _load("load_cpu_seconds", "s", _CPU, "primary", "CPU of ingestion", "process_cpu_seconds_total",
          headline=True),
    _each("duel_total_ms", "ms", _SERVICE, "secondary", "Total query time", column="total, ms", geomean="secondary"),
    _each("duel_p50_ms", "ms", _SERVICE, "shown", "p50 service time", column="p50"),
    _each("duel_p95_ms", "ms", _P99, "shown", "p95 service time", column="p95"),
    _each("duel_min_ms", "ms", _P99, "shown", "Least service time of the exchanges"),
    _each("duel_max_ms", "ms", _P99, "shown", "Largest service time of the exchanges"),
    _each("duel_stddev_ms", "ms", _P99, "shown", "Standard deviation of service times of the exchanges", better="none"),
    _each("duel_p99_ms", "ms", _P99, "secondary", "p99 service time", column="p99", least_n=1000),
    _each("duel_instructions", "instructions", 1.0, "shown", "Instructions of a query", together="secondary"),
    _at("duel_idle_cpu_ms", "idle", "ms/s", _P99, "secondary", "CPU when nobody asks", native=True, floor=1.0),
    _duel("duel_rss_bytes", "B", _RSS, "secondary", "Memory after the exchanges", "process_resident_memory_bytes"),
    _each("duel_client_cpu_ratio", "ratio", _OTHER, "shown", "CPU of the client, of one CPU", better="none"),
    _each("duel_turn_us", "us", _OTHER, "shown", "Time of a turn, off the clock", better="none", together="shown"),
    _each("duel_turns_ratio", "ratio", _OTHER, "shown", "Turns, share of a phase", better="none", together="shown"),
    _counted("duel_rows_read", "rows", "Rows read a query", "rows_read"),
    _counted("duel_index_searches", "searches", "Index searches a query", "index_searches"),
    _counted("duel_cache_requests", "requests", "Cache requests a query", "cache_requests"),
    _counted("duel_cache_misses", "misses", "Cache misses a query", "cache_misses"),
    _counted("duel_gc_cpu_us", "us", "CPU of garbage collection a query", "gc_cpu"),
    _work("duel_objects", "objects", _WORK, "work", "Objects of a query",
          per_type=True, geomean="work", together="work", counter="objects"),
    _work("duel_object_bytes", "B", _WORK, "work", "Allocated bytes of a query",
          per_type=True, geomean="work", together="work", counter="object_bytes"),
    _counted("duel_gc_runs", "collections", "Garbage collections of 1000 queries", "gc_runs", "lower"),
    _each("duel_taken_off_ratio", "ratio", _OTHER, "shown", "Reading and background, share of counted objects",
          better="none"),
    _counted("duel_read_calls", "calls", "Read calls a query", "read_calls", "lower"),
    _counted("duel_write_calls", "calls", "Write calls a query", "write_calls", "lower"),
    _counted("duel_read_bytes", "B", "Bytes read by system calls a query", "read_bytes", "lower"),
    _counted("duel_written_bytes", "B", "Bytes written by system calls a query", "written_bytes", "lower"),
    _counted("duel_context_switches", "switches", "Context switches a query", "context_switches", "lower"),
    _counted("duel_throttled_us", "us", "Time that the CPU limit held a query back", "throttled_us", "lower"),
    _duel("duel_go_cpus", "CPUs", _OTHER, "shown", "CPUs that the server sees", better="none"),
    _work("duel_load_objects", "objects", _WORK, "work", "Objects of 1000 ingested samples"),
    _work("duel_load_object_bytes", "B", _WORK, "work", "Allocated bytes of an ingested sample"),
    _duel("duel_load_write_calls", "calls", _OTHER, "shown", "Write calls of 1000 ingested samples"),
    _duel("duel_load_written_bytes", "B", _OTHER, "shown", "Bytes written by system calls an ingested sample"),
    _duel("duel_load_context_switches", "switches", _OTHER, "shown", "Context switches of 1000 ingested samples"),
    _duel("duel_load_throttled_us", "us", _OTHER, "shown", "Time that the CPU limit held an ingested sample back"),
    _duel("duel_load_typical_ms", "ms", _RATE, "secondary", "Ingestion time of a batch",
          instead_of="load_rate", headline=True, words=_SLOWER),
    _duel("duel_load_cpu_us", "us", _CPU, "secondary", "CPU of an ingested sample",
          instead_of="load_cpu_seconds", headline=True),
    _duel("duel_load_acknowledged_cpu_us", "us", _CPU, "shown", "CPU of an ingested sample, until acknowledged"),
    _role("duel_load_role_cpu_us", "exchange", "us", _CPU, "secondary", "CPU of an ingested sample", headline=True),
    _role("duel_role_cpu_us", "exchange", "us", _SERVICE, "secondary", "CPU of a query", headline=True),
    _work("duel_role_objects", "objects", _WORK, "work", "Objects of a query", per_role=True),
    _role("duel_role_rss_bytes", "exchange", "B", _RSS, "shown", "Memory after the exchanges"),
    _role("load_role_cpu_us", "settle", "us", _CPU, "secondary", "CPU of a loaded sample", headline=True),
    _role("load_role_rss_peak_bytes", "settle", "B", _RSS, "shown", "Peak memory until drained"),
    _role("load_role_io_read_bytes", "settle", "B", _OTHER, "shown", "Bytes read by system calls until drained"),
    _role("load_role_io_written_bytes", "settle", "B", _OTHER, "shown", "Bytes written by system calls until drained"),
    _role("load_role_storage_written_bytes", "settle", "B", _OTHER, "shown", "Bytes written to storage until drained"),
    _role("disk_role_bytes", "stop", "B", _DISK, "shown", "Bytes on disk"),
    _settle("arrival_seconds", "s", _P99, "shown", "From the last acknowledged sample to the last stored"),
    _mixed("mixed_query_p99_ms", "ms", _P99, "primary", "p99 response time of queries at a fixed rate",
           headline=True, words=_SLOWER),
    _mixed("mixed_cpu_cores", "cores", _CPU, "primary", "CPU at a fixed rate", headline=True),
    _mixed("mixed_query_p50_ms", "ms", _OTHER, "secondary", "p50 response time of queries at a fixed rate"),
    _mixed("mixed_query_p90_ms", "ms", _P99, "shown", "p90 response time of queries at a fixed rate"),
    _mixed("mixed_query_p999_ms", "ms", _P99, "shown", "p99.9 response time of queries at a fixed rate"),
    _mixed("mixed_query_max_ms", "ms", _P99, "shown", "Largest response time of queries at a fixed rate"),
    _mixed("mixed_query_service_p50_ms", "ms", _P99, "shown", "p50 service time of queries at a fixed rate"),
    _mixed("mixed_query_service_p99_ms", "ms", _P99, "shown", "p99 service time of queries at a fixed rate"),
    _mixed("mixed_batch_p50_ms", "ms", _OTHER, "secondary", "p50 response time of batches at a fixed rate"),
    _mixed("mixed_batch_p90_ms", "ms", _P99, "shown", "p90 response time of batches at a fixed rate"),
    _mixed("mixed_batch_p99_ms", "ms", _P99, "secondary", "p99 response time of batches at a fixed rate"),
    _mixed("mixed_batch_p999_ms", "ms", _P99, "shown", "p99.9 response time of batches at a fixed rate"),
    _mixed("mixed_batch_max_ms", "ms", _P99, "shown", "Largest response time of batches at a fixed rate"),
    _mixed("mixed_batch_service_p50_ms", "ms", _P99, "shown", "p50 service time of batches at a fixed rate"),
    _mixed("mixed_batch_service_p99_ms", "ms", _P99, "shown", "p99 service time of batches at a fixed rate"),
    _mixed("mixed_rss_bytes", "B", _RSS, "secondary", "Memory after a fixed rate", "process_resident_memory_bytes"),
    _mixed("mixed_query_rate", "queries/s", _OTHER, "shown", "Queries answered at a fixed rate", better="none"),
    _mixed("mixed_write_rate", "samples/s", _OTHER, "shown", "Samples stored at a fixed rate", better="none"),
    _mixed("mixed_merges", "merges", _OTHER, "shown", "Merges at a fixed rate", "vm_merges_total", better="none"),
    _mixed("mixed_rows_merged", "rows", _OTHER, "shown", "Rows merged at a fixed rate",
           "vm_rows_merged_total", better="none"),
    _mixed("mixed_slow_inserts", "rows", _OTHER, "shown", "Slow inserts at a fixed rate",
           "vm_slow_row_inserts_total", better="none"),
    _mixed("mixed_lateness_p999_ms", "ms", _OTHER, "shown", "p99.9 lateness of the client at a fixed rate",
           better="none"),
    _mixed("mixed_client_cpu_ratio", "ratio", _OTHER, "shown", "CPU of the client at a fixed rate, of its CPUs",
           better="none"),
    _at("capacity_rate", "rung", "queries/s", _OTHER, "primary", "Capacity", better="higher", further="capacity",
        headline=True),
    _at("capacity_response_ms", "rung", "ms", _P99, "shown", "Response time at a rung",
        per_type=True, further="capacity"),
    _load("load_seconds", "s", _RATE, "shown", "Load time"),
    _load("load_first_interval_rate", "samples/s", _P99, "shown", "Ingestion rate, first second", better="higher"),
    _load("load_cpu_user_seconds", "s", _CPU, "shown", "CPU of ingestion, user", "process_cpu_seconds_user_total"),
    _load("load_cpu_system_seconds", "s", _CPU, "shown", "CPU of ingestion, system",
          "process_cpu_seconds_system_total"),
    _load("load_rss_end_bytes", "B", _RSS, "secondary", "Memory at the end of the load",
          "process_resident_memory_bytes"),
    _load("load_rss_peak_bytes", "B", _RSS, "shown", "Peak memory until the end of the load",
          "process_resident_memory_peak_bytes"),
    _load("load_io_read_bytes", "B", _OTHER, "secondary", "Bytes read by system calls in the load",
          "process_io_read_bytes_total"),
    _load("load_io_written_bytes", "B", _OTHER, "secondary", "Bytes written by system calls in the load",
          "process_io_written_bytes_total"),
    _load("load_storage_read_bytes", "B", _OTHER, "shown", "Bytes read from storage in the load",
          "process_io_storage_read_bytes_total"),
    _load("load_storage_written_bytes", "B", _OTHER, "shown", "Bytes written to storage in the load",
          "process_io_storage_written_bytes_total"),
    _load("load_client_cpu_seconds", "s", _OTHER, "shown", "CPU of the load generator", better="none"),
    _settle("drain_seconds", "s", _P99, "secondary", "Drain time after the load"),
    _load("slow_inserts", "rows", _OTHER, "secondary", "Slow inserts", counter="slow_inserts"),
    _settle("merges", "merges", _OTHER, "shown", "Merges until drained", better="none", counter="merges"),
    _settle("rows_merged", "rows", _P99, "secondary", "Rows merged until drained", counter="rows_merged"),
    _settle("load_cache_misses", "misses", _OTHER, "shown", "Cache misses until drained",
            better="none", counter="cache_misses"),
    _settle("bytes_per_sample", "B/sample", _DISK, "secondary", "Bytes a sample"),
    _query("query_rate", "queries/s", _SERVICE, "shown", "Query rate",
           better="higher", column="queries/s", geomean="shown"),
    _query("query_mean_ms", "ms", _SERVICE, "secondary", "Query time of several workers", column="mean, ms",
           geomean="secondary", headline=True, words=_SLOWER),
    _query("query_p50_ms", "ms", _SERVICE, "shown", "p50 service time", column="p50, ms"),
    _query("query_p95_ms", "ms", _P99, "shown", "p95 service time", column="p95, ms"),
    _query("query_p99_ms", "ms", _P99, "secondary", "p99 service time", column="p99, ms", least_n=1000),
    _query("query_p999_ms", "ms", _P99, "shown", "p99.9 service time"),
    _query("query_min_ms", "ms", _P99, "shown", "Least service time"),
    _query("query_max_ms", "ms", _P99, "shown", "Largest service time"),
    _query("query_stddev_ms", "ms", _P99, "shown", "Standard deviation of service times", better="none"),
    _query("query_seconds", "s", _OTHER, "shown", "Length of the query phase", better="none"),
    _query("query_count", "queries", _OTHER, "shown", "Queries of the phase", better="none"),
    _query("query_cpu_seconds", "s", _CPU, "secondary", "CPU of the query phase"),
    _query("query_client_cpu_seconds", "s", _OTHER, "shown", "CPU of the query generator", better="none"),
    _at("cache_hit_ratio", "query", "ratio", _OTHER, "shown", "Cache hit ratio of the queries", better="none"),
    _solo("cpu_seconds", "s", _CPU, "shown", "CPU of the whole solo part", "process_cpu_seconds_total"),
    _solo("gc_cpu_seconds", "s", _P99, "shown", "CPU of garbage collection, as Go estimates it",
          better="none", counter="gc_cpu"),
    _solo("rss_peak_bytes", "B", _RSS, "secondary", "Peak memory", "process_resident_memory_peak_bytes", headline=True),
    _solo("rss_mean_bytes", "B", _RSS, "secondary", "Mean memory", "process_resident_memory_bytes"),
    _solo("storage_written_bytes", "B", _DISK, "secondary", "Bytes written to storage, whole solo part",
          "process_io_storage_written_bytes_total"),
    _solo("major_faults", "faults", _P99, "shown", "Major page faults", "process_major_pagefaults_total"),
    _at("disk_bytes", "stop", "B", _DISK, "secondary", "Bytes on disk", headline=True),
    _at("start_seconds", "start", "s", _P99, "shown", "Start until healthy"),
    *(_upgrade(f"upgrade_{state}_typical_ms", phase, "ms", _SERVICE, "secondary", f"Query time {words}",
               per_type=True, geomean="primary", headline=True, words=_SLOWER)
      for state, (phase, _, words) in UPGRADE_STATES.items()),
    *(_upgrade(f"upgrade_{state}_cpu_us", phase, "us", _SERVICE, "shown", f"CPU of a query {words}",
               per_type=True, together="primary", headline=True)
      for state, (phase, _, words) in UPGRADE_STATES.items()),
    *(_upgrade(f"upgrade_{state}_total_ms", phase, "ms", _SERVICE, "shown", f"Total query time {words}",
               per_type=True, geomean="secondary") for state, (phase, _, words) in UPGRADE_STATES.items()),
    _upgrade("upgrade_start_seconds", "start", "s", _P99, "secondary", "Start on the old data until healthy",
             native=True, floor=0.2),
    _upgrade("upgrade_first_answer_seconds", "start", "s", _P99, "secondary", "First answer with data, from the start",
             headline=True, words=("later", "sooner"), native=True, floor=0.2),
    _upgrade("upgrade_quiet_seconds", "start", "s", _P99, "shown", "Quiet, from the start", native=True, floor=1.0),
    _upgrade("upgrade_migration_cpu_seconds", "start", "s", _CPU, "secondary", "CPU from the start until quiet",
             headline=True, native=True, floor=0.1),
    _upgrade("upgrade_migration_written_bytes", "start", "B", _DISK, "secondary",
             "Bytes written from the start until quiet", native=True, floor=1e6),
    _upgrade("upgrade_ingest_rate", "ingest", "samples/s", _RATE, "primary", "Ingestion rate on top of old data",
             better="higher", headline=True, words=_FASTER),
    _upgrade("upgrade_ingest_cpu_seconds", "ingest", "s", _CPU, "primary", "CPU of ingestion on top of old data",
             headline=True),
    _upgrade("upgrade_ingest_written_bytes", "ingest", "B", _DISK, "secondary",
             "Bytes written by ingestion on top of old data"),
    _upgrade("upgrade_disk_bytes", "after", "B", _DISK, "secondary", "Bytes on disk, old and new data", headline=True),
    _upgrade("upgrade_downgrade_starts", "downgrade", "ratio", _OTHER, "shown", "The baseline starts on what it leaves",
             better="none"),
    _upgrade("upgrade_downgrade_same", "downgrade", "ratio", _OTHER, "shown",
             "Answers of the downgraded baseline that are the same", better="none"),
    _at("stop_seconds", "stop", "s", _P99, "shown", "Graceful stop"),
)
# fmt: on

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def threshold(metric: Metric, overrides: Mapping[str, float]) -> float:
    """Return the threshold of a metric in percent; `overrides` are `design.thresholds` of the experiment."""
    return overrides.get(metric.name, metric.threshold)
