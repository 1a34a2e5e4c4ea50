"""What TSBS prints, as it really prints it, and what is left of it when it dies."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsduel.core.errors import UserError
from tsduel.workloads.tsbs.output import (
    LoadInterval,
    LoadOutput,
    LoadResults,
    QueryOutput,
    TsbsFormatError,
    parse_load_json,
    parse_load_stdout,
    parse_query_json,
    parse_query_stdout,
    precise_mean_ms,
    together,
)

HEADER = "time,per. metric/s,metric total,overall metric/s,per. row/s,row total,overall row/s"
LOAD = f"""{HEADER}
1795184643,0.00,0.000000E+00,0.00,-,-,-
1795184644,400001.97,4.000000E+05,199385.99,40000.20,4.000000E+04,19938.60
1795184645,199999.91,6.000000E+05,199590.21,19999.99,6.000000E+04,19959.02

Summary:
loaded 1080000 metrics in 3.370sec with 2 workers (mean rate 320431.26 metrics/sec)
loaded 108000 rows in 3.370sec with 2 workers (mean rate 32043.13 rows/sec)
Saving results json file to load.json
"""
QUERY = """Run complete after 500 queries with 2 workers (Overall query rate 969.06 queries/sec):
VictoriaMetrics max of all CPU metrics, random    1 hosts, random 8h0m0s by 1h:
min:     0.57ms, med:     1.80ms, mean:     2.06ms, max:    7.96ms, stddev:     1.18ms, sum:   1.0sec, count: 500
all queries                                                                   :
min:     0.57ms, med:     1.80ms, mean:     2.06ms, max:    7.96ms, stddev:     1.18ms, sum:   1.0sec, count: 500
wall clock time: 0.524847sec
"""
LOAD_JSON = {
    "RunnerConfig": {"batch-size": 10000, "workers": 2, "reporting-period": 1000000000},
    "StartTime": 1795184642,
    "EndTime": 1795184645,
    "DurationMillis": 3370,
    "Totals": {"metricRate": 320431.25508678687, "rowRate": 32043.125508678684},
}
QUERY_JSON = {
    "RunnerConfig": {"Workers": 2},
    "StartTime": 1795184647000,
    "EndTime": 1795184650000,
    "DurationMillis": 2327,
    "Totals": {
        "overallQuantiles": {"all_queries": {"q0": 0, "q50": 8.634, "q95": 15.529, "q99": 20.36}},
        "overallQueryRates": {"VictoriaMetrics_mean": 214.9, "all_queries": 214.96},
    },
}


def test_load_stdout():
    """A real loader's stdout gives its intervals and its summary."""
    found = parse_load_stdout(LOAD)
    assert found.intervals[1:] == (
        LoadInterval(1795184644, 400001.97, 400000.0),
        LoadInterval(1795184645, 199999.91, 600000.0),
    )
    assert (found.samples, found.seconds, found.rate, found.workers) == (1080000, 3.37, 320431.26, 2)


def test_loads_of_several_clients_are_added():
    """From the first begin to the last end; interval by interval, what ended early with its rest in the next one."""
    long = LoadOutput(tuple(LoadInterval(100 + i, 10.0, 10.0 * (i + 1)) for i in range(3)), 35, 3.4, 10.3, 2)
    short = LoadOutput((LoadInterval(7, 20.0, 20.0),), 24, 1.3, 18.5, 2)
    timed = [LoadResults(3.4, 10.3, 1.0), LoadResults(1.3, 18.5, 1.0)]
    load, results = together([long, short], timed, [0.004, 0.002])
    assert load.intervals == (
        LoadInterval(100, 30.0, 30.0), LoadInterval(101, 14.0, 44.0), LoadInterval(102, 10.0, 54.0)
    )  # fmt: skip
    assert (load.samples, load.workers) == (59, 4)
    assert load.seconds == results.seconds == pytest.approx(3.402)
    assert load.rate == results.rate == pytest.approx(59 / 3.402)
    # One alone is as it was; where one said nothing, nothing is known of all.
    assert together([long], timed[:1], []) == (long, timed[0])
    assert together([long, None], [timed[0], None], [0.0, 0.0]) == (None, None)


NEWER = LOAD.replace("metric/s", "sample/s").replace("metric total", "sample total").replace(" metrics", " samples")
NOISY = "make: Entering directory '/x'\ncat F | tsbs_load\n" + LOAD.replace("\n", "\r\n") + "make: Leaving\n"


@pytest.mark.parametrize("text", [NEWER.replace("metrics/sec", "samples/sec"), NOISY])
def test_other_words_and_a_terminals_lines_change_nothing(text):
    """Builds that say samples for metrics, make's lines around the CSV, a terminal's carriage returns."""
    assert parse_load_stdout(text) == parse_load_stdout(LOAD)


def test_periods_without_an_acknowledgement_count():
    """A `-,-,-` line is a period in which nothing was acknowledged: it takes its time."""
    text = f"{HEADER}\n1795184643,-,-,-,-,-,-\n1795184644,10.0,1.000000E+01,5.0,-,-,-\n"
    assert parse_load_stdout(text).intervals == (LoadInterval(1795184643, 0, 0), LoadInterval(1795184644, 10, 10))


def test_killed_loader_has_no_summary():
    """A loader that was killed leaves intervals, and no total that could be taken for the truth."""
    found = parse_load_stdout("\n".join(LOAD.splitlines()[:3]))
    assert len(found.intervals) == 2
    assert found.samples is None
    assert parse_load_stdout("").samples is None


def test_empty_input_loads_nothing():
    """Empty input is exit 0 with 0 samples and no line for rows."""
    none = "loaded 0 metrics in 0.001sec with 2 workers (mean rate 0.00 metrics/sec)"
    assert parse_load_stdout(f"{HEADER}\n\nSummary:\n{none}\n") == LoadOutput((), 0, 0.001, 0.0, 2)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f"{HEADER}\n1795184643,1,2\n", "load.csv:2: 3 columns"),
        (f"{HEADER}\n1795184643,x,1,1,1,1,1\n", "load.csv:2: not a number"),
        (LOAD.replace("in 3.370sec", "in three sec"), "load.csv:7: not a summary line"),
    ],
)
def test_load_errors_name_file_and_line(text, where):
    """A line that is no loader's line is named."""
    with pytest.raises(TsbsFormatError, match=where):
        parse_load_stdout(text, "load.csv")


def test_query_stdout():
    """The statistics over all queries are read."""
    found = parse_query_stdout(QUERY)
    assert found == QueryOutput(500, 969.06, 0.57, 1.80, 2.06, 7.96, 1.18, 1.0, 0.524847)


def test_query_stdout_without_queries_or_without_end():
    """No query answered is a count of 0; a client that panicked is an error with its file."""
    head = "Run complete after 0 queries with 2 workers (Overall query rate 0.00 queries/sec):\n"
    assert parse_query_stdout(head).count == 0
    with pytest.raises(TsbsFormatError, match=r"x\.stdout:3: .* did not finish"):
        parse_query_stdout("panic: query error\ngoroutine 1\n", "x.stdout")


def test_the_less_rounded_mean_is_taken():
    """Long phases take the mean from the sum, short ones from the printed mean."""
    short = parse_query_stdout(QUERY)
    assert precise_mean_ms(short) == 2.06
    long = QueryOutput(100_000, 1.0, 0.1, 0.3, 0.31, 9.0, 0.1, 31.4, 8.0)
    assert precise_mean_ms(long) == pytest.approx(0.314)
    assert precise_mean_ms(QueryOutput(0, 0, 0, 0, 0, 0, 0, 0, None)) is None


def test_results_files():
    """Milliseconds come out as seconds, quantiles stay in milliseconds."""
    load, query = parse_load_json(json.dumps(LOAD_JSON)), parse_query_json(json.dumps(QUERY_JSON))
    assert (load.seconds, load.rate, load.period_s) == (3.37, 320431.25508678687, 1.0)
    assert (query.seconds, query.rate, query.quantiles_ms["q99"]) == (2.327, 214.96, 20.36)


@pytest.mark.parametrize("parse", [parse_load_json, parse_query_json])
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"Totals": null}', "null"])
def test_broken_results_files_name_the_file(parse, text):
    """A cut or foreign results file is a sentence with the file and a line."""
    with pytest.raises(UserError, match=r"^round/some\.json:1: "):
        parse(text, "round/some.json")


@settings(max_examples=30)
@given(st.text(max_size=200))
def test_any_text_gives_a_record_or_a_sentence(text):
    """No input makes a parser crash."""
    for parse in (parse_load_stdout, parse_query_stdout, parse_load_json, parse_query_json):
        with contextlib.suppress(UserError):
            parse(text)
