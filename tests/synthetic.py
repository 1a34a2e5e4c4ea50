"""Write a run directory as a real run would leave it, of any size and with any trouble: for tests and `make bench`.

    python tests/synthetic.py DIR [--blocks 8] [--exchanges 2000]

Figures of a variant are the baseline's times its `Spec.factors`; everything else is drawn from a seed, so that the same
arguments give the same bytes.
"""

import argparse
import gzip
import json
import math
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from fakeproject import agent

from tsduel.core.plan import Plan
from tsduel.core.sections import Noise
from tsduel.core.tables import BLOCKS_TSV, COINS
from tsduel.targets import databases
from tsduel.tidy import tables as tidy
from tsduel.workloads.tsbs.plan import TSBS_VERSION
from tsduel.workloads.tsbs.queries import PARTITION_INDEX_TYPES as QUERY_TYPES

TWO_TYPES = ("cpu-max-all-1", "double-groupby-1")
HOST = {
    "host": "host1", "hostname": "bench-1", "os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1.0-28-cloud-amd64",
    "cpu_model": "Intel(R) Xeon(R) CPU @ 2.20GHz", "cpus": 8, "memory_bytes": 33_662_283_776, "swap_bytes": 0,
    "environment": {"HOME": "/root", "LANG": "C.UTF-8", "PATH": "/usr/bin"},
    "boot_id": "b00t", "virtualization": "kvm", "governor": "", "transparent_hugepage": "madvise",
    "filesystem": "ext4", "disk_free_bytes": 90_000_000_000, "cgroup": "v2", "cpu_limit": None,
    "pin": {"mode": "auto", "server": [2, 3, 4, 5, 6, 7], "client": [0, 1], "reason": ""},
    "instructions": False, "instructions_why": "the kernel offers no hardware counters here",
}  # fmt: skip
CLOCK = 1_795_184_000.0
BLOCK_S = 90.0
NOISE = Noise().model_dump()


@dataclass(frozen=True)
class Spec:
    """Size, shape and trouble of a synthetic run; numbers of blocks are keys where something befalls one.

    `factors` by variant: rate and cpu (of loading), service and query_cpu (of exchanges), solo (service time of the
    closed loop), bytes, rss, drain, idle. `noise` is the relative standard deviation of a figure of the solo part,
    `between` that of a block's true service ratio, `sitting` that of one sitting, `within` that of one exchange;
    `second_effect` is what a side takes longer that was started second. With `load` in_turn nobody loads alone, but
    for a load of `alone_s` in the warm-up block.
    `failed`: block -> (variant or "", part, message); `spoilt`: block -> cause; `void`: block -> reason;
    `wrong`: block -> (check, variant, query type, message), a failed check that left the block's status alone.
    `changes` are laid over the plan.
    """

    name: str = "synthetic"
    blocks: int = 6
    warmup_blocks: int = 1
    spare_blocks: int = 0
    spares_run: int = 0
    variants: tuple[str, ...] = ("baseline", "candidate")
    query_types: tuple[str, ...] = QUERY_TYPES
    load_s: float = 12.0
    samples: int = 10_800_000
    exchanges: int = 120
    empty: int = 0
    solo_s: float = 0.0
    duel: bool = True
    duel_load: bool = False
    load: str = "solo"
    alone_s: float = 0.0
    sittings: int = 2
    load_sittings: int = 1
    instructions: bool = False
    extra_edge_lines: int = 0
    seed: int = 1
    noise: float = 0.01
    between: float = 0.003
    within: float = 0.03
    sitting: float = 0.0
    second_effect: float = 0.0
    factors: Mapping[str, Mapping[str, float]] = field(
        default_factory=lambda: {"candidate": {"rate": 0.92, "cpu": 1.08, "service": 1.05, "query_cpu": 1.04}}
    )
    failed: Mapping[int, tuple[str, str, str]] = field(default_factory=dict)
    spoilt: Mapping[int, str] = field(default_factory=dict)
    void: Mapping[int, str] = field(default_factory=dict)
    wrong: Mapping[int, tuple[str, str, str, str]] = field(default_factory=dict)
    aa: bool = False
    smoke: bool = False
    reload: str = "every"
    changes: Mapping[str, Any] = field(default_factory=dict)

    def factor(self, variant: str, what: str) -> float:
        """Return what a variant's figure is multiplied by."""
        return self.factors.get(variant, {}).get(what, 1.0)

    @property
    def versions(self) -> dict[str, str]:
        """Variants and their versions, baseline first."""
        return {name: f"v1.{132 + i}.0" for i, name in enumerate(self.variants)}


def write_run(path: Path, spec: Spec) -> Path:
    """Write plan, build and raw of a run below `path`, which is the run directory."""
    for part in ("plan", "build", "raw/host1"):
        (path / part).mkdir(parents=True, exist_ok=True)
    dump(path / "plan/experiment.json", plan(path.name, spec) | dict(spec.changes))
    lines, signals, judged = ["\t".join(BLOCKS_TSV)], list[Any](), list[Any]()
    for block, kind in planned(spec):
        lines.append("\t".join([str(block), "host1", kind, *listed(spec, block, kind)]))
        if kind == "spare" and block > spec.blocks + spec.spares_run:
            continue
        record = write_block(path / f"raw/host1/{block:03}", spec, block, kind)
        causes = [spec.spoilt[block]] if block in spec.spoilt else []
        signals += _signals(record, causes)
        state = "failed" if record["status"] == "failed" else "invalid" if causes else "valid"
        if kind != "warmup":
            judged.append({"block": block, "kind": kind, "causes": causes, "state": state})
    (path / "plan/blocks.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    dump(path / "raw/host1/noise.json", {
        "schema": 2, "blocks": judged, "signals": signals,
    })  # fmt: skip
    write_host(path, spec)
    dump(path / "build/tsbs.json", {
        "version": TSBS_VERSION, "go_version": "go1.25.5", "bin_dir": "/x",
        "sha256": {"tsbs_load_victoriametrics": "f" * 64},
    })  # fmt: skip
    return path


def write_host(path: Path, spec: Spec) -> None:
    """Write what describes the machine, the data and the builds."""
    why = {"instructions": True, "instructions_why": ""} if spec.instructions else {}
    dump(path / "raw/host1.json", HOST | why)
    dump(path / "raw/host1/workload.json", {"data": [{"format": "victoriametrics", "sha256": "a" * 64}]})
    counts = dict.fromkeys(spec.query_types, spec.exchanges)
    dump(path / "raw/host1/calibration.json", {"counts": counts, "solo_counts": {}})
    for variant, version in spec.versions.items():
        dump(path / f"build/{variant}.json", {
            "variant": variant, "target": "victoriametrics", "source": "module", "ref": version,
            "revision": f"{variant:0<40}", "version": version, "go_version": "go1.25.5", "build_command": "go build",
            "cgo_enabled": False, "binary": "/x/victoria-metrics", "sha256": f"{variant:0<64}",
            "size_bytes": 25_000_000, "build_key": f"{variant:0<16}",
            "components": [{"role": "server", "binary": "/x/victoria-metrics", "sha256": f"{variant:0<64}"}],
        })  # fmt: skip
    dump(path / "build/agent.json", {
        "version": "0.1.0", "go_version": "go1.26.4", "sha256": "9" * 64, "binary": "/x/tsduel-host",
    })  # fmt: skip


def planned(spec: Spec) -> Iterator[tuple[int, str]]:
    """Yield the blocks of the plan and their kinds."""
    for block in range(1 - spec.warmup_blocks, spec.blocks + spec.spare_blocks + 1):
        yield block, "warmup" if block < 1 else "measured" if block <= spec.blocks else "spare"


def ordered(spec: Spec, block: int) -> tuple[str, ...]:
    """Return the variants in the order of a block: AB BA, and so on in turn where there are more."""
    shift = block % len(spec.variants)
    return spec.variants[shift:] + spec.variants[:shift]


def coins(spec: Spec, block: int) -> dict[str, tuple[str, ...]]:
    """Return who comes first by each coin: of two variants, over eight blocks none goes with another."""
    bits = (0, (block >> 1) & 1, (block >> 2) & 1)
    shifts = [block + bit for bit in (*bits, sum(bits))]
    every = [spec.variants[at % len(spec.variants) :] + spec.variants[: at % len(spec.variants)] for at in shifts]
    return dict(zip(COINS, every, strict=True))


def listed(spec: Spec, block: int, kind: str) -> list[str]:
    """Return the last columns of a line of plan/blocks.tsv."""
    by = ["" if kind == "spare" else ",".join(coin) for coin in coins(spec, block).values()]
    return [*by, ",".join(spec.query_types)]


def plan(run: str, spec: Spec) -> dict[str, Any]:
    """Return plan/experiment.json."""
    data = {"format": "victoriametrics"}
    alone = {"scale": 1500, "lines": spec.samples // 5, "samples": spec.samples * 2, "estimated_bytes": 1,
             "data": [data | {"key": "e" * 16}]} if spec.alone_s else None  # fmt: skip
    component = {"role": "server", "program": "victoria-metrics", "source": "module", "go": "local",
                 "sum": "h1:x"}  # fmt: skip
    variants = [
        {"name": name, "label": version, "target": "victoriametrics",
         "components": [component | {"ref": version, "label": version, "version": version,
                                     "revision": f"{name:0<40}", "build_key": f"{name:0<16}"}]}
        for name, version in spec.versions.items()
    ]  # fmt: skip
    types = [{"name": t, "seed": 8429 + i, "keys": {"victoriametrics": "k" * 16}}
             for i, t in enumerate(spec.query_types)]  # fmt: skip
    written = {
        "run": run, "name": spec.name, "question": "Does the partition index cost ingestion?",
        "kind": "tsbs", "smoke": spec.smoke, "screen": spec.blocks < 6, "aa": spec.aa,
        "created": "2026-11-20T14:00:00Z", "own": {"version": "0.1.0", "commit": ""},
        "asked": {"experiment": "experiments/local.yml"}, "variants": variants,
        "targets": {"victoriametrics": databases()["victoriametrics"].target.model_dump()},
        "design": {"blocks": spec.blocks, "warmup_blocks": spec.warmup_blocks, "spare_blocks": spec.spare_blocks,
                   "reload": spec.reload, "load": spec.load},
        "noise": NOISE, "watchdog": {}, "host": {"machine": "local"},
        "workload": {
            "scale": 1000, "start": "2025-06-01T00:00:00Z", "end": "2025-06-02T00:00:00Z", "interval_s": 80,
            "lines": spec.samples // 10, "samples": spec.samples, "estimated_bytes": spec.samples * 35,
            "data": [data | {"key": "d" * 16}], "alone": alone,
        },
        "queries": {"types": types, "solo": spec.solo_s > 0},
        "duel": {"batches": spec.duel_load or spec.load == "in_turn", "sittings": spec.sittings,
                 "load_sittings": spec.load_sittings, "counters": "type", "enabled": spec.duel},
        "settle": {"mode": "natural"}, "tsbs": {"version": TSBS_VERSION},
        "estimate": {"data_bytes": 1, "query_bytes": 1, "database_bytes": 1, "results_bytes": 1},
        "duration": {"prepare_s": 60, "workload_s": 30, "block_s": 60, "total_s": 600},
        "report": {},
    }  # fmt: skip
    return Plan.model_validate_json(json.dumps(written)).model_dump(mode="json")


def write_block(path: Path, spec: Spec, block: int, kind: str) -> dict[str, Any]:
    """Write one block and return its record."""
    path.mkdir(parents=True)
    draw = np.random.default_rng([spec.seed, block + 10])
    order, started = ordered(spec, block), CLOCK + (block + 1) * BLOCK_S
    variant, part, message = spec.failed.get(block, (None, "", ""))
    failed_solo = {variant} if part == "solo" else set()
    record: dict[str, Any] = {
        "schema": 1, "block": block, "host": "host1", "kind": kind,
        **{name: list(coin) for name, coin in coins(spec, block).items()},
        "query_types": list(spec.query_types), "status": "failed" if block in spec.failed else "ok",
        "failures": [] if variant is None else [
            {"variant": variant, "part": part, "phase": "load" if part == "solo" else "exchange", "query_type": "",
             "message": message}],
        "void": spec.void.get(block, ""), "started": started,
        "phases": [], "solo": {}, "duel": None, "checks": [], "ratios": {},
    }  # fmt: skip
    clock = started
    large = kind == "warmup" and spec.alone_s > 0
    own = replace(spec, load_s=spec.alone_s, samples=spec.samples * 2) if large else spec
    for name in order:
        if spec.load == "solo" or large:
            clock = _Solo(path / name, own, name, draw, record, dead=name in failed_solo).write(clock) + 0.5
        else:
            record["solo"][name] = {
                "sizes": {"disk_bytes": round(3e7 * spec.factor(name, "bytes") * float(draw.normal(1, spec.noise)))}
            }
    alive = [name for name in spec.variants if not (block in spec.failed and name == variant)]
    if spec.duel and spec.variants[0] in alive and len(alive) > 1:
        clock = _duel(path / "duel", spec, alive, draw, record, clock)
    timed = [p for p in record["phases"] if p["phase"] in {"load", "query", "exchange"}]
    record |= {"ended": clock, "timed_s": round(sum(p["end"] - p["begin"] for p in timed), 3)}
    record["checks"] += _checks(spec, record, block)
    dump(path / "block.json", record)
    return record


def _phase(
    record: dict[str, Any], variant: str, part: str, phase: str, times: tuple[float, float], **more: Any
) -> None:
    begin, end = times
    record["phases"].append({
        "variant": variant, "part": part, "phase": phase, "query_type": "", "begin": round(begin, 6),
        "end": round(end, 6), "client_user_s": round((end - begin) * 0.3, 3), "client_system_s": 0.1,
    } | more)  # fmt: skip


@dataclass
class _Solo:
    """A variant alone: what it loads, and every counter that its snapshots show."""

    path: Path
    spec: Spec
    variant: str
    draw: np.random.Generator
    record: dict[str, Any]
    dead: bool = False
    cpu: float = 0.5
    rss: float = 3e8
    inserted: float = 0.0
    written: float = 0.0
    rows_read: float = 0.0
    requests: int = 0
    snaps: list[str] = field(default_factory=list)

    def vary(self, base: float, what: str) -> float:
        """Return a figure of this variant with its noise."""
        return base * self.spec.factor(self.variant, what) * float(self.draw.normal(1.0, self.spec.noise))

    def snap(self, at: float, head: str) -> None:
        """Add a snapshot."""
        body = _body(self, full=head != "tick")
        self.snaps.append(f"# snapshot {at:.6f} {head}\n{body}")

    def phase(self, phase: str, begin: float, end: float, **more: Any) -> None:
        """Add a phase to the block's record."""
        _phase(self.record, self.variant, "solo", phase, (begin, end), **more)

    def write(self, clock: float) -> float:
        """Write the files of the solo part and return when it has ended."""
        (self.path / "query").mkdir(parents=True)
        start_s = self.vary(0.3, "start")
        self.phase("canary", clock, clock + 1.5)
        self.phase("start", clock + 1.5, clock + 1.5 + start_s)
        clock += 2.0 + start_s
        solo: dict[str, Any] = {"start_s": round(start_s, 6), "cpu_ns": {}}
        self.record["solo"][self.variant] = solo
        (self.path / "server.log").write_text("2026-11-20T14:24:11.652Z\tinfo\tapp/main.go:1\tstarted\n", "utf-8")
        if self.dead:
            self.phase("load", clock, clock + 1.0, exit=1)
            return clock + 1.0
        clock = self.load(clock, solo)
        if self.spec.solo_s:
            clock = self.queries(clock, solo)
        self.snap(clock, "edge stop begin")
        stop_s = self.vary(0.4, "stop")
        self.phase("stop", clock, clock + stop_s)
        solo |= {
            "stop_s": round(stop_s, 6),
            "sizes": {"disk_bytes": round(self.vary(self.spec.samples * 0.55, "bytes"))},
        }
        with gzip.GzipFile(self.path / "metrics.prom.gz", "wb", compresslevel=1, mtime=0) as stream:
            stream.write("".join(self.snaps).encode())
        return clock + stop_s

    def load(self, begin: float, solo: dict[str, Any]) -> float:
        """Load and settle."""
        spec = self.spec
        seconds = self.vary(spec.load_s, "") / spec.factor(self.variant, "rate")
        cores = self.vary(1.6, "cpu") * spec.factor(self.variant, "rate")
        self.snap(begin, "edge load begin")
        peak = self.vary(1.1e9, "rss")
        shape = 1.0 + 0.1 * self.draw.random(int(seconds)) - 0.25 * (np.arange(int(seconds)) % 7 == 6)
        for second in range(1, int(seconds) + 1):
            share = second / seconds
            self.inserted = round(spec.samples * share)
            self.cpu, self.written = 0.5 + cores * second, spec.samples * 5.2 * share
            self.rss = 3e8 + (peak - 3e8) * share
            self.snap(begin + second, "tick")
        self.inserted, self.cpu, self.rss = spec.samples, 0.5 + cores * seconds, peak
        self.written = self.vary(spec.samples * 5.2, "bytes")
        end = begin + seconds
        self.snap(end, "edge load end")
        self.phase("load", begin, end, count=spec.samples)
        _load_files(self.path, spec.samples, (begin, seconds), shape)
        drain_s = self.vary(1.7, "drain")
        solo |= {"drain_s": round(drain_s, 6)}
        solo["cpu_ns"]["load"] = round(cores * seconds * 1e9)
        self.cpu += 0.2 * drain_s
        solo["cpu_ns"]["drained"] = round((self.cpu - 0.5) * 1e9)
        clock = end + drain_s + 3.0
        self.snap(clock, "edge settle end")
        self.phase("settle", end, clock)
        return clock

    def queries(self, clock: float, solo: dict[str, Any]) -> float:
        """Run TSBS's closed loop of each type."""
        for i, query_type in enumerate(self.spec.query_types):
            count = round(3000 / (i + 1) ** 1.5 * self.spec.solo_s)
            rate = self.vary(3000 / (i + 1) ** 1.5, "") / self.spec.factor(self.variant, "solo")
            begin, seconds = clock, count / rate
            self.snap(begin, f"edge query begin {query_type}")
            base = self.cpu
            for second in range(1, int(seconds) + 1):
                self.cpu, self.requests = base + 3.1 * second, self.requests + round(rate)
                self.snap(begin + second, "tick")
            self.cpu, self.rows_read, clock = base + 3.1 * seconds, self.rows_read + count * 4000, begin + seconds
            solo["cpu_ns"][f"query:{query_type}"] = round(3.1 * seconds * 1e9)
            self.snap(clock, f"edge query end {query_type}")
            self.phase("query", begin, clock, query_type=query_type, count=count)
            _query_files(self.path / "query", query_type, count, rate, (begin, clock))
        return clock


def _body(server: _Solo, *, full: bool) -> str:
    cpu, rss, peak = server.cpu, server.rss, server.rss * 1.3
    lines = [
        f'tsduel_process_cpu_seconds_total{{mode="user",role="server"}} {cpu * 0.94:.2f}',
        f'tsduel_process_cpu_seconds_total{{mode="system",role="server"}} {cpu * 0.06:.2f}',
        f'tsduel_process_resident_memory_bytes{{role="server"}} {rss:.0f}',
        f'tsduel_process_resident_memory_peak_bytes{{role="server"}} {peak:.0f}',
        'tsduel_process_major_faults_total{role="server"} 0',
        f'tsduel_process_io_read_bytes_total{{role="server"}} {server.inserted * 39:.0f}',
        f'tsduel_process_io_written_bytes_total{{role="server"}} {server.written:.0f}',
        'tsduel_process_io_storage_read_bytes_total{role="server"} 0',
        f'tsduel_process_io_storage_written_bytes_total{{role="server"}} {server.written:.0f}',
        f"process_resident_memory_bytes {rss:.0f}",
        f'vm_rows_inserted_total{{type="influx"}} {server.inserted:.0f}',
        *(f'vm_pending_rows{{type="{t}"}} 0' for t in ("storage", "indexdb")),
        *(f'vm_active_merges{{type="{t}"}} 0' for t in ("storage/inmemory", "storage/small", "indexdb/file")),
        *(f'vm_data_size_bytes{{type="{t}"}} {server.inserted * s:.0f}'
          for t, s in (("storage/small", 0.4), ("indexdb/file", 0.1), ("storage/inmemory", 0), ("storage/big", 0))),
        *(f'vm_parts{{type="{t}"}} 3' for t in ("storage/inmemory", "storage/small", "storage/big")),
        f"vm_slow_row_inserts_total {10_000 if server.inserted else 0}",
        f'vm_http_requests_total{{path="/api/v1/query_range"}} {server.requests}',
        f"go_gc_cpu_seconds_total {cpu * 0.1:.4f}",
        f'vm_rows{{type="storage/small"}} {server.inserted:.0f}',
        'vm_rows{type="indexdb/file"} 92520',
    ]  # fmt: skip
    if full:
        lines += [
            f"vm_rows_added_to_storage_total {server.inserted:.0f}",
            'vm_rows_ignored_total{reason="big_timestamp"} 0',
            'vm_rows_invalid_total{type="influx"} 0',
            f"vm_rows_read_per_query_sum {server.rows_read:.0f}",
            f"vm_rows_read_per_query_count {server.requests}",
            f'vm_merges_total{{type="storage/small"}} {server.inserted // 1_000_000:.0f}',
            f'vm_rows_merged_total{{type="storage/small"}} {server.inserted * 2:.0f}',
            f'vm_cache_requests_total{{type="storage/tsid"}} {server.inserted + server.requests * 10:.0f}',
            f'vm_cache_misses_total{{type="storage/tsid"}} {1000 + server.requests:.0f}',
            *(f'vm_other_metric_bucket{{vmrange="{i}e+03...{i + 1}e+03"}} {i}'
              for i in range(server.spec.extra_edge_lines)),
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _load_files(path: Path, samples: int, times: tuple[float, float], shape: Any) -> None:
    begin, seconds = times
    mean, total, lines = samples / seconds, 0.0, []
    for i, part in enumerate(shape):
        rate = mean * float(part) * len(shape) / float(sum(shape))
        total += rate
        clock, overall = int(begin) + i + 1, total / (i + 1)
        lines.append(f"{clock},{rate:.2f},{total:E},{overall:.2f},{rate / 10:.2f},{total / 10:E},{overall / 10:.2f}")
    summary = [
        "", "Summary:",
        f"loaded {samples} metrics in {seconds:.3f}sec with 4 workers (mean rate {mean:.2f} metrics/sec)",
        f"loaded {samples // 10} rows in {seconds:.3f}sec with 4 workers (mean rate {mean / 10:.2f} rows/sec)",
    ]  # fmt: skip
    head = "time,per. metric/s,metric total,overall metric/s,per. row/s,row total,overall row/s"
    (path / "load.csv").write_text("\n".join([head, *lines, *summary]) + "\n", encoding="utf-8")
    dump(path / "load.json", {
        "RunnerConfig": {"reporting-period": 1_000_000_000}, "DurationMillis": int(seconds * 1000),
        "Totals": {"metricRate": mean},
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
    quantiles = {f"q{q}": mean * m for q, m in (("0", 0), ("50", 0.9), ("95", 2), ("99", 3), ("999", 5), ("100", 9))}
    dump(path / f"{query_type}.json", {
        "DurationMillis": int((end - begin) * 1000),
        "Totals": {"overallQuantiles": {"all_queries": quantiles}, "overallQueryRates": {"all_queries": rate}},
    })  # fmt: skip


def _duel(  # noqa: PLR0917 - a duel is made of all of these
    path: Path, spec: Spec, alive: list[str], draw: np.random.Generator, record: dict[str, Any], clock: float
) -> float:
    """Write the exchanges and what the record says of them; return when the duel has ended."""
    path.mkdir()
    _phase(record, "", "duel", "start", (clock, clock + 1.0))
    _phase(record, "", "duel", "idle", (clock + 1, clock + 2), query_type="before")
    clock += 2.0
    lines = ["query_type,sitting,k,order,bytes," + ",".join(f"{name}_ns" for name in spec.variants)]
    sat = _sittings(spec, alive, draw, record["start"])
    truth = {name: math.log(spec.factor(name, "service")) for name in alive}
    shift = {name: float(draw.normal(0, spec.between / math.sqrt(2))) for name in alive}
    types = []
    for i, query_type in enumerate(spec.query_types):
        n, base_ns = spec.exchanges, 2e5 * (i + 1) ** 1.5
        shared = draw.normal(0, 0.2, n)
        of = np.minimum(np.arange(n) * spec.sittings // n, spec.sittings - 1)
        moved = {name: truth[name] + shift[name] + sat[name][of] for name in alive}
        ns = {name: np.exp(math.log(base_ns) + shared + moved[name] + draw.normal(0, spec.within, n)) for name in alive}
        orders = [_turn(k, len(alive)) for k in range(n)]
        # As the host: a variant that has died has a column with nothing in it.
        columns = [np.round(ns[name]).astype(int).tolist() if name in alive else [""] * n for name in spec.variants]
        for k, row in enumerate(zip(*columns, strict=True)):
            lines.append(f"{query_type},{of[k]},{k},{orders[k]},{4000 + k % 7}," + ",".join(map(str, row)))
        seconds = float(sum(sum(one) for name, one in zip(spec.variants, columns, strict=True) if name in alive)) / 1e9
        per_op = {name: 1.6 * base_ns * spec.factor(name, "query_cpu") * math.exp(shift[name]) for name in alive}
        for at in range(spec.sittings):
            m = int((of == at).sum())
            cpu = {name: per_op[name] * m * math.exp(sat[name][at]) for name in alive}
            types.append({
                "query_type": query_type, "sitting": at, "exchanges": m, "compared": m,
                "seconds": round(seconds * m / n, 6),
                "cpu_ns": {name: round(cpu[name]) for name in alive}, "client_cpu_ns": round(3e4 * m),
                "turns": 3 * m // 2, "turn_s": 1e-4 * (3 * m // 2),
                "instructions": {name: round(cpu[name] * 3) for name in alive} if spec.instructions else None,
                "counters": {
                    name: {"rows_read": m * 4000.0 * spec.factor(name, "rows_read") * math.exp(shift[name]),
                           "index_searches": m * 3.0, "cache_requests": m * 10.0, "cache_misses": 0.0,
                           "gc_cpu": cpu[name] * 1e-10, "gc_runs": m * 2e-3,
                           "objects": m * 300.0 * spec.factor(name, "objects"), "object_bytes": m * 4e4,
                           "read_calls": m * 2.0, "write_calls": m * 1.0, "taken_off": 0.01,
                           "read_bytes": m * 300.0 * math.exp(shift[name]),
                           "written_bytes": m * 900.0 * math.exp(shift[name]),
                           "context_switches": m * 6.0 * math.exp(shift[name])}
                    for name in alive
                },
            })  # fmt: skip
        _phase(record, "", "duel", "exchange", (clock, clock + seconds), query_type=query_type, count=n)
        clock += seconds
    with gzip.GzipFile(path / "exchanges.csv.gz", "wb", compresslevel=1, mtime=0) as stream:
        stream.write(("\n".join(lines) + "\n").encode())
    idle = {name: 4e6 * spec.factor(name, "idle") * float(draw.normal(1, 0.05)) for name in alive}
    _phase(record, "", "duel", "idle", (clock, clock + 1), query_type="after")
    _phase(record, "", "duel", "stop", (clock + 1, clock + 1.6))
    record["duel"] = {
        "sittings": spec.sittings,
        "held_by": "control groups v2", "unheld": "",
        "places": [{"sitting": at, "variant": name, "role": "server", "frames": 40 + at}
                   for at in range(spec.sittings) for name in alive],
        "idle": [{"when": when, "seconds": 1.0, "cpu_ns": {name: round(idle[name]) for name in alive}}
                 for when in ("before", "after")],
        "types": types,
        "load": _exchanged_load(path, spec, alive, draw) if spec.duel_load or spec.load == "in_turn" else [],
        "rss_bytes": {name: round(4e8 * spec.factor(name, "rss")) for name in alive},
        "rss_peak_bytes": {name: round(5e8 * spec.factor(name, "rss")) for name in alive},
    }  # fmt: skip
    ratios = {name: truth[name] - truth[alive[0]] + shift[name] - shift[alive[0]] for name in alive[1:]}
    record["ratios"] = {
        name: {"load_rate": -0.01, "duel_typical_ms": d, "duel_cpu_us": d} for name, d in ratios.items()
    }
    return clock + 1.6


def _sittings(spec: Spec, alive: list[str], draw: np.random.Generator, start: list[str]) -> dict[str, Any]:
    """Return how much longer each side takes in each sitting: by chance, and where it is started second."""
    found = {}
    for name in alive:
        order = [start if at % 4 in {0, 3} else start[::-1] for at in range(spec.sittings)]
        second = np.array([spec.second_effect * (one.index(name) > 0) for one in order])
        chance = draw.normal(0, spec.sitting / math.sqrt(2), spec.sittings) if spec.sitting else 0.0
        found[name] = second + chance
    return found


def _turn(k: int, variants: int) -> str:
    """Return who went first, second, ...: B C C B of two, rotated of more."""
    if variants == 2:
        return "01" if k % 4 in {0, 3} else "10"
    return "".join(str((i + k) % variants) for i in range(variants))


def _exchanged_load(path: Path, spec: Spec, alive: list[str], draw: np.random.Generator) -> list[dict[str, Any]]:
    n = 200
    ns = [np.exp(math.log(4e6 / spec.factor(v, "rate")) + draw.normal(0, 0.05, n)).astype(int).tolist() for v in alive]
    columns = [ns[alive.index(v)] if v in alive else [""] * n for v in spec.variants]
    lines = ["sitting,k,order,first,lines," + ",".join(f"{name}_ns" for name in spec.variants)]
    of = [k * spec.load_sittings // n for k in range(n)]
    lines += [
        f"{of[k]},{k},{_turn(k, len(alive))},false,2000,{','.join(map(str, row))}"
        for k, row in enumerate(zip(*columns, strict=True))
    ]
    with gzip.GzipFile(path / "load.csv.gz", "wb", compresslevel=1, mtime=0) as stream:
        stream.write(("\n".join(lines) + "\n").encode())
    found = []
    for at in range(spec.load_sittings):
        own = {
            name: sum(t for t, sat in zip(one, of, strict=True) if sat == at)
            for name, one in zip(alive, ns, strict=True)
        }
        m = of.count(at)
        found.append({
            "sitting": at, "exchanges": m, "lines": m * 2000, "samples": m * 20_000, "seconds": sum(own.values()) / 1e9,
            "cpu_ns": {name: round(1.2 * took) for name, took in own.items()},
            "drained_cpu_ns": {name: round(1.5 * took) for name, took in own.items()}, "drain_s": 0.5,
            "counters": {
                name: {"objects": 6e3, "object_bytes": 6e7, "write_calls": 90.0, "written_bytes": 5e5,
                       "context_switches": 200.0}
                for name in own
            },
            "rss_peak_bytes": {name: round(4e8 * spec.factor(name, "rss")) for name in alive},
        })  # fmt: skip
    return found


def _checks(spec: Spec, record: dict[str, Any], block: int) -> list[dict[str, Any]]:  # noqa: C901 - a plain list
    """Return what the host checked: of a variant that failed only that it did."""
    found, failed = [], {f["variant"]: f for f in record["failures"]}

    def check(name: str, variant: str, expected: float, *, phase: str = "", query_type: str = "") -> None:
        found.append({"check": name, "variant": variant, "phase": phase, "query_type": query_type,
                      "expected": expected, "actual": expected, "ok": True, "message": ""})  # fmt: skip

    for variant in record["order"]:
        if variant in failed:
            fault = failed[variant]
            found.append({"check": "block_finished", "variant": variant, "phase": fault["phase"], "query_type": "",
                          "expected": 1, "actual": 0, "ok": False, "message": fault["message"]})  # fmt: skip
            continue
        check("block_finished", variant, 1)
        for name in ("samples_sent", "samples_inserted", "samples_stored"):
            check(name, variant, spec.samples, phase="load")
        for name in ("samples_ignored", "samples_invalid", "load_exit", "load_retries"):
            check(name, variant, 0, phase="load")
        for name, expected in (("server_log", 0), ("same_process", 100), ("listens_on_loopback", 1)):
            check(name, variant, expected)
        for query_type in spec.query_types if spec.solo_s else ():
            check("query_exit", variant, 0, phase="query", query_type=query_type)
            check("queries_answered", variant, spec.exchanges, phase="query", query_type=query_type)
    if record["duel"]:
        check("equal_start", "", 1, phase="start")
    for one in record["duel"]["types"] if record["duel"] else ():
        where = {"phase": "exchange", "query_type": one["query_type"]}
        check("exchanges_answered", "", one["exchanges"], **where)
        check("exchanges_same", "", 0, **where)
        for variant in one["cpu_ns"]:
            check("exchanges_empty", variant, spec.empty, **where)
            check("rows_read", variant, 1, **where)
    if block in spec.wrong:
        name, variant, query_type, message = spec.wrong[block]
        mine = [c for c in found if (c["check"], c["variant"], c["query_type"]) == (name, variant, query_type)]
        mine[0].update(actual=-1, ok=False, message=message)
    return found


def _signals(record: dict[str, Any], causes: list[str]) -> Iterator[dict[str, Any]]:
    for variant in record["order"]:
        yield {"block": record["block"], "variant": variant, "phase": "load", "query_type": "", "signal": "steal_pct",
               "value": 0.1, "unit": "%", "limit": 1.0, "effect": "ok", "message": ""}  # fmt: skip
    for cause in causes:
        yield {"block": record["block"], "variant": record["order"][0], "phase": "load", "query_type": "",
               "signal": "foreign_cpu_pct", "value": 12.0, "unit": "%", "limit": 5.0, "effect": "invalid",
               "message": cause}  # fmt: skip


def tidied(run: Path) -> Path:
    """Make the tables of a run's blocks, as the host does, and those of tidy/."""
    subprocess.run([agent(), "tidy", run], check=True)
    tidy.main(run)
    return run


def edit_plan(run: Path, **changes: Any) -> None:
    """Change fields of the plan."""
    edit(run / "plan/experiment.json", **changes)


def edit(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file."""
    dump(path, json.loads(path.read_text(encoding="utf-8")) | changes)


def dump(path: Path, value: Any) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Write a run from the command line; by default as large as that of experiments/local.yml."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--blocks", type=int, default=8, help="measured blocks; a warm-up block comes on top")
    parser.add_argument("--exchanges", type=int, default=2000, help="of each query type in a block")
    args = parser.parse_args()
    write_run(args.path, Spec(blocks=args.blocks, exchanges=args.exchanges, extra_edge_lines=1250))
    subprocess.run([agent(), "tidy", args.path], check=True)


if __name__ == "__main__":
    main()
