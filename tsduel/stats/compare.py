"""tidy/*.csv + plan -> stats/: comparison.csv and .json, one row a metric, query type and candidate; benchstat's files.

The unit of replication is the block. Which blocks count for which candidate stands in tidy/blocks.csv; docs/method.md
says how they are judged. Nothing is written outside the run.
"""

import csv
import io
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tsduel.core import files, tables
from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, GEOMEAN, Metric, threshold
from tsduel.core.record import BENCH, SOLO
from tsduel.core.rundir import Run, open_run
from tsduel.stats import aa, benchfmt, machines, sweep
from tsduel.stats.benchfmt import Compared
from tsduel.stats.findings import Pair, Sample
from tsduel.stats.rows import Row, row, warn_of_short_phase
from tsduel.stats.verdict import judge
from tsduel.tidy.blocks import FAILED, OWED
from tsduel.tidy.read import read_metrics, read_table, refuse_duplicates
from tsduel.workloads import in_families, primary
from tsduel.workloads.checks import FINISHED
from tsduel.workloads.reading import reader

Tables = Mapping[str, pd.DataFrame]
"""What compare reads, by name."""
_Key = tuple[str, str]
"""A metric and a query type."""


@dataclass(frozen=True)
class Ratio:
    """A block's log ratio from pairs of operations, its standard error within the block, and how many there were."""

    d: float
    se: float | None
    n: int


@dataclass(frozen=True)
class Candidate:
    """All of one candidate in one cell: the blocks that count, values and ratios, the failed checks that count."""

    cell: str
    name: str
    pair: tuple[str, str]
    valid: Sequence[int]
    hosts: Sequence[str]
    second: Sequence[bool]
    short: bool
    failures: pd.DataFrame
    measured: Mapping[_Key, Mapping[tuple[int, str], float]]
    ratios: Mapping[_Key, Mapping[int, Ratio]]

    def pairs(self, key: _Key) -> list[Pair]:
        """Return the values of both sides, one pair a valid block."""
        known = self.measured.get(key, {})
        return [(known.get((block, self.pair[0])), known.get((block, self.pair[1]))) for block in self.valid]

    def found(self, key: _Key) -> list[Ratio | None]:
        """Return the ratios, one a valid block."""
        known = self.ratios.get(key, {})
        return [known.get(block) for block in self.valid]


def main(run_dir: Path) -> None:
    """Compare the candidates of a run with its baseline."""
    run = open_run(run_dir)
    if len(run.variants) < 2:  # noqa: PLR2004 - a comparison needs two
        raise UserError(f"{run.path}: the plan has one variant only, there is nothing to compare")
    found = read(run)
    compared, rows = compare(run, found)
    out = run_dir / "stats"
    out.mkdir(exist_ok=True)
    files.write(out / "comparison.csv", _csv(rows))
    files.write(
        out / "comparison.json",
        json.dumps(_document(run, found, rows), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    )
    sweep.write(run, compared, rows)
    for variant, text in benchfmt.files(run, reader(run.plan.kind), compared).items():
        files.write(out / f"{variant}.bench.txt", text)


def read(run: Run) -> Tables:
    """Read what is compared from tidy/."""
    found = {name: read_table(run.path, name) for name in ("measurements", "pairs", "checks", "blocks")}
    refuse_duplicates(run.path, found["measurements"])
    return found


def compare(run: Run, found: Tables) -> tuple[list[Compared], list[Row]]:
    """Return pairs and rows: cells as planned, candidates in the order of the experiment, metrics as registered.

    All candidates in all cells are one family: each metric of each of them is one test in it. Cells share no block, so
    their signs are flipped apart from each other (docs/method.md).
    """
    metrics = in_families(run.plan, read_metrics(run, found["measurements"]))
    known = set(found["blocks"]["cell"].tolist())
    samples = [
        one
        for cell in run.plan.cells
        if cell.name in known
        for name in run.variants[1:]
        for one in _samples(run.at(cell.name), candidate(run, found, cell.name, name), metrics)
    ]
    compared, judged = [one for one, _ in samples], judge([sample for _, sample in samples], run.plan.design.seed)
    rows = [row(one, verdict) for one, verdict in zip(compared, judged, strict=True)]
    for one in rows:
        warn_of_short_phase(one, rows)
    return compared, rows


def candidate(run: Run, found: Tables, cell: str, name: str) -> Candidate:
    """Gather all of one candidate."""
    decided = found["blocks"][(found["blocks"]["cell"] == cell) & (found["blocks"]["candidate"] == name)]
    counting = decided[decided["counts"] == "true"]
    pair = (run.variants[0], name)
    values: defaultdict[_Key, dict[tuple[int, str], float]] = defaultdict(dict)
    measured = found["measurements"]
    mine = measured[(measured["cell"] == cell) & measured["variant"].isin(pair)]
    columns = ["metric", "query_type", "block", "variant", "value"]
    for metric, query_type, block, variant, value in zip(*(mine[c].tolist() for c in columns), strict=True):
        values[metric, query_type][int(block), variant] = float(value)
    ratios: defaultdict[_Key, dict[int, Ratio]] = defaultdict(dict)
    theirs = found["pairs"][(found["pairs"]["cell"] == cell) & (found["pairs"]["candidate"] == name)]
    columns = ["metric", "query_type", "block", "log_ratio", "n", "se"]
    for metric, query_type, block, d, n, se in zip(*(theirs[c].tolist() for c in columns), strict=True):
        ratios[metric, query_type][int(block)] = Ratio(float(d), float(se) if se else None, int(n))
    # A failure in a warm-up block, or in one that was spoilt and set aside, is shown and counts for nothing.
    counted = decided[decided["cause"].isin(["", FAILED])]["block"]
    checks, planned = found["checks"], {variant.name for variant in run.plan.variants}
    failed = (checks["cell"] == cell) & (checks["ok"] != "true") & checks["block"].isin(counted)
    concerned = checks["variant"].isin(["", *pair]) if name in planned else checks["variant"].notna()
    return Candidate(
        cell=cell,
        name=name,
        pair=pair,
        valid=[int(block) for block in counting["block"]],
        hosts=counting["host"].tolist() if len(set(counting["host"])) > 1 else (),
        second=[said == "true" for said in counting["second"]],
        # What was planned as a screen is one, noisy or not.
        short=bool((decided["cause"] == OWED).any()) and not (run.plan.screen or run.plan.smoke),
        failures=checks[failed & concerned],
        measured=values,
        ratios=ratios,
    )


def _samples(run: Run, of: Candidate, metrics: Sequence[Metric]) -> Iterator[tuple[Compared, Sample]]:
    rows = reader(run.plan.kind).rows(run)
    for metric in metrics:
        types = rows if metric.per_type else run.plan.roles if metric.per_role else [""]
        there = [t for t in types if (metric.name, t) in of.measured]
        for query_type in there:
            yield _sample(run, of, metric, query_type, metric.family)
        if metric.together and (metric.name, ALL) in of.measured:
            yield _sample(run, of, metric, ALL, metric.together)
        absent = [t for t in types if t not in there]
        if metric.geomean and there and (found := _geomean(run, of, metric, there, absent)):
            yield found


def _sample(run: Run, of: Candidate, metric: Metric, query_type: str, family: Any) -> tuple[Compared, Sample]:
    key = (metric.name, query_type)
    pairs, ratios = of.pairs(key), of.found(key)
    operations = [ratio.n if ratio else 0 for ratio in ratios]
    few = metric.least_n and any(ratios) and min(ratio.n for ratio in ratios if ratio) < metric.least_n
    # A duel on the data of the first block leaves one load of each variant, which is an example and no sample.
    once = metric.part == SOLO and run.plan.design.reload == "once"
    apart = run.plan.apart(of.name)
    sample = Sample(
        pairs=pairs,
        second=of.second,
        better=metric.better,
        family="shown" if few or once else family,
        threshold=0.0 if apart else threshold(metric, run.plan.design.thresholds),
        unit=metric.unit,
        failed=touched(of.failures, metric, query_type),
        blocks=of.valid,
        environment=of.short,
        ratios=[ratio.d if ratio else None for ratio in ratios] if any(ratios) and not metric.native else (),
        errors=[ratio.se if ratio else None for ratio in ratios] if any(ratios) else (),
        note="loaded once (design.reload)" if once else "",
        native=metric.native,
        floor=0.0 if apart else metric.floor,
        hosts=of.hosts,
    )
    return Compared(of.cell, metric, query_type, of.name, of.valid, pairs, operations), sample


def _geomean(
    run: Run, of: Candidate, metric: Metric, there: Sequence[str], absent: Sequence[str]
) -> tuple[Compared, Sample] | None:
    """Return the mean of the log ratios over the types that have one in every block (MEASUREMENT.md 5.6).

    Its error within a block is that of a mean of independent values.
    """
    by_type: dict[str, list[Ratio]] = {}
    for query_type in there:
        key = (metric.name, query_type)
        both = [_ratio(pair, ratio) for pair, ratio in zip(of.pairs(key), of.found(key), strict=True)]
        whole = [one for one in both if one is not None]
        if len(whole) == len(both):
            by_type[query_type] = whole
    if not by_type and not any(value for t in there for pair in of.pairs((metric.name, t)) for value in pair):
        return None  # all values are zero: every type says so itself
    left_out = [*(t for t in there if t not in by_type), *absent]
    pairs: list[Pair] = [(None, None)] * len(of.valid)
    ratios: list[float | None] = [None] * len(of.valid)
    errors: list[float | None] = [None] * len(of.valid)
    for i in range(len(of.valid)) if by_type else ():
        ratios[i] = sum(found[i].d for found in by_type.values()) / len(by_type)
        both_sides = [of.pairs((metric.name, t))[i] for t in by_type]
        pairs[i] = (_geometric([b for b, _ in both_sides]), _geometric([c for _, c in both_sides]))
        squares = [found[i].se for found in by_type.values()]
        if None not in squares:
            errors[i] = math.sqrt(sum(se**2 for se in squares if se is not None)) / len(by_type)
    compared, sample = _sample(run, of, metric, GEOMEAN, metric.geomean)
    note = f"without {', '.join(left_out)}, not above zero in every block" if left_out else ""
    sample = replace(sample, pairs=pairs, ratios=ratios, errors=errors, note=note)
    return replace(compared, pairs=pairs), sample


def _ratio(pair: Pair, ratio: Ratio | None) -> Ratio | None:
    b, c = pair
    if b is None or c is None or b <= 0 or c <= 0:
        return None
    return ratio or Ratio(math.log(c) - math.log(b), None, 0)


def _geometric(values: list[float | None]) -> float:
    return math.exp(sum(math.log(value) for value in values if value) / len(values))


def touched(failures: pd.DataFrame, metric: Metric, query_type: str) -> str:
    """Say which failed checks touch a metric, or return an empty string.

    Lost samples or a server that died make every figure doubtful; wrong or missing answers only those of their query
    type and what sums over types. That a block was not finished is not here: that has dropped the block.
    """
    of_type = failures["query_type"]
    sums = query_type in {GEOMEAN, ALL} or metric.name in {"cpu_seconds", "duel_idle_cpu_ms"}
    touching = failures[(of_type == "") | (of_type == query_type) | sums]
    touching = touching[touching["check"] != FINISHED]
    if touching.empty:
        return ""
    return f"failed checks ({len(touching)}): {', '.join(sorted(set(touching['check'])))}"


def _document(run: Run, found: Tables, rows: list[Row]) -> dict[str, Any]:
    checks, blocks = found["checks"], found["blocks"]
    failed = checks["ok"] != "true"
    crashed = checks[failed & (checks["check"] == FINISHED)]["variant"].tolist()
    of = {
        name: {
            "valid": [int(b) for b in mine[mine["counts"] == "true"]["block"]],
            "dropped": [
                {"block": int(b), "cause": cause, "reason": reason}
                for b, cause, reason in zip(*(mine[c] for c in ("block", "cause", "reason")), strict=True)
                if cause not in {"", "warmup"}
            ],
        }
        for name in run.variants[1:]
        for mine in [blocks[blocks["candidate"] == name]]
    }
    counted = set(blocks[blocks["cause"].isin(["", FAILED])]["block"])
    document = {
        "schema": 4,
        "run": run.path.name,
        "baseline": run.variants[0],
        "candidates": run.variants[1:],
        "blocks": of,
        "failed_blocks": {name: crashed.count(name) for name in dict.fromkeys([*run.variants, *crashed])},
        # `aside`: failed where it counts for nothing, in a warm-up block or one that was spoilt.
        "checks": {
            "made": len(checks),
            "failed": int((failed & checks["block"].isin(counted)).sum()),
            "aside": int((failed & ~checks["block"].isin(counted)).sum()),
        },
        **({"hosts": machines.hosts(run, blocks), "machines": machines.beside(run, rows)} if run.plan.is_fleet else {}),
        "rows": rows,
    }
    if not run.plan.aa:
        return document
    # Of benchmarks it is not known beforehand which units they have.
    expected = [(metric.name, query_type) for metric, query_type in primary(run.plan) if metric.part != BENCH]
    return {**document, "aa": aa.verdict(document, expected)}


def _csv(rows: list[Row]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(tables.COMPARISON)
    for one in rows:
        cells = (one[column] for column in tables.COMPARISON)
        table.writerow(f"{cell:.10g}" if isinstance(cell, float) else cell for cell in cells)
    return text.getvalue()
