"""tidy/*.csv + plan -> stats/comparison.csv and comparison.json: one row a metric and query type.

The unit of replication is the round, paired within its block; warm-up blocks and blocks without a whole round of both
variants are left out, and each that is left out is named with its reason. Until the statistics of MEASUREMENT.md 5 are
here, p, intervals and the like are empty and every verdict is `inconclusive`, or `failed` where a check failed.
"""

import csv
import io
import json
import math
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsduel.errors import UserError
from tsduel.estimate import hodges_lehmann, log_ratios, percent
from tsduel.metrics import GEOMEAN, METRICS, Metric
from tsduel.rundir import Run, open_run
from tsduel.tidy import CHECKS, MEASUREMENTS

SCREEN_BELOW = 6
"""Fewer valid blocks than this never get a verdict (MEASUREMENT.md 1)."""
SHORT_PHASE_S = 5.0


@dataclass(frozen=True)
class Row:
    """One line of comparison.csv; None is an empty cell. `baseline` and `candidate` are medians over valid blocks."""

    metric: str
    query_type: str
    unit: str
    better: str
    baseline: float | None
    candidate: float | None
    change_pct: float | None
    lo_pct: float | None = None
    hi_pct: float | None = None
    p: float | None = None
    p_adj: float | None = None
    blocks: int = 0
    mde_pct: float | None = None
    blocks_needed: int | None = None
    verdict: str = "inconclusive"
    warnings: str = ""


Pair = tuple[float | None, float | None]
"""Values of baseline and candidate in one block."""
COLUMNS = tuple(Row.__dataclass_fields__)


@dataclass(frozen=True)
class Blocks:
    """Which measured blocks count, and why the others do not."""

    valid: list[int]
    dropped: dict[int, str] = field(default_factory=dict)


def main(run_dir: Path) -> None:
    """Compare the candidate of a run with its baseline."""
    run = open_run(run_dir)
    measurements = read_table(run_dir / "tidy/measurements.csv", MEASUREMENTS)
    checks = read_table(run_dir / "tidy/checks.csv", CHECKS)
    if len(run.variants) < 2:  # noqa: PLR2004 - a comparison needs two
        raise UserError(f"{run_dir}: the plan has one variant only, there is nothing to compare")
    blocks = valid_blocks(run, measurements, checks)
    rows = compare(run, measurements, checks, blocks)
    out = run_dir / "stats"
    out.mkdir(exist_ok=True)
    _write(out / "comparison.csv", _csv(rows))
    _write(
        out / "comparison.json", json.dumps(_document(run, blocks, rows, checks), indent=1, ensure_ascii=False) + "\n"
    )


def read_table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Read a table of tidy/, or say what is wrong with it. Empty strings stay empty strings."""
    if not path.exists():
        raise UserError(f"{path} is missing: run `make tidy` first")
    table = pd.read_csv(path, keep_default_na=False, dtype={name: str for name in columns if name not in _NUMBERS})
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise UserError(f"{path}:1: column {', '.join(missing)} is missing; `make tidy` writes this file again")
    for name in _NUMBERS & set(columns):
        numbers = pd.to_numeric(table[name], errors="coerce")
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            line = int(wrong.to_numpy().argmax())
            raise UserError(f"{path}:{line + 2}: {name} is {table[name].iloc[line]!r}, not a number")
        table[name] = numbers
    return table


_NUMBERS = {"block", "position", "value", "elapsed_s"}


def valid_blocks(run: Run, measurements: pd.DataFrame, checks: pd.DataFrame) -> Blocks:
    """Find the measured blocks in which both variants have a finished round."""
    pair, dropped, valid = run.variants[:2], dict[int, str](), list[int]()
    unfinished = checks[(checks["check"] == "round_finished") & (checks["ok"] != "true")]
    keys = zip(unfinished["block"].tolist(), unfinished["variant"].tolist(), strict=True)
    failed = dict(zip(keys, unfinished["message"].tolist(), strict=True))
    measured = set(zip(measurements["block"], measurements["variant"], strict=True))
    planned = {int(line["block"]) for line in run.planned if line.get("kind") != "warmup"}
    for block in sorted(planned | {int(b) for b in measurements["block"].tolist() if b > 0}):
        why = [
            f"{variant} failed: {failed[block, variant]}" if (block, variant) in failed else f"{variant} was not run"
            for variant in pair
            if (block, variant) in failed or (block, variant) not in measured
        ]
        if why:
            dropped[block] = "; ".join(why)
        else:
            valid.append(block)
    return Blocks(valid, dropped)


def compare(run: Run, measurements: pd.DataFrame, checks: pd.DataFrame, blocks: Blocks) -> list[Row]:
    """Make the rows in the order of the registry, query types in the order of the experiment, geomeans last."""
    values = _values(measurements, blocks.valid, run.variants[:2])
    failures = checks[(checks["ok"] != "true") & (checks["block"] > 0) & (checks["check"] != "round_finished")]
    rows: list[Row] = []
    for metric in METRICS.values():
        types = run.query_types if metric.per_type else [""]
        per_type = {t: values[metric.name, t] for t in types if (metric.name, t) in values}
        for query_type, pairs in per_type.items():
            rows.append(_row(metric, query_type, pairs, failures))
        if metric.geomean and per_type:
            rows.append(_row(metric, GEOMEAN, _geomean(list(per_type.values())), failures))
    return [_short_phase(row, rows) for row in rows]


def _values(measurements: pd.DataFrame, valid: list[int], pair: list[str]) -> dict[tuple[str, str], list[Pair]]:
    """Map each metric and query type that any round has to its pairs, one a valid block."""
    known = {
        (metric, query_type, int(block), variant): float(value)
        for metric, query_type, block, variant, value in zip(
            *(measurements[name].tolist() for name in ("metric", "query_type", "block", "variant", "value")),
            strict=True,
        )
    }
    return {
        name: [(known.get((*name, block, pair[0])), known.get((*name, block, pair[1]))) for block in valid]
        for name in dict.fromkeys((metric, query_type) for metric, query_type, _, _ in known)
    }


def _geomean(per_type: list[list[Pair]]) -> list[Pair]:
    """Return the geometric mean by block over the types that are present in all blocks of both variants.

    Its log ratio is the mean of the types' log ratios, which is how MEASUREMENT.md 5.6 defines it.
    """
    whole = [pairs for pairs in per_type if all(b and c and b > 0 and c > 0 for b, c in pairs)]
    if not whole:
        return [(None, None) for _ in per_type[0]]
    return [
        (_geometric([pairs[i][0] for pairs in whole]), _geometric([pairs[i][1] for pairs in whole]))
        for i in range(len(whole[0]))
    ]


def _geometric(values: list[float | None]) -> float:
    return math.exp(sum(math.log(value) for value in values if value) / len(values))


def _row(metric: Metric, query_type: str, pairs: list[Pair], failures: pd.DataFrame) -> Row:
    known = [(b, c) for b, c in pairs if b is not None and c is not None]
    sides = [[pair[i] for pair in known or pairs if pair[i] is not None] for i in (0, 1)]
    ratios = log_ratios([b for b, _ in known], [c for _, c in known])
    failed = _touched(failures, metric, query_type)
    warnings = [
        _missing(pairs, known),
        f"a screen: {len(known)} of at least {SCREEN_BELOW} blocks" if 0 < len(known) < SCREEN_BELOW else "",
        failed,
    ]
    if known and ratios is None:
        difference = hodges_lehmann([c - b for b, c in known])
        warnings.append(f"values of zero have no ratio; the difference is {difference:.4g} {metric.unit}")
    return Row(
        metric=metric.name,
        query_type=query_type,
        unit=metric.unit,
        better=metric.better,
        baseline=_median(sides[0]),
        candidate=_median(sides[1]),
        change_pct=percent(hodges_lehmann(ratios)) if ratios else None,
        blocks=len(known),
        verdict="failed" if failed else "inconclusive",
        warnings="; ".join(filter(None, warnings)),
    )


def _median(values: list[float | None]) -> float | None:
    return float(np.median([v for v in values if v is not None])) if values else None


def _missing(pairs: list[Pair], known: list[tuple[float, float]]) -> str:
    if len(known) == len(pairs):
        return ""
    absent = [name for i, name in enumerate(("baseline", "candidate")) if all(pair[i] is None for pair in pairs)]
    if absent:
        return f"not comparable: {' and '.join(absent)} never has it"
    return f"{len(pairs) - len(known)} of {len(pairs)} blocks lack a value"


def _touched(failures: pd.DataFrame, metric: Metric, query_type: str) -> str:
    """Say which failed checks touch a metric, or return an empty string.

    Lost samples or a server that died make every figure of the run doubtful; wrong or missing answers only those of
    their query type and what sums over types. A failed round is not here: it has dropped its block.
    """
    of_type = failures["query_type"]
    if metric.per_type and query_type != GEOMEAN:
        touching = failures[(of_type == "") | (of_type == query_type)]
    elif metric.per_type or metric.name == "cpu_seconds":
        touching = failures
    else:
        touching = failures[of_type == ""]
    if touching.empty:
        return ""
    return f"failed checks ({len(touching)}): {', '.join(sorted(set(touching['check'])))}"


def _short_phase(row: Row, rows: list[Row]) -> Row:
    """Add a warning to what was measured in a phase of less than 5 s."""
    length = "load_seconds" if row.metric.startswith("load_") else "query_seconds"
    if row.metric == length or not (row.metric.startswith("load_") or row.query_type):
        return row
    found = next((r for r in rows if r.metric == length and r.query_type == row.query_type), None)
    seconds = [s for s in (found.baseline, found.candidate) if s is not None] if found else []
    if not seconds or min(seconds) >= SHORT_PHASE_S:
        return row
    warning = f"a phase of {min(seconds):.1f} s, under {SHORT_PHASE_S:.0f} s"
    return Row(**{**asdict(row), "warnings": "; ".join(filter(None, [row.warnings, warning]))})


def _document(run: Run, blocks: Blocks, rows: list[Row], checks: pd.DataFrame) -> dict[str, Any]:
    return {
        "schema": 1,
        "run": run.path.name,
        "baseline": run.variants[0],
        "candidate": run.variants[1],
        "blocks": {"valid": blocks.valid, "dropped": [{"block": b, "reason": r} for b, r in blocks.dropped.items()]},
        "checks": {"made": len(checks), "failed": int((checks["ok"] != "true").sum())},
        "rows": [asdict(row) for row in rows],
    }


def _csv(rows: list[Row]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in rows:
        table.writerow(f"{cell:.10g}" if isinstance(cell, float) else cell for cell in asdict(row).values())
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
