"""VictoriaMetrics, single-node: the server, optionally vmauth in front of it and vmagent before its ingestion."""

from tsduel.core.target import Counter, Target
from tsduel.targets.database import GO_WORK, PROMQL_TYPES, Database, Needs, Program

_OF_STORAGE = {"type": "storage/.*"}
_OF_CACHES = {"type": "(storage|indexdb)/.*"}
LISTENS = tuple(
    f"-{name}ListenAddr" for name in ("http", "httpInternal", "graphite", "influx", "opentsdb", "opentsdbHTTP")
)
"""Flags of addresses. VictoriaMetrics listens at every address that it is given: repeated flags add up."""
# Measured with 4,000 series: 286 MB of memory at most (results/example). More series need index entries and caches.
NEEDS = Needs(300 << 20, disk_a_series=3000, disk_a_sample=6, memory_least=400 << 20, memory_a_series=4000)


def program(name: str) -> Program:
    """Return one of the programs of VictoriaMetrics' module; all of them take their version in the same way."""
    return Program(
        name=name,
        module="github.com/VictoriaMetrics/VictoriaMetrics",
        package=f"./app/{name}",
        output=f"bin/{name}",
        own_command=("make", name),
        version_variable="github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version",
        version_prefix=f"{name}-",
    )


DATABASE = Database(
    target=Target(
        name="victoriametrics",
        data_format="victoriametrics",
        query_format="victoriametrics",
        answers="prometheus",
        volatile=r'"executionTimeMsec":\s*\d+',
        trouble=r"\bpanic\b|\tfatal\t|fatal error:",
        # Data must be in the directory that we wipe, and go nowhere else.
        refused_flags=(
            *LISTENS,
            "-storageDataPath",
            "-auth.config",
            "-remoteWrite.url",
            "-remoteWrite.tmpDataPath",
            # With this flag any flag could come from `env:`.
            "-envflag.enable",
        ),
        counters={
            # vmagent passes samples on by remote write.
            "inserted": Counter(
                name="vm_rows_inserted_total", labels={"type": "influx|promremotewrite|prometheus|vmimport"}
            ),
            "stored": Counter(name="vm_rows_added_to_storage_total"),
            "ignored": Counter(name="vm_rows_ignored_total"),
            "invalid": Counter(name="vm_rows_invalid_total"),
            "rows_read": Counter(name="vm_rows_read_per_query_sum"),
            "rows_read_queries": Counter(name="vm_rows_read_per_query_count"),
            "index_searches": Counter(name="vm_date_range_search_calls_total"),
            "slow_inserts": Counter(name="vm_slow_row_inserts_total"),
            "merges": Counter(name="vm_merges_total"),
            "rows_merged": Counter(name="vm_rows_merged_total", labels=_OF_STORAGE),
            "rows_kept": Counter(name="vm_rows", labels=_OF_STORAGE),
            "bytes_kept": Counter(name="vm_data_size_bytes"),
            "cache_requests": Counter(name="vm_cache_requests_total", labels=_OF_CACHES),
            "cache_misses": Counter(name="vm_cache_misses_total", labels=_OF_CACHES),
            # A process that has just started can have these only from <data>/cache, which an earlier process wrote.
            "answers_kept": Counter(name="vm_cache_entries", labels={"type": "promql/rollupResult|storage/tsid"}),
            "gc_cpu": Counter(name="go_gc_cpu_seconds_total"),
            **GO_WORK,
            "parts": Counter(name="vm_parts", labels=_OF_STORAGE),
            # What lies in memory becomes a file when the server stops.
            "index_files": Counter(name="vm_parts", labels={"type": "indexdb/(file|inmemory)"}),
            "inmemory_parts": Counter(name="vm_parts", labels={"type": ".*/inmemory"}),
            "pending": Counter(name="vm_pending_rows"),
            "active_merges": Counter(name="vm_active_merges"),
            "requests": Counter(name="vm_http_requests_total", labels={"path": "/api/v1/query(_range)?"}),
            "queued": Counter(name="vmagent_remotewrite_pending_data_bytes", role="vmagent"),
        },
        write_path="/write",
        own_paths={"influx": "/write", "exposition": "/api/v1/import/prometheus", "json": "/api/v1/import"},
        pprof="/debug/pprof",
        # Files of parts. Snapshots of VictoriaMetrics also share them by hard links. Other files are written again.
        immutable=r"(data/(small|big|indexdb)|indexdb)/[^/]+/[0-9A-F]{16}/[a-z]+\.bin",
        protocol="InfluxDB's line protocol",
        name_prefix="cpu_",
        queues=("vmagent",),
        quiet=("queued", "pending", "active_merges", "inmemory_parts"),
        # A forced merge is ignored while other merges run. It includes parts in memory.
        before_merge=("queued", "pending", "active_merges"),
        still=("merges",),
        ticks=(
            r"^(process_resident_memory_bytes$|vm_rows_inserted_total$|vm_pending_rows$|vm_active_merges$"
            r"|vm_data_size_bytes$|vm_parts$|vm_slow_row_inserts_total$|vm_new_timeseries_created_total$"
            r"|vm_http_requests_total$|go_gc_cpu|vm_rows$)"
        ),
    ),
    programs={"vmauth": program("vmauth"), "vmagent": program("vmagent"), "server": program("victoria-metrics")},
    query_types=PROMQL_TYPES,
    needs=NEEDS,
)
