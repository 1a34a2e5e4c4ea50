"""One round's raw files -> its measurements, one value a metric (and query type)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS
from tsduel.core.rundir import Round
from tsduel.targets import counters as c
from tsduel.tidy.exposition import Snapshot, difference, edge, read_snapshots
from tsduel.workloads.tsbs.output import (
    LoadOutput,
    LoadResults,
    QueryOutput,
    QueryResults,
    parse_load_json,
    parse_load_stdout,
    parse_query_json,
    parse_query_stdout,
)
from tsduel.workloads.tsbs.output import precise_mean_ms as mean_ms

_T = TypeVar("_T")
P99_FROM = 1_000
P999_FROM = 10_000


@dataclass(frozen=True)
class RawRound:
    """What the files of a round say; None where a file is missing, with the reason in `problems` by file name."""

    round: Round
    target: c.Target
    load: LoadOutput | None
    load_results: LoadResults | None
    queries: dict[str, QueryOutput]
    query_results: dict[str, QueryResults]
    snapshots: list[Snapshot]
    problems: dict[str, str]

    def moved(self, counter: c.Counter, begin: tuple[str, ...], end: tuple[str, ...]) -> float | None:
        """Growth of a counter between two edges, each (phase, begin|end, query type)."""
        return difference(edge(self.snapshots, *begin), edge(self.snapshots, *end), counter)


@dataclass(frozen=True)
class Measurement:
    """One line of measurements.csv, but for what it shares with all of its round."""

    phase: str
    query_type: str
    metric: str
    value: float

    @property
    def unit(self) -> str:
        """Unit of the metric."""
        return METRICS[self.metric].unit


def read_raw(found: Round, target_name: str, query_types: list[str]) -> RawRound:
    """Read every file of a round that holds numbers."""
    problems: dict[str, str] = {}

    def parsed(name: str, parse: Callable[[str, str], _T]) -> _T | None:
        path = found.path / name
        try:
            return parse(path.read_text(encoding="utf-8", errors="replace"), f"{found.name}/{name}")
        except FileNotFoundError:
            problems[name] = f"{found.name}/{name} is missing"
        except UserError as error:
            problems[name] = str(error)
        return None

    target = c.target(target_name)
    outputs = {t: parsed(f"query/{t}.stdout", parse_query_stdout) for t in query_types}
    results = {t: parsed(f"query/{t}.json", parse_query_json) for t in query_types}
    return RawRound(
        round=found,
        target=target,
        load=parsed("load.csv", parse_load_stdout),
        load_results=parsed("load.json", parse_load_json),
        queries={t: output for t, output in outputs.items() if output is not None},
        query_results={t: result for t, result in results.items() if result is not None},
        snapshots=_snapshots(found.path / "metrics.prom.gz", target, problems),
        problems=problems,
    )


def _snapshots(path: Path, target: c.Target, problems: dict[str, str]) -> list[Snapshot]:
    try:
        return read_snapshots(path, c.counters_of(target))
    except FileNotFoundError:
        problems[path.name] = f"{path.parent.name}/{path.name} is missing"
    except UserError as error:
        problems[path.name] = str(error)
    return []


def measure(raw: RawRound) -> list[Measurement]:
    """Every metric that can be computed from a round; what cannot is left out."""
    found = [*_load(raw), *_settled(raw), *_whole(raw)]
    for query_type in dict.fromkeys([*raw.query_results, *raw.queries]):
        found += _query(raw, query_type)
    return [
        Measurement(phase, query_type, metric, value) for phase, query_type, metric, value in found if value is not None
    ]


_Value = tuple[str, str, str, float | None]
_LOAD = (("load", "begin"), ("load", "end"))
_DRAINED = (("load", "begin"), ("settle", "end"))
_WHOLE = (("load", "begin"), ("stop", "begin"))


def _sum(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _load(raw: RawRound) -> Iterator[_Value]:
    def put(metric: str, value: float | None) -> _Value:
        return "load", "", metric, value

    results = raw.load_results
    yield put("load_rate", results.rate if results else raw.load.rate if raw.load else None)
    yield put("load_seconds", results.seconds if results else raw.load.seconds if raw.load else None)
    intervals = raw.load.intervals if raw.load else ()
    yield put("load_first_interval_rate", next((i.rate for i in intervals if i.total > 0), None))
    user, system = raw.moved(c.CPU_USER, *_LOAD), raw.moved(c.CPU_SYSTEM, *_LOAD)
    yield put("load_cpu_seconds", _sum(user, system))
    yield put("load_cpu_user_seconds", user)
    yield put("load_cpu_system_seconds", system)
    end = edge(raw.snapshots, "load", "end")
    yield put("load_rss_end_bytes", end.values.get(c.RSS) if end else None)
    yield put("load_rss_peak_bytes", end.values.get(c.RSS_PEAK) if end else None)
    yield put("load_io_read_bytes", raw.moved(c.IO_READ, *_LOAD))
    yield put("load_io_written_bytes", raw.moved(c.IO_WRITTEN, *_LOAD))
    yield put("load_storage_read_bytes", raw.moved(c.STORAGE_READ, *_LOAD))
    yield put("load_storage_written_bytes", raw.moved(c.STORAGE_WRITTEN, *_LOAD))
    phase = raw.round.phase("load")
    yield put("load_client_cpu_seconds", phase.client_cpu_s if phase else None)


def _settled(raw: RawRound) -> Iterator[_Value]:
    """Yield what ends with the drain: work left over after the last acknowledgement belongs to the load."""

    def put(metric: str, value: float | None) -> _Value:
        return "settle", "", metric, value

    phase = raw.round.phase("settle")
    yield put("drain_seconds", phase.seconds if phase else None)
    yield put("slow_inserts", raw.moved(raw.target.slow_inserts, *_DRAINED))
    yield put("merges", raw.moved(raw.target.merges, *_DRAINED))
    yield put("rows_merged", raw.moved(raw.target.rows_merged, *_DRAINED))
    end = edge(raw.snapshots, "settle", "end")
    if end is not None:
        size, rows = end.values.get(raw.target.bytes_kept), end.values.get(raw.target.rows_kept)
        yield put("bytes_per_sample", size / rows if size and rows else None)


def _query(raw: RawRound, query_type: str) -> Iterator[_Value]:
    def put(metric: str, value: float | None) -> _Value:
        return "query", query_type, metric, value

    results, output = raw.query_results.get(query_type), raw.queries.get(query_type)
    quantiles = results.quantiles_ms if results else {"q50": output.median_ms} if output else {}
    yield put("query_rate", results.rate if results else output.rate if output else None)
    yield put("query_seconds", results.seconds if results else output.wall_s if output else None)
    yield put("query_p50_ms", quantiles.get("q50"))
    yield put("query_p95_ms", quantiles.get("q95"))
    if output is not None:
        yield put("query_mean_ms", mean_ms(output))
        yield put("query_min_ms", output.min_ms)
        yield put("query_max_ms", output.max_ms)
        yield put("query_stddev_ms", output.stddev_ms)
        yield put("query_count", output.count)
        # The p99 of fewer requests is the time of a handful of them.
        yield put("query_p99_ms", quantiles.get("q99") if output.count >= P99_FROM else None)
        yield put("query_p999_ms", quantiles.get("q999") if output.count >= P999_FROM else None)
    edges = (("query", "begin", query_type), ("query", "end", query_type))
    yield put("query_cpu_seconds", _sum(raw.moved(c.CPU_USER, *edges), raw.moved(c.CPU_SYSTEM, *edges)))
    phase = raw.round.phase("query", query_type)
    yield put("query_client_cpu_seconds", phase.client_cpu_s if phase else None)


def _whole(raw: RawRound) -> Iterator[_Value]:
    def put(metric: str, value: float | None, phase: str = "round") -> _Value:
        return phase, "", metric, value

    yield put("cpu_seconds", _sum(raw.moved(c.CPU_USER, *_WHOLE), raw.moved(c.CPU_SYSTEM, *_WHOLE)))
    yield put("gc_cpu_seconds", raw.moved(raw.target.gc_cpu, *_WHOLE))
    yield put("major_faults", raw.moved(c.MAJOR_FAULTS, *_WHOLE))
    yield put("storage_written_bytes", raw.moved(c.STORAGE_WRITTEN, *_WHOLE))
    resident = [s.values[c.RSS] for s in raw.snapshots if not s.phase and c.RSS in s.values]
    yield put("rss_mean_bytes", sum(resident) / len(resident) if resident else None)
    last = edge(raw.snapshots, "stop", "begin")
    yield put("rss_peak_bytes", last.values.get(c.RSS_PEAK) if last else None)
    yield put("cache_hit_ratio", _cache_hit_ratio(raw), "query")
    yield put("disk_bytes", raw.round.sizes.get("disk_bytes"), "stop")
    start, stop = raw.round.phase("start"), raw.round.phase("stop")
    yield put("start_seconds", start.seconds if start else None, "start")
    yield put("stop_seconds", stop.seconds if stop else None, "stop")


def _cache_hit_ratio(raw: RawRound) -> float | None:
    """Share of the lookups of the query phases that a cache answered; None where there was none."""
    drained = ("settle", "end")
    requests = raw.moved(raw.target.cache_requests, drained, ("stop", "begin"))
    misses = raw.moved(raw.target.cache_misses, drained, ("stop", "begin"))
    return 1 - misses / requests if requests and misses is not None else None
