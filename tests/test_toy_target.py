"""To add a database takes a directory of small programs and a module: here one is added, planned, run and tidied."""

from __future__ import annotations

import pytest
from fakeproject import FAKES, PROJECT

import tsduel.targets
from tsduel.core.errors import UserError
from tsduel.core.rundir import open_run
from tsduel.question import read
from tsduel.tidy import tables as tidy

MODULE = '''
"""A toy."""

from tsduel.core.plan import Counter, Target
from tsduel.targets.database import Database, Needs, Program

DATABASE = Database(
    target=Target(
        name="toy",
        data_format="victoriametrics",
        query_format="victoriametrics",
        answers="prometheus",
        refused_flags=("--port",),
        counters={
            "inserted": Counter(name="toy_values"),
            "stored": Counter(name="toy_values"),
            "rows_read": Counter(name="toy_values_read"),
        },
    ),
    programs={"server": Program(name="toy", module="", package=".", output="toy", own_command=("make",))},
    query_types=("cpu-max-all-1",),
    needs=Needs(disk_least=1 << 20, disk_a_series=1, disk_a_sample=1, memory_least=1 << 20, memory_a_series=1),
)
'''
ADAPTERS = {
    "start": 'exec "$DB_BINARY" "$DB_DATA_DIR" "$DB_PORT" "$@"',
    "endpoints": 'printf "clients http://127.0.0.1:%s\\nmetrics http://127.0.0.1:%s/stats\\n" "$DB_PORT" "$DB_PORT"',
    "ready": 'exec "$TSDUEL_HOST" get "http://127.0.0.1:$DB_PORT/stats"',
    "load": 'exec "$TSBS_BIN/tsbs_load_victoriametrics" --urls="$DB_URL/put" --workers="$LOAD_WORKERS" '
    '--batch-size="$LOAD_BATCH_SIZE" --reporting-period=1s --results-file="$LOAD_RESULTS" --file="$LOAD_FILE"',
    "settle": ":",
    "query": 'exec "$TSBS_BIN/tsbs_run_queries_victoriametrics" --file="$QUERY_FILE" --max-queries="$QUERY_COUNT" '
    '--workers="$QUERY_WORKERS" --urls="$DB_URL" --results-file="$QUERY_RESULTS" "$@"',
    "metrics": 'exec "$TSDUEL_HOST" get "http://127.0.0.1:$DB_PORT/stats"',
    "forget": ":",
    "size": 'printf "disk_bytes %s\\n" "$(stat -c %s "$DB_DATA_DIR/kept.json")"',
    "stop": 'kill -TERM "$DB_PID"',
}
SIDE = {"target": "toy", "source": "binary", "path": str(FAKES / "toy")}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Return a project to which the toy has been added: a directory in scripts/targets, and a module."""
    adapters = tmp_path / "project/scripts/targets/toy"
    adapters.mkdir(parents=True)
    for verb, body in ADAPTERS.items():
        (adapters / verb).write_text(f"#!/usr/bin/env bash\nset -Eeuo pipefail\n{body}\n")
        (adapters / verb).chmod(0o755)
    modules = tmp_path / "project/tsduel/targets"
    modules.mkdir(parents=True)
    (modules / "toy.py").write_text(MODULE)
    monkeypatch.setattr(tsduel.targets, "__path__", [*tsduel.targets.__path__, str(modules)])
    tsduel.targets.databases.cache_clear()
    yield tmp_path / "project"
    tsduel.targets.databases.cache_clear()


def test_every_database_has_a_module_and_an_adapter():
    """As many as there are directories, each with every verb."""
    directories = {path.name: {verb.name for verb in path.iterdir()} for path in PROJECT.glob("scripts/targets/*")}
    assert set(directories) == set(tsduel.targets.databases())
    assert {frozenset(verbs) for verbs in directories.values()} == {frozenset(ADAPTERS)}


def test_a_toy_is_added_by_a_directory_and_a_module(toy, project):
    """It is measured like any other: loaded, its counters checked, its answers compared."""
    project.env["TSDUEL_PROJECT"] = str(toy)
    plan = project.plan(
        variants={"baseline": SIDE, "candidate": SIDE | {"flags": ["red"]}}, queries={"types": ["cpu-max-all-1"]}
    )
    assert plan.target_of("candidate").counters["stored"].name == "toy_values"
    project.run()
    run = open_run(project.run_dir)
    (block,) = run.blocks
    assert (block.status, block.failures) == ("ok", ())
    stored = [check.actual for check in block.checks if check.check == "samples_stored"]
    assert stored == [plan.workload.samples] * 2
    (of_type,) = run.json("raw/001/block.json")["duel"]["types"]
    assert (of_type["compared"], of_type["differences"], of_type["errors"]) == (of_type["exchanges"], 0, 0)
    assert (run.path / "raw/001/candidate/server.log").read_text().startswith("toy red\n")
    tidy.main(run.path)
    assert "load_rate" in (run.path / "tidy/measurements.csv").read_text()


def test_what_it_cannot_do_is_refused(toy):
    """Its module says what it can be asked, and which flags are ours."""
    sides = {"baseline": SIDE, "candidate": SIDE}
    assert toy.is_dir()
    for changes, sentence in (
        ({"queries": {"types": ["double-groupby-1"]}}, "it cannot be asked double-groupby-1; allowed: cpu-max-all-1"),
        ({"variants": {n: SIDE | {"flags": ["--port=1"]} for n in sides}}, "flags: --port is ours"),
        ({"duel": {"load": True}}, "duel.load: this database does not take lines over HTTP"),
    ):
        data = {"name": "x", "variants": sides, "queries": {"types": ["cpu-max-all-1"]}} | changes
        with pytest.raises(UserError) as caught:
            read.validate(data, "x.yml")
        assert sentence in str(caught.value)
