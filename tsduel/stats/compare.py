"""tidy/*.csv + plan -> stats/: comparison.csv and .json, one row a metric, query type and candidate; benchstat's files.

The unit of replication is the round, paired with the baseline's within its block; warm-up blocks and blocks without a
whole round of both are left out, each with its reason. docs/method.md says how it is judged.
"""

import csv
import io
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tsduel.core.errors import UserError
from tsduel.core.metrics import GEOMEAN, threshold
from tsduel.core.rundir import Run, open_run
from tsduel.stats import aa
from tsduel.stats.benchfmt import Compared
from tsduel.stats.findings import Sample
from tsduel.stats.power import FEWEST_BLOCKS
from tsduel.stats.rows import COLUMNS, Row, details, row, short_phase
from tsduel.stats.verdict import judge
from tsduel.tidy.blocks import (
    Blocks,
    candidate_second,
    geomean,
    read_noise,
    read_table,
    refuse_duplicates,
    touched,
    valid_blocks,
    values,
)
from tsduel.tidy.tables import CHECKS, MEASUREMENTS
from tsduel.workloads import kinds

SCREEN_BELOW = FEWEST_BLOCKS
"""Fewer valid blocks than this never get a verdict (MEASUREMENT.md 1)."""


@dataclass(frozen=True)
class Tables:
    """What compare reads: the tables of tidy/ as they are, and which blocks count, for each candidate."""

    measurements: pd.DataFrame
    checks: pd.DataFrame
    blocks: dict[str, Blocks]


def main(run_dir: Path) -> None:
    """Compare the candidates of a run with its baseline."""
    run = open_run(run_dir)
    tables = _read(run)
    compared, rows, more = compare(run, tables)
    document = _document(run, tables, [{**vars(one), **extra} for one, extra in zip(rows, more, strict=True)])
    out = run_dir / "stats"
    out.mkdir(exist_ok=True)
    _write(out / "comparison.csv", _csv(rows))
    _write(out / "comparison.json", json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    names = (tables.measurements[column].tolist() for column in ("metric", "phase"))
    for variant, text in kinds.bench_files(run, dict(zip(*names, strict=True)), compared).items():
        _write(out / f"{variant}.bench.txt", text)
    if run.plan.get("aa"):
        aa.keep(run, document)


def _read(run: Run) -> Tables:
    path = run.path / "tidy/measurements.csv"
    measurements = read_table(path, MEASUREMENTS)
    refuse_duplicates(path, measurements)
    checks = read_table(run.path / "tidy/checks.csv", CHECKS)
    if len(run.variants) < 2:  # noqa: PLR2004 - a comparison needs two
        raise UserError(f"{run.path}: the plan has one variant only, there is nothing to compare")
    noise = read_noise(run.path / "tidy/noise.csv")
    blocks = {name: valid_blocks(run, measurements, checks, noise, name) for name in run.variants[1:]}
    return Tables(measurements, checks, blocks)


def compare(run: Run, tables: Tables) -> tuple[list[Compared], list[Row], list[dict[str, Any]]]:
    """Return pairs, rows and further details: candidates in the order of the experiment, metrics as registered.

    All candidates are one family: each metric of each of them is one test in it.
    """
    found = [one for candidate in run.variants[1:] for one in _samples(run, tables, candidate)]
    judged = judge([sample for _, sample in found], int(run.plan["design"].get("seed") or 0))
    compared = [one for one, _ in found]
    rows = [row(run.variants[0], one, verdict) for one, verdict in zip(compared, judged, strict=True)]
    return compared, [short_phase(one, rows) for one in rows], [details(verdict) for verdict in judged]


def _samples(run: Run, tables: Tables, candidate: str) -> list[tuple[Compared, Sample]]:
    pair, valid, checks = [run.variants[0], candidate], tables.blocks[candidate].valid, tables.checks
    by_name = values(tables.measurements, valid, pair)
    second = candidate_second(tables.measurements, valid, pair)
    failed = (checks["ok"] != "true") & (checks["block"] > 0) & (checks["check"] != "round_finished")
    failures = checks[failed & checks["variant"].isin(pair)]
    thresholds = run.plan["design"].get("thresholds") or {}
    found = []
    for metric in kinds.metrics_of(run, list(by_name)):
        types = run.query_types if metric.per_type else [""]
        per_type = {t: by_name[metric.name, t] for t in types if (metric.name, t) in by_name}
        plain = Sample(
            pairs=(),
            second=second,
            better=metric.better,
            family=metric.family,
            threshold=threshold(metric, thresholds),
            unit=metric.unit,
            blocks=valid,
            # What was planned as a screen is one, noisy or not.
            environment=tables.blocks[candidate].short and not (run.plan.get("screen") or run.plan.get("smoke")),
        )
        for query_type, pairs in per_type.items():
            sample = replace(plain, pairs=pairs, failed=touched(failures, metric, query_type))
            found.append((Compared(metric, query_type, candidate, valid, pairs), sample))
        if metric.geomean and per_type:
            pairs, left_out = geomean(per_type)
            left_out += [t for t in types if t not in per_type]
            note = f"without {', '.join(left_out)}, not above zero in every block" if left_out else ""
            failed_checks = touched(failures, metric, GEOMEAN)
            sample = replace(plain, pairs=pairs, family=metric.geomean, failed=failed_checks, note=note)
            found.append((Compared(metric, GEOMEAN, candidate, valid, pairs), sample))
    return found


def _document(run: Run, tables: Tables, rows: list[dict[str, Any]]) -> dict[str, Any]:
    checks = tables.checks
    crashed = checks[(checks["check"] == "round_finished") & (checks["ok"] != "true")]["variant"].tolist()
    document = {
        "schema": 3,
        "run": run.path.name,
        "baseline": run.variants[0],
        "candidates": run.variants[1:],
        "blocks": {
            name: {"valid": of.valid, "dropped": [{"block": b, "reason": r} for b, r in of.dropped.items()]}
            for name, of in tables.blocks.items()
        },
        "failed_rounds": {name: crashed.count(name) for name in run.variants},
        "checks": {"made": len(checks), "failed": int((checks["ok"] != "true").sum())},
        "rows": rows,
    }
    return {**document, "aa": aa.verdict(document)} if run.plan.get("aa") else document


def _csv(rows: list[Row]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for one in rows:
        table.writerow(f"{cell:.10g}" if isinstance(cell, float) else cell for cell in vars(one).values())
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
