"""Tries a file of queries against a small load of the data: their answers, their times, and whether both sides agree.

It is a run of one small block like any other, so what is refused here is what a run would refuse.
"""

import json
import os
import re
import secrets
import shlex
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tsduel.core import caches, children, codes, results
from tsduel.core.errors import UserError
from tsduel.core.record import DuelType, table
from tsduel.core.rundir import open_run
from tsduel.core.wording import last_line, printable
from tsduel.places import hosts, place
from tsduel.places.ssh.link import Link
from tsduel.question.experiments import find
from tsduel.question.read import read_file
from tsduel.targets import databases
from tsduel.workloads.own import grafana, rules
from tsduel.workloads.own.query import documents, read_text
from tsduel.workloads.tsbs import queries as tsbs_queries

STAGES = ("plan", "provision", "build", "run")
_SMALL = (
    *("design.blocks=1", "design.warmup_blocks=0", "design.spare_blocks=0", "settle.drain=false"),
    f"queries.types=[{','.join(tsbs_queries.PARTITION_INDEX_TYPES)}]",
    *("queries.file=", "queries.log=", "queries.rules=", "queries.dashboard="),
    *("queries.solo=false", "duel.enabled=true", "duel.load_s=null", "workload.churn=null"),
    *("workload.workers=1", "matrix={}", "design.start_from=empty"),
    *("duel.seconds=0.02", "duel.min_exchanges=8", "duel.floor_exchanges=4", "duel.max_seconds=5", "duel.sittings=1"),
    *("duel.load_sittings=1", "duel.idle_s=0.1", "queries.max_count=100", "settle.polls=1"),
    *("workload.solo_scale=null", "mixed=null", "capacity=null"),
    *("noise.canary_pct=null", "noise.foreign_cpu_pct=null", "noise.steal_pct=null"),
)
_SCALE = "workload.scale=20"
# A request in a line of a log; a query may select by its path, too.
_REQUEST = re.compile(r'"params":\s*\{|/api/v1/query(?:_range)?\?|\b(?:GET|POST) \S*/api/v1/query')
_HEAD = 1000  # characters, in which a file of top queries says what it is


def kind_of(path: str) -> str:
    """Return which of queries.file, .log, .rules and .dashboard a file is, by its content."""
    text = read_text(path, "QUERIES")
    line = next((line.strip() for line in text.split("\n") if line.strip() and line.lstrip()[0] != "#"), "")
    is_yaml = path.endswith((".yml", ".yaml"))
    if ('"expr' in text and grafana.is_dashboard(path, text)) or '"panels"' in text:
        return "dashboard"
    if not is_yaml and (_REQUEST.search(text) or '"topBy' in text[:_HEAD]):
        return "log"
    try:
        if ("groups" in text or "rules" in text) and rules.groups_of(documents(path, text), path) is not None:
            return "rules"
    except UserError:
        if is_yaml:
            raise
    is_json = not is_yaml and re.match(r'\{\s*("[^"]*"\s*:|$)', line) and '"queries"' not in text
    return "log" if is_json else "file"


def check(path: str, environment: Mapping[str, str]) -> tuple[str, bool]:
    """Try the queries of a file; return a table for people, and whether all of them can be asked.

    ``environment``: EXPERIMENT, BASELINE, CANDIDATE and SET as of a run; a UserError says what is wrong with the file.
    """
    key = shlex.quote(f"queries.{kind_of(path)}={json.dumps(os.fspath(Path(path).resolve()), ensure_ascii=False)}")
    asked = read_file(find(environment["EXPERIMENT"])) if environment.get("EXPERIMENT") else {}
    own_data = "workload.file" in environment.get("SET", "") or _names_data(asked)
    # Before the user's words, since not every database takes lines in turn.
    words = [*_load(asked), environment.get("SET", ""), *_SMALL, key, *([] if own_data else [_SCALE])]
    with tempfile.TemporaryDirectory(prefix="tsduel-queries-") as made:
        # Its blocks stay on a machine of the user's until here is their table.
        run_dir = Path(made) / "results" / f"check-{secrets.token_hex(4)}"
        run_dir.parent.mkdir()
        if (known := results.home() / "aa").is_dir():
            (run_dir.parent / known.name).symlink_to(known.resolve())
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
        try:
            for stage in STAGES:
                code, sentence = _stage(stage, run_dir.name, variables)
                if code and not any(run_dir.glob("raw/*/*/block.json")):
                    raise UserError(sentence)
            return _table(run_dir)
        finally:
            with suppress(UserError):
                for link in Link.all(run_dir).values() if hosts.known(run_dir) else ():
                    link.host.run("rm", "-rf", "--", link.there)


def _names_data(asked: Mapping[str, Any]) -> bool:
    workload = asked.get("workload")
    return isinstance(workload, dict) and bool(workload.get("file"))


def _load(asked: Mapping[str, Any]) -> list[str]:
    """Return how the small load is made: in turn, where the databases take lines over HTTP."""
    sides = asked.get("variants")
    names = [side.get("target") for side in sides.values() if isinstance(side, dict)] if isinstance(sides, dict) else []
    targets = [databases()[name].target for name in names if name in databases()]
    return ["design.load=solo" if any(not target.write_path for target in targets) else "design.load=in_turn"]


def _stage(stage: str, run: str, variables: Mapping[str, str]) -> tuple[int, str]:
    lines = list[str]()
    command = [sys.executable, "-m", "tsduel", stage, run]
    code = children.call(command, dict(variables), take=lines.append)
    if codes.interrupted(code):
        raise KeyboardInterrupt
    sentence = [line.removeprefix("tsduel: ") for line in lines if line.startswith("tsduel: ")]
    # A run that ends by itself says why in its last line, after whatever came on standard error.
    return code, "\n".join(sentence) or last_line("\n".join(lines))


def _table(run_dir: Path) -> tuple[str, bool]:
    run = open_run(run_dir)
    plan = run.plan
    block = next(iter(run.blocks), None)
    records = {record.query_type: record for record in (block.duel.types if block and block.duel else ())}
    took = {
        row["query_type"]: f"{float(row['value']):.2f}" for row in (table(block, "values") if block else ())
        if (row["variant"], row["metric"]) == (run.variants[0], "duel_typical_ms")
    }  # fmt: skip
    rows = [("query", "series", "points", "time, ms", "both sides")]
    good = True
    for queried in plan.queries.types if plan.queries else ():
        record = records.get(queried.name)
        if record is None:
            rows.append((queried.name, "", "", "", "not tried"))
            good = False
            continue
        verdict = _verdict(record, quiet=queried.quiet)
        good = good and verdict.startswith("agree")
        rows.append((queried.name, str(record.series), str(record.points), took.get(queried.name, ""), verdict))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if block:
        lines += [f"{failure.variant}: {failure.message}" for failure in block.failures]
    lines += list(plan.queries.left_out) if plan.queries else []
    return "\n".join(map(printable, lines)), good


def _verdict(record: DuelType, *, quiet: bool) -> str:
    if record.errors:
        return "an error"
    if record.differences:
        return f"{record.differences} of {record.exchanges} answers differ"
    if not record.series:
        return "agree, on nothing" if quiet else "both return nothing"
    return "agree"


def main(environment: Mapping[str, str], _results: Path) -> int:
    """Print the table of QUERIES; 4 unless every query can be asked and both sides agree."""
    path = environment.get("QUERIES", "").strip()
    if not path:
        raise UserError("QUERIES: which file? QUERIES=experiments/own/dashboard.yml")
    if (where := place.asked(environment)["kind"]) in {"gcp", "k8s"}:
        raise UserError(f"TARGET={where}: queries are tried here, or on a machine of yours with TARGET=ssh")
    text, good = check(path, environment)
    sys.stdout.write(text + "\n")
    return codes.DONE if good else codes.CHECK_FAILED
