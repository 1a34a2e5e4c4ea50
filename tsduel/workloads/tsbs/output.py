"""Parsers of the output of TSBS's commands: pure functions from text to records.

Every parser takes the text and the name of its file, and raises `TsbsFormatError` with file and line. The formats are
those of TSBS 37fced794d56 and of real runs. Newer builds say "samples", older ones "metrics"; both are accepted.
Carriage returns of terminal logs are ignored.
"""

import re
from dataclasses import dataclass

from tsduel.core.errors import UserError

CSV_COLUMNS = 7
_CSV_HEADER = re.compile(r"^time,per\. (?:metric|sample)/s,")
_CSV_LINE = re.compile(r"^\d+,")
_LOADED = re.compile(
    r"^loaded (?P<total>\d+) (?P<what>metrics|samples|rows) in (?P<seconds>\d+(?:\.\d+)?)\s?sec"
    r" with (?P<workers>\d+) workers \(mean rate (?P<rate>\d+(?:\.\d+)?) (?:metrics|samples|rows)/sec\)"
)
_QUERY_HEAD = re.compile(
    r"^Run complete after (?P<count>\d+) queries with (?P<workers>\d+) workers"
    r" \(Overall query rate (?P<rate>\d+(?:\.\d+)?) queries/sec\)"
)
_QUERY_STATS = re.compile(
    r"^min:\s*(?P<min_ms>\d+(?:\.\d+)?)ms, med:\s*(?P<median_ms>\d+(?:\.\d+)?)ms, mean:\s*(?P<mean_ms>\d+(?:\.\d+)?)ms,"
    r" max:\s*(?P<max_ms>\d+(?:\.\d+)?)ms, stddev:\s*(?P<stddev_ms>\d+(?:\.\d+)?)ms,"
    r" sum:\s*(?P<sum_s>\d+(?:\.\d+)?)\s?sec, count:\s*(\d+)"
)
# Of ECMA-48: control sequences (colours), and operating system commands (window titles).
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[]_^PX][^\x07\x1b]*(?:\x07|\x1b\\))")
_WALL = re.compile(r"^wall clock time: (?P<seconds>\d+(?:\.\d+)?)\s?sec")


class TsbsFormatError(UserError):
    """A text does not have TSBS's format; the message starts with file:line."""

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
    """The loader's stdout. `samples` is None if the loader died before its summary."""

    intervals: tuple[LoadInterval, ...]
    samples: int | None = None
    seconds: float | None = None
    rate: float | None = None
    workers: int | None = None


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


def visible_lines(text: str) -> list[str]:
    """Return the lines as a terminal shows them: without colours, and without the text before a carriage return."""
    return [line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).split("\n")]


def parse_load_stdout(text: str, file: str = "load.csv") -> LoadOutput:
    """Read the loader's whole stdout: CSV lines, then a summary, which is missing when the loader died.

    In a period without an acknowledged batch the loader writes `-` in place of numbers. Lines around the CSV are
    skipped (make's own lines, "Saving results json file").
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
    seconds, rate = float(samples["seconds"]), float(samples["rate"])
    return LoadOutput(tuple(intervals), int(samples["total"]), seconds, rate, int(samples["workers"]))


def _interval(line: str, file: str, number: int) -> LoadInterval:
    fields = line.split(",")
    if len(fields) != CSV_COLUMNS:
        raise TsbsFormatError(file, number, f"{len(fields)} columns where a TSBS loader writes {CSV_COLUMNS}: {line!r}")
    clock, rate, total = fields[:3]
    try:
        measured = "-" not in {rate, total}
        return LoadInterval(int(clock), float(rate) if measured else 0.0, float(total) if measured else 0.0)
    except ValueError:
        raise TsbsFormatError(file, number, f"not a number in {line!r}") from None


def parse_query_stdout(text: str, file: str = "query.stdout") -> QueryOutput:
    """Read the summary of run_queries; the last statistics line is of all queries together."""
    head = stats = wall = None
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
    times = {name: float(value) for name, value in stats.groupdict().items()}
    wall_s = float(wall["seconds"]) if wall else None
    return QueryOutput(count=int(stats[7]), rate=float(head["rate"]), wall_s=wall_s, **times)


def precise_mean_ms(output: QueryOutput) -> float | None:
    """Return the mean service time in ms, from TSBS's mean or its sum, whichever has the smaller rounding error.

    The mean is printed to 0.01 ms, which is 3 % of a 0.3 ms query; the sum to 0.1 s, which is 0.1 % of a phase of
    15 s with 4 workers.
    """
    if output.count == 0:
        return None
    sum_error = 0.05 / output.sum_s if output.sum_s else 1.0
    mean_error = 0.005 / output.mean_ms if output.mean_ms else 1.0
    return output.sum_s * 1000 / output.count if sum_error < mean_error else output.mean_ms
