"""The reading half of the TSBS workload: raw/HOST/BBB -> measurements, ratios, courses, times; benchstat's lines."""

import re
from collections.abc import Iterable, Mapping

from tsduel.core.metrics import METRICS, Better, Metric
from tsduel.core.record import DUEL, Block
from tsduel.core.rundir import Run
from tsduel.workloads.measured import Reading
from tsduel.workloads.tsbs.exchanges import Figures, read_duel
from tsduel.workloads.tsbs.measure import measure, read_solo
from tsduel.workloads.tsbs.rates import read_rates
from tsduel.workloads.tsbs.series import points
from tsduel.workloads.tsbs.upgrade import read_upgrade

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
    reading, failed = Reading(), {failure.variant for failure in block.failures}
    figures = Figures(block, run.variants[0], [name for name in run.variants if name not in failed], reading)
    is_whole = "" not in failed and not block.void
    if run.plan.design.start_from == "baseline":
        # Only the baseline loaded data, so its load is not compared.
        if is_whole:
            read_upgrade(figures, run.variants)
        return reading
    for variant in run.variants:
        if variant in block.solo:
            raw = read_solo(block, run.plan.variant(variant), run.plan)
            # If loads are in turn, a load alone is only in the warm-up block, of other data: its sizes are not shown.
            phase = "load" if block.kind == "warmup" else "stop"
            kept = (value for value in measure(raw) if not run.plan.loads_in_turn or METRICS[value[0]].phase == phase)
            reading.add(variant, kept)
            reading.points += points(raw)
    if is_whole:
        read_duel(figures)
        read_rates(figures, run.plan)
    return reading


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
