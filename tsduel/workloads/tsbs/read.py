"""Databases under TSBS, the reading half: raw/BBB -> measurements, ratios, courses, times; benchstat's lines."""

import re
from collections.abc import Iterable, Mapping

from tsduel.core.metrics import METRICS, Better, Metric
from tsduel.core.record import DUEL, Block
from tsduel.core.rundir import Run
from tsduel.workloads.measured import Reading
from tsduel.workloads.tsbs.exchanges import read_duel
from tsduel.workloads.tsbs.measure import measure, read_solo
from tsduel.workloads.tsbs.rates import read_rates
from tsduel.workloads.tsbs.series import points
from tsduel.workloads.tsbs.upgrade import read_upgrade

_SECTIONS = (
    *("compared", "moved", "mixed", "capacity", "duel", "load", "components", "server", "queries"),
    *("profiles", "changed", "hosts", "blocks", "noise", "checks", "method", "reproduce", "limits"),
)
_OF_UPGRADE = (
    *("compared", "upgrade", "hosts", "blocks", "noise", "checks"),
    *("upgrade-method", "reproduce", "upgrade-limits"),
)
_OF_SWEEP = (
    *("compared", "sweep", "hosts", "mixed", "capacity", "cells"),
    *("noise", "checks", "method", "reproduce", "limits"),
)
_OF_LOGS = ("compared", "load", "server", "queries", "checks", "import-method", "reproduce", "import-limits")
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
    """Read one block; a variant that failed on the way gives what is known of it."""
    found = Reading()
    if run.plan.design.start_from == "baseline":
        # What the baseline did to load the data is nobody's comparison.
        read_upgrade(block, run.variants, run.plan, found)
        return found
    for variant in run.variants:
        if variant in block.solo:
            raw = read_solo(block, run.plan.variant(variant), run.plan)
            found.measurements += measure(raw)
            found.points += points(raw)
    read_duel(block, run.variants, found)
    read_rates(block, run.plan, found)
    return found


def sections(run: Run) -> tuple[str, ...]:
    """Return those of the report; that of imported logs claims less."""
    if run.plan.design.start_from == "baseline":
        return _OF_UPGRADE
    return _OF_LOGS if run.plan.imported else _OF_SWEEP if run.plan.sweeps else _SECTIONS


def rows(run: Run) -> list[str]:
    """Return the query types."""
    return list(run.plan.query_types)


def metrics(_measured: Iterable[str], _better: Mapping[str, Better]) -> list[Metric]:
    """Return the registry."""
    return list(METRICS.values())


def bench_configuration(run: Run) -> list[str]:
    """Return the experiment, the machine and, where it is known, the data."""
    machine = str(run.host.get("cpu_model") or run.plan.host.machine)
    lines = [f"experiment: {run.plan.name}", f"machine: {' '.join(machine.split())}"]
    of = run.plan.workload or run.plan.imported
    return [*lines, f"workload: {of.use_case} {of.start} {of.end} {of.interval}"] if of else lines


def bench_name(run: Run, metric: Metric, query_type: str, _variant: str) -> str:
    """Return e.g. BenchmarkTSBS/phase=duel/type=cpu-max-all-1/in-flight=1; the trailing key's value has no dash."""
    plan = run.plan
    if metric.per_role:
        return f"BenchmarkTSBS/phase={metric.phase}/part={metric.part}/role={query_type}/variants={len(run.variants)}"
    if metric.part == DUEL:
        what = f"/type={query_type}" if query_type else f"/of={metric.phase}"
        return f"BenchmarkTSBS/phase=duel{what}/variants={len(run.variants)}"
    if query_type:
        workers = plan.queries.workers if plan.queries else plan.imported.query_workers if plan.imported else 0
        return f"BenchmarkTSBS/phase={metric.phase}/type={query_type}/workers={workers}"
    return f"BenchmarkTSBS/phase={metric.phase or 'solo'}/variants={len(run.variants)}"


def bench_unit(metric: Metric) -> tuple[str, float]:
    """Return a unit that tells what it is of: query_p50_ms is ("p50-ns", 1e6).

    -ns, -sec and -B are shown with SI prefixes.
    """
    if metric.name in _NAMED:
        return _NAMED[metric.name]
    suffix, factor = _SCALES.get(metric.unit, ("", 1.0))
    plain = re.sub(r"^(query|load|duel)_", "", _UNIT_IN_NAME.sub("", metric.name)).replace("_", "-")
    # "-total" keeps a metric that was nothing but phase and unit (load_seconds) from being named like a plain unit.
    words = plain if plain not in {"seconds", "load", "query", "duel"} else "total"
    return f"{words}-{suffix}" if suffix else words, factor


def bench_operations(_run: Run, _query_type: str) -> int | None:
    """Exchanges are counted by their pairs, queries of the closed loop by query_count."""
    return None
