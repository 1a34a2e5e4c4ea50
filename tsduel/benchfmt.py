"""Measurements in the text format of Go benchmarks, for benchstat: golang.org/design/14313-benchmark-format.

One line a round and phase. Both files hold exactly the values behind comparison.csv, and the same configuration lines:
a key with two values would split benchstat's table.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from tsduel.findings import Pair
from tsduel.metrics import GEOMEAN, Metric
from tsduel.rundir import Run

Compared = tuple[Metric, str, Sequence[Pair]]
_NAMED = {"load_rate": "samples/s", "query_rate": "queries/s"}
_SCALES = {"ms": ("ns", 1e6), "s": ("sec", 1.0), "B": ("B", 1.0)}
_UNIT_IN_NAME = re.compile(r"_(seconds|ms|bytes)$")


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


def files(run: Run, phases: Mapping[str, str], compared: Sequence[Compared]) -> tuple[str, str]:
    """Return the two files, baseline first. `phases` maps a metric to the phase that it was measured in."""
    metrics = {metric.name: metric for metric, _, _ in compared}
    head = [*_configuration(run), *_unit_lines(metrics.values())]
    lines: tuple[list[str], list[str]] = ([], [])
    groups: dict[str, list[Compared]] = {}
    for one in compared:
        if one[1] != GEOMEAN:
            groups.setdefault(name(run, phases.get(one[0].name, ""), one[1]), []).append(one)
    for benchmark, members in groups.items():
        for block in range(len(members[0][2])):
            for side in (0, 1):
                figures = _figures(members, block, side)
                if figures:
                    lines[side].append(f"{benchmark} {_iterations(members, block, side)} {figures}")
    baseline, candidate = ("\n".join([*head, "", *some]) + "\n" for some in lines)
    return baseline, candidate


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


def _figures(members: Sequence[Compared], block: int, side: int) -> str:
    parts = []
    for metric, _, pairs in members:
        value = pairs[block][side]
        if value is not None and pairs[block][1 - side] is not None:
            label, factor = unit(metric)
            parts.append(f"{value * factor!r} {label}")
    return " ".join(parts)


def _iterations(members: Sequence[Compared], block: int, side: int) -> int:
    """Return the number of queries of the phase where that is known, else 1."""
    counts = (pairs[block][side] for metric, _, pairs in members if metric.name == "query_count")
    return max(1, round(next(counts, None) or 1))
