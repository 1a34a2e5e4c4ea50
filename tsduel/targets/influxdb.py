"""InfluxDB 1.x."""

from tsduel.core.target import Counter, Target
from tsduel.targets.database import PROMQL_TYPES, Database, Needs, Program

# Without the metrics of its internal database.
_OURS = {"database": "benchmark"}
_MERGES = [f"tsm1_engine_tsm{level}Compactions" for level in ("Level1", "Level2", "Level3", "Full", "Optimize")]

DATABASE = Database(
    target=Target(
        name="influxdb",
        adapter="victoriametrics",
        data_format="influx",
        query_format="influx",
        query_arguments="&db=benchmark",
        answers="influxql",
        trouble=r"\bpanic:|\blvl=error\b|fatal error:",
        # A configuration file could name any directory and address. Experiments give settings by `env:`.
        refused_flags=("-config", "-pidfile"),
        # It does not count rows read or index searches, and has no cache of answers.
        counters={
            "inserted": Counter(name="httpd_valuesWrittenOK"),
            "stored": Counter(name="shard_writeValuesOk", labels=_OURS),
            "ignored": Counter(name="httpd_pointsWrittenDropped"),
            "invalid": Counter(name="httpd_pointsWrittenFail"),
            "bytes_kept": Counter(name="shard_diskBytes", labels=_OURS),
            "parts": Counter(name="tsm1_filestore_numFiles", labels=_OURS),
            "pending": Counter(name="tsm1_cache_memBytes", labels=_OURS),
            "requests": Counter(name="httpd_queryReq"),
            "objects": Counter(name="memstats_Mallocs"),
            "object_bytes": Counter(name="memstats_TotalAlloc"),
            "gc_runs": Counter(name="memstats_NumGC"),
            "merges": Counter(name="|".join(_MERGES), labels=_OURS),
            "active_merges": Counter(name="|".join(f"{merge}Active" for merge in _MERGES), labels=_OURS),
        },
        write_path="/write?db=benchmark",
        own_paths={"influx": "/write?db=benchmark"},
        tells_precision=True,
        pprof="/debug/pprof",
        protocol="InfluxDB's line protocol",
        name_prefix="cpu_",
        windows="start",
        quiet=("pending", "active_merges"),
        # A merge leaves out data in memory.
        before_merge=("pending", "active_merges"),
        still=("merges",),
    ),
    programs={
        "server": Program(
            name="influxd",
            module="github.com/influxdata/influxdb",
            package="./cmd/influxd",
            output="influxd",
            own_command=("go", "build", "-o", "influxd", "./cmd/influxd"),
            version_variable="main.version",
        )
    },
    # All types that TSBS has for cpu-only.
    query_types=(*PROMQL_TYPES, "high-cpu-1", "high-cpu-all", "lastpoint", "groupby-orderby-limit"),
    # Measured with 4,000 hosts on a busy machine: 523 MB of memory at most, and 6 bytes of disk a sample.
    needs=Needs(100 << 20, disk_a_series=1000, disk_a_sample=20, memory_least=400 << 20, memory_a_series=6000),
)
