"""What was compared, in the text format of Go benchmarks, for benchstat: golang.org/design/14313-benchmark-format.

One line a block and benchmark. The files hold exactly the values behind comparison.csv, and the same configuration
lines: a key with two values would split benchstat's table. A pivoted run is one file, whose names keep its columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tsduel.core.metrics import GEOMEAN, Metric
from tsduel.core.rundir import Run
from tsduel.stats.findings import Pair
from tsduel.workloads.reading import Reader

_KNOWN = {"sec/op", "ns/op", "B/op", "allocs/op", "B/s"}
"""Units whose direction benchstat knows."""


@dataclass(frozen=True)
class Compared:
    """One metric (and query type) of one candidate: `pairs` of baseline and candidate, one for each of `blocks`.

    `operations` are those of each block that were paired, 0 where nothing was.
    """

    cell: str
    metric: Metric
    query_type: str
    candidate: str
    blocks: Sequence[int]
    pairs: Sequence[Pair]
    operations: Sequence[int] = ()


def files(run: Run, reader: Reader, compared: Sequence[Compared]) -> dict[str, str]:
    """Return the text of a file for each variant; the baseline's holds a block once, whatever it was compared with."""
    head = [*reader.bench_configuration(run), *_unit_lines(reader, compared), ""]
    # variant -> (benchmark, block) -> unit -> value, and the operations of the line
    lines: dict[str, dict[tuple[str, int], dict[str, float]]] = {variant: {} for variant in run.variants}
    iterations: dict[tuple[str, int], int] = {}
    for one in compared:
        if one.query_type == GEOMEAN:
            continue
        unit, factor = reader.bench_unit(one.metric)
        whole = any(None not in pair for pair in one.pairs)
        for at, (block, pair) in enumerate(zip(one.blocks, one.pairs, strict=True)):
            # What only one side has stands in its file too, as benchstat shows it.
            if None in pair and whole:
                continue
            for variant, value in zip((run.variants[0], one.candidate), pair, strict=True):
                if value is not None:
                    name = reader.bench_name(run, one.metric, one.query_type, variant)
                    # scale=1000 batch=100 are keys of benchstat's, in front: what a name ends with may mean more.
                    name = "/".join([*(part := name.split("/"))[:1], *_words(one.cell), *part[1:]])
                    key = (name, block)
                    lines[variant].setdefault(key, {})[unit] = value * factor
                    counted = value if one.metric.name == "query_count" else one.operations[at] if one.operations else 0
                    fixed = reader.bench_operations(run, one.query_type)
                    iterations[key] = max(iterations.get(key, 1), round(fixed or counted))
    texts = {
        variant: [f"{key[0]} {iterations[key]} {_printed(values)}" for key, values in by_block.items()]
        for variant, by_block in lines.items()
    }
    if run.plan.gobench and run.plan.gobench.pivot:
        texts = {"baseline": [line for text in texts.values() for line in text]}
    return {variant: "\n".join([*head, *text]) + "\n" for variant, text in texts.items()}


def _words(cell: str) -> list[str]:
    return [word.replace("/", "_") for word in cell.split()]


def _unit_lines(reader: Reader, compared: Sequence[Compared]) -> list[str]:
    units = {reader.bench_unit(one.metric)[0]: one.metric.better for one in compared}
    return sorted(f"Unit {u} better={better}" for u, better in units.items() if better != "none" and u not in _KNOWN)


def _printed(values: dict[str, float]) -> str:
    return " ".join(f"{value!r} {unit}" for unit, value in values.items())
