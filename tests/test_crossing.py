"""Different databases against each other: what is asked, how far answers are compared, and how it is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import reports
from asking import FAKES, planned, written
from fakeproject import PROJECT

import tsduel.targets
from plots import comment, numbers, report, runs, sentences
from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS
from tsduel.core.sections import WorkloadAsked
from tsduel.core.target import Target
from tsduel.plan import resolve
from tsduel.question import read
from tsduel.stats import compare, outcome
from tsduel.stats.findings import Sample
from tsduel.stats.verdict import judge
from tsduel.targets.compared import compared
from tsduel.tidy import tables as tidy

MODULE = '''
"""{name}, which is none."""

from tsduel.core.target import Counter, Target
from tsduel.core.metrics import METRICS
from tsduel.targets.database import Database, Needs, Program

DATABASE = Database(
    target=Target(
        name="{name}",
        data_format="victoriametrics",
        query_format="{format}",
        answers="prometheus",
        counters={{"stored": Counter(name="foreign_values")}},
        write_path="/put",
        {declared}
    ),
    programs={{"server": Program(name="{name}", module="", package=".", output="x", own_command=("make",))}},
    query_types={types},
    needs=Needs(disk_least=1 << 20, disk_a_series=1, disk_a_sample=1, memory_least=1 << 20, memory_a_series=1),
)
'''
FOREIGN = {
    "here": ("victoriametrics", 'name_prefix="cpu_", protocol="lines"', ("cpu-max-all-1", "double-groupby-1")),
    "there": ("influx", 'windows="start", protocol="parcels"', ("cpu-max-all-1", "lastpoint")),
}
VERBS = {
    "start": 'exec "$DB_BINARY" "$DB_DATA_DIR" "$DB_PORT" "$@"',
    "endpoints": 'printf "clients http://127.0.0.1:%s\\nmetrics http://127.0.0.1:%s/stats\\n" "$DB_PORT" "$DB_PORT"',
    "ready": 'exec "$TSDUEL_HOST" get "http://127.0.0.1:$DB_PORT/stats"',
    "load": 'exec "$TSBS_BIN/tsbs_load_victoriametrics" --urls="$DB_URL/put" --workers="$LOAD_WORKERS" '
    '--batch-size="$LOAD_BATCH_SIZE" --reporting-period=250ms --results-file="$LOAD_RESULTS" --file="$LOAD_FILE"',
    "metrics": 'exec "$TSDUEL_HOST" get "http://127.0.0.1:$DB_PORT/stats"',
    "size": 'printf "disk_bytes %s\\n" 1000',
    "stop": 'kill -TERM "$DB_PID"',
} | dict.fromkeys(("settle", "query", "forget"), ":")
EDGELESS = {"start": "2025-06-10T00:00:05Z", "end": "2025-06-11T00:00:05Z", "interval": "10s"}
RUN = {
    "workload": EDGELESS | {"interval": "1h", "start": "2025-06-10T00:00:30Z", "end": "2025-06-11T00:00:30Z"},
    "queries": {"types": ["cpu-max-all-1"]},
}


def side(name, *flags):
    """Return a variant of one of them."""
    return {"target": name, "source": "binary", "path": str(FAKES / "foreign"), "flags": list(flags)}


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """Return a project with two databases of one program, which differ in what they call things."""
    root = tmp_path / "project"
    (root / "tsduel/targets").mkdir(parents=True)
    for name, (query_format, declared, types) in FOREIGN.items():
        module = MODULE.format(name=name, format=query_format, declared=declared, types=types)
        (root / f"tsduel/targets/{name}.py").write_text(module)
        (root / "scripts/targets" / name).mkdir(parents=True)
        for verb, body in VERBS.items():
            path = root / "scripts/targets" / name / verb
            path.write_text(f"#!/usr/bin/env bash\nset -Eeuo pipefail\n{body}\n")
            path.chmod(0o755)
    monkeypatch.setattr(tsduel.targets, "__path__", [*tsduel.targets.__path__, str(root / "tsduel/targets")])
    tsduel.targets.databases.cache_clear()
    yield root
    tsduel.targets.databases.cache_clear()


def both(*flags):
    """Return the variants of a run; the flags are the candidate's."""
    return {"baseline": side("here", "prefix=cpu_"), "candidate": side("there", *flags)}


def test_both_are_asked_the_same_and_compared_by_value(foreign, project):
    """Each in its own words; names and the ends of windows are the same once they are read; all answers agree."""
    project.env["TSDUEL_PROJECT"] = str(foreign)
    plan = project.plan(variants=both("shift=-3600"), **RUN)
    assert plan.crosses
    assert plan.queries.alike
    project.run()
    sat = project.block("001")["duel"]["types"]
    assert [one["sitting"] for one in sat] == [0, 1]
    for of_type in sat:
        assert (of_type["compared"], of_type["differences"]) == (of_type["exchanges"], 0)
        assert of_type["exchanges"] > 0
    asked = sum(of_type["exchanges"] for of_type in sat)
    for make in (tidy, compare, report):
        make.main(project.run_dir)
    text = reports.text(project.run_dir)
    for expected in (
        "there foreign@",
        " against here foreign@",
        f"Compared {asked} of {asked} answers (values), all the same.",
        "Ingestion rate (lines against parcels: not the same work)",
        "| cpu-max-all-1 | there foreign@",
        "|   ratio |   95 % CI |",
        " times as ",
        "each in its own format: here foreign@",
    ):
        assert expected in text
    assert "= equivalent" not in text
    assert numbers.TIMES in comment.main(project.run_dir)


def test_a_wrong_answer_of_the_other_database_is_found(foreign, project):
    """It fails the block, with what differs; host/exchange has the table of values, times and series."""
    project.env["TSDUEL_PROJECT"] = str(foreign)
    project.plan(variants=both("shift=0"), **RUN)
    project.run()
    block = project.block("001")
    assert block["status"] == "failed"
    sentence = "point 1 is at 1749513600 and at 1749517200"
    assert any(sentence in fault["message"] for fault in block["failures"]), block["failures"]


def test_what_only_one_can_be_asked_is_refused(foreign):
    """With those that all can be asked."""
    assert foreign.is_dir()
    for types, who in ((["lastpoint"], "here"), (["double-groupby-1"], "there")):
        with pytest.raises(UserError) as caught:
            read.validate(written(variants=both(), queries={"types": types}), "x.yml")
        assert f"{who} cannot be asked {types[0]}; all can be asked: cpu-max-all-1" in str(caught.value)


def test_a_binary_against_itself_is_no_crossing(foreign):
    """AA=1 takes the baseline twice: one database, one format, TSBS's own questions."""
    assert foreign.is_dir()
    plan = resolve.resolve(read.validate(written(variants=both(), **RUN), "x"), run="r", aa=True)
    assert not plan.crosses
    assert not plan.queries.alike
    assert {variant.target for variant in plan.variants} == set(plan.targets) == {"here"}


ENDS, STARTS = (
    Target(name=name, data_format="", query_format="", answers="", windows=name) for name in ("end", "start")
)


def test_windows_whose_edges_are_counted_otherwise_are_compared_by_value_where_no_sample_lies_on_them():
    """Else by their series, and it is said what would help; the same dialects agree anyhow."""
    on, off = (WorkloadAsked(start=f"2025-06-10T00:00:{second}Z", interval="80s") for second in ("00", "10"))
    assert compared(ENDS, STARTS, 3600, off).level == "values"
    assert compared(ENDS, ENDS, 3600, on).level == "values"
    lower = compared(ENDS, STARTS, 3600, on)
    assert lower.level == "series"
    assert 'SET="workload.start=2025-06-10T00:00:10Z"' in lower.why
    assert compared(ENDS, STARTS, 0, off).level == "data"


@pytest.mark.parametrize("name", ["vm-influxdb", "vm-prometheus"])
def test_the_experiments_of_different_databases_are_compared_by_value(name):
    """Nobody has put a sample on the edge of a window."""
    path = PROJECT / f"experiments/{name}.yml"
    workload = read.validate(read.read_file(path), str(path)).workload
    assert compared(ENDS, STARTS, 3600, workload).level == "values"


def test_same_databases_are_planned_as_before():
    """No question of ours, no other level, no name of the database in labels."""
    plan = planned()
    assert not plan.crosses
    assert not plan.queries.alike
    assert all(not of_type.compared for of_type in plan.queries.types)


def judged(values, better="lower"):
    """Judge a candidate with these values in eight blocks, in which the baseline has 100 to 107."""
    pairs = [(100.0 + i, value) for i, value in enumerate(values)]
    metric = replace(METRICS["load_cpu_seconds"], better=better)
    return judge([Sample(metric, pairs, {"order": [i % 2 == 0 for i in range(8)]}, "primary", 0.0)], 1)[0]


def times(factor):
    """Return values that are so many times the baseline's."""
    return [factor * (100.0 + i) * (1 + 0.001 * (i % 3)) for i in range(8)]


def test_without_a_threshold_there_is_better_worse_and_inconclusive():
    """However small: neither is a version of the other, and nothing is equivalent or a regression."""
    assert [judged(times(f)).verdict for f in (3.1, 0.3, 1.01)] == ["worse", "better", "worse"]
    assert judged(times(3.1), "higher").verdict == "better"
    noisy = judged([100.0 + i + d for i, d in enumerate((-5, 4, -3, 2, -1, 6, -7, 5))])
    assert (noisy.verdict, noisy.findings.blocks_needed, noisy.clear) == ("inconclusive", None, False)


def test_effects_are_said_as_ratios():
    """What takes a third of the time is three times as fast; amounts are times as much."""
    row = {"change_pct": 212.0, "lo_pct": 200.0, "hi_pct": 222.0, "threshold_pct": 0.0, "verdict": "better"}
    less = row | {"change_pct": -68.0, "lo_pct": -69.0, "hi_pct": -67.0}
    for change, metric, said in (
        (row, "load_rate", "3.1 times as fast"), (row, "duel_typical_ms", "3.1 times as slow"),
        (row, "duel_cpu_us", "3.1 times as much"), (less, "duel_typical_ms", "3.13 times as fast"),
        (less, "duel_cpu_us", "0.320 times as much"),
    ):  # fmt: skip
        assert sentences.size(change, METRICS[metric]) == said
    assert (numbers.effect(row), numbers.interval(row)) == (f"{numbers.TIMES}3.1", "3.0 to 3.2")


FACTORS = {"candidate": {"rate": 0.4, "cpu": 2.5, "service": 3.1, "query_cpu": 0.5}}


def apart(run):
    """Make the candidate of a run another database."""

    def change(plan):
        plan["targets"]["other"] = plan["targets"]["victoriametrics"] | {"name": "other", "protocol": "remote write"}
        plan["variants"][1]["target"] = "other"
        for of_type in plan["queries"]["types"]:
            of_type["compared"] = {"other": {"level": "series", "why": "it counts otherwise"}}

    reports.edit_plan(run, change)


def test_a_whole_report_of_different_databases(tmp_path):
    """Ratios on the first screen, in the tables and in the comment; the load says beside its figures what it is not."""
    run = reports.drawn(tmp_path, apart, factors=FACTORS)
    text = reports.text(run)
    screen = text[: text.index("\n## ")]
    assert "Query time, all types (3.09 times as slow; 2 of 2 worse, " in screen
    assert "as slow; InfluxDB's line protocol against remote write: not the same work)" in screen
    assert "answers (series), all agree as far as that goes" in screen
    assert re.search(r"\| double-groupby-1 +\| v1.133.0 +\| 720 of 720 +\| series +\| it counts otherwise", text)
    assert "every answer agrees as far as it is compared" in text
    for never in ("equivalent", "negligible", "regression", "threshold", "nan"):
        assert never not in screen
    rows = json.loads((run / "stats/comparison.json").read_text())["rows"]
    assert {row["verdict"] for row in rows if row["family"] == "primary"} <= {"better", "worse", "inconclusive"}
    assert outcome.outcome({"checks": {"failed": 0}, "rows": rows}, "regression", smoke=False)[0] == outcome.DONE
    assert "Ingestion rate (not the same work)" in (run / "plots/change.svg").read_text()
    assert "3.09 times as slow" in comment.main(run)


def test_a_trend_of_different_databases_is_of_ratios(tmp_path, monkeypatch):
    """Runs of the same two databases share a course, told and drawn as ratios; one of two versions stays apart."""
    results = tmp_path / "results"
    results.mkdir()
    for name, edit, seed in (("a", apart, 1), ("b", apart, 2), ("versions", None, 3)):
        reports.compared(tmp_path / f"made-{name}", edit, factors=FACTORS, seed=seed).rename(results / name)
    monkeypatch.chdir(tmp_path)
    found = runs.trend({"METRIC": "duel_typical_ms"}, results)
    tables = [block for block in found.split("\n\n") if block.startswith("| Created")]
    assert sorted(sum(line.startswith("| 2026") for line in table.splitlines()) for table in tables) == [1, 2]
    (both,) = (table for table in tables if "| b " in table)
    assert both.count(f"{numbers.TIMES}3.") == 2
    assert "are not put together" in found
    svg = (results / "trend/duel_typical_ms-geomean.svg").read_text()
    assert "ratio in each run" in svg
    assert "change in each run" not in svg
