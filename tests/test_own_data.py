"""The user's own data: what is known of a file, which database takes it, and how it is sent."""

from __future__ import annotations

import gzip
import json
import os
import time

import pytest

from tests import owndump
from tsduel.core.errors import UserError
from tsduel.core.sections import Shape, WorkloadAsked
from tsduel.targets import databases
from tsduel.workloads.own import agent, dump

TARGET = databases()["victoriametrics"].target


def dumped(**fields):
    """Return what the agent says of a dump."""
    of = {"path": "d.gz", "key": "k", "format": "json", "plain": False, "lines": 9, "samples": 90, "series": 30}
    of |= {"duplicates": 0, "late": 0, "numberless": 0, "labels": {}}
    times = {"start_ms": 1749513600000, "end_ms": 1749517200500}
    return dump.Dump(names=("up",), **of | times | fields)


def test_the_example_of_a_dump_can_be_written_again():
    """`python -m tests.owndump` writes what is in the checkout, in under 20 kB."""
    packed = owndump.PATH.read_bytes()
    assert gzip.decompress(packed).decode() == "".join(owndump.lines())
    assert len(packed) < 20_000


def test_the_agents_own_sentence_comes_before_the_end_of_what_feeds_it(monkeypatch):
    """Who does not read ends who writes: the user has to look at the disk, not at TSBS."""
    failing = ["bash", "-c", "echo 'tsduel: no space left on device' >&2; exit 2"]
    monkeypatch.setattr(agent, "go", lambda _: [*failing, "--"])
    with pytest.raises(UserError) as error:
        agent.said("x", feed=("yes",))
    first, second = str(error.value).splitlines()
    assert first == "no space left on device"
    assert second.startswith("workload.use_case: TSBS's generator failed (exit code ")


def test_a_dump_decides_the_window_and_says_what_is_double():
    """Whole seconds around all samples."""
    found = dumped(duplicates=2, late=1)
    assert found.window == {
        "start": "2025-06-10T00:00:00Z", "end": "2025-06-10T01:00:01Z", "interval": "1s", "scale": 3
    }  # fmt: skip
    assert found.holds.startswith("90 samples of 30 series in 9 lines (json); 2 duplicates, 1 out-of-order sample:")
    assert dumped(numberless=1).holds.endswith("(json); 1 value like NaN, which no database keeps")
    counted, target = found.planned(TARGET)
    assert (counted["lines"], counted["samples"], counted["data"][0].key, counted["loader"]) == (9, 90, "k", "own")
    assert (target.data_format, target.write_path) == ("json", "/api/v1/import")


def test_what_is_known_of_data_survives_a_kill(tmp_path, monkeypatch):
    """Half a file of it is no error: the data are read again. The file is whole or as before."""
    monkeypatch.setenv("TSDUEL_CACHE", str(tmp_path))
    found = {"start": 0, "end": 1, "names": [], "labels": {}, "plain": True, "precision": []} | {
        name: getattr(dumped(), name) for name in ("key", "format", "lines", "samples", "series", "late", "numberless")
    }
    monkeypatch.setattr(agent, "said", lambda *_, **__: json.dumps(found | {"duplicates": 0}))
    monkeypatch.setenv("TSDUEL_CACHE", str(tmp_path / "new"))
    (tmp_path / "d.json").write_text("x")
    dump.read.__wrapped__(str(tmp_path / "d.json"))
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0  # the user's data lie there
    monkeypatch.setenv("TSDUEL_CACHE", str(tmp_path))
    (tmp_path / "workload").mkdir()
    known, data = tmp_path / "workload/dumps.json", tmp_path / "d.json"
    known.write_text('{"/d.json 1 2": {"key": "k", "for')
    data.write_text("x")
    assert dump.read.__wrapped__(str(data)).lines == 9
    assert [key.split()[0] for key in json.loads(known.read_text())] == [str(data)]
    monkeypatch.setattr(os, "fsync", lambda _: 1 / 0)  # as a kill there
    data.write_text("xy")
    with pytest.raises(ZeroDivisionError):
        dump.read.__wrapped__(str(data))
    assert len(json.loads(known.read_text())) == 1


QUERIES_TOO = "give your own (queries.file, log or rules)"
VM = "victoriametrics"
NOW_MS = time.time() * 1000


@pytest.mark.parametrize(
    ("fields", "target", "how", "sentences"),
    [
        ({}, VM, {}, []),
        ({"end_ms": 4102444800000}, VM, {},
         ["workload.file: d.gz: samples up to 2100-01-01T00:00:00Z lie in the future, which nobody keeps: give them"]),
        ({"end_ms": 1749517200500 * 10**6}, VM, {}, ["samples up to the year 55,441,963 lie in the future"]),
        ({"end_ms": NOW_MS}, VM, {}, []),
        ({"end_ms": NOW_MS}, VM, {"more_s": 259_200}, ["with those that continue them lie in the future"]),
        ({}, VM, {"flags": ["-retentionPeriod=1d"]},
         ["samples from 2025-06-10T00:00:00Z on lie outside -retentionPeriod=1d, which keeps those from "]),
        ({}, VM, {"flags": ["-retentionPeriod=100y"]}, []),
        ({}, "influxdb", {}, ["workload.file: influxdb does not take lines of the format json; allowed: influx"]),
        ({}, "victoriametrics-cluster", {}, ["does not take lines of the format json; allowed: influx"]),
        ({"format": "influx", "precision": ("ms", "s")}, "influxdb", {},
         ["its times are in ms and s, and influxdb takes one unit"]),
        ({"format": "influx", "precision": ("ms", "s")}, VM, {}, []),
        ({"format": "influx", "numberless": 2}, "influxdb", {}, ["2 values like NaN, which influxdb does not take"]),
        ({"format": "influx"}, "prometheus", {}, ["prometheus does not take lines of the format influx; allowed: "]),
        ({}, VM, {"against": ["hosts"], "own_queries": False}, ["leave out hosts", QUERIES_TOO]),
        ({"path": dump.SHAPE}, VM, {"own_queries": False},
         [f"workload.shape: TSBS's queries are of TSBS's data: {QUERIES_TOO}"]),
    ],
)  # fmt: skip
def test_data_that_a_database_does_not_take_or_keep_are_refused(fields, target, how, sentences):
    """In the future, before its retention (a hundred years without the flag), of another format, beside TSBS's own."""
    how = {"flags": [], "against": [], "own_queries": True} | how
    said = list(dumped(**fields).refused(databases()[target].target, **how))
    for sentence, expected in zip(said, sentences, strict=True):
        assert expected in sentence


def test_lines_that_tsbs_can_send_are_sent_by_tsbs():
    """In the format that its loader for this database takes; others by ours, to the path of their format."""
    plain = dumped(format="influx", plain=True)
    for name, of, path in (
        ("victoriametrics", "victoriametrics", "/write"),
        ("influxdb", "influx", "/write?db=benchmark"),
    ):
        counted, target = plain.planned(databases()[name].target)
        assert (counted["loader"], counted["data"][0].format, target.data_format) == ("tsbs", of, of)
        assert target.write_path == path
    counted, _ = dumped(format="influx").planned(TARGET)
    assert (counted["loader"], counted["data"][0].format) == ("own", "influx")


def test_lines_that_continue_a_dump_have_a_key_of_their_own():
    """Of the same content, later: as many lines as a rate needs, with the dump's samples a line."""
    found = dumped()
    one, other = found.later(20, 3601, TARGET), found.later(21, 3601, TARGET)
    assert (one["lines"], one["samples"]) == (20, 200)
    assert len({found.key, one["data"][0].key, other["data"][0].key, found.later(20, 60, TARGET)["data"][0].key}) == 4


def test_a_shape_of_nothing_and_data_of_two_kinds_are_sentences():
    """No series; a file and a shape."""
    with pytest.raises(ValueError, match="a target has no series: gauges, counters or histograms of at least 1"):
        Shape(gauges=0, counters=0, histograms=0)
    with pytest.raises(ValueError, match="workload: file and shape are two kinds of data: leave one out"):
        dump.of(WorkloadAsked(file="d.gz", shape=Shape()))
    assert dump.of(WorkloadAsked()) is None
