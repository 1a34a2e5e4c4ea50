"""Prometheus, loaded by remote write."""

from tsduel.core.target import Counter, Target
from tsduel.targets.database import GO_WORK, PROMQL_TYPES, Database, Needs, Program

DATABASE = Database(
    target=Target(
        name="prometheus",
        adapter="victoriametrics",
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
            **GO_WORK,
            "requests": Counter(name="prometheus_http_requests_total", labels={"handler": "/api/v1/query(_range)?"}),
        },
        # After a load it compacts block after block at once. From then on it looks once a minute and finds nothing.
        quiet=("active_merges",),
        still=("merges", "truncations"),
        ticks=(
            r"^(prometheus_tsdb_(head_samples_appended_total|compaction_populating_block|blocks_loaded"
            r"|storage_blocks_bytes|head_chunks_storage_size_bytes|wal_storage_size_bytes)$"
            r"|prometheus_http_requests_total$|process_resident_memory_bytes$)"
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
            # `make build` would need Node.js for the pages. Without the tag builtinassets there are no pages.
            own_command=("env", "CGO_ENABLED=0", "go", "build", "-tags", "netgo", "-o", "{output}", "./cmd/prometheus"),
            version_variable="github.com/prometheus/common/version.Version",
            tags="netgo",
            cgo=False,
        )
    },
    query_types=PROMQL_TYPES,
    # Measured with 400 series: 99 MB of memory at most, and 1.5 MB of disk for 468,000 samples. More series are in the
    # head block.
    needs=Needs(300 << 20, disk_a_series=3000, disk_a_sample=10, memory_least=300 << 20, memory_a_series=20_000),
    load_samples_s=150_000,
    # Half of --storage.tsdb.min-block-duration, so that no sample falls into a block that is being written.
    late_s=3600,
)
