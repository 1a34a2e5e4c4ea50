"""The user's own queries and data on the real VictoriaMetrics: asked, compared, counted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request

import pytest
from checkout import BUILDS, CACHE, PROJECT, QUIET, build, share
from fakeproject import UNJUDGED, free_port, wait_for

from tests import owndump
from tsduel.doctor import queries
from tsduel.plan import resolve
from tsduel.question import read
from tsduel.workloads.own import dump

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("blocks")]
OWN = PROJECT / "experiments/own"


@pytest.fixture
def block(project, monkeypatch):
    """Return a function that runs one block of own-NAME.yml with these sections changed, and gives its record."""
    monkeypatch.setenv("TSDUEL_CACHE", str(CACHE))
    monkeypatch.chdir(PROJECT)

    def run(name, code=0, **changes):
        data = read.read_file(PROJECT / "experiments" / f"own-{name}.yml")
        data |= {"noise": UNJUDGED, "host": {"port": free_port(), "pin": "off"}}
        data["design"] |= {"blocks": 1, "warmup_blocks": 0, "spare_blocks": 0, "max_failed_blocks": 0}
        data["duel"] |= {"seconds": 0.05, "least": 8, "fewest": 4, "sittings": 1, "idle_s": 0.1}
        if "file" not in data["workload"]:
            data["workload"] |= {"scale": 40}
        for section, fields in changes.items():
            data[section] = data.get(section, {}) | fields if isinstance(fields, dict) else fields
        cells = read.expand(data, "test")
        plan = resolve.resolve(cells[0].asked, cells=cells, run="r")
        resolve.write(project.run_dir, plan, cache=CACHE)
        build(project.run_dir)
        for cell in plan.cells:
            load = plan.at(cell.name).workload
            for data in load.data if load.told else ():
                source, target = (cache / "workload" / data.key for cache in (CACHE, project.cache))
                shutil.copytree(source, target, dirs_exist_ok=True)
        process = project.start()
        said = project.end(process)
        assert process.returncode == code, said
        assert project.alive() == []
        return project.block("001") if project.blocks() else {"said": said}

    return run


@pytest.mark.parametrize("name", ["dashboard", "log"])
def test_own_queries_are_asked_of_both_and_every_answer_is_compared(block, name):
    """Each query has its exchanges, and so has the mix; answers have series."""
    types = block(name)["duel"]["types"]
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


def written_dump(path, kind):
    """Write an hour of data of a kind, and queries of them; return their sections of an experiment."""
    times = [1749513600 + 30 * n for n in range(121)]
    if kind == "openmetrics":
        text = "".join(OPEN_METRICS % (at, n, at) for n, at in enumerate(times))
    elif kind == "json":
        series = {"metric": {"__name__": "up", "job": 'a "b"'}, "values": [1, None] * 60}
        text = json.dumps(series | {"timestamps": [at * 1000 for at in times[:120]]}) + "\n"
        text += json.dumps({"metric": {"__name__": "up", "job": "c"}, "values": [1], "timestamps": [times[0] * 1000]})
    else:
        text = "".join(f"up,host=a value={n},load={n / 7} {at}000000000\n" for n, at in enumerate(times))
    (path / "data").write_text(text)
    name = "up_load" if kind == "plain" else "up"
    (path / "q.yml").write_text(f"queries:\n  - {{name: a, query: 'count_over_time({name}[5m])', window: any 10m}}\n")
    return {"workload": {"file": str(path / "data")}, "queries": {"file": str(path / "q.yml")}}


@pytest.mark.parametrize(
    ("kind", "samples"), [("escaped", owndump.SAMPLES), ("plain", 242), ("openmetrics", 242), ("json", 61)]
)
def test_each_variant_alone_loads_the_users_data(block, tmp_path, kind, samples):
    """By TSBS's loader where it can send the lines, else by ours; all are stored; TSBS's client asks, too."""
    sections = {"queries": {}} if kind == "escaped" else written_dump(tmp_path, kind)
    sections = {name: {"batch_size": 100} | of if name == "workload" else of for name, of in sections.items()}
    sections["queries"] |= {"solo": True, "count": 20, "workers": 2}
    record = block("dump", **sections, design=ALONE)
    assert record["status"] == "ok"
    sent = [check["actual"] for check in record["checks"] if check["check"] == "samples_sent"]
    assert sent == stored(record) == [samples, samples]
    assert all(of["differences"] == of["errors"] == 0 < of["points"] for of in record["duel"]["types"])


@pytest.mark.parametrize("kind", ["escaped", "openmetrics", "json"])
def test_at_a_rate_the_users_lines_continue_the_data(block, tmp_path, kind):
    """The same lines later by whole windows, so that all samples are new; as many are stored as were sent."""
    sections = {} if kind == "escaped" else written_dump(tmp_path, kind)
    rates = {"ingest": 200, "queries": 5, "seconds": 4, "batch_size": 1 if kind == "json" else 10}
    record = block("dump", **sections, mixed=rates)
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


@pytest.mark.parametrize("load", ["solo", "duel"])
def test_influxdb_takes_lines_with_escapes_and_is_asked_influxql(block, tmp_path, load):
    """By our loader alone, or in turn; windows stand in the text of a query."""
    where = "time >= '{{start}}' AND time < '{{end}}' AND path =~ /my data/"
    text = f"SELECT mean(used_percent) FROM disk WHERE {where} GROUP BY time(10m), host"  # noqa: S608
    (tmp_path / "q.yml").write_text(f"queries:\n  - name: a\n    window: any 1h\n    query: {json.dumps(text)}\n")
    sides = read.read_file(PROJECT / "experiments/influxdb.yml")["variants"]
    record = block("dump", variants=sides, queries={"file": str(tmp_path / "q.yml")}, design={"load": load})
    assert stored(record) == [owndump.SAMPLES] * 2
    (asked,) = record["duel"]["types"]
    assert asked["differences"] == asked["errors"] == 0 < asked["points"]


@pytest.mark.parametrize("case", ["devops", "iot"])
def test_other_data_of_tsbs_are_read_as_a_file_is(block, tmp_path, case):
    """All lines are TSBS's, and its loader loads them."""
    query = {"devops": "avg(nginx_requests)", "iot": "sum by (fleet) (readings_velocity)"}[case]
    (tmp_path / "q.yml").write_text(f"queries:\n  - {{name: a, query: {query}, window: any 30m}}\n")
    sections = {"workload": HOURS | {"use_case": case, "scale": 5, "shape": None}, "design": ALONE}
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


def test_a_shape_is_stored_and_asked_as_a_file_of_data_is(block):
    """Of every target all series: ten gauges, ten counters, two histograms of 14; each cell of a sweep has its own."""
    matrix = {"workload.shape.labels": [3, 10]}
    record = block("shape", workload={"scale": 10, "solo_scale": None}, matrix=matrix)
    assert [load["samples"] for load in record["duel"]["load"]] == [10 * 48 * 240]
    assert stored(record) == [10 * 48 * 240] * 2
    assert {kind["query_type"] for kind in record["duel"]["types"]} == {"mix", "p99", "rate", "pods", "labels"}
    assert all(kind["points"] > 0 and kind["differences"] == 0 for kind in record["duel"]["types"])


def test_data_come_by_stdin(tmp_path):
    """`-` is stdin; the plan says what came."""
    variables = {"EXPERIMENT": "experiments/own-dump.yml", "SET": "workload.file=-", "TSDUEL_CACHE": str(CACHE)}
    done = subprocess.run(
        [sys.executable, "-m", "tsduel", "plan", "r"], cwd=PROJECT, capture_output=True, check=True,
        env=os.environ | variables | {"TSDUEL_RESULTS": str(tmp_path)}, input=(OWN / "dump.influx.gz").read_bytes(),
    )  # fmt: skip
    assert re.search(rf"^data +-: {owndump.SAMPLES:,} samples of 27 series", done.stdout.decode(), re.MULTILINE)


def test_a_native_export_is_read_like_its_lines_of_json(project, tmp_path, monkeypatch):
    """What VictoriaMetrics exports in both forms has the same samples, with escaped tags among them."""
    monkeypatch.setenv("TSDUEL_CACHE", str(CACHE))
    monkeypatch.chdir(PROJECT)
    plan = resolve.resolve(read.validate(read.read_file(PROJECT / "experiments/own-dump.yml"), "test"), run="r")
    resolve.write(project.run_dir, plan, cache=CACHE)
    build(project.run_dir)
    binary = json.loads((project.run_dir / "build/baseline.json").read_text())["binary"]
    address = f"127.0.0.1:{free_port()}"
    command = [binary, f"-httpListenAddr={address}", f"-storageDataPath={tmp_path}/data", "-retentionPeriod=100y"]

    def answer(path, data=None, **headers):
        request = urllib.request.Request(f"http://{address}{path}", data=data, headers=headers)
        with urllib.request.urlopen(request) as reply:  # noqa: S310
            return reply.read()

    def is_up():
        try:
            return answer("/health")
        except OSError:
            return False

    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(is_up)
            answer("/write", (OWN / "dump.influx.gz").read_bytes(), **{"Content-Encoding": "gzip"})
            answer("/internal/force_flush")
            for name in ("export", "export/native"):
                path = tmp_path / name.replace("/", ".")
                path.write_bytes(answer(f"/api/v1/{name}?match[]=%7B__name__!=%22%22%7D&start=0"))
        finally:
            server.terminate()
    lines, native = (dump.read(str(tmp_path / name)) for name in ("export", "export.native"))
    assert (lines.samples, lines.format) == (owndump.SAMPLES, "json")
    for name in ("format", "samples", "series", "start_ms", "end_ms", "duplicates", "late", "numberless", "names"):
        assert getattr(native, name) == getattr(lines, name)


def test_a_check_tells_what_each_query_returns(tmp_path):
    """Series, points and time of each, and whether both sides agree."""
    share(tmp_path / "cache", *BUILDS)
    environment = os.environ | {"TSDUEL_CACHE": str(tmp_path / "cache"), "SET": f"host.port={free_port()} {QUIET}"}
    environment |= {"EXPERIMENT": str(PROJECT / "experiments/own-dump.yml")}
    told, good = queries.check(str(OWN / "disks.yml"), environment)
    assert good, told
    found = re.findall(r"^(\S+) +(\d+) +(\d+) +[0-9.]+ +agree$", told, re.MULTILINE)
    assert {name for name, *_ in found} == {"mix", "fullest", "one-path", "inodes"}
    assert all(int(series) > 0 < int(points) for _, series, points in found)


CORPUS = PROJECT / "tests/corpus"


@pytest.mark.parametrize("name", ["rules/scripts.yml", "dashboards/variables.json", "logs/refused.log"])
def test_the_corpus_is_asked_of_real_servers(tmp_path, name):
    """Alerts in other scripts, a dashboard with variables, a log of which three of four lines are left out."""
    share(tmp_path / "cache", *BUILDS)
    environment = os.environ | {"TSDUEL_CACHE": str(tmp_path / "cache"), "SET": f"host.port={free_port()} {QUIET}"}
    told, good = queries.check(str(CORPUS / name), environment)
    assert good, told
    assert "agree" in told


@pytest.mark.parametrize("name", ["export.txt", "bom.txt", "packed.txt.bz2", "nan.txt", "space.txt", "colon.prom"])
def test_data_of_the_corpus_are_stored_and_asked(block, tmp_path, name):
    """As many samples as were counted."""
    found = dump.read(str(CORPUS / "data" / name))
    query = {"name": "a", "query": 'count({__name__!=""})', "window": ""}
    (tmp_path / "q.yml").write_text(json.dumps({"queries": [query]}))
    record = block("dump", workload={"file": str(CORPUS / "data" / name)}, queries={"file": str(tmp_path / "q.yml")})
    assert stored(record) == [found.samples] * 2


@pytest.mark.parametrize("unit", [1, 1000, 10**6, 10**9])
def test_influxdb_is_told_the_unit_of_the_times(block, tmp_path, unit):
    """Data in seconds, ms, us and ns have the same answers over the window that the plan counts."""
    lines = (f"tide,location=north level={n} {(1749513600 + 30 * n) * unit}\n" for n in range(121))
    (tmp_path / "data").write_text("".join(lines))
    text = "SELECT mean(level) FROM tide WHERE time >= '{{start}}' AND time < '{{end}}' GROUP BY time(5m)"
    (tmp_path / "q.yml").write_text(json.dumps({"window": "any 30m", "queries": [{"name": "a", "query": text}]}))
    sides = read.read_file(PROJECT / "experiments/influxdb.yml")["variants"]
    files = {"workload": {"file": str(tmp_path / "data")}, "queries": {"file": str(tmp_path / "q.yml")}}
    record = block("dump", variants=sides, **files)
    assert record["status"] == "ok"
    assert record["duel"]["types"][0]["points"] > 0


@pytest.mark.parametrize("others", ["", "  - {name: all, query: cpu_usage_user}\n"])
def test_a_query_that_returns_nothing_fails_the_block_with_its_name(block, tmp_path, others):
    """Its metric is in the data, but no host has that name. If all return nothing, the window is wrong: the run ends."""
    path = tmp_path / "q.yml"
    path.write_text(f"queries:\n  - {{name: nobody, query: 'cpu_usage_user{{hostname=\"nobody\"}}'}}\n{others}")
    record = block("dashboard", code=3 if others else 2, queries={"file": str(path)})
    if not others:
        assert "no variant has data for any query in the plan's window" in record["said"]
        assert f"{path}:2 nobody" in record["said"]
    else:
        assert any("answers to nobody have no data" in failure["message"] for failure in record["failures"])
