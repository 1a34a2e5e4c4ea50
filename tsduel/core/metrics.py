"""The registry of metrics: one line a metric. A new metric is a line here and a line where its workload measures it.

`family` says which family of tests a metric is in (MEASUREMENT.md 5.5): `primary`, `secondary`, or `shown` for what is
printed but never judged because another metric says the same (queries/s is workers / mean service time in a closed loop).
`threshold` is the smallest change that matters, in percent; a name is unique without its phase.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower", "none"]
Family = Literal["primary", "secondary", "shown"]
Further = Literal["", "mixed", "capacity", "upgrade"]
"""A part of the block beside solo, duel and bench, which the phase tells apart."""

GEOMEAN, ALL = "geomean", "all"
"""Query types that are none: the geometric mean over types, and all exchanges together."""
EXCHANGE, IDLE = "exchange", "idle"


@dataclass(frozen=True)
class Metric:
    """One metric; `phase` is where it is measured ("" for the whole of its part), `known_as` what processes call it."""

    name: str
    phase: str
    unit: str
    better: Better
    threshold: float
    family: Family
    title: str
    known_as: str = ""
    counter: str = ""
    """Ours, of Target.counters, where it is one of the database's: it is known by that one's name."""
    per_type: bool = False
    per_role: bool = False
    """A row a component, of variants of several: its role stands where of others the query type does."""
    geomean: Family | None = None
    """Where set, compare adds the geometric mean over query types, in this family."""
    together: Family | None = None
    """Where set, there is a row of all query types together (ALL), in this family."""
    native: bool = False
    """Compared by differences in its own unit, since a value may be about zero."""
    floor: float = 0.0
    """The least difference that matters, in its own unit, where the threshold is a share of next to nothing."""
    least_n: int = 0
    """Judged from so many operations a block and variant on, otherwise only shown."""
    instead_of: str = ""
    """Where it is measured it is in the family of that metric, which says the same less precisely, and the other way round."""
    further: Further = ""

    @property
    def part(self) -> str:
        """Part of the block that it belongs to: solo, duel, bench, or a further one."""
        if self.further:
            return self.further
        return "duel" if self.phase in {EXCHANGE, IDLE} else "bench" if self.phase == "bench" else "solo"


UPGRADE_STATES = {
    "right_after": ("before", "right after", "right after the upgrade"),
    "half": ("after", "half new", "over half old, half new data"),
    "new": ("after", "all new", "over new data only"),
}
"""Of runs that start from the baseline's data: when queries are asked and over what. Phase, short and long words."""

# Defaults of MEASUREMENT.md 5, in percent.
_SERVICE, _RATE, _CPU, _RSS, _DISK, _P99, _OTHER = 2.0, 3.0, 3.0, 5.0, 5.0, 10.0, 5.0

# ruff: noqa: E501 - one line a metric, so that the table can be read and sorted as one
# fmt: off
_ALL = (
    Metric("duel_typical_ms", "exchange", "ms", "lower", _SERVICE, "secondary", "Service time, typical", per_type=True, geomean="primary"),
    Metric("duel_cpu_us", "exchange", "us", "lower", _SERVICE, "shown", "CPU an operation", per_type=True, together="primary"),
    Metric("load_rate", "load", "samples/s", "higher", _RATE, "primary", "Load rate"),
    Metric("load_cpu_seconds", "load", "s", "lower", _CPU, "primary", "CPU of the load", "process_cpu_seconds_total"),
    Metric("duel_total_ms", "exchange", "ms", "lower", _SERVICE, "secondary", "Service time, total", per_type=True, geomean="secondary"),
    Metric("duel_p50_ms", "exchange", "ms", "lower", _SERVICE, "shown", "p50 service time", per_type=True),
    Metric("duel_p95_ms", "exchange", "ms", "lower", _P99, "shown", "p95 service time", per_type=True),
    Metric("duel_min_ms", "exchange", "ms", "lower", _P99, "shown", "Least service time of the exchanges", per_type=True),
    Metric("duel_max_ms", "exchange", "ms", "lower", _P99, "shown", "Largest service time of the exchanges", per_type=True),
    Metric("duel_stddev_ms", "exchange", "ms", "none", _P99, "shown", "Standard deviation of service times of the exchanges", per_type=True),
    Metric("duel_p99_ms", "exchange", "ms", "lower", _P99, "secondary", "p99 service time", per_type=True, least_n=1000),
    Metric("duel_instructions", "exchange", "instructions", "lower", 1.0, "shown", "Instructions an operation", per_type=True, together="secondary"),
    Metric("duel_idle_cpu_ms", "idle", "ms/s", "lower", _P99, "secondary", "CPU when nobody asks", native=True, floor=1.0),
    Metric("duel_rss_bytes", "exchange", "B", "lower", _RSS, "secondary", "RSS after the exchanges", "process_resident_memory_bytes"),
    Metric("duel_client_cpu_ratio", "exchange", "ratio", "none", _OTHER, "shown", "CPU of the client, of one CPU", per_type=True),
    Metric("duel_rows_read", "exchange", "rows", "none", _OTHER, "shown", "Rows read a query", counter="rows_read", per_type=True, together="shown"),
    Metric("duel_index_searches", "exchange", "searches", "none", _OTHER, "shown", "Index searches a query", counter="index_searches", per_type=True, together="shown"),
    Metric("duel_cache_requests", "exchange", "requests", "none", _OTHER, "shown", "Cache requests a query", counter="cache_requests", per_type=True, together="shown"),
    Metric("duel_cache_misses", "exchange", "misses", "none", _OTHER, "shown", "Cache misses a query", counter="cache_misses", per_type=True, together="shown"),
    Metric("duel_gc_cpu_us", "exchange", "us", "none", _OTHER, "shown", "CPU of garbage collection a query", counter="gc_cpu", per_type=True, together="shown"),
    Metric("duel_load_typical_ms", "exchange", "ms", "lower", _RATE, "secondary", "Ingestion of a batch, typical", instead_of="load_rate"),
    Metric("duel_load_cpu_us", "exchange", "us", "lower", _CPU, "secondary", "CPU an ingested sample", instead_of="load_cpu_seconds"),
    Metric("duel_load_role_cpu_us", "exchange", "us", "lower", _CPU, "secondary", "CPU an ingested sample", per_role=True),
    Metric("duel_role_cpu_us", "exchange", "us", "lower", _SERVICE, "secondary", "CPU an operation", per_role=True),
    Metric("duel_role_rss_bytes", "exchange", "B", "lower", _RSS, "shown", "RSS after the exchanges", per_role=True),
    Metric("load_role_cpu_us", "settle", "us", "lower", _CPU, "secondary", "CPU a sample of the load", per_role=True),
    Metric("load_role_rss_peak_bytes", "settle", "B", "lower", _RSS, "shown", "Peak RSS until drained", per_role=True),
    Metric("load_role_io_read_bytes", "settle", "B", "lower", _OTHER, "shown", "Bytes read by system calls until drained", per_role=True),
    Metric("load_role_io_written_bytes", "settle", "B", "lower", _OTHER, "shown", "Bytes written by system calls until drained", per_role=True),
    Metric("load_role_storage_written_bytes", "settle", "B", "lower", _OTHER, "shown", "Bytes written to storage until drained", per_role=True),
    Metric("disk_role_bytes", "stop", "B", "lower", _DISK, "shown", "Bytes on disk after the stop", per_role=True),
    Metric("arrival_seconds", "settle", "s", "lower", _P99, "shown", "From the last acknowledged sample to the last stored"),
    Metric("mixed_query_p99_ms", "mixed", "ms", "lower", _P99, "primary", "p99 response time of queries at a fixed rate", further="mixed"),
    Metric("mixed_cpu_cores", "mixed", "cores", "lower", _CPU, "primary", "CPU at a fixed rate", further="mixed"),
    Metric("mixed_query_p50_ms", "mixed", "ms", "lower", _OTHER, "secondary", "p50 response time of queries at a fixed rate", further="mixed"),
    Metric("mixed_query_p90_ms", "mixed", "ms", "lower", _P99, "shown", "p90 response time of queries at a fixed rate", further="mixed"),
    Metric("mixed_query_p999_ms", "mixed", "ms", "lower", _P99, "shown", "p99.9 response time of queries at a fixed rate", further="mixed"),
    Metric("mixed_query_max_ms", "mixed", "ms", "lower", _P99, "shown", "Largest response time of queries at a fixed rate", further="mixed"),
    Metric("mixed_query_service_p50_ms", "mixed", "ms", "lower", _P99, "shown", "p50 service time of queries at a fixed rate", further="mixed"),
    Metric("mixed_query_service_p99_ms", "mixed", "ms", "lower", _P99, "shown", "p99 service time of queries at a fixed rate", further="mixed"),
    Metric("mixed_batch_p50_ms", "mixed", "ms", "lower", _OTHER, "secondary", "p50 response time of batches at a fixed rate", further="mixed"),
    Metric("mixed_batch_p90_ms", "mixed", "ms", "lower", _P99, "shown", "p90 response time of batches at a fixed rate", further="mixed"),
    Metric("mixed_batch_p99_ms", "mixed", "ms", "lower", _P99, "secondary", "p99 response time of batches at a fixed rate", further="mixed"),
    Metric("mixed_batch_p999_ms", "mixed", "ms", "lower", _P99, "shown", "p99.9 response time of batches at a fixed rate", further="mixed"),
    Metric("mixed_batch_max_ms", "mixed", "ms", "lower", _P99, "shown", "Largest response time of batches at a fixed rate", further="mixed"),
    Metric("mixed_batch_service_p50_ms", "mixed", "ms", "lower", _P99, "shown", "p50 service time of batches at a fixed rate", further="mixed"),
    Metric("mixed_batch_service_p99_ms", "mixed", "ms", "lower", _P99, "shown", "p99 service time of batches at a fixed rate", further="mixed"),
    Metric("mixed_rss_bytes", "mixed", "B", "lower", _RSS, "secondary", "RSS after a fixed rate", "process_resident_memory_bytes", further="mixed"),
    Metric("mixed_query_rate", "mixed", "queries/s", "none", _OTHER, "shown", "Queries answered at a fixed rate", further="mixed"),
    Metric("mixed_write_rate", "mixed", "samples/s", "none", _OTHER, "shown", "Samples stored at a fixed rate", further="mixed"),
    Metric("mixed_merges", "mixed", "merges", "none", _OTHER, "shown", "Merges at a fixed rate", "vm_merges_total", further="mixed"),
    Metric("mixed_rows_merged", "mixed", "rows", "none", _OTHER, "shown", "Rows merged at a fixed rate", "vm_rows_merged_total", further="mixed"),
    Metric("mixed_slow_inserts", "mixed", "rows", "none", _OTHER, "shown", "Slow inserts at a fixed rate", "vm_slow_row_inserts_total", further="mixed"),
    Metric("mixed_lateness_p999_ms", "mixed", "ms", "none", _OTHER, "shown", "p99.9 lateness of the client at a fixed rate", further="mixed"),
    Metric("mixed_client_cpu_ratio", "mixed", "ratio", "none", _OTHER, "shown", "CPU of the client at a fixed rate, of its CPUs", further="mixed"),
    Metric("capacity_rate", "rung", "queries/s", "higher", _OTHER, "primary", "Capacity", further="capacity"),
    Metric("capacity_response_ms", "rung", "ms", "lower", _P99, "shown", "Response time at a rung", per_type=True, further="capacity"),
    Metric("load_seconds", "load", "s", "lower", _RATE, "shown", "Load time"),
    Metric("load_first_interval_rate", "load", "samples/s", "higher", _P99, "shown", "Load rate, first interval"),
    Metric("load_cpu_user_seconds", "load", "s", "lower", _CPU, "shown", "CPU of the load, user", "process_cpu_seconds_user_total"),
    Metric("load_cpu_system_seconds", "load", "s", "lower", _CPU, "shown", "CPU of the load, system", "process_cpu_seconds_system_total"),
    Metric("load_rss_end_bytes", "load", "B", "lower", _RSS, "secondary", "RSS at the end of the load", "process_resident_memory_bytes"),
    Metric("load_rss_peak_bytes", "load", "B", "lower", _RSS, "shown", "Peak RSS until the end of the load", "process_resident_memory_peak_bytes"),
    Metric("load_io_read_bytes", "load", "B", "lower", _OTHER, "secondary", "Bytes read by system calls in the load", "process_io_read_bytes_total"),
    Metric("load_io_written_bytes", "load", "B", "lower", _OTHER, "secondary", "Bytes written by system calls in the load", "process_io_written_bytes_total"),
    Metric("load_storage_read_bytes", "load", "B", "lower", _OTHER, "shown", "Bytes read from storage in the load", "process_io_storage_read_bytes_total"),
    Metric("load_storage_written_bytes", "load", "B", "lower", _OTHER, "shown", "Bytes written to storage in the load", "process_io_storage_written_bytes_total"),
    Metric("load_client_cpu_seconds", "load", "s", "none", _OTHER, "shown", "CPU of the load generator"),
    Metric("drain_seconds", "settle", "s", "lower", _P99, "secondary", "Drain time after the load"),
    Metric("slow_inserts", "load", "rows", "lower", _OTHER, "secondary", "Slow inserts", counter="slow_inserts"),
    Metric("merges", "settle", "merges", "none", _OTHER, "shown", "Merges until drained", counter="merges"),
    Metric("rows_merged", "settle", "rows", "lower", _P99, "secondary", "Rows merged until drained", counter="rows_merged"),
    Metric("load_cache_misses", "settle", "misses", "none", _OTHER, "shown", "Cache misses until drained", counter="cache_misses"),
    Metric("bytes_per_sample", "settle", "B/sample", "lower", _DISK, "secondary", "Bytes a sample"),
    Metric("query_rate", "query", "queries/s", "higher", _SERVICE, "shown", "Query rate", per_type=True, geomean="shown"),
    Metric("query_mean_ms", "query", "ms", "lower", _SERVICE, "secondary", "Mean service time", per_type=True, geomean="secondary"),
    Metric("query_p50_ms", "query", "ms", "lower", _SERVICE, "shown", "p50 service time", per_type=True),
    Metric("query_p95_ms", "query", "ms", "lower", _P99, "shown", "p95 service time", per_type=True),
    Metric("query_p99_ms", "query", "ms", "lower", _P99, "secondary", "p99 service time", per_type=True, least_n=1000),
    Metric("query_p999_ms", "query", "ms", "lower", _P99, "shown", "p99.9 service time", per_type=True),
    Metric("query_min_ms", "query", "ms", "lower", _P99, "shown", "Least service time", per_type=True),
    Metric("query_max_ms", "query", "ms", "lower", _P99, "shown", "Largest service time", per_type=True),
    Metric("query_stddev_ms", "query", "ms", "none", _P99, "shown", "Standard deviation of service times", per_type=True),
    Metric("query_seconds", "query", "s", "none", _OTHER, "shown", "Length of the query phase", per_type=True),
    Metric("query_count", "query", "queries", "none", _OTHER, "shown", "Queries of the phase", per_type=True),
    Metric("query_cpu_seconds", "query", "s", "lower", _CPU, "secondary", "CPU of the query phase", per_type=True),
    Metric("query_client_cpu_seconds", "query", "s", "none", _OTHER, "shown", "CPU of the query generator", per_type=True),
    Metric("cache_hit_ratio", "query", "ratio", "none", _OTHER, "shown", "Cache hit ratio of the queries"),
    Metric("cpu_seconds", "", "s", "lower", _CPU, "shown", "CPU of the whole solo part", "process_cpu_seconds_total"),
    Metric("gc_cpu_seconds", "", "s", "none", _P99, "shown", "CPU of garbage collection, as Go estimates it", counter="gc_cpu"),
    Metric("rss_peak_bytes", "", "B", "lower", _RSS, "secondary", "Peak RSS", "process_resident_memory_peak_bytes"),
    Metric("rss_mean_bytes", "", "B", "lower", _RSS, "secondary", "Mean RSS", "process_resident_memory_bytes"),
    Metric("storage_written_bytes", "", "B", "lower", _DISK, "secondary", "Bytes written to storage, whole solo part", "process_io_storage_written_bytes_total"),
    Metric("major_faults", "", "faults", "lower", _P99, "shown", "Major page faults", "process_major_pagefaults_total"),
    Metric("disk_bytes", "stop", "B", "lower", _DISK, "secondary", "Bytes on disk after the stop"),
    Metric("start_seconds", "start", "s", "lower", _P99, "shown", "Start until healthy"),
    *(Metric(f"upgrade_{state}_typical_ms", phase, "ms", "lower", _SERVICE, "secondary", f"Service time {title}", per_type=True, geomean="primary", further="upgrade") for state, (phase, title, _) in UPGRADE_STATES.items()),
    *(Metric(f"upgrade_{state}_cpu_us", phase, "us", "lower", _SERVICE, "shown", f"CPU {title}", per_type=True, together="primary", further="upgrade") for state, (phase, title, _) in UPGRADE_STATES.items()),
    *(Metric(f"upgrade_{state}_total_ms", phase, "ms", "lower", _SERVICE, "shown", f"Service time {title}, total", per_type=True, geomean="secondary", further="upgrade") for state, (phase, title, _) in UPGRADE_STATES.items()),
    Metric("upgrade_start_seconds", "start", "s", "lower", _P99, "secondary", "Start on the old data until healthy", native=True, floor=0.2, further="upgrade"),
    Metric("upgrade_first_answer_seconds", "start", "s", "lower", _P99, "secondary", "First answer with data, from the start", native=True, floor=0.2, further="upgrade"),
    Metric("upgrade_quiet_seconds", "start", "s", "lower", _P99, "shown", "Quiet, from the start", native=True, floor=1.0, further="upgrade"),
    Metric("upgrade_migration_cpu_seconds", "start", "s", "lower", _CPU, "secondary", "CPU from the start until quiet", native=True, floor=0.1, further="upgrade"),
    Metric("upgrade_migration_written_bytes", "start", "B", "lower", _DISK, "secondary", "Bytes written from the start until quiet", native=True, floor=1e6, further="upgrade"),
    Metric("upgrade_ingest_rate", "ingest", "samples/s", "higher", _RATE, "primary", "Load rate on top of old data", further="upgrade"),
    Metric("upgrade_ingest_cpu_seconds", "ingest", "s", "lower", _CPU, "primary", "CPU of that load and its merges", further="upgrade"),
    Metric("upgrade_ingest_written_bytes", "ingest", "B", "lower", _DISK, "secondary", "Bytes written by that load and its merges", further="upgrade"),
    Metric("upgrade_disk_bytes", "after", "B", "lower", _DISK, "secondary", "Bytes on disk, old and new data", further="upgrade"),
    Metric("upgrade_downgrade_starts", "downgrade", "ratio", "none", _OTHER, "shown", "The baseline starts on what it leaves", further="upgrade"),
    Metric("upgrade_downgrade_same", "downgrade", "ratio", "none", _OTHER, "shown", "Answers of the downgraded baseline that are the same", further="upgrade"),
    Metric("stop_seconds", "stop", "s", "lower", _P99, "shown", "Graceful stop"),
)
# fmt: on

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def threshold(metric: Metric, overrides: Mapping[str, float]) -> float:
    """Practical threshold of a metric in percent; the experiment's `design.thresholds` may say otherwise."""
    return overrides.get(metric.name, metric.threshold)
