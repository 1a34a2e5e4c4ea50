"""Logs of today's `make tsbs` become a report with their own figures, without a verdict or what they do not show."""

import re
from pathlib import Path

import pytest

from plots import imported, plot_load
from plots.charts.curves import by_block, median_curve
from tsduel.core.errors import UserError
from tsduel.workloads.tsbs.logs import read_log

LOGS = Path(__file__).with_name("data") / "logs"
TYPES = ["single-groupby-1-1-1", "cpu-max-all-8", "double-groupby-1"]
BASELINE, CANDIDATE = ((LOGS / f"{side}.log").read_bytes().decode() for side in ("baseline", "candidate"))
# As newer builds of TSBS word it; the recorded logs are of the pinned one.


def sub(pattern, new, text=BASELINE, **options):
    """Replace in a log; ^ and $ are those of its lines."""
    return re.sub(pattern, new, text, flags=re.MULTILINE, **options)


def written(path, text):
    """Write a log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, newline="")
    return path


def reported(path, baseline=BASELINE, candidate=CANDIDATE, *, code=0, **knobs):
    """Import two logs, which ends with an exit code, and return the text of the report."""
    given = {
        "RUN": "x",
        "BASELINE_LOG": str(written(path / "v1.132.0.log", baseline)),
        "CANDIDATE_LOG": str(written(path / "my branch.log", candidate)),
    }
    assert imported.main(given | knobs, path / "results") == code
    return (path / "results/imported/x/report.md").read_text()


def rows(baseline=LOGS / "baseline.log", candidate=LOGS / "candidate.log"):
    """Return the rows of the table by metric and query type."""
    found = imported.rows({"baseline": read_log(baseline), "candidate": read_log(candidate)})
    return {(row["metric"], row["query_type"]): row for row in found}


def test_the_figures_are_those_of_the_log():
    """Rates, times, CPU and memory as TSBS and the server printed them; percentiles it did not print are not there."""
    found = rows()
    rate = re.search(r"mean rate ([\d.]+) metrics/sec", BASELINE)[1]
    assert found["load_rate", ""]["baseline_median"] == float(rate)
    for metric, name in (
        ("load_cpu_user_seconds", "cpu_seconds_user_total"), ("load_cpu_seconds", "cpu_seconds_total"),
        ("load_rss_end_bytes", "resident_memory_bytes"), ("load_rss_peak_bytes", "resident_memory_peak_bytes"),
        ("load_io_read_bytes", "io_read_bytes_total"), ("load_io_written_bytes", "io_written_bytes_total"),
    ):  # fmt: skip
        for side, log in (("baseline", BASELINE), ("candidate", CANDIDATE)):
            printed = float(re.search(rf"^process_{name} (\S+)", log, re.MULTILINE)[1])
            assert found[metric, ""][f"{side}_median"] == pytest.approx(printed)
    for query_type in TYPES:
        after = CANDIDATE.split(f"make tsbs-run-queries TSBS_QUERY_TYPE={query_type}")[1]
        printed = re.search(r"Run complete after 200 queries .*Overall query rate ([\d.]+)", after)[1]
        assert found["query_rate", query_type]["candidate_median"] == float(printed)
    means = [found["query_mean_ms", query_type]["change_pct"] for query_type in TYPES]
    assert min(means) < found["query_mean_ms", "geomean"]["change_pct"] < max(means)
    assert {metric for metric, _ in found} == set(imported.SHOWN)


def test_a_table_a_picture_and_no_verdict(tmp_path, capsys):
    """In the report, in its page, and in the terminal; the logs lie beside them as they were.

    What a log cannot show neither passes nor fails; the samples are those that tsbs_generate_data was asked for.
    """
    assert imported.samples_asked(read_log(LOGS / "baseline.log").flags) == 400 * 1080 * 10
    found, printed = reported(tmp_path), capsys.readouterr().out
    out = tmp_path / "results/imported/x"
    for text, pattern in (
        (found, "^# my branch against v1\\.132\\.0$"),
        (found, r"^> \*\*One run each: no verdict\.\*\*"),
        (found, r"\*\*Ingestion rate\*\*.* [\d.]+ % (faster|slower), one run each: no verdict$"),
        (found, r"\| Ingestion rate +\| samples/s +\| +[\d,]+ \| +[\d,]+ \| +[+-][\d.]+ \|"),
        (found, r"\| Peak memory until the end of the load \(process_resident_memory_peak_bytes\) "),
        (found, r"- `logs/baseline\.log`: 4,320,000 samples \(`--use-case=cpu-only --seed=8428 --scale=400 "),
        (found, r"\]\(plots/load-rate\.svg\)"),
        (found, "Only what a log shows was checked"),
        ((out / "report.html").read_text(), "<svg "),
        (printed, r"^Ingestion rate +samples/s +[\d,]+ +[\d,]+ +[+-][\d.]+$"),
        (printed, r"One run each: no verdict\."),
        (printed, f"Report: {out}/report\\.md"),
    ):
        assert re.search(pattern, text, re.MULTILINE), pattern
    assert "A check failed" not in found
    for side in ("baseline", "candidate"):
        assert (out / f"logs/{side}.log").read_bytes() == (LOGS / f"{side}.log").read_bytes()


def test_names_come_from_knobs_or_files(tmp_path):
    """BASELINE= and CANDIDATE= say what to call the sides, and the command repeats it; two of a name are told apart."""
    found = reported(tmp_path / "named", BASELINE="v1.126.0", CANDIDATE="pt-index <b>")
    assert "pt-index &lt;b&gt; against v1.126.0" in found
    assert "BASELINE=v1.126.0 'CANDIDATE=pt-index <b>'\n" in found
    assert "# x (candidate) against x (baseline)\n" in reported(tmp_path / "same", BASELINE="x", CANDIDATE="x")


NOISE = """\
burn-in complete after 10 queries with 2 workers
After 100 queries with 2 workers:
min:     9.99ms, med:     9.99ms, mean:     9.99ms, max:    9.99ms, stddev:     9.99ms, sum:   1.7sec, count: 9

Run complete"""
QUIET = sub(r"^(make|cat|test|curl|\t).*\n", "")
FORMS = {
    # As newer builds of TSBS word it; the recorded logs are of the pinned one.
    "samples": sub(r"^(time,|loaded ).*", lambda found: found[0].replace("metric", "sample")),
    "crlf": BASELINE.replace("\n", "\r\n"),
    "colours": "\x1b]0;a window's title\x07" + sub(r"^(make.*|Summary:)$", "\x1b[01;32m\\1\x1b[0m"),
    "progress": sub(r"^(Run complete|loaded)", r"  12 %\r  99 %\r\1"),
    "without make's lines": QUIET,
    "noise": BASELINE.replace("Run complete", NOISE),
    "other lines in the load": sub(r"^(\d{10},.*\n)", "goroutine says hello\n\\1", count=3),
    "no newline at the end": BASELINE.rstrip("\n"),
    "a scale that looks like a year": BASELINE.replace("-400-2025", "-2025-2025"),
    "only the names of files": sub(r"^make tsbs-run.*\n", ""),
    "labelled metrics": sub(r"^(process_\w+) ", r'\1{instance="a"} '),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_log_in_other_clothes(tmp_path, form):
    """Wording, line ends, colours, make's lines and noise change no figure and no name."""
    plain = read_log(written(tmp_path / "plain.log", BASELINE))
    other = read_log(written(tmp_path / "other.log", FORMS[form]))
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
    log = sub(r"^VictoriaMetrics 1 cpu metric.*$", label, QUIET)
    assert next(iter(read_log(written(tmp_path / "a.log", log)).queries)) == query_type


def test_a_type_of_one_side_only(tmp_path):
    """It is not comparable, and the report says where it was begun."""
    # Its summary is cut out, as if it had been interrupted.
    cut = r"(make tsbs-run-queries TSBS_QUERY_TYPE=cpu-max-all-8)[\s\S]*?(wall clock time:.*\n)"
    found = reported(tmp_path, candidate=sub(cut, r"\1\n", CANDIDATE))
    assert re.search(r"my branch\.log:\d+: cpu-max-all-8 was started and did not finish", found)
    assert "- cpu-max-all-8 exists in v1.132.0 only: it is shown, and not compared." in found
    of = rows(candidate=tmp_path / "my branch.log")
    assert of["query_mean_ms", "cpu-max-all-8"]["change_pct"] is None
    assert of["query_mean_ms", "double-groupby-1"]["change_pct"] is not None


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda log: log.partition("make tsbs-generate-queries")[0], id="a load without queries"),
        pytest.param(lambda log: sub(r"^\d{10},.*\n", "", log), id="a load shorter than a period, which has no clock"),
    ],
)
def test_a_short_log_is_enough_for_the_load(tmp_path, cut):
    """There is its rate, and a picture; queries only if there were some."""
    logs = [cut(log) for log in (BASELINE, CANDIDATE)]
    found = reported(tmp_path, *logs)
    assert "**Ingestion rate**: " in found
    assert "![Ingestion rate over time" in found
    assert ("Query rate" in found) == ("Run complete" in logs[0])


def test_other_loads_are_a_failed_check(tmp_path, capsys):
    """Loads of different size compare nothing; without make's lines the baseline's number is what is expected."""
    half = CANDIDATE.replace("loaded 4320000", "loaded 2160000")
    sentence = "> my branch: the loader sent 2160000 samples, and 4320000 were expected."
    found = reported(tmp_path / "asked", candidate=half, code=4)
    assert sentence in found
    assert "A check failed: these figures are of no use." in found
    assert "**Ingestion**" not in found
    assert capsys.readouterr().err == "tsduel: 1 check failed: exit code 4\n"
    quiet = [re.sub(r"--scale=\S+", "", log) for log in (BASELINE, half)]
    assert sentence in reported(tmp_path / "quiet", *quiet, code=4)


def test_a_use_case_whose_samples_are_not_known_is_no_check(tmp_path):
    """Both loads are alike, and nothing says how many samples they should have."""
    other = [log.replace("use-case=cpu-only", "use-case=devops") for log in (BASELINE, CANDIDATE)]
    assert all("devops" in log for log in other)
    assert "samples, and" not in reported(tmp_path, *other)


def test_what_differs_is_said(tmp_path):
    """Other windows, workers and counts of queries, and what make said, are warnings."""
    other = CANDIDATE.replace("--timestamp-start=2025-06-10", "--timestamp-start=2025-06-09")
    other = other.replace("Run complete after 200 queries with 2", "Run complete after 100 queries with 4", 1)
    other = re.sub(r"(loaded \d+ metrics .* with) 2 workers", r"\1 4 workers", other)
    other += "make[1]: *** [Makefile:52: tsbs-run-queries] Error 2\n"
    found = reported(tmp_path, candidate=other)
    assert "- --timestamp-start differs: 2025-06-10T00:00:00Z and 2025-06-09T00:00:00Z" in found
    assert "- the loads had 2 and 4 workers" in found
    assert (
        "single-groupby-1-1-1 is not the same on both sides: 'Run complete after 200 queries with 2 workers'" in found
    )
    assert re.search(r"- my branch\.log:\d+: make says: make.*Makefile:52: tsbs-run-queries.* Error 2\.", found)
    assert re.search(r"- Phases under 5 s, with figures that scatter: .*cpu-max-all-8 \(0.\d+ s\)", found)


def test_retries_that_a_log_shows_fail_the_check(tmp_path):
    """What the loader said in between is shown, and makes its figures of no use."""
    said = "2026/11/20 14:00:00 server returned HTTP status 503. Retrying\n"
    found = reported(tmp_path, candidate=CANDIDATE.replace("\r\n\r\nSummary:", f"\r\n{said}\r\nSummary:"), code=4)
    assert "> my branch: the loader complained on 1 line, the first: 2026/11/20 14:00:00 server returned HTTP" in found


def line_of(log, begin):
    """Return the number of the first line that begins so."""
    return next(n for n, line in enumerate(log.split("\n"), start=1) if line.startswith(begin))


HEADER = line_of(BASELINE, "time,per.")
WRONG = {
    "empty": ("", r": the file is empty"),
    "blank": (" \n\n", r": the file is empty"),
    "binary": ("one\ntwo\n\x7fELF\0\0", r":3: it has bytes of 0"),
    "another tool": ("BenchmarkX-8 100 1 ns/op\n", r":1: no load in it.*begins 'BenchmarkX-8 100 1 ns/op'"),
    "queries only": (BASELINE[BASELINE.index("make tsbs-run") :], r":1: no load in it"),
    "cut in the load": (
        "".join(BASELINE.splitlines(keepends=True)[: HEADER + 3]),
        rf":{HEADER + 3}: the load ends here without 'loaded N metrics in S sec': the log is cut short",
    ),
    "cut in a summary": (
        BASELINE[: BASELINE.index("min:")], rf":{line_of(BASELINE, 'min:')}: no line 'min: ... mean: ... count:'",
    ),
    "two loads": (
        BASELINE + BASELINE,
        rf":{HEADER + BASELINE.count(chr(10))}: a second load begins \(the first on line {HEADER}\)",
    ),
    "queries again": (
        BASELINE + BASELINE[BASELINE.index("make tsbs-run") :],
        r":\d+: a second summary of single-groupby-1-1-1: one log, one run of each type",
    ),
    "decimal commas in /metrics": (
        sub(r"^(process_cpu_seconds_total \d+)\.", r"\1,"),
        r":\d+: process_cpu_seconds_total is '\d+,\d+', not a number",
    ),
    "no number in /metrics": (
        sub(r"^(process_cpu_seconds_total) .*", r"\1 NaN"), r":\d+: process_cpu_seconds_total is 'NaN', not a number",
    ),
    "two points in a number": (
        sub(r"(?<=mean: )( +)(\d+)\.", r"\1\2.1."), r":\d+: no line 'min: ... mean: ... count:'",
    ),
    "decimal commas in a query": (
        sub(r"(?<=mean: )( +\d+)\.", r"\1,"), r":\d+: no line 'min: ... mean: ... count:'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_log_is_a_sentence(tmp_path, case):
    """File, line and what is wrong there; nothing is written."""
    log, sentence = WRONG[case]
    with pytest.raises(UserError, match=r"v1\.132\.0\.log" + sentence):
        reported(tmp_path, baseline=log)
    assert not (tmp_path / "results").exists()


def test_a_wrong_file_is_a_sentence(tmp_path):
    """Missing, a directory, packed, the same twice, not given, a run that is there."""
    log, packed, results = written(tmp_path / "a.log", BASELINE), tmp_path / "a.log.zst", tmp_path / "results"
    packed.write_bytes(b"\x28\xb5\x2f\xfd")
    for baseline, candidate, sentence in (
        ("", log, "BASELINE_LOG is not given: make import BASELINE_LOG=a.log CANDIDATE_LOG=b.log"),
        (log, "", "CANDIDATE_LOG is not given"),
        (log, tmp_path / "no", "no: No such file or directory"),
        (log, tmp_path, "Is a directory"),
        (log, packed, "it is packed with zstd; unpack it, or pack it with gzip"),
        (log, log, "are the same file"),
    ):
        with pytest.raises(UserError, match=re.escape(sentence)):
            imported.main({"RUN": "x", "BASELINE_LOG": str(baseline), "CANDIDATE_LOG": str(candidate)}, results)
    (results / "imported/x").mkdir(parents=True)
    with pytest.raises(UserError, match="is there already"):
        imported.main({"RUN": "x", "BASELINE_LOG": str(log), "CANDIDATE_LOG": str(log)}, results)


def test_a_report_without_a_name_has_the_time_of_day(tmp_path, capsys):
    """So that a second one has another directory than the first."""
    logs = {"BASELINE_LOG": str(LOGS / "baseline.log"), "CANDIDATE_LOG": str(LOGS / "candidate.log")}
    imported.main(logs, tmp_path / "results")
    (made,) = (tmp_path / "results/imported").iterdir()
    assert re.fullmatch(r"\d{8}T\d{6}Z-import", made.name)
    assert str(made) in capsys.readouterr().out


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


def test_plot_load_of_four_lines_a_second(tmp_path):
    """The clock has whole seconds, so lines of a second share it."""
    lines = [f"{clock},1000,{total},1000,-,-,-" for total, clock in enumerate([100] * 3 + [101] * 4 + [102] * 3)]
    path = tmp_path / "load.csv"
    path.write_text("\n".join(["time,per. metric/s,metric total,overall metric/s,-,-,-", *lines]) + "\n")
    load, _ = plot_load.read_load(path, plot_load.read_lines(path))
    assert list(plot_load.curves({"load": load})["elapsed_s"]) == [0.25 * n for n in range(1, 11)]


def test_plot_load_of_a_clock_that_stepped(tmp_path):
    """From 1970 to 2025: a curve of years has no more points than a picture has."""
    lines = [f"{clock},1000,{total},1000,-,-,-" for total, clock in enumerate([1, 2, 3, 1_749_513_600])]
    path = tmp_path / "load.csv"
    path.write_text("\n".join(["time,per. metric/s,metric total,overall metric/s,-,-,-", *lines]) + "\n")
    load, _ = plot_load.read_load(path, plot_load.read_lines(path))
    (curve,) = by_block(plot_load.curves({"load": load}), "load")
    assert len(median_curve([curve])[0]) <= 5002


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
