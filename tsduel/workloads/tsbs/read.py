"""The reading half of the TSBS workload: the tables of a block, times and histograms; benchstat's lines."""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsduel.core import files
from tsduel.core.metrics import METRICS, Better, Metric
from tsduel.core.record import CAPACITY, DUEL, MIXED, Block, table
from tsduel.core.rundir import Run
from tsduel.workloads.measured import Measurement, PairedRatio, Reading

_NAMED = {
    "load_rate": ("samples/s", 1.0),
    "query_rate": ("queries/s", 1.0),
    "duel_typical_ms": ("ns/op", 1e6),
    "duel_instructions": ("instructions/op", 1.0),
    "duel_idle_cpu_ms": ("idle-ns/s", 1e6),
}
_SCALES = {"ms": ("ns", 1e6), "us": ("ns", 1e3), "s": ("sec", 1.0), "B": ("B", 1.0)}
_UNIT_IN_NAME = re.compile(r"_(seconds|ms|us|bytes)$")


def read_block(run: Run, block: Block) -> Reading:
    """Read one block; a variant that failed gives its figures from before that."""
    reading = Reading()
    with files.reading(block.path / "values.csv", "table of values"):
        for row in table(block, "values"):
            metric = METRICS[row["metric"]]
            keys = (row["variant"], metric.part, metric.phase, row["query_type"], metric.name, _finite(row["value"]))
            reading.measurements.append(Measurement(*keys, metric.unit))
        for row in table(block, "pairs"):
            metric, ratio = METRICS[row["metric"]], _finite(row["log_ratio"])
            key = (row["candidate"], metric.part, metric.phase, row["query_type"], metric.name, ratio)
            n, sittings = (int(row[name]) for name in ("n", "sittings"))
            se, deviation, effect = (_known(row[name]) for name in ("se", "sitting_sd", "second_effect"))
            reading.pairs.append(PairedRatio(*key, se, n, sittings, deviation, effect))
    alive = [name for name in run.variants if block.counts(name)]
    if block.duel and alive:
        reading.times = read_times(block.path / "duel/exchanges.csv.gz", alive)
    for part, records in ((MIXED, block.mixed), (CAPACITY, block.capacity)):
        for variant in (name for name in alive if name in records):
            phases = records[variant].phases
            good = {stream.rate for phase in phases if not phase.void for stream in phase.streams}
            for of, counts in read_counts(block.path / variant / f"{part}.csv.gz").items():
                if of[0] in good:
                    reading.counts[variant, part, *of] = counts
    return reading


def _known(text: str) -> float | None:
    return _finite(text) if text else None


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is no value")
    return value


def read_times(path: Path, variants: Sequence[str]) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Read an exchanges.csv.gz: ns by variant and query type. What not all of these variants answered is left out."""
    with files.reading(path, "table of exchanges"):
        found = pd.read_csv(io.BytesIO(files.content(path)))
        columns = [f"{name}_ns" for name in variants if f"{name}_ns" in found.columns]
        ns = found[["query_type", *columns]].set_index("query_type").astype(float)
        answered = ns.where((ns > 0) & (ns < np.inf)).dropna()
        return {
            (column.removesuffix("_ns"), str(query_type)): rows[column].to_numpy()
            for query_type, rows in answered.groupby(level=0, sort=False) for column in columns
        }  # fmt: skip


def read_counts(path: Path) -> dict[tuple[float, str, str], dict[int, int]]:
    """Read a mixed.csv.gz or capacity.csv.gz: (rate, operation, time) -> ns -> count."""
    counts: dict[tuple[float, str, str], dict[int, int]] = {}
    with files.reading(path, "table of counts"):
        for row in csv.DictReader(files.content(path).decode().splitlines()):
            key = (float(row["rate"]), row["operation"], row["time"])
            if (value_ns := int(row["value_ns"])) < 0 or (count := int(row["count"])) < 1:
                raise ValueError(f"{row['count']} times {row['value_ns']} ns")
            counts.setdefault(key, {})[value_ns] = count
    return counts


def rows(run: Run) -> list[str]:
    """Return the query types."""
    return list(run.plan.query_types)


def metrics(_measured: Iterable[str], _better: Mapping[str, Better]) -> list[Metric]:
    """Return the registry."""
    return list(METRICS.values())


def bench_configuration(run: Run) -> list[str]:
    """Return the experiment, the machine and the data."""
    machine = str(run.host.get("cpu_model") or run.plan.host.machine)
    lines = [f"experiment: {run.plan.name}", f"machine: {' '.join(machine.split())}"]
    data = run.plan.workload
    return [*lines, f"workload: {data.use_case} {data.start} {data.end} {data.interval}"] if data else lines


def bench_name(run: Run, metric: Metric, query_type: str, _variant: str) -> str:
    """Return e.g. BenchmarkTSBS/phase=duel/type=cpu-max-all-1/variants=2; the value of the last key has no dash."""
    if metric.per_role:
        what = f"phase={metric.phase}/part={metric.part}/role={query_type}"
    elif metric.part == DUEL:
        what = "phase=duel/" + (f"type={query_type}" if query_type else f"of={metric.phase}")
    elif query_type:
        workers = run.plan.queries.workers if run.plan.queries else 0
        return f"BenchmarkTSBS/phase={metric.phase}/type={query_type}/workers={workers}"
    else:
        what = f"phase={metric.phase or 'solo'}"
    return f"BenchmarkTSBS/{what}/variants={len(run.variants)}"


def bench_unit(metric: Metric) -> tuple[str, float]:
    """Return a unit that names the metric: query_p50_ms is ("p50-ns", 1e6).

    benchstat shows -ns, -sec and -B with SI prefixes.
    """
    if metric.name in _NAMED:
        return _NAMED[metric.name]
    suffix, factor = _SCALES.get(metric.unit, ("", 1.0))
    plain = re.sub(r"^(query|load|duel)_", "", _UNIT_IN_NAME.sub("", metric.name)).replace("_", "-")
    # A metric that is only phase and unit (load_seconds) is called "total-", so that its name is no plain unit.
    words = plain if plain not in {"seconds", "load", "query", "duel"} else "total"
    return f"{words}-{suffix}" if suffix else words, factor


def bench_operations(_run: Run, _query_type: str) -> int | None:
    """Return None: exchanges are counted by their pairs, queries of the closed loop by query_count."""
    return None
