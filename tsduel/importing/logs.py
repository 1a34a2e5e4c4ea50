"""Terminal logs of `make tsbs`, as VictoriaMetrics' benchmarks/Makefile leaves them -> what our parsers read.

A log has one load (the loader's CSV and summary), process_* lines of /metrics, and the summaries of several types of
queries, between make's own lines and whatever a terminal shows. Every complaint names file and line.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.workloads.tsbs.output import (
    LoadOutput,
    TsbsFormatError,
    parse_load_stdout,
    parse_query_stdout,
    visible_lines,
)

LARGEST = 64 << 20  # bytes; a day of a line a second has 10 MB
# What the Makefile greps from /metrics after the load.
PROCESS = (
    *(f"process_cpu_seconds_{which}total" for which in ("user_", "system_", "")),
    *("process_resident_memory_bytes", "process_resident_memory_peak_bytes"),
    *("process_io_read_bytes_total", "process_io_written_bytes_total"),
)
_HEADER = re.compile(r"time,per\. (?:metric|sample)/s,")
_LOAD = re.compile(r"\d+,|Summary:|loaded ")
_PROCESS = re.compile(rf"({'|'.join(PROCESS)})(?:\{{[^}}]*\}})? (\S+)$")
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
    """What a log holds. `text` and `queries` are TSBS's own lines, as if they stood alone.

    `complaints` are lines in which the loader says that it sends something again, `flags` those of tsbs_generate_data
    where make has shown them, `notes` sentences on what is doubtful.
    """

    path: Path
    text: str
    load: LoadOutput
    complaints: list[str] = field(default_factory=list)
    process: dict[str, float] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Started:
    """Queries that make says it runs: their type, and the line."""

    query_type: str
    line: int


def read_lines(path: Path) -> list[str]:
    """Return what a terminal would show of each line of a text file."""
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path}: larger than {LARGEST >> 20} MiB, so it is no log of `make tsbs`")
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if not raw.strip():
        raise UserError(f"{path}: the file is empty")
    if b"\0" in raw or raw.startswith(b"\x1f\x8b"):
        line = raw[: raw.find(b"\0")].count(b"\n") + 1 if b"\0" in raw else 1
        raise UserError(f"{path}:{line}: not a text file; unpack it first if it is packed")
    return visible_lines(raw.decode("utf-8", errors="replace"))


def read_load(path: Path, lines: list[str]) -> tuple[str, LoadOutput, int]:
    """Return the loader's own lines, what they say, and the number of their last line; a log has one load."""
    heads = [number for number, line in enumerate(lines, start=1) if _HEADER.match(line)]
    if not heads:
        first = next(filter(None, lines), "")[:80]
        raise UserError(
            f"{path}:1: no load in it, which begins with a line 'time,per. metric/s,...'; a log of `make tsbs` is "
            f"wanted, and this one begins {first!r}"
        )
    if len(heads) > 1:
        raise UserError(f"{path}:{heads[1]}: a second load begins (the first on line {heads[0]}): make a log of each")
    kept, last = [""] * (heads[0] - 1), heads[0]
    for number, line in enumerate(lines[heads[0] - 1 :], start=heads[0]):
        mine = number == heads[0] or _LOAD.match(line) is not None
        kept.append(line if mine else "")
        if mine:
            last = number
        if line.startswith("loaded ") and " rows " in line:
            break
    # Empty lines in place of others keep the line numbers of the file in what the parser says.
    load = parse_load_stdout("\n".join(kept[:last]), str(path))
    return "\n".join(line for line in kept if line) + "\n", load, last


def read_log(path: Path) -> Log:
    """Read a log. It must have a whole load; what else is missing is missing, and noted where it had begun."""
    lines = read_lines(path)
    text, load, last = read_load(path, lines)
    if load.samples is None:
        raise TsbsFormatError(
            str(path), last, "the load ends here without 'loaded N metrics in S sec': the log is cut short"
        )
    log = Log(path, text, load)
    started: _Started | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if number <= last:
            _before_the_end_of_load(log, line)
        elif found := _PROCESS.match(line):
            _add_process(log, found, number)
        elif line.startswith("Run complete after "):
            number = _add_queries(log, lines, number, started)
            started = None
        elif _RUN.search(line) and (query_type := _type_in(line)):
            if started is not None and started.query_type != query_type:
                log.notes.append(_unfinished(log, started))
            started = _Started(query_type, number)
        if re.match(r"make(\[\d+\])?: \*\*\* ", line):
            log.notes.append(f"{path.name}:{number}: make says: {line}")
    if started is not None:
        log.notes.append(_unfinished(log, started))
    return log


def _unfinished(log: Log, started: _Started) -> str:
    return f"{log.path.name}:{started.line}: {started.query_type} was started and did not finish"


def _before_the_end_of_load(log: Log, line: str) -> None:
    for name, value in _FLAG.findall(line):
        log.flags.setdefault(name, value)
    if "Retrying" in line:
        log.complaints.append(line)


def _add_process(log: Log, found: re.Match[str], number: int) -> None:
    name, value = found.groups()
    try:
        parsed = float(value)
    except ValueError:
        raise TsbsFormatError(str(log.path), number, f"{name} is {value!r}, not a number") from None
    if name in log.process:
        log.notes.append(f"{log.path.name}:{number}: {name} stands there again; the first, after the load, counts")
    log.process.setdefault(name, parsed)


def _add_queries(log: Log, lines: list[str], first: int, started: _Started | None) -> int:
    """Take the summary that begins on line `first`; return the number of its last line."""
    last = first
    for line in lines[first:]:
        if line.startswith(("Run complete after ", "make")):
            break
        last += 1
        if line.startswith("wall clock time:"):
            break
    own = lines[first - 1 : last]
    output = parse_query_stdout("\n".join([*[""] * (first - 1), *own]), str(log.path))
    label = next((line.rstrip(": ") for line in own[1:] if line.endswith(":")), "")
    query_type = started.query_type if started else _type_of(label)
    if not query_type:
        raise TsbsFormatError(str(log.path), first, "nothing says which type of queries this summary is of")
    if query_type in log.queries:
        raise TsbsFormatError(str(log.path), first, f"a second summary of {query_type}: one log, one run of each type")
    if output.count == 0:
        log.notes.append(f"{log.path.name}:{first}: no query of {query_type} was sent")
    else:
        log.queries[query_type] = "\n".join(own) + "\n"
    return last


def _type_in(line: str) -> str:
    return next((found[1] for pattern in _TYPES if (found := pattern.search(line))), "")


def _type_of(label: str) -> str:
    """Return the type of queries by TSBS's text for people, or that text as a name."""
    for pattern, name in _LABELS:
        if found := pattern.search(label):
            return name.format(*found.groups())
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
