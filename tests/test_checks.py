"""Each check sees what it is there for, and what cannot be checked is a failure."""

import csv
import gzip
import json
import re
import shutil

import pytest
import synthetic

from tsduel.targets.counters import TARGETS
from tsduel.tidy import tables as tidy
from tsduel.workloads.tsbs.checks import SCOPES
from tsduel.workloads.tsbs.responses import first_difference, summarize

SPEC = synthetic.Spec(blocks=1, warmup_blocks=0, query_types=("cpu-max-all-1", "double-groupby-1"), load_s=6, query_s=3)


@pytest.fixture
def run(tmp_path):
    """Write a small run in which everything is right."""
    return synthetic.write_run(tmp_path / "run", SPEC)


def checks(run):
    """Return the rows of checks.csv."""
    tidy.main(run)
    with (run / "tidy/checks.csv").open() as stream:
        return list(csv.DictReader(stream))


def failures(run):
    """Return the rows of the checks that failed."""
    return [row for row in checks(run) if row["ok"] != "true"]


def candidate(run):
    """Return the directory of the candidate's round."""
    return next(run.glob("raw/*-candidate"))


def edit(path, pattern, replacement):
    """Replace in a file what has to be there."""
    text = path.read_text()
    assert re.search(pattern, text)
    path.write_text(re.sub(pattern, replacement, text))


def edit_round(run, change):
    """Change the record of the candidate's round."""
    path = candidate(run) / "round.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def edit_metrics(run, pattern, replacement):
    """Replace in the candidate's snapshots what has to be there."""
    path = candidate(run) / "metrics.prom.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    assert re.search(pattern, text)
    path.write_bytes(gzip.compress(re.sub(pattern, replacement, text).encode()))


def test_a_good_run_passes_every_check(run):
    """Every check of the list is made in a good run, and passes."""
    found = checks(run)
    assert {row["check"] for row in found} == set(SCOPES)
    assert all(row["ok"] == "true" and row["actual"] and not row["message"] for row in found)


def test_lost_samples(run):
    """A sample that was acknowledged and not stored is missed."""
    edit_metrics(run, r"(vm_rows_added_to_storage_total) 10800000", r"\1 10799999")
    (row,) = failures(run)
    assert (row["check"], row["expected"], row["actual"]) == ("samples_stored", "10800000", "10799999")
    assert row["message"].endswith("1 are missing")


def test_samples_not_sent(run):
    """A loader that sent less than the file holds is seen even if it says it was done."""
    edit(candidate(run) / "load.csv", "loaded 10800000 metrics", "loaded 10799990 metrics")
    assert [row["check"] for row in failures(run)] == ["samples_sent"]


@pytest.mark.parametrize(("name", "check"), [("ignored", "samples_ignored"), ("invalid", "samples_invalid")])
def test_thrown_away(run, name, check):
    """Samples that the database threw away are named with its counter."""
    before_load = iter(["0"])
    edit_metrics(run, rf"(vm_rows_{name}_total\{{[^}}]*\}}) 0", lambda match: f"{match[1]} {next(before_load, '3')}")
    (row,) = failures(run)
    assert row["check"] == check
    assert "3 samples were thrown away" in row["message"]


def test_retries(run):
    """A line on the loader's stderr is a retry."""
    (candidate(run) / "load.stderr").write_text("Retrying... server returned HTTP status 503\n")
    (row,) = failures(run)
    assert row["check"] == "load_retries"
    assert "503" in row["message"]


def test_exit_codes(run):
    """The exit codes of loader and query client are looked at."""

    def change(found):
        for phase in found["phases"]:
            if phase["phase"] in {"load", "query"}:
                phase["exit"] = 2

    edit_round(run, change)
    assert sorted(row["check"] for row in failures(run)) == ["load_exit", "query_exit", "query_exit"]


def test_queries_not_answered(run):
    """Less answers than questions, and 0 of 0, are failures."""
    edit(candidate(run) / "query/cpu-max-all-1.stdout", r"count: \d+", "count: 5")
    (row,) = failures(run)
    assert (row["check"], row["query_type"], row["actual"]) == ("queries_answered", "cpu-max-all-1", "5")
    edit(candidate(run) / "query/cpu-max-all-1.stdout", r"count: \d+", "count: 0")
    edit_round(run, lambda found: [p.update(count=0) for p in found["phases"]])
    assert all("could not be checked" in row["message"] for row in failures(run))


def test_queries_that_read_nothing(run):
    """Queries that touch no data are caught by the server's own counter."""
    edit_metrics(run, r"vm_rows_read_per_query_sum \d+", "vm_rows_read_per_query_sum 0")
    assert {row["check"] for row in failures(run)} == {"rows_read"}


def test_missing_files_are_failed_checks(run):
    """What cannot be checked is a row that failed, with nothing in actual."""
    complete = len(checks(run))
    for name in ("load.csv", "load.stderr", "metrics.prom.gz", "server.log"):
        (candidate(run) / name).unlink()
    shutil.rmtree(candidate(run) / "query")
    shutil.rmtree(candidate(run) / "responses")
    found = checks(run)
    assert len(found) == complete
    bad = [row for row in found if row["ok"] != "true"]
    assert all(row["actual"] == "" and "could not be checked" in row["message"] for row in bad)
    assert {row["check"] for row in bad} == set(SCOPES) - {"round_finished", "load_exit", "query_exit", "same_process"}


def test_panic_in_the_log(run):
    """A panic is found; a word that only contains it is not."""
    log = candidate(run) / "server.log"
    log.write_text("2026\tinfo\tpanicRoom loaded\n")
    assert not failures(run)
    log.write_text("2026-11-20T14:24:11Z\tpanic\tapp/x.go:1\tBUG: unexpected\n")
    assert [row["check"] for row in failures(run)] == ["server_log"]


def test_restarted_server(run):
    """Another process at the end is a failure."""
    edit_round(run, lambda found: found.update(server_pid_end=999))
    (row,) = failures(run)
    assert "restarted" in row["message"]


def test_failed_round_is_one_row(run):
    """A failed round says its own sentence, and nothing about what was never done."""
    failure = {"phase": "load", "message": "the database answered 503 for 30 s"}
    edit_round(run, lambda found: found.update(status="failed", failure=failure))
    (row,) = failures(run)
    assert (row["check"], row["phase"], row["message"]) == ("round_finished", "load", failure["message"])


def test_different_answers_are_shown(run):
    """The first difference is told with query, series, time and both values."""
    path = candidate(run) / "responses/cpu-max-all-1.gz"
    bodies = [synthetic.answer(i, value="95" if i == 7 else "94") for i in range(20)]
    synthetic.write_answers(path, bodies)
    (row,) = failures(run)
    assert row["check"] == "responses_same"
    for part in ("query 7", "cpu_0", "1748776840", "94.0", "95.0", "baseline", "candidate"):
        assert part in row["message"]


def test_answers_within_the_tolerance_are_the_same(run):
    """Rounding in the last digit is no difference."""
    path = candidate(run) / "responses/cpu-max-all-1.gz"
    synthetic.write_answers(path, [synthetic.answer(i, value="94.00000000001") for i in range(20)])
    assert not failures(run)


def test_empty_and_missing_answers(run):
    """Answers without data and answers that are not there are failures."""
    path = candidate(run) / "responses/cpu-max-all-1.gz"
    synthetic.write_answers(path, [synthetic.answer(i, series=0 if i else 10) for i in range(19)])
    assert [row["check"] for row in failures(run)] == ["responses_answered", "responses_empty", "responses_same"]
    synthetic.write_answers(path, [])
    assert [row["actual"] for row in failures(run)] == ["0", "", ""]


def test_both_sides_empty_is_not_the_same(run):
    """Two empty files do not prove that the answers agree."""
    for path in run.glob("raw/*/responses/cpu-max-all-1.gz"):
        synthetic.write_answers(path, [])
    assert "responses_same" in {row["check"] for row in failures(run)}


def test_summaries_ignore_the_execution_time(tmp_path):
    """Two equal answers that took different times have one digest, wherever the chunks of reading fall."""
    vm = TARGETS["victoriametrics"]
    for name, ms in (("a", 5), ("b", 1234)):
        synthetic.write_answers(tmp_path / name, [synthetic.answer(i, ms=ms) for i in range(20)])
    assert summarize(tmp_path / "a", vm) == summarize(tmp_path / "b", vm)
    assert first_difference(tmp_path / "a", tmp_path / "b") is None


def test_order_of_series_does_not_matter(tmp_path):
    """Series are compared by name; one that is missing is named."""

    def body(names):
        series = [{"metric": {"__name__": n}, "values": [[1, "2"]]} for n in names]
        return "ID 0: " + json.dumps({"status": "success", "data": {"result": series}}) + "\n"

    synthetic.write_answers(tmp_path / "a", [body(["x", "y"])])
    synthetic.write_answers(tmp_path / "b", [body(["y", "x"])])
    synthetic.write_answers(tmp_path / "c", [body(["y"])])
    assert first_difference(tmp_path / "a", tmp_path / "b") is None
    found = first_difference(tmp_path / "a", tmp_path / "c")
    assert found is not None
    assert '"x"' in found
    assert "first answer only" in found
