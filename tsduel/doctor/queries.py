"""Tries a file of queries against a small load of the data: their answers, their times, and whether both sides agree.

It is a run of one small block like any other, so what is refused here is what a run would refuse.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tsduel.core import caches
from tsduel.core.errors import UserError
from tsduel.core.record import DuelType
from tsduel.core.rundir import open_run
from tsduel.core.wording import last_line
from tsduel.question.experiments import find
from tsduel.question.read import read_file
from tsduel.workloads.own.query import read_text
from tsduel.workloads.tsbs.exchanges import read_exchanges, trimmed_mean

STAGES = ("plan", "provision", "build", "run")
_SMALL = (
    *("design.blocks=1", "design.warmup_blocks=0", "design.spare_blocks=0", "design.load=duel", "settle.drain=false"),
    *("duel.seconds=0.02", "duel.least=8", "duel.fewest=4", "duel.longest_s=5", "duel.sittings=1"),
    *("duel.load_sittings=1", "duel.idle_s=0.1", "queries.max_count=100", "settle.polls=1"),
    *("workload.solo_scale=null", "mixed=null", "capacity=null"),
    *("noise.canary_pct=null", "noise.foreign_cpu_pct=null", "noise.steal_pct=null"),
)
_SCALE = "workload.scale=20"


def kind_of(path: str) -> str:
    """Return which of queries.file, queries.log and queries.rules a file is, by its content."""
    text = read_text(path, "QUERIES")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if any(line.startswith("groups:") for line in lines):
        return "rules"
    if not path.endswith((".yml", ".yaml")) and lines and (lines[0].lstrip()[0] == "{" or "/api/v1/query" in lines[0]):
        return "log"
    return "file"


def check(path: str, environment: Mapping[str, str]) -> tuple[str, bool]:
    """Try the queries of a file; return a table for people, and whether all of them can be asked.

    ``environment``: EXPERIMENT, BASELINE, CANDIDATE and SET as of a run; a UserError says what is wrong with the file.
    """
    key = f"queries.{kind_of(path)}={Path(path).resolve()}"
    own_data = "workload.file" in environment.get("SET", "") or _names_data(environment.get("EXPERIMENT", ""))
    words = [environment.get("SET", ""), key, *_SMALL, *([] if own_data else [_SCALE])]
    with tempfile.TemporaryDirectory(prefix="tsduel-queries-") as made:
        run_dir = Path(made) / "results" / "check"
        run_dir.parent.mkdir()
        cache = caches.directory(environment)
        variables = {
            **environment,
            "SET": " ".join(words),
            "KIND": "",
            "TSDUEL_RESULTS": str(run_dir.parent),
            "TSDUEL_CACHE": os.fspath(cache),
            "ANSIBLE_HOME": os.fspath(cache / "ansible"),
            "PYTHONPATH": os.fspath(Path(__file__).parents[2]),
        }
        for stage in STAGES:
            code, sentence = _stage(stage, made, variables)
            if code and not (run_dir / "raw").exists():
                raise UserError(sentence)
        return _table(run_dir)


def _names_data(experiment: str) -> bool:
    workload = read_file(find(experiment)).get("workload") if experiment else None
    return isinstance(workload, dict) and bool(workload.get("file"))


def _stage(stage: str, directory: str, variables: Mapping[str, str]) -> tuple[int, str]:
    for name in ("experiments", "results/aa"):
        source = Path(name)
        target = Path(directory) / name
        if source.is_dir() and not target.exists():
            target.parent.mkdir(exist_ok=True)
            target.symlink_to(source.resolve())
    done = subprocess.run(
        [sys.executable, "-m", "tsduel", stage, "check"],
        cwd=directory, env=dict(variables), capture_output=True, text=True, check=False,
    )  # fmt: skip
    sentence = [line.removeprefix("tsduel: ") for line in done.stderr.splitlines() if line.startswith("tsduel: ")]
    return done.returncode, "\n".join(sentence) or last_line(done.stdout + done.stderr)


def _table(run_dir: Path) -> tuple[str, bool]:
    run = open_run(run_dir)
    plan = run.plan
    block = next(iter(run.blocks), None)
    records = {record.query_type: record for record in (block.duel.types if block and block.duel else ())}
    times = read_exchanges(block.path / "duel/exchanges.csv.gz") if block and records else {}
    rows = [("query", "series", "points", "time, ms", "both sides")]
    good = True
    for queried in plan.queries.types if plan.queries else ():
        record = records.get(queried.name)
        if record is None:
            rows.append((queried.name, "", "", "", "not tried"))
            good = False
            continue
        own = times.get(queried.name, {}).get(0, {})
        took = [trimmed_mean(ns)[0] / 1e6 for ns in own.values() if len(ns)]
        verdict = _verdict(record, quiet=queried.quiet)
        good = good and verdict.startswith("agree")
        rows.append((queried.name, str(record.series), str(record.points), f"{took[0]:.2f}" if took else "", verdict))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if block:
        lines += [f"{failure.variant}: {failure.message}" for failure in block.failures]
    lines += list(plan.queries.left_out) if plan.queries else []
    return "\n".join(lines), good


def _verdict(record: DuelType, *, quiet: bool) -> str:
    if record.errors:
        return "an error"
    if record.differences:
        return f"{record.differences} of {record.exchanges} answers differ"
    if not record.series:
        return "agree, on nothing (an alert that is quiet)" if quiet else "both return nothing"
    return "agree"


def main(environment: Mapping[str, str], _results: Path) -> int:
    """Print the table of QUERIES; 0 if every query can be asked."""
    path = environment.get("QUERIES", "").strip()
    if not path:
        raise UserError("QUERIES: which file? QUERIES=experiments/own/dashboard.yml")
    text, good = check(path, environment)
    sys.stdout.write(text + "\n")
    return 0 if good else 1
