"""The user's own queries and data on the real VictoriaMetrics: asked, compared, counted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from checkout import BUILDS, CACHE, PROJECT, QUIET, build, share
from fakeproject import UNJUDGED, free_port

from tests import owndump
from tsduel.doctor import queries
from tsduel.plan import resolve
from tsduel.question import read
from tsduel.workloads.own import dump

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("blocks")]
OWN = PROJECT / "experiments/own"
# On both sides, since each version takes minutes to build: the one that tests/test_databases_real.py has.
INFLUXDB = {"target": "influxdb", "ref": "v1.8.10"}


@pytest.fixture
def block(project, monkeypatch):
    """Return a function that runs one block of own-NAME.yml with these sections changed, and gives its record."""
    monkeypatch.setenv("TSDUEL_CACHE", str(CACHE))
    monkeypatch.chdir(PROJECT)

    def run(name, code=0, **changes):
        data = read.read_file(PROJECT / "experiments" / f"own-{name}.yml")
        data |= {"noise": UNJUDGED, "host": {"port": free_port(), "pin": "off"}}
        data["design"] |= {"blocks": 1, "warmup_blocks": 0, "spare_blocks": 0, "max_failed_blocks": 0}
        data["duel"] |= {"seconds": 0.05, "min_exchanges": 8, "floor_exchanges": 4, "sittings": 1, "idle_s": 0.1}
        if "file" not in data["workload"]:
            data["workload"] |= {"scale": 40}
        for section, fields in changes.items():
            data[section] = data.get(section, {}) | fields if isinstance(fields, dict) else fields
        plan = resolve.resolve(read.validate(data, "test"), run="r")
        resolve.write(project.run_dir, plan, cache=CACHE)
        build(project.run_dir)
        for data in plan.workload.data if plan.workload.own_data else ():
            source, target = (cache / "workload" / data.key for cache in (CACHE, project.cache))
            shutil.copytree(source, target, dirs_exist_ok=True)
        process = project.start()
        said = project.end(process)
        assert process.returncode == code, said
        assert project.alive() == []
        return project.block("001") if project.blocks() else {"said": said}

    return run


def test_own_queries_are_asked_of_both_and_every_answer_is_compared(block):
    """Each query has its exchanges, and so has the mix; answers have series."""
    types = block("dashboard")["duel"]["types"]
    assert "mix" in [kind["query_type"] for kind in types]
    for kind in types:
        assert kind["exchanges"] == kind["compared"] > 0
        assert (kind["differences"], kind["errors"]) == (0, 0)
        assert kind["points"] >= kind["series"] > 0


def test_rules_come_at_their_own_rate_while_data_comes_in(block):
    """The twenty rules of the example are 0.83 a second."""
    record = block("alerts", mixed={"seconds": 10})
    for variant in ("baseline", "candidate"):
        (phase,) = record["mixed"][variant]["phases"]
        (query,) = [stream for stream in phase["streams"] if stream["operation"] == "query"]
        assert query["rate"] == pytest.approx(8 / 15 + 6 / 30 + 6 / 60)
        assert query["failed"] == 0


def test_a_dump_with_escaped_tags_is_stored_as_it_was_sent(block):
    """All samples are stored, and queries of escaped values have data."""
    record = block("dump")
    assert [load["samples"] for load in record["duel"]["load"]] == [owndump.SAMPLES]
    assert stored(record) == [owndump.SAMPLES] * 2
    assert {kind["query_type"] for kind in record["duel"]["types"]} == {"mix", "fullest", "one-path", "inodes"}


HOURS = {"start": "2025-06-10T00:00:00Z", "end": "2025-06-10T02:00:00Z", "interval": "60s"}
ALONE = {"load": "solo"}
OPEN_METRICS = """# TYPE up gauge
up{instance="a b",path="x\\\\y"} 1 %d.5
# TYPE seconds histogram
seconds_bucket{le="+Inf"} %d %d.5 # {trace_id="KOO5S4vxi0o"} 0.67
# EOF
"""


def stored(record):
    """Return the samples that each variant was found to have stored."""
    return [check["actual"] for check in record["checks"] if check["check"] == "samples_stored" and check["ok"]]


def sections_of(path, text, name):
    """Write data and a query of one of their names; return their sections of an experiment."""
    (path / "data").write_text(text)
    (path / "q.yml").write_text(f"queries:\n  - {{name: a, query: 'count_over_time({name}[5m])', window: any 10m}}\n")
    return {"workload": {"file": str(path / "data"), "batch_size": 100}, "queries": {"file": str(path / "q.yml")}}


TIMES = [1749513600 + 30 * n for n in range(121)]


def test_each_variant_alone_loads_the_users_lines_of_openmetrics(block, tmp_path):
    """By our loader; all are stored; TSBS's client asks, too."""
    text = "".join(OPEN_METRICS % (at, n, at) for n, at in enumerate(TIMES))
    sections = sections_of(tmp_path, text, "up")
    sections["queries"] |= {"solo": True, "count": 20, "workers": 2}
    record = block("dump", **sections, design=ALONE)
    assert record["status"] == "ok"
    sent = [check["actual"] for check in record["checks"] if check["check"] == "samples_sent"]
    assert sent == stored(record) == [242, 242]
    assert all(of["differences"] == of["errors"] == 0 < of["points"] for of in record["duel"]["types"])


def test_at_a_rate_the_users_lines_of_json_continue_the_data(block, tmp_path):
    """The same lines later by whole windows, so that all samples are new; as many are stored as were sent."""
    series = {"metric": {"__name__": "up", "job": 'a "b"'}, "values": [1, None] * 60}
    text = json.dumps(series | {"timestamps": [at * 1000 for at in TIMES[:120]]}) + "\n"
    text += json.dumps({"metric": {"__name__": "up", "job": "c"}, "values": [1], "timestamps": [TIMES[0] * 1000]})
    rates = {"ingest": 200, "queries": 5, "seconds": 4, "batch_size": 1}
    record = block("dump", **sections_of(tmp_path, text, "up"), mixed=rates)
    for variant in ("baseline", "candidate"):
        (phase,) = record["mixed"][variant]["phases"]
        assert phase["samples"] > 400
        assert [stream["failed"] for stream in phase["streams"]] == [0, 0]


def test_an_upgrade_is_asked_and_loaded_with_the_users_own(block):
    """Both start on what the baseline has loaded, load as much again, and are asked over old and new data."""
    record = block("dump", design={"load": "solo", "start_from": "baseline"})
    upgrade = record["upgrade"]
    types = upgrade["before"]["types"] + upgrade["after"]["types"]
    assert {"mix", "fullest", "mix@half", "fullest@new"} <= {of["query_type"] for of in types}
    assert all(of["differences"] == of["errors"] == 0 < of["points"] for of in types)
    assert stored(record).count(owndump.SAMPLES) >= 3


@pytest.mark.parametrize("load", ["solo", "in_turn"])
def test_influxdb_takes_lines_with_escapes_and_is_asked_influxql(block, tmp_path, load):
    """By our loader alone, or in turn; windows stand in the text of a query."""
    where = "time >= '{{start}}' AND time < '{{end}}' AND path =~ /my data/"
    text = f"SELECT mean(used_percent) FROM disk WHERE {where} GROUP BY time(10m), host"  # noqa: S608
    (tmp_path / "q.yml").write_text(f"queries:\n  - name: a\n    window: any 1h\n    query: {json.dumps(text)}\n")
    sides = dict.fromkeys(("baseline", "candidate"), INFLUXDB)
    record = block("dump", variants=sides, queries={"file": str(tmp_path / "q.yml")}, design={"load": load})
    assert stored(record) == [owndump.SAMPLES] * 2
    (asked,) = record["duel"]["types"]
    assert asked["differences"] == asked["errors"] == 0 < asked["points"]


def test_other_data_of_tsbs_are_read_as_a_file_is(block, tmp_path):
    """All lines are TSBS's, and its loader loads them."""
    query = "sum by (fleet) (readings_velocity)"
    (tmp_path / "q.yml").write_text(f"queries:\n  - {{name: a, query: {query}, window: any 30m}}\n")
    sections = {"workload": HOURS | {"use_case": "iot", "scale": 5, "shape": None}, "design": ALONE}
    record = block("shape", **sections, queries={"file": str(tmp_path / "q.yml")})
    (one, other) = stored(record)
    assert one == other > 5 * 120 * 10
    assert all(of["differences"] == of["errors"] == 0 < of["points"] for of in record["duel"]["types"])


def test_own_queries_have_profiles_and_a_capacity(block, project):
    """Of the part that asks them; the ladder's rates ask the mix."""
    ladder = {"rates": [5, 10], "seconds": 1, "within_ms": 1000}
    record = block("dashboard", capacity=ladder, profile=["cpu"], duel={"seconds": 0.2})
    for name in ("baseline", "candidate"):
        (stream,) = record["capacity"][name]["phases"][0]["streams"]
        assert stream["failed"] == 0 < stream["answered"]
    kept = json.loads((project.run_dir / "raw/host1/profiles/profiles.json").read_text())
    assert {("baseline", "cpu"), ("candidate", "cpu")} <= {(of["variant"], of["kind"]) for of in kept["profiles"]}


def test_data_come_by_stdin(tmp_path):
    """`-` is stdin; the plan says what came."""
    variables = {"EXPERIMENT": "experiments/own-dump.yml", "SET": "workload.file=-", "TSDUEL_CACHE": str(CACHE)}
    done = subprocess.run(
        [sys.executable, "-m", "tsduel", "plan", "r"], cwd=PROJECT, capture_output=True, check=True,
        env=os.environ | variables | {"TSDUEL_RESULTS": str(tmp_path)}, input=(OWN / "dump.influx.gz").read_bytes(),
    )  # fmt: skip
    assert re.search(rf"^data +-: {owndump.SAMPLES:,} samples of 27 series", done.stdout.decode(), re.MULTILINE)


CORPUS = PROJECT / "tests/corpus"


@pytest.mark.parametrize("name", ["rules/scripts.yml", "dashboards/variables.json", "logs/refused.log"])
def test_the_corpus_is_asked_of_real_servers(tmp_path, name):
    """Alerts in other scripts, a dashboard with variables, a log of which three of four lines are left out.

    Series, points and time of each are told, and that both sides agree.
    """
    share(tmp_path / "cache", *BUILDS)
    environment = os.environ | {"TSDUEL_CACHE": str(tmp_path / "cache"), "SET": f"host.port={free_port()} {QUIET}"}
    told, good = queries.check(str(CORPUS / name), environment)
    assert good, told
    found = re.findall(r"^\S+ +(\d+) +(\d+) +[0-9.]+ +agree$", told, re.MULTILINE)
    assert any(int(series) > 0 < int(points) for series, points in found), told


@pytest.mark.parametrize("name", ["export.txt", "bom.txt", "packed.txt.bz2", "nan.txt", "space.txt", "colon.prom"])
def test_data_of_the_corpus_are_stored_and_asked(block, tmp_path, name):
    """As many samples as were counted."""
    found = dump.read(str(CORPUS / "data" / name))
    query = {"name": "a", "query": 'count({__name__!=""})', "window": ""}
    (tmp_path / "q.yml").write_text(json.dumps({"queries": [query]}))
    record = block("dump", workload={"file": str(CORPUS / "data" / name)}, queries={"file": str(tmp_path / "q.yml")})
    assert stored(record) == [found.samples] * 2


@pytest.mark.parametrize("unit", [1, 10**6])
def test_influxdb_is_told_the_unit_of_the_times(block, tmp_path, unit):
    """Data in seconds and in us have the same answers over the window that the plan counts."""
    lines = (f"tide,location=north level={n} {(1749513600 + 30 * n) * unit}\n" for n in range(121))
    (tmp_path / "data").write_text("".join(lines))
    text = "SELECT mean(level) FROM tide WHERE time >= '{{start}}' AND time < '{{end}}' GROUP BY time(5m)"
    (tmp_path / "q.yml").write_text(json.dumps({"window": "any 30m", "queries": [{"name": "a", "query": text}]}))
    sides = dict.fromkeys(("baseline", "candidate"), INFLUXDB)
    files = {"workload": {"file": str(tmp_path / "data")}, "queries": {"file": str(tmp_path / "q.yml")}}
    record = block("dump", variants=sides, **files)
    assert record["status"] == "ok"
    assert record["duel"]["types"][0]["points"] > 0


def test_queries_that_all_return_nothing_end_the_run_with_their_file_and_line(block, tmp_path):
    """Their metric is in the data, but no host has that name: the window is wrong for all that follows, too."""
    path = tmp_path / "q.yml"
    path.write_text("queries:\n  - {name: nobody, query: 'cpu_usage_user{hostname=\"nobody\"}'}\n")
    record = block("dashboard", code=2, queries={"file": str(path)})
    assert "no variant has data for any query in the plan's window" in record["said"]
    assert f"{path}:2 nobody" in record["said"]
