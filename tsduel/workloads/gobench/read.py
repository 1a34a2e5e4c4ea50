"""Go benchmarks, the reading half: bench.txt as Go wrote it, and which part of it is whose.

A benchmark may have several results in a block, of short runs of both test binaries in turn: the block's value is their
median, its log ratio the mean over the pairs of runs, which gives it a standard error. Units are named as by benchstat.
"""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.metrics import Metric
from tsduel.core.record import BENCH, Block
from tsduel.core.rundir import Run
from tsduel.workloads.gobench import parse
from tsduel.workloads.gobench.units import metrics as metrics  # noqa: PLC0414 - part of the protocol
from tsduel.workloads.measured import Measurement, PairedRatio, Reading

_Runs = dict[tuple[str, str, str], list[float]]  # by unit, row and variant, in the order they were run


def read_block(run: Run, block: Block) -> Reading:
    """Read one block; what failed, was skipped or lacks what is required gives no value."""
    found = Reading()
    calibration = run.of_host(block.host, "calibration.json")
    runs: _Runs = defaultdict(list)
    failed = {failure.variant for failure in block.failures}
    for variant in block.order:
        path = block.path / variant / "bench.txt"
        if path.exists():
            found.better |= parse.units(path.read_text(encoding="utf-8", errors="replace"))
        if block.kind != "warmup" and not failed & {"", variant}:
            for row, column, printed in _results(run, block, variant, calibration):
                for unit, value in printed.items():
                    runs[unit, row, column or variant].append(value)
    go = run.plan.gobench
    found.better |= {parse.tidy_unit(unit)[0]: better for unit, better in go.units.items()} if go else {}
    for (unit, row, variant), values in runs.items():
        found.measurements.append(Measurement(variant, BENCH, BENCH, row, unit, statistics.median(values), unit))
        baseline = runs.get((unit, row, run.variants[0]), [])
        if variant != run.variants[0] and len(values) == len(baseline) > 1 and min(*values, *baseline) > 0:
            ratios = [math.log(c / b) for b, c in zip(baseline, values, strict=True)]
            error = statistics.stdev(ratios) / math.sqrt(len(ratios))
            found.pairs.append(
                PairedRatio(variant, BENCH, BENCH, row, unit, statistics.fmean(ratios), error, len(ratios))
            )
    return found


def _results(
    run: Run, block: Block, variant: str, calibration: Mapping[str, Any]
) -> Iterator[tuple[str, str, Mapping[str, float]]]:
    """Yield row, column ("" unless pivoted) and values of each run of each benchmark of a variant."""
    file, index = (block.path / variant / name for name in ("bench.txt", "outputs.tsv"))
    for path in (file, index):
        if not path.exists():
            raise UserError(f"{path} is missing, though its block was finished: the run directory is not whole")
    whole, suffix = file.read_bytes(), "" if calibration["cpu"] == 1 else f"-{calibration['cpu']}"
    planned = {row["row"]: row for row in calibration.get("rows") or []}
    for line in index.read_text(encoding="utf-8").splitlines():
        row, begin, end = line.rsplit("\t", 2)
        text = whole[int(begin) : int(end)].decode("utf-8", errors="replace")
        name = f"{planned[row]['names'][variant]}{suffix}"
        results = [result for result in parse.results(text) if result.name == name]
        # What has no right to be compared is kept out here as well, not only marked by the host's checks.
        if len(results) == 1 and _has_required(run, text, results[0].values):
            cell = planned[row].get("cell") or {"row": row, "column": ""}
            yield cell["row"], cell["column"], results[0].values


def _has_required(run: Run, text: str, values: Mapping[str, float]) -> bool:
    """Say whether all that the experiment requires is there and above zero, every time that it is printed."""
    for rule in run.plan.gobench.require if run.plan.gobench else ():
        if rule.metric:
            seen = [values.get(parse.tidy_unit(rule.metric)[0], 0.0)]
        else:
            seen = [_number(found) for found in re.findall(rule.output, text, re.MULTILINE)]
        if not seen or min(seen) <= 0:
            return False
    return True


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def sections(_run: Run) -> tuple[str, ...]:
    """Return those of the report."""
    first, others = (
        ("compared", "benchmarks", "benchstat"),
        ("profiles", "changed", "hosts", "blocks", "noise", "checks"),
    )
    return (*first, *others, "bench-method", "reproduce", "bench-limits")


def rows(run: Run) -> list[str]:
    """Return the rows that the warm-up found."""
    planned = run.of_any_host("calibration.json").get("rows") or []
    return list(dict.fromkeys(str((row.get("cell") or row)["row"]) for row in planned))


def bench_configuration(run: Run) -> list[str]:
    """Return the experiment, the package and the machine."""
    go = run.plan.gobench
    package = f"{go.module}/{go.package.removeprefix('.').lstrip('/')}".strip("/") if go else ""
    machine = str(run.host.get("cpu_model") or run.plan.host.machine)
    return [f"experiment: {run.plan.name}", f"pkg: {package}", f"cpu: {' '.join(machine.split())}"]


def bench_name(run: Run, _metric: Metric, query_type: str, variant: str) -> str:
    """Return a row's name; of a pivoted run with its column's key, which benchstat -col pivots."""
    pivot = run.plan.gobench.pivot if run.plan.gobench else None
    column = f"/{pivot.column}={variant}" if pivot else ""
    # The suffix is always there, so that nothing of a name can be taken for it.
    return f"Benchmark{query_type}{column}-{run.of_any_host('calibration.json')['cpu']}"


def bench_unit(metric: Metric) -> tuple[str, float]:
    """Return the unit, which is benchstat's already."""
    return metric.unit, 1.0


def bench_operations(run: Run, query_type: str) -> int | None:
    """Return the operations that the warm-up has found for a row."""
    planned = run.of_any_host("calibration.json")["rows"]
    return next(
        int(row["count"]) * int(row.get("parts") or 1)
        for row in planned
        if (row.get("cell") or row)["row"] == query_type
    )
