"""Comparable rows in the text format of Go benchmarks: a file a variant, names matched, for benchstat.

The lines that hold a run's configuration are the same in all files, since a key with two values would split benchstat's
table. A pivoted run is one file whose names keep the column's key: benchstat -col pivots it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsduel.core.metrics import GEOMEAN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tsduel.core.metrics import Metric
    from tsduel.core.rundir import Run
    from tsduel.stats.benchfmt import Compared

_Values = dict[str, float]


def files(run: Run, compared: Sequence[Compared]) -> dict[str, str]:
    """Return the text of a file for each variant, or of one file for a pivoted run."""
    calibration = run.json("raw/calibration.json")
    pivot = run.plan["gobench"]["pivot"]
    counts = {(row.get("cell") or row)["row"]: row["count"] for row in calibration["rows"]}
    lines: dict[str, dict[tuple[str, int], _Values]] = {variant: {} for variant in run.variants}
    for one in compared:
        if one.query_type == GEOMEAN:
            continue
        for block, pair in zip(one.blocks, one.pairs, strict=True):
            for variant, value in zip((run.variants[0], one.candidate), pair, strict=True):
                # What only one side has stands in its file too, as benchstat shows it.
                if value is not None:
                    lines[variant].setdefault((one.query_type, block), {})[one.metric.unit] = value
    head = [*_configuration(run), *_unit_lines(one.metric for one in compared), ""]
    texts = {}
    for variant, by_block in lines.items():
        column = f"/{pivot['column']}={variant}" if pivot else ""
        texts[variant] = [
            # The suffix is always there, so that nothing of a name can be taken for it.
            f"Benchmark{row}{column}-{calibration['cpu']} {counts[row]} {_printed(values)}"
            for (row, _), values in sorted(
                by_block.items(), key=lambda item: (list(counts).index(item[0][0]), item[0][1])
            )
        ]
    if pivot:
        return {"baseline": "\n".join([*head, *(line for text in texts.values() for line in text)]) + "\n"}
    return {variant: "\n".join([*head, *text]) + "\n" for variant, text in texts.items()}


def _configuration(run: Run) -> list[str]:
    go, host = run.plan["gobench"], run.json("raw/host.json")
    machine = str(host.get("cpu_model") or run.plan["host"]["machine"])
    package = f"{go['module']}/{go['package'].removeprefix('.').lstrip('/')}".strip("/")
    return [f"experiment: {run.plan['name']}", f"pkg: {package}", f"cpu: {' '.join(machine.split())}"]


def _unit_lines(metrics: Iterable[Metric]) -> list[str]:
    known = {"sec/op", "B/op", "allocs/op", "B/s"}
    judged = (metric for metric in metrics if metric.better != "none" and metric.unit not in known)
    return sorted({f"Unit {metric.unit} better={metric.better}" for metric in judged})


def _printed(values: _Values) -> str:
    return " ".join(f"{value!r} {unit}" for unit, value in values.items())
