"""tidy/*.csv + plan -> stats/: comparison.csv and .json, one row a metric, query type and candidate; benchstat's files.

The unit of replication is the block. tidy/blocks.csv says which blocks count for which candidate; docs/statistics.md
says how they are judged.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsduel.core import files, tables
from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, GEOMEAN, MIX, Family, Metric, threshold
from tsduel.core.record import BENCH, DUEL, SOLO
from tsduel.core.rundir import Run, open_run
from tsduel.stats import aa, benchfmt, machines, soak, sweep
from tsduel.stats.benchfmt import Compared
from tsduel.stats.findings import Pair, Sample, Sittings
from tsduel.stats.rows import Row, row, warn_of_short_phases
from tsduel.stats.verdict import judge
from tsduel.tidy.blocks import FAILED, OWED, WARMUP
from tsduel.tidy.read import read_metrics, read_table, refuse_duplicates
from tsduel.workloads import in_families, primary
from tsduel.workloads.checks import FINISHED
from tsduel.workloads.reading import reader

Tables = Mapping[str, pd.DataFrame]
"""The tables of tidy/ that are compared, by name."""
_Key = tuple[str, str]
"""A metric and a query type."""


@dataclass(frozen=True)
class Ratio:
    """A block's log ratio from `n` pairs of operations, and its standard error within the block."""

    d: float
    se: float | None
    n: int
    sittings: Sittings | None = None


@dataclass(frozen=True)
class Candidate:
    """All of one candidate in one cell: the blocks that count, figures and ratios, the failed checks that count.

    `short`: outside causes spoilt more blocks than spare ones could replace.
    """

    cell: str
    name: str
    sides: tuple[str, str]
    valid: Sequence[int]
    hosts: Sequence[str]
    second: Mapping[str, Sequence[bool | None]]
    short: bool
    failures: pd.DataFrame
    figures: Mapping[_Key, Mapping[tuple[int, str], float]]
    ratios: Mapping[_Key, Mapping[int, Ratio]]

    def pairs_of(self, key: _Key) -> list[Pair]:
        """Return the values of both sides, one pair a valid block."""
        baseline, candidate = self.sides
        known = self.figures.get(key, {})
        return [(known.get((block, baseline)), known.get((block, candidate))) for block in self.valid]

    def ratios_of(self, key: _Key) -> list[Ratio | None]:
        """Return the ratios, one a valid block."""
        known = self.ratios.get(key, {})
        return [known.get(block) for block in self.valid]


def main(run_dir: Path) -> None:
    """Compare the candidates of a run with its baseline."""
    run = open_run(run_dir)
    if len(run.variants) < 2:  # noqa: PLR2004 - a comparison needs two
        raise UserError(f"{run.path}: the plan has one variant only, there is nothing to compare")
    tidied = {name: read_table(run.path, name) for name in ("measurements", "pairs", "checks", "blocks")}
    refuse_duplicates(run.path, tidied["measurements"])
    compared, rows = compare(run, tidied)
    out = run_dir / "stats"
    out.mkdir(exist_ok=True)
    table = pd.DataFrame(rows, columns=list(tables.COMPARISON))
    files.write(out / "comparison.csv", table.to_csv(index=False, float_format="%.10g", lineterminator="\n"))
    document = json.dumps(_document(run, tidied, rows), indent=1, ensure_ascii=False, allow_nan=False)
    files.write(out / "comparison.json", document + "\n")
    sweep.write(run, compared, rows)
    soak.write(run)
    for variant, text in benchfmt.files(run, reader(run.plan.kind), compared).items():
        files.write(out / f"{variant}.bench.txt", text)


def compare(run: Run, tidied: Tables) -> tuple[list[Compared], list[Row]]:
    """Return pairs and rows: cells as planned, candidates in the order of the experiment, metrics as registered.

    All candidates in all cells are one family: each metric of each of them is one test in it. Cells share no block, so
    their signs are flipped independently (docs/statistics.md).
    """
    metrics = in_families(run.plan, read_metrics(run, tidied["measurements"]))
    known = set(tidied["blocks"]["cell"])
    samples = [
        sample
        for cell in run.plan.cells
        if cell.name in known
        for name in run.variants[1:]
        for sample in _samples(run.at(cell.name), gather(run, tidied, cell.name, name), metrics)
    ]
    judged = judge([sample for _, sample in samples], run.plan.design.seed)
    rows = [row(compared, verdict) for (compared, _), verdict in zip(samples, judged, strict=True)]
    warn_of_short_phases(rows)
    return [compared for compared, _ in samples], rows


def gather(run: Run, tidied: Tables, cell: str, name: str) -> Candidate:
    """Gather all of one candidate in one cell."""
    decided, theirs = (
        table[(table["cell"] == cell) & (table["candidate"] == name)] for table in (tidied["blocks"], tidied["pairs"])
    )
    counting, sides = decided[decided["counts"] == "true"], (run.variants[0], name)
    figures: defaultdict[_Key, dict[tuple[int, str], float]] = defaultdict(dict)
    measured = tidied["measurements"]
    measured = measured[(measured["cell"] == cell) & measured["variant"].isin(sides)]
    if run.plan.loads_in_turn:
        # The large loads of the warm-up block run alone, so they are no samples.
        measured = measured[~measured["block"].isin(run.warmups)]
    for metric, query_type, block, variant, value in _columns(measured, "metric query_type block variant value"):
        figures[metric, query_type][int(block), variant] = float(value)
    ratios: defaultdict[_Key, dict[int, Ratio]] = defaultdict(dict)
    columns = "metric query_type block log_ratio n se sittings sitting_sd second_effect"
    for metric, query_type, block, d, n, *rest in _columns(theirs, columns):
        se, sittings, deviation, effect = (None if value == "" else float(value) for value in rest)
        ratio = Ratio(float(d), se, int(n), Sittings(int(sittings or 1), deviation, effect))
        ratios[metric, query_type][int(block)] = ratio
    # Failures in a warm-up block or in a spoilt one are shown and fail nothing.
    counted = decided[decided["cause"].isin(["", FAILED])]["block"]
    checks, planned = tidied["checks"], {variant.name for variant in run.plan.variants}
    failed = (checks["cell"] == cell) & (checks["ok"] != "true") & checks["block"].isin(counted)
    concerned = checks["variant"].isin(["", *sides]) if name in planned else checks["variant"].notna()
    return Candidate(
        cell=cell,
        name=name,
        sides=sides,
        valid=[int(block) for block in counting["block"]],
        hosts=counting["host"].tolist() if len(set(counting["host"])) > 1 else (),
        second={coin: [text == "true" if text else None for text in counting[coin]] for coin in tables.COINS},
        # A planned screen stays a screen, noisy or not.
        short=bool((decided["cause"] == OWED).any()) and not (run.plan.screen or run.plan.smoke),
        failures=checks[failed & concerned],
        figures=figures,
        ratios=ratios,
    )


def _columns(table: pd.DataFrame, names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].tolist() for name in names.split()), strict=True)


def _samples(run: Run, candidate: Candidate, metrics: Sequence[Metric]) -> Iterator[tuple[Compared, Sample]]:
    rows = reader(run.plan.kind).rows(run)
    for metric in metrics:
        types = rows if metric.per_type else run.plan.roles if metric.per_role else [""]
        measured = [t for t in types if (metric.name, t) in candidate.figures]
        mean_of = [MIX] if MIX in measured else measured
        for query_type in measured:
            yield _sample(run, candidate, metric, query_type, metric.family)
        if metric.together and (metric.name, ALL) in candidate.figures:
            yield _sample(run, candidate, metric, ALL, metric.together)
        absent = [t for t in types if t not in measured and mean_of == measured]
        if metric.geomean and measured and (geomean := _geomean(run, candidate, metric, mean_of, absent)):
            yield geomean


def _sample(run: Run, candidate: Candidate, metric: Metric, query_type: str, family: Family) -> tuple[Compared, Sample]:
    key = (metric.name, query_type)
    pairs, ratios = candidate.pairs_of(key), candidate.ratios_of(key)
    few = metric.least_n and any(ratios) and min(ratio.n for ratio in ratios if ratio) < metric.least_n
    # With design.reload: once each variant loads once, and one load is no sample.
    once = metric.part == SOLO and run.plan.design.reload == "once"
    apart = run.plan.apart(candidate.name)
    # A variant that runs alone has only the order of loads; loads in turn have no such order.
    loaded, *others = tables.COINS
    coins = others if run.plan.loads_in_turn else tables.COINS if metric.part == DUEL else [loaded]
    sample = Sample(
        pairs=pairs,
        second={coin: candidate.second[coin] for coin in coins},
        better=metric.better,
        family="shown" if few or once else family,
        threshold=0.0 if apart else threshold(metric, run.plan.design.thresholds),
        unit=metric.unit,
        failed=touched(candidate.failures, metric, query_type),
        blocks=candidate.valid,
        environment=candidate.short,
        ratios=[ratio.d if ratio else None for ratio in ratios] if any(ratios) and not metric.native else (),
        errors=[ratio.se if ratio else None for ratio in ratios] if any(ratios) else (),
        sittings=[ratio.sittings if ratio else None for ratio in ratios] if any(ratios) else (),
        note="loaded once (design.reload)" if once else "",
        native=metric.native,
        floor=0.0 if apart else metric.floor,
        hosts=candidate.hosts,
    )
    operations = [ratio.n if ratio else 0 for ratio in ratios]
    return Compared(candidate.cell, metric, query_type, candidate.name, candidate.valid, pairs, operations), sample


def _geomean(
    run: Run, candidate: Candidate, metric: Metric, measured: Sequence[str], absent: Sequence[str]
) -> tuple[Compared, Sample] | None:
    """Return the mean of the log ratios over the types that have one in every block (docs/statistics.md).

    Its error within a block is that of a mean of independent values. None where all values are zero: the row of each
    type says so.
    """
    pairs_of = {t: candidate.pairs_of((metric.name, t)) for t in measured}
    by_type: dict[str, list[Ratio]] = {}
    for query_type, pairs in pairs_of.items():
        ratios = map(_ratio, pairs, candidate.ratios_of((metric.name, query_type)))
        known = [ratio for ratio in ratios if ratio is not None]
        if len(known) == len(pairs):
            by_type[query_type] = known
    compared, sample = _sample(run, candidate, metric, GEOMEAN, metric.geomean or "shown")
    if by_type:
        d, se = (
            np.array([[getattr(r, name) for r in ratios] for ratios in by_type.values()], float) for name in ("d", "se")
        )
        errors = np.sqrt((se**2).sum(axis=0)) / len(by_type)  # nan where a type has none
        sides = np.exp(np.log(np.array([pairs_of[t] for t in by_type], float)).mean(axis=0))
        sample = replace(
            sample,
            pairs=[(b, c) for b, c in sides.tolist()],
            ratios=d.mean(axis=0).tolist(),
            errors=[None if math.isnan(error) else error for error in errors.tolist()],
        )
    elif any(value for pairs in pairs_of.values() for pair in pairs for value in pair):
        nothing = [None] * len(candidate.valid)
        sample = replace(sample, pairs=[(None, None)] * len(nothing), ratios=nothing, errors=nothing)
    else:
        return None
    left_out = [*(t for t in measured if t not in by_type), *absent]
    note = f"without {', '.join(left_out)}, not above zero in every block" if left_out else ""
    return replace(compared, pairs=sample.pairs), replace(sample, note=note)


def _ratio(pair: Pair, ratio: Ratio | None) -> Ratio | None:
    b, c = pair
    if b is None or c is None or b <= 0 or c <= 0:
        return None
    return ratio or Ratio(math.log(c) - math.log(b), None, 0)


def touched(failures: pd.DataFrame, metric: Metric, query_type: str) -> str:
    """Name the failed checks that touch a metric; empty where none does.

    Lost samples or a server that died make every figure doubtful; wrong or missing answers only those of their query
    type and sums over types. FINISHED is left out: such a block is already dropped.
    """
    of_type = failures["query_type"]
    sums = query_type in {GEOMEAN, ALL} or metric.name in {"cpu_seconds", "duel_idle_cpu_ms"}
    touching = failures[((of_type == "") | (of_type == query_type) | sums) & (failures["check"] != FINISHED)]
    if touching.empty:
        return ""
    return f"failed checks ({len(touching)}): {', '.join(sorted(set(touching['check'])))}"


def _document(run: Run, tidied: Tables, rows: list[Row]) -> dict[str, Any]:
    checks, blocks = tidied["checks"], tidied["blocks"]
    failed = checks["ok"] != "true"
    crashed = checks[failed & (checks["check"] == FINISHED)]["variant"].tolist()
    counted = checks["block"].isin(blocks[blocks["cause"].isin(["", FAILED])]["block"])
    document = {
        "schema": 5,
        "run": run.path.name,
        "baseline": run.variants[0],
        "candidates": run.variants[1:],
        "blocks": {name: _blocks(blocks[blocks["candidate"] == name]) for name in run.variants[1:]},
        "failed_blocks": {name: crashed.count(name) for name in dict.fromkeys([*run.variants, *crashed])},
        # `aside`: failed in a warm-up block or in a spoilt one, where it fails nothing.
        "checks": {
            "made": len(checks),
            "failed": int((failed & counted).sum()),
            "aside": int((failed & ~counted).sum()),
        },
        "hosts": machines.hosts(run, blocks),
        "machines": machines.beside(run, rows),
        "rows": rows,
    }
    if not run.plan.aa:
        return document
    # The units of Go benchmarks are not known beforehand.
    expected = [(metric.name, query_type) for metric, query_type in primary(run.plan) if metric.part != BENCH]
    return {**document, "aa": aa.verdict(document, expected)}


def _blocks(decided: pd.DataFrame) -> dict[str, Any]:
    """Return which blocks count for a candidate, and why the others do not; without warm-up blocks."""
    dropped = decided[~decided["cause"].isin(["", WARMUP])]
    return {
        "valid": [int(block) for block in decided[decided["counts"] == "true"]["block"]],
        "dropped": [
            {"block": int(block), "cause": cause, "reason": reason}
            for block, cause, reason in _columns(dropped, "block cause reason")
        ],
    }
