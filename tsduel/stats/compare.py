"""tidy/*.csv + plan -> stats/: comparison.csv and .json, one row a metric, query type and candidate; benchstat's files.

The unit of replication is the block. tidy/blocks.csv says which blocks count for which candidate; docs/statistics.md
says how they are judged.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsduel.core import files, results, tables
from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, EXCHANGE, GEOMEAN, MIX, Family, Metric, threshold
from tsduel.core.record import BENCH, DUEL, SOLO
from tsduel.core.rundir import Run, open_run
from tsduel.stats import aa, benchfmt, soak
from tsduel.stats.findings import Pair, Sample
from tsduel.stats.rows import Row, row, warn_of_short_phases
from tsduel.stats.verdict import judge
from tsduel.tidy.blocks import FAILED, OWED, WARMUP
from tsduel.tidy.read import read_metrics, read_table, refuse_duplicates, refuse_older
from tsduel.workloads import in_families, primary
from tsduel.workloads.checks import FINISHED, FOUND
from tsduel.workloads.measured import PairedRatio
from tsduel.workloads.reading import reader

Tables = Mapping[str, pd.DataFrame]
"""The tables of tidy/ that are compared, by name."""
_Key = tuple[str, str]
"""A metric and a query type."""


@dataclass(frozen=True)
class Candidate:
    """All of one candidate: the blocks that count, figures and ratios, the failed checks that count.

    `short`: outside causes spoilt more blocks than spare ones could replace.
    """

    name: str
    sides: tuple[str, str]
    valid: Sequence[int]
    hosts: Sequence[str]
    second: Mapping[str, Sequence[bool | None]]
    mirrors: Sequence[int | None]
    short: bool
    failures: pd.DataFrame
    figures: Mapping[_Key, Mapping[tuple[int, str], float]]
    ratios: Mapping[_Key, Mapping[int, PairedRatio]]

    def pairs_of(self, key: _Key) -> list[Pair]:
        """Return the values of both sides, one pair a valid block."""
        baseline, candidate = self.sides
        by_block = self.figures.get(key, {})
        return [(by_block.get((block, baseline)), by_block.get((block, candidate))) for block in self.valid]

    def ratios_of(self, key: _Key) -> list[PairedRatio | None]:
        """Return the ratios, one a valid block."""
        by_block = self.ratios.get(key, {})
        return [by_block.get(block) for block in self.valid]

    def having(self, key: _Key) -> "Candidate":
        """Return what it is in the blocks that counted the work of a query type."""
        has = [block in self.ratios.get(key, {}) for block in self.valid]
        return replace(
            self,
            valid=[*compress(self.valid, has)],
            hosts=[*compress(self.hosts, has)],
            second={coin: [*compress(second, has)] for coin, second in self.second.items()},
            mirrors=self.mirrors if all(has) else (),
        )


def main(run_dir: Path) -> None:
    """Compare the candidates of a run with its baseline."""
    run = open_run(run_dir)
    if len(run.variants) < 2:  # noqa: PLR2004 - a comparison needs two
        raise UserError(f"{run.path}: the plan has one variant only, there is nothing to compare")
    tidied = tidied_of(run)
    samples, rows = compare(run, tidied)
    out = run_dir / "stats"
    out.mkdir(exist_ok=True)
    table = pd.DataFrame(rows, columns=list(tables.COMPARISON))
    files.write(out / "comparison.csv", tables.csv_of(table))
    document = json.dumps(_document(run, tidied, rows), indent=1, ensure_ascii=False, allow_nan=False)
    files.write(out / "comparison.json", document + "\n")
    soak.write(run)
    for variant, text in benchfmt.files(run, reader(run.plan.kind), samples).items():
        files.write(out / f"{variant}.bench.txt", text)
    results.point_latest(run_dir)


def compare(run: Run, tidied: Tables) -> tuple[list[Sample], list[Row]]:
    """Return samples and rows: candidates in the order of the experiment, metrics as registered.

    All candidates are one family: each metric of each of them is one test in it (docs/statistics.md).
    """
    samples = samples_of(run, tidied)
    rows = [row(judged) for judged in judge(samples, run.plan.design.seed)]
    warn_of_short_phases(rows)
    return samples, rows


def samples_of(run: Run, tidied: Tables) -> list[Sample]:
    """Return what is tested, not yet judged."""
    metrics = in_families(run.plan, read_metrics(run, tidied["measurements"]))
    return [sample for name in run.variants[1:] for sample in _samples(run, gather(run, tidied, name), metrics)]


def tidied_of(run: Run) -> Tables:
    """Return the tables of tidy/ that are compared."""
    tidied = {name: read_table(run.path, name) for name in ("measurements", "pairs", "checks", "blocks")}
    refuse_older(run, tidied["blocks"])
    refuse_duplicates(run.path, tidied["measurements"])
    return tidied


def gather(run: Run, tidied: Tables, name: str) -> Candidate:
    """Gather all of one candidate."""
    decided, theirs = (table[table["candidate"] == name] for table in (tidied["blocks"], tidied["pairs"]))
    counting, sides = decided[decided["counts"] == "true"], (run.variants[0], name)
    figures: defaultdict[_Key, dict[tuple[int, str], float]] = defaultdict(dict)
    measured = tidied["measurements"]
    measured = measured[measured["variant"].isin(sides)]
    measured = measured[~measured["block"].isin(run.warmups)]
    for metric, query_type, block, variant, value in _columns(measured, "metric query_type block variant value"):
        figures[metric, query_type][int(block), variant] = float(value)
    ratios: defaultdict[_Key, dict[int, PairedRatio]] = defaultdict(dict)
    columns = " ".join(("block", *PairedRatio._fields))
    for block, *own in _columns(theirs, columns):
        ratio = PairedRatio._make(own)
        # These are text, since they may be empty.
        ratios[ratio.metric, ratio.query_type][block] = ratio._replace(
            se=_number(ratio.se), sitting_sd=_number(ratio.sitting_sd), second_effect=_number(ratio.second_effect)
        )
    checks, planned = tidied["checks"], {variant.name for variant in run.plan.variants}
    failed = (checks["ok"] != "true") & _counted(checks, decided)
    concerned = checks["variant"].isin(["", *sides]) if name in planned else checks["variant"].notna()
    second = {coin: [text == "true" if text else None for text in counting[coin]] for coin in tables.COINS}
    many_hosts = len(set(counting["host"])) > 1
    return Candidate(
        name=name,
        sides=sides,
        valid=[int(block) for block in counting["block"]],
        hosts=counting["host"].tolist() if many_hosts else (),
        second=second,
        # Only the order of two variants comes in mirror images (tsduel/plan/order.py).
        mirrors=() if many_hosts or run.variants[2:] else _mirrors([*zip(*second.values(), strict=True)]),
        # A planned screen stays a screen, noisy or not.
        short=bool((decided["cause"] == OWED).any()) and not (run.plan.screen or run.plan.smoke),
        failures=checks[failed & concerned],
        figures=figures,
        ratios=ratios,
    )


def _mirrors(coins: Sequence[tuple[bool | None, ...]]) -> list[int | None]:
    """Return for each block the place of the next one whose coins are all the other way, each taken once."""
    found: list[int | None] = [None] * len(coins)
    for at, signs in enumerate(coins):
        other = tuple(None if coin is None else not coin for coin in signs)
        later = (i for i in range(at + 1, len(coins)) if found[i] is None and coins[i] == other)
        if found[at] is None and None not in signs and (mirror := next(later, None)) is not None:
            found[at], found[mirror] = mirror, at
    return found


def _counted(checks: pd.DataFrame, decided: pd.DataFrame) -> pd.Series:
    """Say of each check whether its failure counts: one in a warm-up block or in a spoilt one is only shown."""
    counted: pd.Series = checks["block"].isin(decided[decided["cause"].isin(["", FAILED])]["block"])
    return counted | (checks["check"] == FOUND)


def _columns(table: pd.DataFrame, names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].tolist() for name in names.split()), strict=True)


def _number(text: Any) -> float | None:
    return float(text) if text else None


def _samples(run: Run, candidate: Candidate, metrics: Sequence[Metric]) -> Iterator[Sample]:
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
        # Blocks that count different types have no mean in common.
        split = metric.work and run.plan.duel is not None and run.plan.duel.work != "all"
        if metric.geomean and measured and not split and (geomean := _geomean(run, candidate, metric, mean_of, absent)):
            yield geomean


def _sample(run: Run, candidate: Candidate, metric: Metric, query_type: str, family: Family) -> Sample:
    key = (metric.name, query_type)
    if metric.work and query_type != GEOMEAN:
        candidate = candidate.having(key)
    ratios = candidate.ratios_of(key)
    few = metric.least_n and any(ratios) and min(ratio.n for ratio in ratios if ratio) < metric.least_n
    # With design.reload: once each variant loads once, and one load is no sample.
    once = metric.part == SOLO and run.plan.design.reload == "once"
    # A variant that runs alone has only the order of loads; loads in turn have no such order.
    loaded, *others = tables.COINS
    coins = others if run.plan.loads_in_turn else tables.COINS if metric.part == DUEL else [loaded]
    return Sample(
        metric=metric,
        query_type=query_type,
        candidate=candidate.name,
        pairs=candidate.pairs_of(key),
        second={coin: candidate.second[coin] for coin in coins},
        family="shown" if few or once else family,
        threshold=0.0 if run.plan.crosses_to(candidate.name) else threshold(metric, run.plan.design.thresholds),
        failed=touched(candidate.failures, metric, query_type),
        blocks=candidate.valid,
        environment=candidate.short,
        ratios=ratios if any(ratios) else (),
        note="loaded once (design.reload)" if once else "",
        hosts=candidate.hosts,
        mirrors=candidate.mirrors,
    )


def _geomean(
    run: Run, candidate: Candidate, metric: Metric, measured: Sequence[str], absent: Sequence[str]
) -> Sample | None:
    """Return the mean of the log ratios over the types that have one in every block (docs/statistics.md).

    Its error within a block is that of a mean of independent values. None where all values are zero: the row of each
    type says so.
    """
    pairs_of = {t: candidate.pairs_of((metric.name, t)) for t in measured}
    by_type: dict[str, list[tuple[float, float | None]]] = {}
    for query_type, pairs in pairs_of.items():
        ratios = map(_ratio, pairs, candidate.ratios_of((metric.name, query_type)))
        defined = [ratio for ratio in ratios if ratio is not None]
        if len(defined) == len(pairs):
            by_type[query_type] = defined
    sample = _sample(run, candidate, metric, GEOMEAN, metric.geomean or "shown")
    if by_type:
        d, se = np.moveaxis(np.array([*by_type.values()], float).reshape(len(by_type), -1, 2), 2, 0)
        means = d.mean(axis=0).tolist()
        errors = np.sqrt((se**2).sum(axis=0)) / len(by_type)  # nan where a type has none
        sides = np.exp(np.log(np.array([pairs_of[t] for t in by_type], float)).mean(axis=0))
        # Of several sittings, their number and their spread are those of the mean over types in each.
        plain = PairedRatio(candidate.name, metric.part, metric.phase, GEOMEAN, metric.name, 0.0, None, 0)
        own = [ratio or plain for ratio in candidate.ratios_of((metric.name, GEOMEAN))]
        sample = replace(
            sample,
            pairs=[(b, c) for b, c in sides.tolist()],
            ratios=[
                ratio._replace(log_ratio=mean, se=None if math.isnan(error) else error)
                for ratio, mean, error in zip(own, means, errors.tolist(), strict=True)
            ],
        )
    elif any(value for pairs in pairs_of.values() for pair in pairs for value in pair):
        sample = replace(sample, pairs=[(None, None)] * len(candidate.valid), ratios=(), family="shown")
    else:
        return None
    left_out = [*(t for t in measured if t not in by_type), *absent]
    note = f"without {', '.join(left_out)}, not above zero in every block" if left_out else ""
    return replace(sample, note=note)


def _ratio(pair: Pair, ratio: PairedRatio | None) -> tuple[float, float | None] | None:
    """Return the log ratio of a block and its error, if known; None where a value is not above zero."""
    b, c = pair
    if b is None or c is None or b <= 0 or c <= 0:
        return None
    return (ratio.log_ratio, ratio.se) if ratio else (math.log(c) - math.log(b), None)


def touched(failures: pd.DataFrame, metric: Metric, query_type: str) -> str:
    """Name the failed checks that touch a metric; empty where none does.

    Lost samples or a server that died make every figure doubtful; wrong or missing answers only those of their query
    type and sums over types. FINISHED is left out: such a block is already dropped. A mean says what it lacks.
    """
    # Windows of an upgrade are checked each, and have one row.
    of_type = failures["query_type"].str.replace(r"@(half|new)$", "", regex=True)
    # A component's figure is of all types.
    sums = query_type in {GEOMEAN, ALL} or metric.name in {"cpu_seconds", "duel_idle_cpu_ms"}
    sums = sums or (metric.per_role and metric.phase == EXCHANGE and not metric.name.startswith("duel_load"))
    touching = failures[
        ((of_type == "") | (of_type == query_type) | (sums & (failures["check"] != FOUND)))
        & (failures["check"] != FINISHED)
    ]
    if touching.empty:
        return ""
    return f"failed checks ({len(touching)}): {', '.join(sorted(set(touching['check'])))}"


def _document(run: Run, tidied: Tables, rows: list[Row]) -> dict[str, Any]:
    checks, blocks = tidied["checks"], tidied["blocks"]
    failed = checks["ok"] != "true"
    crashed = checks[failed & (checks["check"] == FINISHED)]["variant"].tolist()
    counting = checks[failed & _counted(checks, blocks)]
    broken = counting[counting["check"].isin([FINISHED, FOUND] if run.plan.kind == "gobench" else [])]
    document = {
        "schema": 6,
        "run": run.path.name,
        "smoke": run.plan.smoke,
        "baseline": run.variants[0],
        "candidates": run.variants[1:],
        "blocks": {name: _blocks(blocks[blocks["candidate"] == name]) for name in run.variants[1:]},
        "failed_blocks": {name: crashed.count(name) for name in dict.fromkeys([*run.variants, *crashed])},
        "checks": {"made": len(checks), "failed": len(counting)},
        # Benchmarks that measured nothing: the answer begins with them.
        "broken": broken[["variant", "message"]].drop_duplicates().to_dict("records"),
        "hosts": _hosts(run, blocks),
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


def _hosts(run: Run, decided: pd.DataFrame) -> list[dict[str, Any]]:
    """Return each host with its machine and how many of its blocks count."""
    counting = decided[decided["counts"] == "true"]
    return [
        {
            "host": name,
            "spare": name in run.plan.spare_hosts,
            "machine": run.plan.place.of(name, "address") or run.node_of(name) or run.plan.machine_of(name),
            "cpu_model": run.machines.get(name, {}).get("cpu_model") or "",
            "blocks": len(set(counting[counting["host"] == name]["block"])),
        }
        for name in run.plan.every_host
    ]
