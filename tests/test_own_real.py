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
from checkout import CACHE, PROJECT, build
from fakeproject import UNJUDGED, free_port, wait_for

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
            data[section] = data.get(section, {}) | fields
        plan = resolve.resolve(read.validate(data, "test"), run="r")
        resolve.write(project.run_dir, plan, cache=CACHE)
        build(project.run_dir, plan)
        for data in plan.workload.data if plan.workload.told else ():
            shutil.copytree(CACHE / "workload" / data.key, project.cache / "workload" / data.key)
        process = project.start()
        said = project.end(process)
        assert process.returncode == code, said
        assert project.alive() == []
        return project.block("001")

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
    assert [load["samples"] for load in record["duel"]["load"]] == [86_400]
    stored = [check for check in record["checks"] if check["check"] == "samples_stored"]
    assert [check["ok"] for check in stored] == [True, True]
    assert {kind["query_type"] for kind in record["duel"]["types"]} == {"mix", "fullest", "one-path", "inodes"}


def test_a_shape_is_stored_and_asked_as_a_file_of_data_is(block):
    """Of every target all series: ten gauges, ten counters, two histograms of 14, with all their samples."""
    record = block("shape", workload={"scale": 10, "solo_scale": None})
    assert [load["samples"] for load in record["duel"]["load"]] == [10 * 48 * 240]
    stored = [check for check in record["checks"] if check["check"] == "samples_stored"]
    assert [check["ok"] for check in stored] == [True, True]
    assert {kind["query_type"] for kind in record["duel"]["types"]} == {"mix", "p99", "rate", "pods", "labels"}
    assert all(kind["points"] > 0 and kind["differences"] == 0 for kind in record["duel"]["types"])


def test_data_come_by_stdin(tmp_path):
    """`-` is stdin; the plan says what came."""
    variables = {"EXPERIMENT": "experiments/own-dump.yml", "SET": "workload.file=-", "TSDUEL_CACHE": str(CACHE)}
    done = subprocess.run(
        [sys.executable, "-m", "tsduel", "plan", "r"], cwd=PROJECT, capture_output=True, check=True,
        env=os.environ | variables | {"TSDUEL_RESULTS": str(tmp_path)}, input=(OWN / "dump.influx.gz").read_bytes(),
    )  # fmt: skip
    assert re.search(r"^data +-: 86,400 samples of \d+ series", done.stdout.decode(), re.MULTILINE)


def test_a_native_export_is_read_like_its_lines_of_json(project, tmp_path, monkeypatch):
    """What VictoriaMetrics exports in both forms has the same samples, with escaped tags among them."""
    monkeypatch.setenv("TSDUEL_CACHE", str(CACHE))
    monkeypatch.chdir(PROJECT)
    plan = resolve.resolve(read.validate(read.read_file(PROJECT / "experiments/own-dump.yml"), "test"), run="r")
    resolve.write(project.run_dir, plan, cache=CACHE)
    build(project.run_dir, plan)
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
    assert (lines.samples, lines.format) == (86_400, "json")
    for name in ("format", "samples", "series", "start_ms", "end_ms", "duplicates", "late", "numberless", "names"):
        assert getattr(native, name) == getattr(lines, name)


def test_a_query_that_returns_nothing_fails_the_block_with_its_name(block, tmp_path):
    """Its metric is in the data, but no host has that name."""
    path = tmp_path / "q.yml"
    path.write_text("queries:\n  - {name: nobody, query: 'cpu_usage_user{hostname=\"nobody\"}'}\n")
    record = block("dashboard", code=3, queries={"file": str(path)})
    assert any("answers to nobody have no data" in failure["message"] for failure in record["failures"])
