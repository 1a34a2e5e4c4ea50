"""Snapshots of /metrics: sums of counters, and a missing name is no error."""

import gzip
import json

import pytest

from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.target import Counter
from tsduel.targets import databases
from tsduel.workloads.tsbs.exposition import OURS, difference, edge, parse_snapshots, read_snapshots

WANTED = {**databases()["victoriametrics"].target.counters, **OURS}
BODY = """tsduel_process_resident_memory_bytes{role="front"} 400
tsduel_process_resident_memory_bytes{role="server"} 600
process_cpu_cores_available 2
vm_rows_inserted_total{type="influx"} 1.08e+06
vm_rows_inserted_total{type="csvimport"} 7
vm_data_size_bytes{type="storage/small"} 100
vm_data_size_bytes{type="indexdb/file"} 11
vm_rows{type="storage/inmemory"} 5
vm_rows{type="indexdb/file"} 9252
vm_http_requests_total{path="/api/v1/query_range"} 3
vm_http_requests_total{path="/api/v1/query_range",protocol="x y"} 2
vm_rows_ignored_total{reason="big_timestamp"} 0
flag{name="x", value="a b } c", is_set="false"} 1
"""


def snapshots(text):
    """Parse with everything that is wanted of VictoriaMetrics."""
    return list(parse_snapshots(text, WANTED))


def test_edge_sums_what_belongs_together():
    """Only matching labels are summed, over the components of a variant too; other families are not looked at."""
    (found,) = snapshots(f"# snapshot 10.500000 edge query end cpu-max-all-1\n{BODY}")
    assert (found.epoch, found.phase, found.edge, found.query_type) == (10.5, "query", "end", "cpu-max-all-1")
    assert found.values["inserted"] == 1_080_000
    assert found.values["bytes_kept"] == 111
    assert found.values["rows_kept"] == 5
    assert found.values["requests"] == 5
    assert found.values["rss"] == 1000
    assert "merges" not in found.values


def test_a_cut_line_of_a_tick_loses_only_itself():
    """A scrape that broke in the middle of a line leaves the lines before it."""
    (found,) = snapshots(
        '# snapshot 1 tick\ntsduel_process_resident_memory_bytes 9\nvm_rows{type="stor\nvm_slow_row_inserts'
    )
    assert found.values == {"rss": 9}


def test_text_before_the_first_head_is_ignored():
    """A file may begin with anything."""
    assert [s.epoch for s in snapshots("junk 1\n\n# snapshot 2 tick\n")] == [2]
    assert snapshots("") == []


@pytest.mark.parametrize("head", ["x tick", "", "1 edge load", "1 edge load middle", "1 tock"])
def test_a_bad_head_names_its_line(head):
    """A head that the scraper does not write is an error with its line."""
    with pytest.raises(UserError, match=r"^m\.prom:3: "):
        list(parse_snapshots(f"# snapshot 1 tick\na 1\n# snapshot {head}\nb 2\n", WANTED, "m.prom"))


def test_cut_gzip_is_a_sentence(tmp_path):
    """A file that a crash has cut says so."""
    path = tmp_path / "metrics.prom.gz"
    whole = gzip.compress(BODY.encode() * 50)
    for damaged in (whole[:60], whole[:10] + b"\xff" * 50):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="no whole file of snapshots"):
            read_snapshots(path, WANTED)


def test_difference_and_last_attempt():
    """A counter that appears during a phase counts from 0; one that never appears is None; a repeated edge wins."""
    text = (
        "# snapshot 1 edge load begin\na 5\n# snapshot 2 edge load end\na 7\nb 3\n"
        "# snapshot 3 edge load end\na 9\nb 4\n"
    )
    found = list(parse_snapshots(text, {name: Counter(name=name) for name in "abc"}))
    begin, end = edge(found, "load", "begin"), edge(found, "load", "end")
    assert [difference(begin, end, counter) for counter in "abc"] == [4, 4, None]
    assert edge(found, "settle", "end") is None
    assert difference(begin, None, "a") is None


def test_growth_since_metrics_that_could_not_be_read_is_unknown():
    """A begin with the kernel's counters alone is no begin at 0: all since the process began would count."""
    text = (
        '# snapshot 1 edge load begin\ntsduel_process_major_faults_total{role="server"} 2\n'
        '# snapshot 2 edge load end\ntsduel_process_major_faults_total{role="server"} 5\nvm_slow_row_inserts_total 9\n'
    )
    begin, end = snapshots(text)
    assert difference(begin, end, "slow_inserts") is None
    assert difference(begin, end, "major_faults") == 3


EXPORTERS = json.loads((PROJECT / "tests/data/exposition.json").read_text())


@pytest.mark.parametrize("case", EXPORTERS, ids=lambda case: case["exporter"].split(",")[0])
def test_what_exporters_write_is_read_exactly(case, tmp_path):
    """Times, exemplars, escapes, tabs and blanks harm no sum, at an edge and in a tick; Go reads the same file."""
    wanted = {str(at): Counter(name=one["name"], labels=one["labels"]) for at, one in enumerate(case["sums"])}
    sums = {str(at): one["sum"] for at, one in enumerate(case["sums"]) if one["sum"] is not None}
    path = tmp_path / "metrics.prom.gz"
    # Twice: what was seen before takes the short way.
    path.write_bytes(
        gzip.compress(f"# snapshot 1 edge load end\n{case['text']}\n# snapshot 2 tick\n{case['text']}".encode())
    )
    edge_, tick = read_snapshots(path, wanted)
    assert edge_.values == sums
    assert tick.values == sums


@pytest.mark.parametrize(
    "line", ["a_total 5 later", "a_total 5 6 7", 'a_total{x="1} 5', "a_total", "a_total{x=1} 5", "a_total x"]
)
def test_a_line_that_is_no_sample_is_an_error_of_an_edge_only(line):
    """No number is read of it: what stands last may be a time."""
    wanted = {"a": Counter(name="a_total"), "b": Counter(name="b")}
    assert [s.values for s in parse_snapshots(f"# snapshot 1 tick\n{line}\nb 1\n", wanted)] == [{"b": 1}]
    with pytest.raises(UserError, match="cannot be read"):
        list(parse_snapshots(f"# snapshot 1 edge load end\n{line}\nb 1\n", wanted))


def test_what_is_no_number_or_no_utf8_is_left_out(tmp_path):
    """NaN and infinity are no values of a tick either, and a label of any bytes harms no other line."""
    body = (
        b'tsduel_process_resident_memory_bytes NaN\nvm_rows{type="storage/\xff"} 7\nvm_parts{type="storage/x"} +Inf\n'
    )
    path = tmp_path / "metrics.prom.gz"
    path.write_bytes(gzip.compress(b"# snapshot 1 tick\n" + body + b"vm_slow_row_inserts_total 3\n"))
    (found,) = read_snapshots(path, WANTED)
    assert found.values == {"rows_kept": 7, "slow_inserts": 3}
