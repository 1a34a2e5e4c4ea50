"""`make tsbs-plot-load`: the load rate of one or two CSVs of tsbs_load, or of logs that contain them."""

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from plots import numbers
from plots.charts.curves import load_rate
from plots.charts.style import save
from tsduel.core import files, results
from tsduel.core.errors import UserError
from tsduel.workloads.tsbs.logs import read_lines, read_load
from tsduel.workloads.tsbs.output import LoadInterval, LoadOutput

KNOBS = ("TSBS_LOAD_RESULT_CSV_FILE", "TSBS_LOAD_RESULT_CSV_FILE_COMPARE")
OUT = "plot-load"
_TAIL_FROM = 0.5  # of a reporting period


def main(environment: Mapping[str, str]) -> None:
    """Draw the loads that the knobs name, print their figures and the path of the picture."""
    paths = [files.from_home(environment[knob]) for knob in KNOBS if environment.get(knob)]
    if not environment.get(KNOBS[0]):
        raise UserError(f"{KNOBS[0]} is not given: make tsbs-plot-load {KNOBS[0]}=a.csv {KNOBS[1]}=b.csv")
    loads = [read_load(path, read_lines(path))[0] for path in paths]
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    series = curves(dict(zip(names, loads, strict=True)))
    for path, name, load in zip(paths, names, loads, strict=True):
        if name not in set(series["variant"]):
            raise UserError(f"{path}: the load has neither a line of CSV nor a summary: there is nothing to draw")
        print(_summary(path, load))
    if len(loads) > 1 and loads[0].rate and loads[1].rate:
        change = numbers.change(100 * (loads[1].rate / loads[0].rate - 1))
        print(f"{paths[1]} against {paths[0]}: {change} % in the mean rate; one run each: no verdict")
    directory = results.home() / OUT
    directory.mkdir(parents=True, exist_ok=True)
    out = directory / "-against-".join(re.sub(r"[^A-Za-z0-9._-]+", "_", path.stem)[:80] for path in paths)
    # Add the ending: with_suffix would replace a part of a version such as v1.2.
    save(load_rate(series, {name: name for name in names}), out.with_name(out.name + ".svg"))
    print(f"Picture: {out}.svg, {out}.png")


def curves(loads: Mapping[str, LoadOutput]) -> pd.DataFrame:
    """Return columns variant, block, elapsed_s, value of the load rate: each load is a variant with one block."""
    points = [(name, name, elapsed, rate) for name, load in loads.items() for elapsed, rate in _curve(load)]
    return pd.DataFrame(points, columns=["variant", "block", "elapsed_s", "value"])


def _curve(load: LoadOutput) -> list[tuple[float, float]]:
    """Return the load rate over time: (seconds since the load began, samples/s in the interval that ended then).

    TSBS never prints its last, partial interval, so the last point is the summary minus the last line.
    """
    period_s = _period(load.intervals)
    curve: list[tuple[float, float]] = []
    at, first = 0.0, load.intervals[0].clock if load.intervals else 0
    for interval in load.intervals:
        # The clock has whole seconds. The count of periods is exact unless the loader was too busy and left one out.
        by_clock = interval.clock - first + period_s
        at = by_clock if by_clock > at + period_s + 1 else at + period_s
        curve.append((at, interval.rate))
    if load.samples is not None and load.seconds is not None and (seconds := load.seconds - at) > 0:
        totals, ends = (
            [0.0, 0.0, *itertools.accumulate((each.total for each in load.intervals), max)],
            [0.0, *(end for end, _ in curve)],
        )
        # Too short for a rate of its own, it is one with the interval before.
        whole = seconds >= _TAIL_FROM * period_s or not curve
        since, total = (at, totals[-1]) if whole else (ends[-2], totals[-2])
        curve[len(curve) - (not whole) :] = [(load.seconds, max(load.samples - total, 0.0) / (load.seconds - since))]
    return curve


def _period(intervals: tuple[LoadInterval, ...]) -> float:
    """Return the seconds between two lines of the loader's CSV, whose clock has whole seconds."""
    gaps = [b.clock - a.clock for a, b in itertools.pairwise(intervals) if b.clock > a.clock]
    counts = list(Counter(interval.clock for interval in intervals).values())
    # The first and the last second may have begun or ended between.
    return min(gaps, default=1) / statistics.median(counts[1:-1] or [max(counts, default=1)])


def _summary(path: Path, load: LoadOutput) -> str:
    if load.samples is None:
        last = load.intervals[-1].total
        return f"{path}: {numbers.number(last)} samples in the CSV, which has no summary"
    return (
        f"{path}: loaded {numbers.count(load.samples)} samples in {numbers.number(load.seconds)} s with "
        f"{load.workers} workers (mean rate {numbers.number(load.rate)} samples/s)"
    )
