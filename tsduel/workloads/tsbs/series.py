"""One round's raw files -> its time series: what the loader's CSV and the scraper's ticks say, second by second."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tsduel.core.rundir import Phase
from tsduel.targets import counters as c
from tsduel.tidy.exposition import Snapshot
from tsduel.workloads.tsbs.measure import RawRound
from tsduel.workloads.tsbs.output import LoadInterval, LoadOutput

_TAIL_FROM = 0.5  # of a reporting period: the rate of a shorter last interval is mostly rounding
_LEAST_S = 0.4  # the kernel counts CPU in steps of 10 ms: over a shorter time a rate is mostly rounding


@dataclass(frozen=True)
class Point:
    """One line of timeseries.csv, but for what it shares with all of its round; seconds since the phase began."""

    phase: str
    query_type: str
    elapsed_s: float
    metric: str
    value: float


def points(raw: RawRound) -> Iterator[Point]:
    """Yield every point of a round, in order of time within a phase."""
    for elapsed, rate in load_curve(raw):
        yield Point("load", "", elapsed, "load_rate", rate)
    for phase in raw.round.phases:
        if phase.phase in {"load", "settle", "query"}:
            yield from _ticks(raw, phase)
    yield from _course(raw)


def load_curve(raw: RawRound) -> list[tuple[float, float]]:
    """Load rate over time: (seconds since the load began, samples/s in the interval that ended then).

    TSBS never prints its last, partial interval, so a load would seem to end early, and one shorter than a period
    would have no curve at all: what the summary says beyond the last line is added as the last point.
    """
    if raw.load is None:
        return []
    return curve_of(raw.load, raw.load_results.period_s if raw.load_results else period(raw.load.intervals))


def curve_of(load: LoadOutput, period_s: float) -> list[tuple[float, float]]:
    """Return the curve of a loader's output whose reporting period is known."""
    curve: list[tuple[float, float]] = []
    at, first = 0.0, load.intervals[0].clock if load.intervals else 0
    for interval in load.intervals:
        # The clock has whole seconds; the count of periods is exact until the loader is too busy for a period.
        by_clock = interval.clock - first + period_s
        at = by_clock if by_clock > at + period_s + 1 else at + period_s
        curve.append((at, interval.rate))
    if load.samples is not None and load.seconds is not None:
        left, seconds = load.samples - _acknowledged(load.intervals), load.seconds - at
        if seconds > 0 and (seconds >= _TAIL_FROM * period_s or not curve):
            curve.append((load.seconds, max(left, 0.0) / seconds))
    return curve


def period(intervals: tuple[LoadInterval, ...]) -> float:
    """Return the seconds between two lines of the loader's CSV."""
    gaps = [b.clock - a.clock for a, b in itertools.pairwise(intervals) if b.clock > a.clock]
    return float(min(gaps)) if gaps else 1.0


def _acknowledged(intervals: tuple[LoadInterval, ...]) -> float:
    return intervals[-1].total if intervals else 0.0


def _course(raw: RawRound) -> Iterator[Point]:
    """Yield the whole round as one, under the phase `round`: seconds since the load began, to the begin of the stop.

    Edges count as well as ticks, since a short query phase has no tick; what was written counts from the load's begin.
    """
    load, stop = raw.round.phase("load"), raw.round.phase("stop")
    if load is None:
        return
    first = before = None
    for snapshot in raw.snapshots:
        # The edge of a begin is taken just before the phase's clock starts.
        at_begin = (snapshot.phase, snapshot.edge) == ("load", "begin")
        if (snapshot.epoch < load.begin and not at_begin) or (stop is not None and snapshot.epoch > stop.begin):
            continue
        first, before = first or snapshot, before or snapshot
        elapsed, found = max(0.0, snapshot.epoch - load.begin), dict[str, float]()
        for name, counter in (*_LEVELS, ("data_size_bytes", raw.target.bytes_kept)):
            if counter in snapshot.values:
                found[name] = snapshot.values[counter]
        if c.STORAGE_WRITTEN in snapshot.values and c.STORAGE_WRITTEN in first.values:
            found["storage_written_bytes"] = snapshot.values[c.STORAGE_WRITTEN] - first.values[c.STORAGE_WRITTEN]
        seconds = snapshot.epoch - before.epoch
        if seconds >= _LEAST_S and c.CPU_USER in snapshot.values and c.CPU_USER in before.values:
            found["cpu_cores"] = (_cpu(snapshot) - _cpu(before)) / seconds
            before = snapshot
        for name, value in found.items():
            yield Point("round", "", elapsed, name, value)


_LEVELS = (("rss_bytes", c.RSS),)
_RATES = (
    ("io_read_rate", c.IO_READ),
    ("io_written_rate", c.IO_WRITTEN),
    ("storage_read_rate", c.STORAGE_READ),
    ("storage_written_rate", c.STORAGE_WRITTEN),
)


def _ticks(raw: RawRound, phase: Phase) -> Iterator[Point]:
    target = raw.target
    levels = (
        *_LEVELS,
        ("data_size_bytes", target.bytes_kept),
        ("parts", target.parts),
        ("pending_rows", target.pending_rows),
        ("active_merges", target.active_merges),
    )
    rates = (
        *_RATES,
        ("inserted_rate", target.inserted),
        ("request_rate", target.requests),
        ("gc_cpu_cores", target.gc_cpu),
    )
    before: Snapshot | None = None
    for tick in raw.snapshots:
        if tick.phase or not phase.begin <= tick.epoch <= phase.end:
            continue
        elapsed = tick.epoch - phase.begin
        for name, counter in levels:
            if counter in tick.values:
                yield Point(phase.phase, phase.query_type, elapsed, name, tick.values[counter])
        if before is not None and tick.epoch > before.epoch:
            seconds = tick.epoch - before.epoch
            grown = {
                name: tick.values[counter] - before.values[counter]
                for name, counter in rates
                if counter in tick.values and counter in before.values
            }
            if c.CPU_USER in tick.values and c.CPU_USER in before.values:
                grown["cpu_cores"] = _cpu(tick) - _cpu(before)
            for name, value in grown.items():
                yield Point(phase.phase, phase.query_type, elapsed, name, value / seconds)
        before = tick


def _cpu(snapshot: Snapshot) -> float:
    return snapshot.values[c.CPU_USER] + snapshot.values.get(c.CPU_SYSTEM, 0.0)
