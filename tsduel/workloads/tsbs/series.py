"""The solo part of a block -> its time series, second by second, from the loader's CSV and the host's ticks."""

import itertools
from collections.abc import Iterator

from tsduel.core.record import SOLO
from tsduel.workloads.measured import Point
from tsduel.workloads.tsbs.exposition import Snapshot
from tsduel.workloads.tsbs.measure import RawSolo
from tsduel.workloads.tsbs.output import LoadInterval, LoadOutput

_TAIL_FROM = 0.5  # of a reporting period: the rate of a shorter last interval is mostly rounding error
_LEAST_S = 0.4  # the kernel counts CPU in steps of 10 ms: over a shorter time a rate is mostly rounding error
_COURSE = {"rss_bytes": "rss", "data_size_bytes": "bytes_kept"}


def points(raw: RawSolo) -> Iterator[Point]:
    """Yield the load rate over time, and the course of the server."""
    for elapsed, rate in load_curve(raw):
        yield Point(raw.variant, SOLO, "load", "", elapsed, "load_rate", rate)
    yield from _course(raw)


def load_curve(raw: RawSolo) -> list[tuple[float, float]]:
    """Return the load rate over time: (seconds since the load began, samples/s in the interval that ended then).

    TSBS never prints its last, partial interval: a load would seem to end early, and a load shorter than a period would
    have no curve. So the last point is the summary minus the last line.
    """
    if raw.load is None:
        return []
    return curve_of(raw.load, raw.load_results.period_s if raw.load_results else period(raw.load.intervals))


def curve_of(load: LoadOutput, period_s: float) -> list[tuple[float, float]]:
    """Return the curve of a loader's output with this reporting period."""
    curve: list[tuple[float, float]] = []
    at, first = 0.0, load.intervals[0].clock if load.intervals else 0
    for interval in load.intervals:
        # The clock has whole seconds. The count of periods is exact unless the loader was too busy and left one out.
        by_clock = interval.clock - first + period_s
        at = by_clock if by_clock > at + period_s + 1 else at + period_s
        curve.append((at, interval.rate))
    if load.samples is not None and load.seconds is not None:
        left, seconds = load.samples - (load.intervals[-1].total if load.intervals else 0), load.seconds - at
        if seconds > 0 and (seconds >= _TAIL_FROM * period_s or not curve):
            curve.append((load.seconds, max(left, 0.0) / seconds))
    return curve


def period(intervals: tuple[LoadInterval, ...]) -> float:
    """Return the seconds between two lines of the loader's CSV."""
    gaps = [b.clock - a.clock for a, b in itertools.pairwise(intervals) if b.clock > a.clock]
    return float(min(gaps)) if gaps else 1.0


def _course(raw: RawSolo) -> Iterator[Point]:
    """Yield the whole solo part as one phase, `solo`: in seconds since the load began, up to the begin of the stop.

    Edges are used as well as ticks, since a short query phase has no tick. Bytes written count from the load's begin.
    """
    load, stop = raw.phase("load"), raw.phase("stop")
    if load is None:
        return
    first = before = None
    for snapshot in raw.snapshots:
        # The host reads the edge of a begin just before the phase's clock starts.
        at_begin = (snapshot.phase, snapshot.edge) == ("load", "begin")
        if (snapshot.epoch < load.begin and not at_begin) or (stop is not None and snapshot.epoch > stop.begin):
            continue
        first, before = first or snapshot, before or snapshot
        values = {name: snapshot.values[own] for name, own in _COURSE.items() if own in snapshot.values}
        if "storage_written" in snapshot.values and "storage_written" in first.values:
            values["storage_written_bytes"] = snapshot.values["storage_written"] - first.values["storage_written"]
        if snapshot.epoch - before.epoch >= _LEAST_S and (cores := _cores(before, snapshot)):
            values |= cores
            before = snapshot
        elapsed = max(0.0, snapshot.epoch - load.begin)
        yield from (Point(raw.variant, SOLO, SOLO, "", elapsed, name, value) for name, value in values.items())


def _cores(before: Snapshot, now: Snapshot) -> dict[str, float]:
    if not all({"cpu_user", "cpu_system"} <= s.values.keys() for s in (before, now)):
        return {}
    first, last = (s.values["cpu_user"] + s.values["cpu_system"] for s in (before, now))
    return {"cpu_cores": (last - first) / (now.epoch - before.epoch)}
