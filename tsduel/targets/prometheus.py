"""Prometheus, a server that is written to by remote write."""

from tsduel.core.plan import Counter, Target
from tsduel.targets.database import Database, Needs, Program

DATABASE = Database(
    target=Target(
        name="prometheus",
        data_format="prometheus",
        query_format="victoriametrics",
        query_form="prometheus",
        answers="prometheus",
        trouble=r'level=ERROR|"level":"ERROR"|\bpanic\b|fatal error:',
        refused_flags=("--config.file", "--web.listen-address", "--storage.tsdb.path", "--storage.agent.path"),
        counters={
            "stored": Counter(name="prometheus_tsdb_head_samples_appended_total"),
            "ignored": Counter(
                name="prometheus_tsdb_out_of_order_samples_total|prometheus_tsdb_too_old_samples_total"
                "|prometheus_tsdb_out_of_bound_samples_total"
            ),
            "invalid": Counter(name="prometheus_api_remote_write_invalid_labels_samples_total"),
            "rows_read": Counter(name="prometheus_engine_query_samples_total"),
            "merges": Counter(name="prometheus_tsdb_compactions_total"),
            "truncations": Counter(
                name="prometheus_tsdb_head_truncations_total|prometheus_tsdb_checkpoint_creations_total"
            ),
            "active_merges": Counter(name="prometheus_tsdb_compaction_populating_block"),
            "parts": Counter(name="prometheus_tsdb_blocks_loaded"),
            "bytes_kept": Counter(
                name="prometheus_tsdb_storage_blocks_bytes|prometheus_tsdb_head_chunks_storage_size_bytes"
                "|prometheus_tsdb_wal_storage_size_bytes"
            ),
            "requests": Counter(name="prometheus_http_requests_total", labels={"handler": "/api/v1/query_range"}),
        },
        # What a load leaves to compact it compacts at once, block after block; then it looks once a minute, and finds
        # nothing.
        quiet=("active_merges",),
        still=("merges", "truncations"),
        ticks=(
            r"^(prometheus_tsdb_(head_samples_appended_total|compaction_populating_block|blocks_loaded|storage_blocks_bytes"
            r"|head_chunks_storage_size_bytes|wal_storage_size_bytes)$|prometheus_http_requests_total$|process_resident_memory_bytes$)"
        ),
        protocol="Prometheus' remote write",
        pprof="/debug/pprof",
        name_prefix="cpu_",
    ),
    programs={
        "server": Program(
            name="prometheus",
            module="github.com/prometheus/prometheus",
            package="./cmd/prometheus",
            output="prometheus",
            # Not `make build`, which wants Node.js for the pages: without builtinassets there are none.
            own_command=("env", "CGO_ENABLED=0", "go", "build", "-tags", "netgo", "-o", "{output}", "./cmd/prometheus"),
            version_variable="github.com/prometheus/common/version.Version",
            tags="netgo",
            cgo=False,
        )
    },
    # All that TSBS asks VictoriaMetrics.
    query_types=(
        *("single-groupby-1-1-1", "single-groupby-1-1-12", "single-groupby-1-8-1"),
        *("single-groupby-5-1-1", "single-groupby-5-1-12", "single-groupby-5-8-1"),
        *("cpu-max-all-1", "cpu-max-all-8", "cpu-max-all-32-24"),
        *("double-groupby-1", "double-groupby-5", "double-groupby-all"),
    ),
    # 400 series had 99 MB at most, and 1.5 MB on disk for 468,000 samples; beyond it a series is one of the head.
    needs=Needs(
        disk_least=300 << 20,
        disk_a_series=3000,
        disk_a_sample=10,
        memory_least=300 << 20,
        memory_a_series=20_000,
    ),
    load_samples_s=150_000,
    # Half of --storage.tsdb.min-block-duration: no sample is put where a block may be being written.
    late_s=3600,
)
