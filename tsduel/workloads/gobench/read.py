"""The reading half of the Go workload: bench.txt as Go wrote it, and which part of it belongs to which row.

If both test binaries take short turns, a benchmark has several results in a block: its value is their median, its log
ratio the mean over the pairs of runs, with a standard error (`_ratio`: with a zero among them, that of the medians).
Units have benchstat's names.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tsduel.core import files
from tsduel.core.metrics import Metric
from tsduel.core.record import BENCH, Block
from tsduel.core.rundir import Run
from tsduel.workloads.gobench import parse
from tsduel.workloads.gobench.units import metrics as metrics  # noqa: PLC0414 - part of the protocol
from tsduel.workloads.measured import Measurement, PairedRatio, Reading

_Runs = dict[tuple[str, str, str], list[float]]  # by unit, row and variant, in the order of the runs


def read_block(run: Run, block: Block) -> Reading:
    """Read a block. A variant of which a benchmark failed gives no value; the host checks what each one printed."""
    reading = Reading()
    calibration = run.of_host(block.host, "calibration.json")
    runs: _Runs = defaultdict(list)
    failed = {failure.variant for failure in block.failures}
    for variant in block.order:
        path = block.path / variant / "bench.txt"
        if path.exists():
            with files.reading(path, "output of benchmarks"):
                reading.better |= parse.units(files.text(path))
        if block.kind != "warmup" and not failed & {"", variant}:
            with files.reading(block.path / variant, "output of benchmarks"):
                results = list(_results(block, variant, calibration))
            for row, column, printed in results:
                for unit, value in printed.items():
                    runs[unit, row, column or variant].append(value)
    units = run.plan.gobench.units if run.plan.gobench else {}
    reading.better |= {parse.tidy_unit(unit)[0]: better for unit, better in units.items()}
    for (unit, row, variant), values in runs.items():
        reading.measurements.append(Measurement(variant, BENCH, BENCH, row, unit, statistics.median(values), unit))
        baseline = runs.get((unit, row, run.variants[0]), [])
        in_turns = variant != run.variants[0] and len(values) == len(baseline) > 1
        if in_turns and (found := _ratio(baseline, values)):
            reading.pairs.append(PairedRatio(variant, BENCH, BENCH, row, unit, *found, len(values)))
    return reading


def _ratio(baseline: Sequence[float], candidate: Sequence[float]) -> tuple[float, float | None] | None:
    """Return the mean log ratio over turns with its error; with a zero in some turn that of the medians, without."""
    if min(*baseline, *candidate) > 0:
        ratios = [math.log(c / b) for b, c in zip(baseline, candidate, strict=True)]
        return statistics.fmean(ratios), statistics.stdev(ratios) / math.sqrt(len(ratios))
    b, c = statistics.median(baseline), statistics.median(candidate)
    return (math.log(c / b), None) if min(b, c) > 0 else None


def _results(
    block: Block, variant: str, calibration: Mapping[str, Any]
) -> Iterator[tuple[str, str, Mapping[str, float]]]:
    """Yield row, column ("" unless pivoted) and values of each run of each benchmark of a variant."""
    file, index = (block.path / variant / name for name in ("bench.txt", "outputs.tsv"))
    with files.reading(file, "output of benchmarks"):
        whole = files.content(file)
    suffix = "" if calibration["cpu"] == 1 else f"-{calibration['cpu']}"
    planned = {row["row"]: row for row in calibration.get("rows") or []}
    with files.reading(index, "table of outputs"):
        lines = files.content(index).decode().splitlines()
    for line in lines:
        row, begin, end = line.rsplit("\t", 2)
        name, cell = f"{planned[row]['names'][variant]}{suffix}", planned[row].get("cell") or {"row": row, "column": ""}
        printed = parse.results(whole[int(begin) : int(end)].decode("utf-8", errors="replace"))
        # Go's own result is the last; the benchmark may have printed lines like it before.
        if own := [result.values for result in printed if result.name == name][-1:]:
            yield cell["row"], cell["column"], own[0]


def rows(run: Run) -> list[str]:
    """Return the rows that the warm-up block found."""
    planned = run.of_any_host("calibration.json").get("rows") or []
    return list(dict.fromkeys(str((row.get("cell") or row)["row"]) for row in planned))


def bench_configuration(run: Run) -> list[str]:
    """Return the experiment, the package and the machine."""
    go = run.plan.gobench
    package = f"{go.module}/{go.package.removeprefix('.').lstrip('/')}".strip("/") if go else ""
    machine = str(run.host.get("cpu_model") or run.plan.host.machine)
    return [f"experiment: {run.plan.name}", f"pkg: {package}", f"cpu: {' '.join(machine.split())}"]


def bench_name(run: Run, _metric: Metric, query_type: str, variant: str) -> str:
    """Return a row's name; in a pivoted run with its column's key, for benchstat -col."""
    pivot = run.plan.gobench.pivot if run.plan.gobench else None
    column = f"/{pivot.column}={variant}" if pivot else ""
    # The suffix is always there, so that benchstat takes no part of a name for it.
    return f"Benchmark{query_type}{column}-{run.of_any_host('calibration.json')['cpu']}"


def bench_unit(metric: Metric) -> tuple[str, float]:
    """Return the unit, which is benchstat's already."""
    return metric.unit, 1.0


def bench_operations(run: Run, query_type: str) -> int | None:
    """Return the number of operations that the warm-up block found for a row."""
    planned = run.of_any_host("calibration.json")["rows"]
    row = next(row for row in planned if (row.get("cell") or row)["row"] == query_type)
    return int(row["count"]) * int(row.get("parts") or 1)
