"""Parsers of what the TSBS commands print: pure functions from text to records.

Every parser takes the text and the name of the file it came from, and raises `TsbsFormatError` with file and line.
The formats were read from TSBS 37fced794d56 and recorded from real runs. Newer builds say "samples" where older ones
say "metrics"; both are accepted. Terminal logs carry carriage returns; they are ignored.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tsduel.core.errors import UserError

CSV_COLUMNS = 7
_CSV_HEADER = re.compile(r"^time,per\. (?:metric|sample)/s,")
_CSV_LINE = re.compile(r"^\d+,")
_LOADED = re.compile(
    r"^loaded (?P<total>\d+) (?P<what>metrics|samples|rows) in (?P<seconds>[\d.]+)\s?sec"
    r" with (?P<workers>\d+) workers \(mean rate (?P<rate>[\d.]+) (?:metrics|samples|rows)/sec\)"
)
_QUERY_HEAD = re.compile(
    r"^Run complete after (?P<count>\d+) queries with (?P<workers>\d+) workers"
    r" \(Overall query rate (?P<rate>[\d.]+) queries/sec\)"
)
_QUERY_STATS = re.compile(
    r"^min:\s*(?P<min>[\d.]+)ms, med:\s*(?P<med>[\d.]+)ms, mean:\s*(?P<mean>[\d.]+)ms,"
    r" max:\s*(?P<max>[\d.]+)ms, stddev:\s*(?P<stddev>[\d.]+)ms,"
    r" sum:\s*(?P<sum>[\d.]+)\s?sec, count:\s*(?P<count>\d+)"
)
# Of ECMA-48: control sequences (colours), and operating system commands (window titles).
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_WALL = re.compile(r"^wall clock time: (?P<seconds>[\d.]+)\s?sec")


class TsbsFormatError(UserError):
    """Something TSBS wrote does not look like what TSBS writes; the message starts with file:line."""

    def __init__(self, file: str, line: int, what: str) -> None:
        super().__init__(f"{file}:{line}: {what}")


@dataclass(frozen=True)
class LoadInterval:
    """One line of the loader's CSV: `clock` in epoch seconds, samples acknowledged in the period and so far."""

    clock: int
    rate: float
    total: float


@dataclass(frozen=True)
class LoadOutput:
    """The loader's stdout. `samples` is None where the loader died before its summary."""

    intervals: tuple[LoadInterval, ...]
    samples: int | None = None
    seconds: float | None = None
    rate: float | None = None
    workers: int | None = None


@dataclass(frozen=True)
class LoadResults:
    """The loader's --results-file: seconds, samples/s, and the seconds of a reporting period."""

    seconds: float
    rate: float
    period_s: float


@dataclass(frozen=True)
class QueryOutput:
    """The stdout of run_queries over all its queries; times in ms but `sum_s` and `wall_s`."""

    count: int
    rate: float
    min_ms: float
    median_ms: float
    mean_ms: float
    max_ms: float
    stddev_ms: float
    sum_s: float
    wall_s: float | None


@dataclass(frozen=True)
class QueryResults:
    """The --results-file of run_queries, over all its queries: seconds, queries/s, quantiles in ms ("q50" ...)."""

    seconds: float
    rate: float
    quantiles_ms: dict[str, float]


def visible_lines(text: str) -> list[str]:
    """Return the lines as a terminal shows them: without colours, and what follows the last carriage return."""
    return [line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).split("\n")]


def parse_load_stdout(text: str, file: str = "load.csv") -> LoadOutput:
    """Read the loader's whole stdout: CSV lines, then a summary, which is missing when the loader died.

    Lines before the first acknowledged batch hold `-` in place of numbers: nothing was acknowledged in that period.
    Whatever surrounds the CSV is skipped (make's own lines, "Saving results json file").
    """
    intervals: list[LoadInterval] = []
    samples: re.Match[str] | None = None
    in_csv = False
    for number, line in enumerate(visible_lines(text), start=1):
        if _CSV_HEADER.match(line):
            in_csv = True
        elif in_csv and _CSV_LINE.match(line):
            intervals.append(_interval(line, file, number))
        elif line.startswith("Summary:"):
            in_csv = False
        elif line.startswith("loaded "):
            match = _LOADED.match(line)
            if match is None:
                raise TsbsFormatError(file, number, f"not a summary line of a TSBS loader: {line!r}")
            samples = samples if match["what"] == "rows" else match
    if samples is None:
        return LoadOutput(tuple(intervals))
    return LoadOutput(
        intervals=tuple(intervals),
        samples=int(samples["total"]),
        seconds=float(samples["seconds"]),
        rate=float(samples["rate"]),
        workers=int(samples["workers"]),
    )


def _interval(line: str, file: str, number: int) -> LoadInterval:
    fields = line.split(",")
    if len(fields) != CSV_COLUMNS:
        raise TsbsFormatError(file, number, f"{len(fields)} columns where a TSBS loader writes {CSV_COLUMNS}: {line!r}")
    clock, rate, total = fields[0], fields[1], fields[2]
    try:
        if rate == "-" or total == "-":
            return LoadInterval(int(clock), 0.0, 0.0)
        return LoadInterval(int(clock), float(rate), float(total))
    except ValueError:
        raise TsbsFormatError(file, number, f"not a number in {line!r}") from None


def parse_query_stdout(text: str, file: str = "query.stdout") -> QueryOutput:
    """Read the summary of run_queries; the last statistics line is the one over all queries."""
    head: re.Match[str] | None = None
    stats: re.Match[str] | None = None
    wall: re.Match[str] | None = None
    lines = visible_lines(text)
    for line in lines:
        head = _QUERY_HEAD.match(line) or head
        stats = _QUERY_STATS.match(line) or stats
        wall = _WALL.match(line) or wall
    if head is None:
        raise TsbsFormatError(file, len(lines), "no line 'Run complete after N queries': run_queries did not finish")
    if stats is None:
        if int(head["count"]) == 0:
            return QueryOutput(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None)
        raise TsbsFormatError(file, len(lines), "no line 'min: ... mean: ... count:' after the summary's head")
    return QueryOutput(
        count=int(stats["count"]),
        rate=float(head["rate"]),
        min_ms=float(stats["min"]),
        median_ms=float(stats["med"]),
        mean_ms=float(stats["mean"]),
        max_ms=float(stats["max"]),
        stddev_ms=float(stats["stddev"]),
        sum_s=float(stats["sum"]),
        wall_s=float(wall["seconds"]) if wall else None,
    )


def precise_mean_ms(output: QueryOutput) -> float | None:
    """Mean service time in ms, from whichever of TSBS' two rounded figures is the less rounded.

    The mean is printed to 0.01 ms, which is 3 % of a 0.3 ms query; the sum to 0.1 s, which is 0.1 % of a phase of
    15 s with 4 workers.
    """
    if output.count == 0:
        return None
    by_sum = output.sum_s * 1000 / output.count
    sum_error = 0.05 / output.sum_s if output.sum_s else 1.0
    mean_error = 0.005 / output.mean_ms if output.mean_ms else 1.0
    return by_sum if sum_error < mean_error else output.mean_ms


def parse_load_json(text: str, file: str = "load.json") -> LoadResults:
    """Read the loader's results file."""
    found = _json(text, file)
    try:
        return LoadResults(
            seconds=found["DurationMillis"] / 1000,
            rate=float(found["Totals"]["metricRate"]),
            period_s=found["RunnerConfig"]["reporting-period"] / 1e9,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TsbsFormatError(file, 1, f"not a results file of a TSBS loader: {error!r} is missing or wrong") from None


def together(
    loads: Sequence[LoadOutput | None], results: Sequence[LoadResults | None], began_s: Sequence[float]
) -> tuple[LoadOutput | None, LoadResults | None]:
    """Add up what the loaders of several clients said, each with its own part of the data; of one as it is.

    `began_s`: when each began, in seconds, on one clock. The load takes from the first begin to the last end, and its
    rate is all samples over that. Curves are added interval by interval, since all began within milliseconds.
    """
    if not began_s:
        return loads[0], results[0]
    found = [one for one in loads if one is not None and one.samples is not None]
    timed = [one for one in results if one is not None]
    if len(found) < len(loads) or len(timed) < len(results):
        return None, None
    ends = [began + one.seconds for began, one in zip(began_s, timed, strict=True)]
    seconds, samples, period_s = max(ends) - min(began_s), sum(one.samples or 0 for one in found), timed[0].period_s
    clocks = max((one.intervals for one in found), key=len)
    curves = [_lasting(one, len(clocks), period_s) for one in found]
    intervals = tuple(
        LoadInterval(of.clock, sum(rate for rate, _ in points), sum(total for _, total in points))
        for of, *points in zip(clocks, *curves, strict=True)
    )
    workers = sum(one.workers or 0 for one in found)
    rate = samples / seconds
    return LoadOutput(intervals, samples, seconds, rate, workers), LoadResults(seconds, rate, period_s)


def _lasting(load: LoadOutput, count: int, period_s: float) -> list[tuple[float, float]]:
    """Return rate and total of so many intervals: of a load that ended before, its rest in the next, then nothing."""
    points, sent = [(one.rate, one.total) for one in load.intervals], float(load.samples or 0)
    rest = max(sent - (points[-1][1] if points else 0.0), 0.0)
    return [*points, (rest / period_s, sent), *[(0.0, sent)] * count][:count]


def parse_query_json(text: str, file: str = "query.json") -> QueryResults:
    """Read the results file of run_queries."""
    found = _json(text, file)
    try:
        totals = found["Totals"]
        return QueryResults(
            seconds=found["DurationMillis"] / 1000,
            rate=float(totals["overallQueryRates"]["all_queries"]),
            quantiles_ms={name: float(value) for name, value in totals["overallQuantiles"]["all_queries"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TsbsFormatError(file, 1, f"not a results file of run_queries: {error!r} is missing or wrong") from None


def _json(text: str, file: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TsbsFormatError(file, error.lineno, f"not JSON: {error.msg} (the file may be cut short)") from None
