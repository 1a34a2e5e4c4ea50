"""Measurements in the text format of Go benchmarks, for benchstat: golang.org/design/14313-benchmark-format.

One line a round and phase. The files hold exactly the values behind comparison.csv, and the same configuration lines: a
key with two values would split benchstat's table.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tsduel.core.metrics import GEOMEAN, Metric
from tsduel.core.rundir import Run
from tsduel.stats.findings import Pair

_Line = dict[str, tuple[Metric, float]]
_NAMED = {"load_rate": "samples/s", "query_rate": "queries/s"}
_SCALES = {"ms": ("ns", 1e6), "s": ("sec", 1.0), "B": ("B", 1.0)}
_UNIT_IN_NAME = re.compile(r"_(seconds|ms|bytes)$")


@dataclass(frozen=True)
class Compared:
    """One metric (and query type) of one candidate: `pairs` of baseline and candidate, one for each of `blocks`."""

    metric: Metric
    query_type: str
    candidate: str
    blocks: Sequence[int]
    pairs: Sequence[Pair]


def unit(metric: Metric) -> tuple[str, float]:
    """Return a metric's unit for benchstat and the factor to it: query_p50_ms is ("p50-ns", 1e6).

    benchstat compares by unit, so each metric of a phase needs its own; -ns, -sec and -B are shown with SI prefixes.
    """
    if metric.name in _NAMED:
        return _NAMED[metric.name], 1.0
    suffix, factor = _SCALES.get(metric.unit, ("", 1.0))
    words = _UNIT_IN_NAME.sub("", metric.name).removeprefix("query_").removeprefix("load_").replace("_", "-")
    # "-total" keeps a metric that was nothing but phase and unit (load_seconds) from being named like a plain unit.
    name = words if words not in {"seconds", "load", "query"} else "total"
    return f"{name}-{suffix}" if suffix else name, factor


def files(run: Run, phases: Mapping[str, str], compared: Sequence[Compared]) -> dict[str, str]:
    """Return the text of a file for each variant. `phases` maps a metric to the phase that it was measured in.

    The baseline's file holds a round once, however many candidates it was compared with.
    """
    head = [*_configuration(run), *_unit_lines(one.metric for one in compared)]
    lines: dict[str, dict[tuple[str, int], _Line]] = {variant: {} for variant in run.variants}
    for one in compared:
        if one.query_type == GEOMEAN:
            continue
        benchmark = name(run, phases.get(one.metric.name, ""), one.query_type)
        for block, pair in zip(one.blocks, one.pairs, strict=True):
            if None not in pair:
                for variant, value in zip((run.variants[0], one.candidate), pair, strict=True):
                    lines[variant].setdefault((benchmark, block), {})[one.metric.name] = (one.metric, value or 0.0)
    return {
        variant: "\n".join([*head, "", *(_line(benchmark, line) for (benchmark, _), line in by_block.items())]) + "\n"
        for variant, by_block in lines.items()
    }


def name(run: Run, phase: str, query_type: str) -> str:
    """Return the name of a phase's benchmark.

    It ends in a key whose value has no dash: a trailing -8 (of cpu-max-all-8) would be read as GOMAXPROCS.
    """
    if query_type:
        return f"BenchmarkTSBS/phase={phase or 'query'}/type={query_type}/workers={run.plan['queries']['workers']}"
    if phase == "load":
        return f"BenchmarkTSBS/phase=load/workers={run.plan['workload']['workers']}"
    return f"BenchmarkTSBS/phase={phase or 'round'}/scale={run.plan['workload']['scale']}"


def _configuration(run: Run) -> list[str]:
    workload = run.plan["workload"]
    machine = str(run.json("raw/host.json").get("cpu_model") or run.plan["host"]["machine"])
    return [
        f"experiment: {run.plan['name']}",
        f"machine: {' '.join(machine.split())}",
        f"workload: {workload['use_case']} {workload['start']} {workload['end']} {workload['interval']}",
    ]


def _unit_lines(metrics: Iterable[Metric]) -> list[str]:
    return sorted({f"Unit {unit(metric)[0]} better={metric.better}" for metric in metrics if metric.better != "none"})


def _line(benchmark: str, line: _Line) -> str:
    """Return a round's line; its iterations are the queries of the phase where that is known, else 1."""
    parts = []
    for metric, value in line.values():
        label, factor = unit(metric)
        parts.append(f"{value * factor!r} {label}")
    iterations = max(1, round(line["query_count"][1])) if "query_count" in line else 1
    return f"{benchmark} {iterations} {' '.join(parts)}"
