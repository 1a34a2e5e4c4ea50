"""Terminal logs of `make tsbs` of VictoriaMetrics' benchmarks/Makefile -> the records of our parsers.

A log has one load (the loader's CSV and summary), process_* lines of /metrics, and the summaries of several query
types, between lines of make and of the terminal. Every error names file and line.
"""

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.workloads.tsbs import output
from tsduel.workloads.tsbs.output import LoadOutput, QueryOutput, TsbsFormatError

LARGEST = 64 << 20  # bytes; one line a second gives 10 MB a day
# The lines of /metrics that the Makefile prints after the load, by our names.
PROCESS = {
    "load_cpu_seconds": "process_cpu_seconds_total",
    "load_cpu_user_seconds": "process_cpu_seconds_user_total",
    "load_cpu_system_seconds": "process_cpu_seconds_system_total",
    "load_rss_end_bytes": "process_resident_memory_bytes",
    "load_rss_peak_bytes": "process_resident_memory_peak_bytes",
    "load_io_read_bytes": "process_io_read_bytes_total",
    "load_io_written_bytes": "process_io_written_bytes_total",
}
_HEADER = re.compile(r"time,per\. (?:metric|sample)/s,")
_AFTER_PREFIX = re.compile(r"(.{1,200}?)time,per\. (?:metric|sample)/s,per|(.{1,200}?)Run complete after \d+ queries")
# What changes from line to line in a prefix: numbers, and names of days and months.
_VARIES = re.compile(r"(\d+)|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|[A-Z][a-z]{2})\b|(\s+)")
_LOAD = re.compile(r"\d+,|Summary:|loaded ")
_PROCESS = re.compile(rf"({'|'.join(PROCESS.values())})(?:\{{[^}}]*\}})? (\S+)$")
_RUN = re.compile(r"run[-_]queries")
_TYPES = (
    re.compile(r"\bTSBS_QUERY_TYPE=([\w-]+)"),
    re.compile(r"tsbs-queries-([a-z][\w-]*)-\d+-\d{4}-\d\d-\d\dT\S*?-\d{4}-"),
)
_FLAG = re.compile(r"--(use-case|scale|seed|timestamp-start|timestamp-end|log-interval)=(\S+)")
_LABELS = (
    (re.compile(r"(\d+) cpu metric\(s\), random +(\d+) hosts, random (\d+)h"), "single-groupby-{}-{}-{}"),
    (re.compile(r"max of all CPU metrics, random +(\d+) hosts, random 8h"), "cpu-max-all-{}"),
    (re.compile(r"mean of 10 metrics, all hosts"), "double-groupby-all"),
    (re.compile(r"mean of (\d+) metrics, all hosts"), "double-groupby-{}"),
)


@dataclass
class Log:
    """A log. `heads`: the first words of each summary of queries, which say how many queries and workers there were.

    `complaints`: lines in which the loader says that it sends a batch again. `flags`: those of tsbs_generate_data, if
    make printed them. `notes`: sentences about doubtful lines.
    """

    path: Path
    load: LoadOutput
    complaints: list[str] = field(default_factory=list)
    process: dict[str, float] = field(default_factory=dict)
    queries: dict[str, QueryOutput] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_lines(path: Path) -> list[str]:
    """Return each line of a text file as a terminal would show it."""
    try:
        text = files.text_of(path, LARGEST, "replace")  # a terminal cuts letters into halves
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if not text.strip():
        raise UserError(f"{path}: the file is empty")
    if text[0] == "{" or "\n{" in text:
        text = "\n".join(_logged(line) if line[:1] == "{" else line for line in text.split("\n"))
    return _without_prefix(output.visible_lines(text))


def _logged(line: str) -> str:
    """Return what a line of JSON has logged, as Docker's and Drone's are."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line
    texts = (found.get(key) for key in ("log", "out", "message", "MESSAGE") if isinstance(found, dict))
    return next((text.rstrip("\r\n").replace("\n", " ") for text in texts if isinstance(text, str)), line)


def _without_prefix(lines: list[str]) -> list[str]:
    """Take off what CI, a container or `ts` has put before each line: what stands before the loader's first line."""
    if any(_HEADER.match(line) for line in lines):
        return lines
    head = next((match for line in lines if (match := _AFTER_PREFIX.match(line))), None)
    if head is None:
        return lines
    prefix = head[1] or head[2]
    pattern, at = "", 0
    for varies in _VARIES.finditer(prefix):
        kind = r"\d+" if varies[1] else r"\s+" if varies[2] else "[A-Z][a-z]{2}"
        pattern, at = pattern + re.escape(prefix[at : varies.start()]) + kind, varies.end()
    pattern = (pattern + re.escape(prefix[at:])).removesuffix(r"\s+")
    # A space behind it is the prefix's, unless the line is empty.
    before_line = re.compile(
        pattern + (rf"(?:\s{{1,{len(prefix) - len(prefix.rstrip())}}}|$)" if prefix[-1:].isspace() else "")
    )
    return [line[match.end() :] if (match := before_line.match(line)) else line for line in lines]


def read_load(path: Path, lines: list[str]) -> tuple[LoadOutput, int]:
    """Return the loader's output and the number of its last line; a log has one load."""
    heads = [number for number, line in enumerate(lines, start=1) if _HEADER.match(line)]
    if not heads:
        first = next(filter(None, lines), "")[:80]
        what = f"the log of the benchmark of VictoriaMetrics' own Makefile is wanted, and this one begins {first!r}"
        if any(line.startswith("Run complete after ") for line in lines):
            what = (
                "since July 2025 VictoriaMetrics' Makefile writes the load into a file of its own: put both into one, "
                f"cat /tmp/tsbs-load-*.csv {path} >whole.log"
            )
        raise UserError(f"{path}:1: no load in it, which begins with a line 'time,per. metric/s,...'; {what}")
    if len(heads) > 1:
        raise UserError(f"{path}:{heads[1]}: a second load begins (the first on line {heads[0]}): make a log of each")
    kept = {heads[0]: lines[heads[0] - 1]}
    for number, line in enumerate(lines[heads[0] :], start=heads[0] + 1):
        if _LOAD.match(line):
            kept[number] = line
        if line.startswith("loaded ") and " rows " in line:
            break
    # All other lines become empty, so that the parser's errors have the line numbers of the file.
    last = max(kept)
    return output.parse_load_stdout("\n".join(kept.get(number, "") for number in range(1, last + 1)), str(path)), last


def read_log(path: Path) -> Log:
    """Read a log. It must have a whole load; queries that were started and did not finish are noted."""
    lines = read_lines(path)
    load, last = read_load(path, lines)
    if load.samples is None:
        what = "the load ends here without 'loaded N metrics in S sec': the log is cut short"
        raise TsbsFormatError(str(path), last, what)
    log = Log(path, load, complaints=[line for line in lines[:last] if "Retrying" in line])
    for name, value in _FLAG.findall("\n".join(lines[:last])):
        log.flags.setdefault(name, value)
    started, number = ("", 0), 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if number <= last:
            pass
        elif match := _PROCESS.match(line):
            _add_process(log, match, number)
        elif line.startswith("Run complete after "):
            number, started = _add_queries(log, lines, number, started[0]), ("", 0)
        elif _RUN.search(line) and (query_type := _type_in(line)):
            _note_unfinished(log, *started, query_type)
            started = (query_type, number)
        if re.match(r"make(\[\d+\])?: \*\*\* ", line):
            log.notes.append(f"{path.name}:{number}: make says: {line}")
    _note_unfinished(log, *started)
    return log


def _note_unfinished(log: Log, query_type: str, line: int, next_type: str = "") -> None:
    if query_type not in {"", next_type}:
        log.notes.append(f"{log.path.name}:{line}: {query_type} was started and did not finish")


def _add_process(log: Log, match: re.Match[str], number: int) -> None:
    name, value = match.groups()
    try:
        parsed = float(value)
    except ValueError:
        parsed = math.nan
    if not math.isfinite(parsed):
        raise TsbsFormatError(str(log.path), number, f"{name} is {value!r}, not a number")
    if name in log.process:
        log.notes.append(f"{log.path.name}:{number}: {name} stands there again; the first, after the load, counts")
    log.process.setdefault(name, parsed)


def _add_queries(log: Log, lines: list[str], first: int, started: str) -> int:
    """Add the summary that begins on line `first`, of the started query type; return the number of its last line."""
    last = first
    for line in lines[first:]:
        if line.startswith(("Run complete after ", "make")):
            break
        last += 1
        if line.startswith("wall clock time:"):
            break
    own = lines[first - 1 : last]
    summary = output.parse_query_stdout("\n" * (first - 1) + "\n".join(own), str(log.path))
    label = next((line.rstrip(": ") for line in own[1:] if line.endswith(":")), "")
    query_type = started or _type_of(label)
    if not query_type:
        raise TsbsFormatError(str(log.path), first, "nothing says which type of queries this summary is of")
    if query_type in log.queries:
        raise TsbsFormatError(str(log.path), first, f"a second summary of {query_type}: one log, one run of each type")
    if summary.count == 0:
        log.notes.append(f"{log.path.name}:{first}: no query of {query_type} was sent")
    else:
        log.queries[query_type], log.heads[query_type] = summary, own[0].split(" (")[0]
    return last


def _type_in(line: str) -> str:
    return next((match[1] for pattern in _TYPES if (match := pattern.search(line))), "")


def _type_of(label: str) -> str:
    """Return the query type that TSBS's label describes, or a name made of the label."""
    for pattern, name in _LABELS:
        if match := pattern.search(label):
            return name.format(*match.groups())
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
