"""What was compared, in the text format of Go benchmarks, for benchstat: golang.org/design/14313-benchmark-format.

One line a block and benchmark. The files hold exactly the values behind comparison.csv, and the same configuration
lines: a key with two values would split benchstat's table. A pivoted run is one file, whose names keep its columns.
"""

from collections.abc import Sequence

from tsduel.core.metrics import GEOMEAN
from tsduel.core.rundir import Run
from tsduel.stats.findings import Sample
from tsduel.workloads.reading import Reader

_KNOWN = {"sec/op", "ns/op", "B/op", "allocs/op", "B/s"}
"""Units whose direction benchstat knows."""


def files(run: Run, reader: Reader, samples: Sequence[Sample]) -> dict[str, str]:
    """Return the text of a file for each variant; the baseline's holds a block once, whatever it was compared with."""
    units = {reader.bench_unit(item.metric)[0]: item.metric.better for item in samples}
    directed = {unit: better for unit, better in units.items() if better != "none" and unit not in _KNOWN}
    head = [
        *reader.bench_configuration(run),
        *sorted(f"Unit {u} better={better}" for u, better in directed.items()),
        "",
    ]
    # variant -> (benchmark, block) -> unit -> value, and the operations of the line
    lines: dict[str, dict[tuple[str, int], dict[str, float]]] = {variant: {} for variant in run.variants}
    iterations: dict[tuple[str, int], int] = {}
    for item in samples:
        if item.query_type == GEOMEAN:
            continue
        unit, factor = reader.bench_unit(item.metric)
        comparable = any(None not in pair for pair in item.pairs)
        fixed = reader.bench_operations(run, item.query_type)
        ratios = item.ratios or [None] * len(item.pairs)
        for block, pair, ratio in zip(item.blocks, item.pairs, ratios, strict=True):
            # A metric that only one side ever has is written for that side; benchstat shows it.
            if None in pair and comparable:
                continue
            for variant, value in zip((run.variants[0], item.candidate), pair, strict=True):
                if value is None:
                    continue
                key = (reader.bench_name(run, item.metric, item.query_type, variant), block)
                lines[variant].setdefault(key, {})[unit] = value * factor
                counted = value if item.metric.name == "query_count" else ratio.n if ratio else 0
                iterations[key] = max(iterations.get(key, 1), round(fixed or counted))
    texts = {
        variant: [
            " ".join([key[0], str(iterations[key]), *(f"{value!r} {unit}" for unit, value in values.items())])
            for key, values in by_block.items()
        ]
        for variant, by_block in lines.items()
    }
    if run.plan.gobench and run.plan.gobench.pivot:
        texts = {"baseline": [line for text in texts.values() for line in text]}
    return {variant: "\n".join([*head, *text]) + "\n" for variant, text in texts.items()}
