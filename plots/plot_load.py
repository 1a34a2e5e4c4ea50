"""`make tsbs-plot-load`: the load rate of one or two CSVs of tsbs_load, or of logs that contain them."""

import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from plots import numbers
from plots.charts.curves import load_rate
from plots.charts.style import save
from tsduel.core import results
from tsduel.core.errors import UserError
from tsduel.workloads.tsbs.logs import read_lines, read_load
from tsduel.workloads.tsbs.output import LoadOutput
from tsduel.workloads.tsbs.series import curve_of, period

KNOBS = ("TSBS_LOAD_RESULT_CSV_FILE", "TSBS_LOAD_RESULT_CSV_FILE_COMPARE")
OUT = "plot-load"


def main(environment: Mapping[str, str]) -> None:
    """Draw the loads that the knobs name, print their figures and the path of the picture."""
    given = [Path(environment[knob]).expanduser() for knob in KNOBS if environment.get(knob)]
    if not environment.get(KNOBS[0]):
        raise UserError(f"{KNOBS[0]} is not given: make tsbs-plot-load {KNOBS[0]}=a.csv {KNOBS[1]}=b.csv")
    loads = [read_load(path, read_lines(path))[0] for path in given]
    names = [path.stem for path in given]
    if len(set(names)) < len(names):
        names = [str(path) for path in given]
    series = curves(dict(zip(names, loads, strict=True)))
    for path, name, load in zip(given, names, loads, strict=True):
        if name not in set(series["variant"]):
            raise UserError(f"{path}: the load has neither a line of CSV nor a summary: there is nothing to draw")
        print(_summary(path, load))
    if len(loads) > 1 and loads[0].rate and loads[1].rate:
        change = numbers.change(100 * (loads[1].rate / loads[0].rate - 1))
        print(f"{given[1]} against {given[0]}: {change} % in the mean rate; one run each: no verdict")
    directory = results.home() / OUT
    directory.mkdir(parents=True, exist_ok=True)
    out = directory / "-against-".join(re.sub(r"[^A-Za-z0-9._-]+", "_", path.stem)[:80] for path in given)
    # Add the ending: with_suffix would replace a part of a version such as v1.2.
    save(load_rate(series, {name: name for name in names}), out.with_name(out.name + ".svg"))
    print(f"Picture: {out}.svg, {out}.png")


def curves(loads: Mapping[str, LoadOutput]) -> pd.DataFrame:
    """Return columns variant, block, elapsed_s, value of the load rate: each load is a variant with one block."""
    points = [
        (name, name, elapsed, rate)
        for name, load in loads.items()
        for elapsed, rate in curve_of(load, period(load.intervals))
    ]
    return pd.DataFrame(points, columns=["variant", "block", "elapsed_s", "value"])


def _summary(path: Path, load: LoadOutput) -> str:
    if load.samples is None:
        last = load.intervals[-1].total
        return f"{path}: {numbers.number(last)} samples in the CSV, which has no summary"
    return (
        f"{path}: loaded {numbers.count(load.samples)} samples in {numbers.number(load.seconds)} s with "
        f"{load.workers} workers (mean rate {numbers.number(load.rate)} samples/s)"
    )
