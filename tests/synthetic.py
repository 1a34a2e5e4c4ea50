"""Write a run directory as a real run would leave it, of any size: for tests, and for `make bench`.

    python tests/synthetic.py DIR [--blocks 10] [--ticks 1200]

Candidate figures are the baseline's times `Spec.factors`; everything else is drawn from a seed, so that the same
arguments give the same bytes.
"""

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

QUERY_TYPES = (
    "single-groupby-1-1-1", "single-groupby-1-1-12", "single-groupby-1-8-1", "single-groupby-5-1-1",
    "single-groupby-5-1-12", "single-groupby-5-8-1", "cpu-max-all-1", "cpu-max-all-8", "double-groupby-1",
)  # fmt: skip
HOST = {
    "hostname": "bench-1", "os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1.0-28-cloud-amd64",
    "cpu_model": "Intel(R) Xeon(R) CPU @ 2.20GHz", "cpus": 8, "memory_bytes": 33_662_283_776, "swap_bytes": 0,
    "boot_id": "b00t", "virtualization": "kvm", "governor": "", "transparent_hugepage": "madvise",
    "filesystem": "ext4", "disk_free_bytes": 90_000_000_000,
}  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """Size and shape of a synthetic run. `factors` multiply the candidate's rate, cpu, query_rate, bytes, rss."""

    name: str = "synthetic"
    blocks: int = 6
    warmup_blocks: int = 1
    query_types: tuple[str, ...] = QUERY_TYPES
    load_s: int = 60
    query_s: float = 16.0
    samples: int = 10_800_000
    responses: int = 20
    extra_edge_lines: int = 0
    seed: int = 1
    noise: float = 0.02
    factors: dict[str, float] = field(default_factory=lambda: {"rate": 0.92, "cpu": 1.08, "query_rate": 1.2})
    order: tuple[tuple[str, ...], ...] = (("baseline", "candidate"), ("candidate", "baseline"))
    more_factors: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def versions(self) -> dict[str, str]:
        """Variants and their versions, baseline first; `more_factors` is for variants beyond the first two."""
        return {name: f"v1.{132 + i}.0" for i, name in enumerate(sorted(self.order[0]))}


def write_run(path: Path, spec: Spec) -> Path:
    """Write plan, build and raw of a run below `path`, which is the run directory."""
    for part in ("plan", "build", "raw"):
        (path / part).mkdir(parents=True, exist_ok=True)
    _dump(path / "plan/experiment.json", plan(path.name, spec))
    lines = ["block\tposition\tvariant\tkind\tquery_types"]
    clock = 1_795_184_000.0
    for block in range(1 - spec.warmup_blocks, spec.blocks + 1):
        for position, variant in enumerate(spec.order[block % len(spec.order)], start=1):
            kind = "measured" if block else "warmup"
            lines.append(f"{block}\t{position}\t{variant}\t{kind}\t{','.join(spec.query_types)}")
            clock = write_round(path / f"raw/{block:02}-{position}-{variant}", spec, block, position, variant, clock)
    (path / "plan/rounds.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _dump(path / "raw/host.json", HOST)
    _dump(path / "raw/workload.json", _workload(spec))
    for variant, version in spec.versions.items():
        _dump(path / f"build/{variant}.json", {
            "variant": variant, "target": "victoriametrics", "source": "module", "ref": version,
            "revision": f"{variant:0<40}", "version": version, "go_version": "go1.25.5", "build_command": "go build",
            "cgo_enabled": False, "binary": "/x/victoria-metrics", "sha256": f"{variant:0<64}",
            "size_bytes": 25_000_000, "build_key": f"{variant:0<16}",
        })  # fmt: skip
    _dump(path / "build/tsbs.json", {
        "version": "v0.0.0-20230921131859-37fced794d56", "go_version": "go1.25.5", "bin_dir": "/x",
        "sha256": {"tsbs_load_victoriametrics": "f" * 64},
    })  # fmt: skip
    return path


def plan(run: str, spec: Spec) -> dict[str, Any]:
    """Return a resolved experiment as plan/experiment.json holds it."""
    variants = [
        {
            "name": name, "label": version, "target": "victoriametrics", "source": "module", "ref": version,
            "repo": "", "path": "", "revision": f"{name:0<40}", "version": version, "sum": "h1:x", "dirty": "",
            "flags": [], "env": {}, "go": "local", "build_key": f"{name:0<16}",
        }
        for name, version in spec.versions.items()
    ]  # fmt: skip
    return {
        "schema": 1, "run": run, "name": spec.name, "question": "Does the partition index cost ingestion?",
        "kind": "tsbs", "aa": False, "created": "2026-11-20T14:00:00Z", "tsduel": {"version": "0.1.0", "commit": ""},
        "variants": variants,
        "workload": {
            "use_case": "cpu-only", "scale": 1000, "start": "2025-06-01T00:00:00Z", "end": "2025-06-02T00:00:00Z",
            "interval": "80s", "interval_s": 80, "seed": 8428, "workers": 4, "batch_size": 10000,
            "format": "victoriametrics", "lines": spec.samples // 10, "samples": spec.samples, "data_key": "d" * 16,
            "estimated_bytes": spec.samples * 35,
        },
        "queries": {
            "types": [{"name": t, "seed": 8430 + i, "responses_seed": 9430 + i, "key": "k" * 16}
                      for i, t in enumerate(spec.query_types)],
            "workers": 4, "count": None, "seconds": 15.0, "max_count": 20000, "cache": "as-loaded",
            "shared_seed": False, "responses": spec.responses,
        },
        "settle": {"mode": "natural", "timeout_s": 300, "polls": 3, "poll_s": 2},
        "design": {"blocks": spec.blocks, "warmup_blocks": spec.warmup_blocks, "seed": 1, "max_failed_rounds": 2,
                   "thresholds": {}},
        "watchdog": {"health_s": 60, "load_stall_s": 30, "query_stall_s": 60, "stop_s": 120},
        "host": {"port": 8428, "scrape_s": 1.0, "machine": "local"}, "noise": {},
    }  # fmt: skip


def _workload(spec: Spec) -> dict[str, Any]:
    return {
        "data": {"path": "/x/data.zst", "sha256": "a" * 64, "bytes": spec.samples * 3, "lines": spec.samples // 10,
                 "samples": spec.samples},
        "queries": [{"type": t, "path": f"/x/{t}", "sha256": "b" * 64, "bytes": 1000, "count": 4000,
                     "responses_path": f"/x/{t}.r", "responses_sha256": "c" * 64} for t in spec.query_types],
    }  # fmt: skip


@dataclass
class _Server:
    """The counters of a server that loads and answers; every figure a snapshot shows comes from here."""

    cpu: float = 0.5
    rss: float = 3e8
    inserted: float = 0.0
    written: float = 0.0
    rows_read: float = 0.0
    requests: int = 0

    def body(self, *, full: bool, extra: int) -> str:
        user, system, peak = self.cpu * 0.94, self.cpu * 0.06, self.rss * 1.3
        lines = [
            f'tsduel_process_cpu_seconds_total{{mode="user"}} {user:.2f}',
            f'tsduel_process_cpu_seconds_total{{mode="system"}} {system:.2f}',
            f"tsduel_process_resident_memory_bytes {self.rss:.0f}",
            f"tsduel_process_resident_memory_peak_bytes {peak:.0f}",
            "tsduel_process_major_faults_total 0",
            f"tsduel_process_io_read_bytes_total {self.inserted * 39:.0f}",
            f"tsduel_process_io_written_bytes_total {self.written:.0f}",
            "tsduel_process_io_storage_read_bytes_total 0",
            f"tsduel_process_io_storage_written_bytes_total {self.written:.0f}",
            *(f'tsduel_host_cpu_seconds_total{{mode="{m}"}} {self.cpu * 2:.2f}'
              for m in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")),
            *(f'tsduel_host_pressure_seconds_total{{resource="{r}"}} 0.1' for r in ("cpu", "io", "memory")),
            f"process_resident_memory_bytes {self.rss:.0f}",
            f'vm_rows_inserted_total{{type="influx"}} {self.inserted:.0f}',
            *(f'vm_pending_rows{{type="{t}"}} 0' for t in ("storage", "indexdb")),
            *(f'vm_active_merges{{type="{t}"}} 0' for t in ("storage/inmemory", "storage/small", "indexdb/file")),
            *(f'vm_data_size_bytes{{type="{t}"}} {self.inserted * s:.0f}'
              for t, s in (("storage/small", 0.4), ("indexdb/file", 0.1), ("storage/inmemory", 0), ("storage/big", 0))),
            *(f'vm_parts{{type="{t}"}} 3' for t in ("storage/inmemory", "storage/small", "storage/big")),
            "vm_slow_row_inserts_total 10000",
            "vm_new_timeseries_created_total 10000",
            f'vm_http_requests_total{{path="/api/v1/query_range"}} {self.requests}',
            f"go_gc_cpu_seconds_total {self.cpu * 0.1:.4f}",
            f'vm_rows{{type="storage/small"}} {self.inserted:.0f}',
            'vm_rows{type="indexdb/file"} 92520',
        ]  # fmt: skip
        if full:
            lines += [
                f"vm_rows_added_to_storage_total {self.inserted:.0f}",
                'vm_rows_ignored_total{reason="big_timestamp"} 0',
                'vm_rows_invalid_total{type="influx"} 0',
                'vm_rows_read_per_query_bucket{vmrange="3.594e+03...4.084e+03"} 520',
                f"vm_rows_read_per_query_sum {self.rows_read:.0f}",
                f"vm_rows_read_per_query_count {self.requests}",
                f'vm_merges_total{{type="storage/small"}} {self.inserted // 1_000_000:.0f}',
                f'vm_rows_merged_total{{type="storage/small"}} {self.inserted * 2:.0f}',
                f'vm_cache_requests_total{{type="storage/tsid"}} {self.inserted + self.requests * 10:.0f}',
                f'vm_cache_misses_total{{type="storage/tsid"}} {1000 + self.requests:.0f}',
                *(f'vm_other_metric_bucket{{vmrange="{i}e+03...{i + 1}e+03"}} {i}' for i in range(extra)),
            ]  # fmt: skip
        return "\n".join(lines) + "\n"


def write_round(  # noqa: PLR0915, PLR0917 - a round is a long list of small things
    path: Path, spec: Spec, block: int, position: int, variant: str, clock: float
) -> float:
    """Write one round that starts at `clock` (epoch seconds) and return when it ends."""
    (path / "query").mkdir(parents=True)
    (path / "responses").mkdir()
    rng = random.Random(f"{spec.seed}/{block}/{variant}")  # noqa: S311 - the same figures every time
    own = spec.factors if variant == "candidate" else spec.more_factors.get(variant, {})
    factor = {name: own.get(name, 1.0) for name in spec.factors}
    vary = lambda base, kind: base * factor.get(kind, 1.0) * rng.gauss(1.0, spec.noise)  # noqa: E731 - one line, used below
    server, snaps, phases, started = _Server(), list[str](), list[dict[str, Any]](), clock

    def snap(at: float, head: str) -> None:
        body = server.body(full=head != "tick", extra=spec.extra_edge_lines)
        snaps.append(f"# snapshot {at:.6f} {head}\n{body}")

    def phase(name: str, begin: float, end: float, query_type: str = "", count: int = 0) -> None:
        phases.append({"phase": name, "query_type": query_type, "begin": begin, "end": end, "exit": 0,
                       "client_user_s": (end - begin) * 0.3, "client_system_s": 0.1, "count": count,
                       "attempts": 1})  # fmt: skip

    phase("start", clock, clock + 0.3)
    clock += 1.0
    begin, seconds = clock, vary(spec.load_s, "") / factor.get("rate", 1.0)
    snap(begin, "edge load begin")
    cpu = vary(1.6, "cpu")
    shape = [1.0 + 0.1 * rng.random() - 0.25 * (i % 17 == 16) for i in range(int(seconds))]
    for second in _during(seconds):
        share = second / seconds
        server.inserted = round(spec.samples * share)
        server.cpu, server.written = 0.5 + cpu * second, spec.samples * 5.2 * share
        server.rss = vary(3e8 + 8e8 * share, "rss")
        snap(begin + second, "tick")
    server.inserted, server.cpu, server.rss = spec.samples, 0.5 + cpu * seconds, vary(1.1e9, "rss")
    clock = begin + seconds
    snap(clock, "edge load end")
    phase("load", begin, clock)
    _load_files(path, spec, begin, seconds, shape)
    begin, clock = clock, clock + vary(6.0, "")
    snap(clock, "edge settle end")
    phase("settle", begin, clock)
    begin, clock = clock, clock + 1.0
    phase("responses", begin, clock)
    for i, query_type in enumerate(spec.query_types):
        rate = vary(3000 / (i + 1) ** 1.5, "query_rate")
        count = round(3000 / (i + 1) ** 1.5 * spec.query_s)
        begin, seconds = clock, count / rate
        snap(begin, f"edge query begin {query_type}")
        base_cpu = server.cpu
        for second in _during(seconds):
            server.cpu, server.requests = base_cpu + 3.1 * second, server.requests + round(rate)
            snap(begin + second, "tick")
        server.cpu, server.rows_read, clock = base_cpu + 3.1 * seconds, server.rows_read + count * 4000, begin + seconds
        snap(clock, f"edge query end {query_type}")
        phase("query", begin, clock, query_type, count)
        _query_files(path / "query", query_type, count, rate, (begin, clock))
        _responses(path / "responses" / f"{query_type}.gz", spec.responses, rng.randrange(1, 9))
    snap(clock, "edge stop begin")
    phase("stop", clock, clock + 0.4)
    with gzip.GzipFile(path / "metrics.prom.gz", "wb", compresslevel=1, mtime=0) as stream:
        stream.write("".join(snaps).encode())
    (path / "server.log").write_text("2026-11-20T14:24:11.652Z\tinfo\tapp/main.go:1\tstarted\n", encoding="utf-8")
    _dump(path / "round.json", {
        "block": block, "position": position, "variant": variant, "kind": "measured" if block else "warmup",
        "status": "ok", "failure": None, "started": started, "ended": clock + 0.5, "boot_id": "b00t",
        "server_pid": 100 + block, "server_pid_end": 100 + block, "phases": phases,
        "sizes": {"disk_bytes": round(vary(spec.samples * 0.55, "bytes"))},
        "canary": {"cpu_s": 0.5, "memory_s": 0.5, "fsync_s": 0.2},
    })  # fmt: skip
    return clock + 2.0


def _during(seconds: float) -> Iterator[int]:
    return iter(range(1, int(seconds) + 1))


def _load_files(path: Path, spec: Spec, begin: float, seconds: float, shape: list[float]) -> None:
    mean, total, lines = spec.samples / seconds, 0.0, []
    scale = int(seconds) / sum(shape) if shape else 1.0
    for i, part in enumerate(shape):
        rate = mean * part * scale
        total += rate
        clock, overall = int(begin) + i + 1, total / (i + 1)
        lines.append(f"{clock},{rate:.2f},{total:E},{overall:.2f},{rate / 10:.2f},{total / 10:E},{overall / 10:.2f}")
    summary = [
        "", "Summary:",
        f"loaded {spec.samples} metrics in {seconds:.3f}sec with 4 workers (mean rate {mean:.2f} metrics/sec)",
        f"loaded {spec.samples // 10} rows in {seconds:.3f}sec with 4 workers (mean rate {mean / 10:.2f} rows/sec)",
    ]  # fmt: skip
    head = "time,per. metric/s,metric total,overall metric/s,per. row/s,row total,overall row/s"
    (path / "load.csv").write_text("\n".join([head, *lines, *summary]) + "\n", encoding="utf-8")
    (path / "load.stderr").write_text("", encoding="utf-8")
    _dump(path / "load.json", {
        "ResultFormatVersion": "0.1",
        "RunnerConfig": {"batch-size": 10000, "workers": 4, "reporting-period": 1_000_000_000},
        "StartTime": int(begin), "EndTime": int(begin + seconds), "DurationMillis": int(seconds * 1000),
        "Totals": {"metricRate": mean, "rowRate": mean / 10},
    })  # fmt: skip


def _query_files(path: Path, query_type: str, count: int, rate: float, times: tuple[float, float]) -> None:
    begin, end = times
    mean = 4000 / rate
    stats = (
        f"min: {mean / 3:8.2f}ms, med: {mean * 0.9:8.2f}ms, mean: {mean:8.2f}ms, max: {mean * 9:7.2f}ms,"
        f" stddev: {mean / 2:8.2f}ms, sum: {mean * count / 1000:5.1f}sec, count: {count}\n"
    )
    (path / f"{query_type}.stdout").write_text(
        f"Run complete after {count} queries with 4 workers (Overall query rate {rate:.2f} queries/sec):\n"
        f"VictoriaMetrics {query_type}:\n{stats}all queries      :\n{stats}wall clock time: {end - begin:.6f}sec\n",
        encoding="utf-8",
    )
    (path / f"{query_type}.stderr").write_text("", encoding="utf-8")
    quantiles = {f"q{q}": mean * m for q, m in (("0", 0), ("50", 0.9), ("95", 2), ("99", 3), ("999", 5), ("100", 9))}
    _dump(path / f"{query_type}.json", {
        "ResultFormatVersion": "0.1", "RunnerConfig": {"Limit": count, "Workers": 4},
        "StartTime": int(begin) * 1000, "EndTime": int(end) * 1000, "DurationMillis": int((end - begin) * 1000),
        "Totals": {"overallQuantiles": {"all_queries": quantiles}, "overallQueryRates": {"all_queries": rate}},
    })  # fmt: skip


def answer(number: int, value: str = "94", ms: int = 5, series: int = 10) -> str:
    """Return an answer of VictoriaMetrics as run_queries prints it."""
    body = {
        "status": "success",
        "data": {"resultType": "matrix", "result": [
            {"metric": {"__name__": f"cpu_{i}"}, "values": [[1748776840, value], [1748780440, "97"]]}
            for i in range(series)
        ]},
        "stats": {"seriesFetched": "10", "executionTimeMsec": ms},
    }  # fmt: skip
    return "".join(f"ID {number}: {line}\n" for line in json.dumps(body, indent=2).splitlines())


def _responses(path: Path, count: int, ms: int) -> None:
    write_answers(path, [answer(i, ms=ms) for i in range(count)])


def write_answers(path: Path, answers: list[str]) -> None:
    """Write a responses file."""
    with gzip.GzipFile(path, "wb", mtime=0) as stream:
        stream.write("".join(answers).encode())


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Write a run from the command line; by default the run of the benchmark: 20 rounds of 20 minutes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--blocks", type=int, default=9, help="measured blocks; a warm-up block comes on top")
    parser.add_argument("--ticks", type=int, default=1200, help="seconds a round, one tick each")
    args = parser.parse_args()
    spec = Spec(blocks=args.blocks, load_s=args.ticks * 3 // 4, query_s=args.ticks / 36, extra_edge_lines=1250)
    write_run(args.path, spec)


if __name__ == "__main__":
    main()
