"""Logs of today's `make tsbs` become a run: with their own figures, no verdict, and nothing that they do not show."""

import csv
import gzip
import json
import re
from pathlib import Path

import pytest

from plots import exports, plot_load, report
from tsduel.build import ansible as build
from tsduel.core.errors import UserError
from tsduel.importing import logs_to_run as importing
from tsduel.importing.logs import read_log
from tsduel.places import provision
from tsduel.plan import resolve as plan
from tsduel.stats import compare
from tsduel.tidy import tables as tidy

LOGS = Path(__file__).with_name("data") / "logs"
TYPES = ["single-groupby-1-1-1", "cpu-max-all-8", "double-groupby-1"]
BASELINE, CANDIDATE = ((LOGS / f"{side}.log").read_bytes().decode() for side in ("baseline", "candidate"))
# As newer builds of TSBS word it; the recorded logs are of the pinned one.
SAMPLES = re.sub(
    r"^(time,|loaded ).*", lambda found: found[0].replace("metric", "sample"), BASELINE, flags=re.MULTILINE
)


def written(path, text):
    """Write a log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, newline="")
    return path


def imported(path, baseline=BASELINE, candidate=CANDIDATE, **knobs):
    """Import two logs and compare them."""
    run = path / "results/20261120T140000Z-imported"
    run.parent.mkdir(parents=True)
    given = {
        "BASELINE_LOG": str(written(path / "v1.132.0.log", baseline)),
        "CANDIDATE_LOG": str(written(path / "my branch.log", candidate)),
    }
    importing.main(run, given | knobs)
    tidy.main(run)
    compare.main(run)
    return run


def rows(run):
    """Return comparison.json's rows by metric and query type."""
    document = json.loads((run / "stats/comparison.json").read_text())
    return {(row["metric"], row["query_type"]): row for row in document["rows"]}


def checks(run, variant):
    """Return what was checked of a variant's round."""
    lines = csv.DictReader((run / "tidy/checks.csv").read_text().splitlines())
    return {line["check"]: line for line in lines if line["variant"] == variant}


def text(run):
    """Return the report, made if need be."""
    if not (run / "report.md").exists():
        report.main(run)
    return (run / "report.md").read_text()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Import the recorded logs once, and take them as far as the command does."""
    run = imported(tmp_path_factory.mktemp("import"))
    report.main(run)
    exports.main(run)
    return run


def test_the_figures_are_those_of_the_log(run):
    """Rates, times, CPU and memory as TSBS and the server printed them; percentiles it did not print are not there."""
    found = rows(run)
    rate = re.search(r"mean rate ([\d.]+) metrics/sec", BASELINE)[1]
    assert found["load_rate", ""]["baseline_median"] == float(rate)
    for metric, name in (
        ("load_cpu_user_seconds", "process_cpu_seconds_user_total"),
        ("load_cpu_seconds", "process_cpu_seconds_total"),
        ("load_rss_end_bytes", "process_resident_memory_bytes"),
        ("load_rss_peak_bytes", "process_resident_memory_peak_bytes"),
        ("load_io_read_bytes", "process_io_read_bytes_total"),
        ("load_io_written_bytes", "process_io_written_bytes_total"),
    ):
        for side, log in (("baseline", BASELINE), ("candidate", CANDIDATE)):
            printed = float(re.search(rf"^{name} (\S+)", log, re.MULTILINE)[1])
            assert found[metric, ""][f"{side}_median"] == pytest.approx(printed)
    for query_type in TYPES:
        after = CANDIDATE.split(f"make tsbs-run-queries TSBS_QUERY_TYPE={query_type}")[1]
        printed = re.search(r"Run complete after 200 queries .*Overall query rate ([\d.]+)", after)[1]
        assert found["query_rate", query_type]["candidate_median"] == float(printed)
    assert not {metric for metric, _ in found} & {"query_p95_ms", "query_p99_ms", "cpu_seconds", "drain_seconds"}


def test_one_round_each_is_no_verdict(run):
    """In the table, in words, and at the top of the report."""
    verdicts = {row["verdict"] for row in rows(run).values()}
    assert verdicts == {"inconclusive (n < 6)", "shown"}
    found = text(run)
    assert "> **One run each: no verdict.**" in found
    assert re.search(r"\*\*Ingestion\*\*.* [\d.]+ % (faster|slower), one run each: no verdict\n", found)
    assert "screen" not in found
    assert "interleaved trials" not in found
    assert "`process_resident_memory_peak_bytes`" in found
    assert "my branch against v1.132.0" in found


def test_what_a_log_cannot_show_is_not_made(run):
    """Neither passed nor failed; the samples are those that tsbs_generate_data was asked for."""
    for variant in ("baseline", "candidate"):
        made = checks(run, variant)
        assert set(made) == {"block_finished", "samples_sent"}
        assert made["samples_sent"]["expected"] == made["samples_sent"]["actual"] == str(400 * 1080 * 10)
    found = text(run)
    assert "Checked 4 of 4, none failed" in found
    assert "only what a log shows was checked" in found


def test_the_logs_are_kept_and_the_stages_work_again(run, tmp_path):
    """The logs are in raw/ as they were, and tidy, compare and report read nothing else."""
    assert (run / "raw/logs/baseline.log").read_bytes() == (LOGS / "baseline.log").read_bytes()
    assert (run / "raw/logs/candidate.log").read_bytes() == (LOGS / "candidate.log").read_bytes()
    moved = tmp_path / "results" / run.name
    moved.parent.mkdir()
    run.rename(moved)
    before = {path: path.read_bytes() for path in sorted(moved.glob("[ts]*/*"))}
    tidy.main(moved)
    compare.main(moved)
    report.main(moved)
    assert before == {path: path.read_bytes() for path in sorted(moved.glob("[ts]*/*"))}
    moved.rename(run)


def test_there_is_nothing_to_plan_or_run_in_it(run):
    """The stages before tidy refuse it, with a sentence."""
    with pytest.raises(UserError, match="imported from logs: there is nothing to build or to run in it"):
        plan.main(run, {})
    for stage in (provision, build):
        with pytest.raises(UserError, match="imported from logs"):
            stage.main(run)


def test_names_come_from_knobs_or_files(tmp_path):
    """BASELINE= and CANDIDATE= say what to call the sides, and the command repeats it."""
    found = text(imported(tmp_path, BASELINE="v1.126.0", CANDIDATE="pt-index <b>"))
    assert "pt-index &lt;b&gt; against v1.126.0" in found
    assert "BASELINE=v1.126.0 'CANDIDATE=pt-index <b>'\n" in found


def forms():
    """Return the same log in other clothes."""
    colours = re.sub(r"^(make.*|Summary:)$", "\x1b[01;32m\\1\x1b[0m", BASELINE, flags=re.MULTILINE)
    progress = re.sub(r"^(Run complete|loaded)", r"  12 %\r  99 %\r\1", BASELINE, flags=re.MULTILINE)
    quiet = re.sub(r"^(make|cat|test|curl|\t).*\n", "", BASELINE, flags=re.MULTILINE)
    burn_in = BASELINE.replace(
        "Run complete",
        "burn-in complete after 10 queries with 2 workers\nAfter 100 queries with 2 workers:\n"
        "min:     9.99ms, med:     9.99ms, mean:     9.99ms, max:    9.99ms, stddev:     9.99ms, sum:   1.7sec,"
        " count: 9\n\n"
        "Run complete",
    )
    retries = re.sub(r"^(\d{10},.*\n)", "goroutine says hello\n\\1", BASELINE, count=3, flags=re.MULTILINE)
    return {
        "samples": SAMPLES,
        "crlf": BASELINE.replace("\n", "\r\n"),
        "colours": "\x1b]0;a window's title\x07" + colours,
        "progress": progress,
        "without make's lines": quiet,
        "noise": burn_in,
        "other lines in the load": retries,
        "no newline at the end": BASELINE.rstrip("\n"),
        "a scale that looks like a year": BASELINE.replace("-400-2025", "-2025-2025"),
        "only the names of files": re.sub(r"^make tsbs-run.*\n", "", BASELINE, flags=re.MULTILINE),
        "labelled metrics": re.sub(r"^(process_\w+) ", r'\1{instance="a"} ', BASELINE, flags=re.MULTILINE),
    }


@pytest.mark.parametrize("form", forms())
def test_the_same_log_in_other_clothes(tmp_path, form):
    """Wording, line ends, colours, make's lines and noise change no figure and no name."""
    plain = read_log(written(tmp_path / "plain.log", BASELINE))
    other = read_log(written(tmp_path / "other.log", forms()[form]))
    assert (other.load, other.process, list(other.queries)) == (plain.load, plain.process, TYPES)
    assert other.queries == plain.queries
    assert other.notes == []


@pytest.mark.parametrize(
    ("label", "query_type"),
    [
        ("VictoriaMetrics 1 cpu metric(s), random    8 hosts, random 1h0m0s by 1m:", "single-groupby-1-8-1"),
        ("VictoriaMetrics 5 cpu metric(s), random    1 hosts, random 12h0m0s by 1m:", "single-groupby-5-1-12"),
        ("VictoriaMetrics max of all CPU metrics, random    1 hosts, random 8h0m0s by 1h:", "cpu-max-all-1"),
        ("VictoriaMetrics mean of 5 metrics, all hosts, random 12h0m0s by 1h:", "double-groupby-5"),
        ("VictoriaMetrics mean of 10 metrics, all hosts, random 12h0m0s by 1h:", "double-groupby-all"),
        ("VictoriaMetrics something ../new:", "victoriametrics-something-new"),
    ],
)
def test_types_by_their_label(tmp_path, label, query_type):
    """Without make's lines a type is told by TSBS's own words; unknown ones make a name that is safe for a file."""
    log = re.sub(r"^VictoriaMetrics 1 cpu metric.*$", label, forms()["without make's lines"], flags=re.MULTILINE)
    assert next(iter(read_log(written(tmp_path / "a.log", log)).queries)) == query_type


def without(log, query_type):
    """Cut the summary of a type out, as if it had been interrupted."""
    head, tail = log.split(f"make tsbs-run-queries TSBS_QUERY_TYPE={query_type}")
    rest = tail.partition("wall clock time:")[2].partition("\n")[2]
    return f"{head}make tsbs-run-queries TSBS_QUERY_TYPE={query_type}\n{rest}"


def test_a_type_of_one_side_only(tmp_path):
    """It is not comparable, and the report says where it was begun."""
    run = imported(tmp_path, candidate=without(CANDIDATE, "cpu-max-all-8"))
    row = rows(run)["query_mean_ms", "cpu-max-all-8"]
    assert (row["verdict"], row["candidate_median"]) == ("not comparable", None)
    assert re.search(r"my branch\.log:\d+: cpu-max-all-8 was started and did not finish", text(run))
    assert rows(run)["query_mean_ms", "double-groupby-1"]["change_pct"] is not None


def test_a_load_without_queries(tmp_path):
    """A log of tsbs-load-data alone is enough for the load."""
    loads = [log.partition("make tsbs-generate-queries")[0] for log in (BASELINE, CANDIDATE)]
    run = imported(tmp_path, *loads)
    assert {query_type for _, query_type in rows(run)} == {""}
    assert "**Ingestion**: " in text(run)


def test_a_load_shorter_than_a_period(tmp_path):
    """The loader prints its header only: there is a rate and no clock, and the report is made."""
    short = [re.sub(r"^\d{10},.*\n", "", log, flags=re.MULTILINE) for log in (BASELINE, CANDIDATE)]
    run = imported(tmp_path, *short)
    assert rows(run)["load_rate", ""]["change_pct"] is not None
    assert "![Load rate over time" in text(run)


def test_other_loads_are_a_failed_check(tmp_path):
    """Loads of different size compare nothing; without make's lines the baseline's number is what is expected."""
    half = CANDIDATE.replace("loaded 4320000", "loaded 2160000")
    run = imported(tmp_path / "asked", candidate=half)
    assert checks(run, "candidate")["samples_sent"]["message"] == (
        "the loader sent 2160000 samples, and 4320000 were expected"
    )
    assert rows(run)["load_rate", ""]["verdict"] == "failed"
    quiet = [re.sub(r"--scale=\S+", "", log) for log in (BASELINE, half)]
    run = imported(tmp_path / "quiet", *quiet)
    assert set(checks(run, "baseline")) == {"block_finished"}
    assert checks(run, "candidate")["samples_sent"]["ok"] == "false"
    assert "4,320,000 samples" in text(run)
    assert "unknown" not in text(run)


def test_what_differs_is_said(tmp_path):
    """Other windows, workers and counts of queries, and what make said, are warnings."""
    other = CANDIDATE.replace("--timestamp-start=2025-06-10", "--timestamp-start=2025-06-09")
    other = other.replace("Run complete after 200 queries with 2", "Run complete after 100 queries with 4", 1)
    other = re.sub(r"(loaded \d+ metrics .* with) 2 workers", r"\1 4 workers", other)
    other += "make[1]: *** [Makefile:52: tsbs-run-queries] Error 2\n"
    found = text(imported(tmp_path, candidate=other))
    assert "- --timestamp-start differs: 2025-06-10T00:00:00Z and 2025-06-09T00:00:00Z" in found
    assert "- the loads had 2 and 4 workers" in found
    assert (
        "single-groupby-1-1-1 is not the same on both sides: 'Run complete after 200 queries with 2 workers'" in found
    )
    assert re.search(r"- my branch\.log:\d+: make says: make.*Makefile:52: tsbs-run-queries.* Error 2\.", found)


def test_retries_that_a_log_shows_fail_the_check(tmp_path):
    """What the loader said in between is shown, and makes its figures of no use."""
    said = "2026/11/20 14:00:00 server returned HTTP status 503. Retrying\n"
    run = imported(tmp_path, candidate=CANDIDATE.replace("\r\n\r\nSummary:", f"\r\n{said}\r\nSummary:"))
    assert "HTTP status 503" in checks(run, "candidate")["load_retries"]["message"]
    assert "load_retries" not in checks(run, "baseline")
    assert rows(run)["load_rate", ""]["verdict"] == "failed"


def line_of(log, begin):
    """Return the number of the first line that begins so."""
    return next(n for n, line in enumerate(log.split("\n"), start=1) if line.startswith(begin))


HEADER = line_of(BASELINE, "time,per.")
WRONG = {
    "empty": ("", r"v1\.132\.0\.log: the file is empty"),
    "blank": (" \n\n", r"v1\.132\.0\.log: the file is empty"),
    "binary": ("one\ntwo\n\x7fELF\0\0", r"v1\.132\.0\.log:3: not a text file"),
    "another tool": (
        "BenchmarkX-8 100 1 ns/op\n",
        r"v1\.132\.0\.log:1: no load in it.*begins 'BenchmarkX-8 100 1 ns/op'",
    ),
    "queries only": (BASELINE[BASELINE.index("make tsbs-run") :], r"v1\.132\.0\.log:1: no load in it"),
    "cut in the load": (
        "".join(BASELINE.splitlines(keepends=True)[: HEADER + 3]),
        rf"v1\.132\.0\.log:{HEADER + 3}: the load ends here without 'loaded N metrics in S sec': the log is cut short",
    ),
    "cut in a summary": (
        BASELINE[: BASELINE.index("min:")],
        rf"v1\.132\.0\.log:{line_of(BASELINE, 'min:')}: no line 'min: ... mean: ... count:'",
    ),
    "two loads": (
        BASELINE + BASELINE,
        rf"v1\.132\.0\.log:{HEADER + BASELINE.count(chr(10))}: a second load begins \(the first on line {HEADER}\)",
    ),
    "queries again": (
        BASELINE + BASELINE[BASELINE.index("make tsbs-run") :],
        r"v1\.132\.0\.log:\d+: a second summary of single-groupby-1-1-1: one log, one run of each type",
    ),
    "decimal commas in the CSV": (
        re.sub(r"^\d{10},.*", lambda m: m[0].replace(".", ","), BASELINE, flags=re.MULTILINE),
        rf"v1\.132\.0\.log:{HEADER + 1}: 1\d columns where a TSBS loader writes 7",
    ),
    "decimal commas in the summary": (
        re.sub(r"(?<=in )(\d+)\.(\d+sec with)", r"\1,\2", BASELINE),
        rf"v1\.132\.0\.log:{line_of(BASELINE, 'loaded')}: not a summary line of a TSBS loader",
    ),
    "decimal commas in /metrics": (
        re.sub(r"^(process_cpu_seconds_total \d+)\.", r"\1,", BASELINE, flags=re.MULTILINE),
        r"v1\.132\.0\.log:\d+: process_cpu_seconds_total is '\d+,\d+', not a number",
    ),
    "decimal commas in a query": (
        re.sub(r"(?<=mean: )( +\d+)\.", r"\1,", BASELINE),
        r"v1\.132\.0\.log:\d+: no line 'min: ... mean: ... count:'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_log_is_a_sentence(tmp_path, case):
    """File, line and what is wrong there; nothing is written."""
    log, sentence = WRONG[case]
    with pytest.raises(UserError, match=sentence):
        imported(tmp_path, baseline=log)
    assert list((tmp_path / "results").iterdir()) == []


def test_a_wrong_file_is_a_sentence(tmp_path):
    """Missing, a directory, packed, the same twice, not given, a run that is there."""
    log = written(tmp_path / "a.log", BASELINE)
    packed = tmp_path / "a.log.gz"
    packed.write_bytes(gzip.compress(BASELINE.encode()))
    run = tmp_path / "results/x"
    for given, sentence in (
        ({"CANDIDATE_LOG": str(log)}, "BASELINE_LOG is not given: make import BASELINE_LOG=a.log CANDIDATE_LOG=b.log"),
        ({"BASELINE_LOG": str(log), "CANDIDATE_LOG": ""}, "CANDIDATE_LOG is not given"),
        ({"BASELINE_LOG": str(log), "CANDIDATE_LOG": str(tmp_path / "no")}, "no: No such file or directory"),
        ({"BASELINE_LOG": str(log), "CANDIDATE_LOG": str(tmp_path)}, "Is a directory"),
        ({"BASELINE_LOG": str(log), "CANDIDATE_LOG": str(packed)}, "not a text file; unpack it first"),
        ({"BASELINE_LOG": str(log), "CANDIDATE_LOG": str(log)}, "are the same file"),
    ):
        with pytest.raises(UserError, match=re.escape(sentence)):
            importing.main(run, given)
    run.mkdir(parents=True)
    with pytest.raises(UserError, match="is there already"):
        importing.main(run, {"BASELINE_LOG": str(log), "CANDIDATE_LOG": str(log)})


def drawn(tmp_path, monkeypatch, capsys, *logs):
    """Draw logs, and return what was printed and the pictures."""
    monkeypatch.chdir(tmp_path)
    plot_load.main({knob: str(path) for knob, path in zip(plot_load.KNOBS, logs, strict=False)})
    return capsys.readouterr().out, sorted(path.name for path in (tmp_path / "results/plot-load").iterdir())


def test_plot_load_of_two(tmp_path, monkeypatch, capsys):
    """The figures of both, the change without a verdict, and where the picture is."""
    logs = written(tmp_path / "v1.126.0.csv", BASELINE), written(tmp_path / "größer.log", CANDIDATE)
    out, pictures = drawn(tmp_path, monkeypatch, capsys, *logs)
    assert "v1.126.0.csv: loaded 4,320,000 samples in" in out
    assert re.search(
        r"größer\.log against .*v1\.126\.0\.csv: -?\+?[\d.]+ % in the mean rate; one run each: no verdict", out
    )
    assert pictures == ["v1.126.0-against-gr_er.png", "v1.126.0-against-gr_er.svg"]
    assert "results/plot-load/v1.126.0-against-gr_er.svg" in out


def test_plot_load_of_one_csv_without_a_summary(tmp_path, monkeypatch, capsys):
    """The CSV part alone, as people cut it out of their logs."""
    csv_part = "\n".join(line for line in BASELINE.splitlines() if re.match(r"time,|\d{10},", line))
    out, pictures = drawn(tmp_path, monkeypatch, capsys, written(tmp_path / "load.csv", csv_part))
    assert "samples in the CSV, which has no summary" in out
    assert pictures == ["load.png", "load.svg"]


def test_plot_load_of_nothing(tmp_path, monkeypatch):
    """No knob, no line: a sentence."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="TSBS_LOAD_RESULT_CSV_FILE is not given"):
        plot_load.main({plot_load.KNOBS[1]: "b.csv"})
    header = written(tmp_path / "header.csv", BASELINE.splitlines(keepends=True)[HEADER - 1])
    with pytest.raises(UserError, match="neither a line of CSV nor a summary"):
        plot_load.main({plot_load.KNOBS[0]: str(header)})
    assert not (tmp_path / "results").exists()
