"""What TSBS prints, as it really prints it, and what is left of it when it dies."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsduel.core.errors import UserError
from tsduel.workloads.tsbs.output import (
    LoadInterval,
    LoadOutput,
    QueryOutput,
    TsbsFormatError,
    parse_load_stdout,
    parse_query_stdout,
    precise_mean_ms,
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


def test_load_stdout():
    """A real loader's stdout gives its intervals and its summary."""
    found = parse_load_stdout(LOAD)
    assert found.intervals[1:] == (
        LoadInterval(1795184644, 400001.97, 400000.0),
        LoadInterval(1795184645, 199999.91, 600000.0),
    )
    assert (found.samples, found.seconds, found.rate, found.workers) == (1080000, 3.37, 320431.26, 2)


def test_periods_without_an_acknowledgement_count():
    """A `-,-,-` line is a period in which nothing was acknowledged: it takes its time."""
    text = f"{HEADER}\n1795184643,-,-,-,-,-,-\n1795184644,10.0,1.000000E+01,5.0,-,-,-\n"
    assert parse_load_stdout(text).intervals == (LoadInterval(1795184643, 0, 0), LoadInterval(1795184644, 10, 10))


def test_empty_input_loads_nothing():
    """Empty input is exit 0 with 0 samples and no line for rows; no text at all has no total."""
    none = "loaded 0 metrics in 0.001sec with 2 workers (mean rate 0.00 metrics/sec)"
    assert parse_load_stdout(f"{HEADER}\n\nSummary:\n{none}\n") == LoadOutput((), 0, 0.001, 0.0, 2)
    assert parse_load_stdout("").samples is None


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


@settings(max_examples=30)
@given(st.text(max_size=200))
def test_any_text_gives_a_record_or_a_sentence(text):
    """No input makes a parser crash."""
    for parse in (parse_load_stdout, parse_query_stdout):
        with contextlib.suppress(UserError):
            parse(text)
