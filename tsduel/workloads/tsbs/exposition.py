"""Snapshots of /metrics, as the host concatenates them in metrics.prom.gz.

A snapshot begins with `# snapshot EPOCH edge PHASE begin|end [QUERY_TYPE]` or `# snapshot EPOCH tick`. A long run has
about a million lines of ticks, and prometheus_client's parser reads about 100,000 a second. In one file the part of a
line before its value is always the same string, so it is parsed once, and a dictionary says which counters the line
belongs to. A missing name is never an error: names differ between versions.

Behind a value there may be a time (in OpenMetrics with a fraction), an exemplar and blanks, and before it there may be
tabs: `_SAMPLE` takes them off, since prometheus_client knows them in part only.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.target import Counter

Wanted = Mapping[str, Counter]

ROLE = "tsduel_role"
"""The host's label for the component of a sample."""
_PROCESS = "tsduel_process_"
OURS = {
    "cpu_user": Counter(name=f"{_PROCESS}cpu_seconds_total", labels={"mode": "user"}),
    "cpu_system": Counter(name=f"{_PROCESS}cpu_seconds_total", labels={"mode": "system"}),
    "rss": Counter(name=f"{_PROCESS}resident_memory_bytes"),
    "rss_peak": Counter(name=f"{_PROCESS}resident_memory_peak_bytes"),
    "major_faults": Counter(name=f"{_PROCESS}major_faults_total"),
    "io_read": Counter(name=f"{_PROCESS}io_read_bytes_total"),
    "io_written": Counter(name=f"{_PROCESS}io_written_bytes_total"),
    "storage_read": Counter(name=f"{_PROCESS}io_storage_read_bytes_total"),
    "storage_written": Counter(name=f"{_PROCESS}io_storage_written_bytes_total"),
}
"""Counters that the host reads from the kernel, the same for every database; sums over a variant's components."""


def of_roles(roles: Sequence[str]) -> dict[str, Counter]:
    """Return OURS for each component by itself, under NAME@ROLE."""
    return {
        f"{name}@{role}": counter.model_copy(update={"labels": counter.labels | {"role": re.escape(role)}})
        for name, counter in OURS.items() for role in roles
    }  # fmt: skip


# A name, labels in braces, a value, then perhaps a time and an exemplar: the pattern of host/scrape/exposition.go.
_NAME = r"[ \t]*+([a-zA-Z_:][\w:]*+)"
_LABELS = r'[ \t]*+(\{(?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+\})?+'
_VALUE = r'[ \t]*+([^ \t\r#{}"]++)(?:[ \t]++[-+.\deE]++)?+(?:[ \t]++#.*+)?+[ \t\r]*+'
_SAMPLE = re.compile(_NAME + _LABELS + _VALUE, re.ASCII)
_BEGIN = re.compile(_NAME, re.ASCII)
_HEAD = "# snapshot "
_EDGE_WORDS = 4  # EPOCH edge PHASE begin|end


@dataclass(frozen=True)
class Snapshot:
    """Sums of the wanted counters by our names. `phase` and `edge` ("begin", "end") are empty for a tick."""

    epoch: float
    phase: str
    edge: str
    query_type: str
    values: dict[str, float]


def read_snapshots(path: Path, wanted: Wanted) -> list[Snapshot]:
    """Read a metrics.prom.gz; snapshots come in the order of the file."""
    with files.reading(path, "file of snapshots"):
        # Only a line feed ends a line: a carriage return of a server begins none.
        text = files.content(path).decode(errors="replace")
    return list(parse_snapshots(text, wanted, str(path)))


def parse_snapshots(text: str, wanted: Wanted, file: str = "metrics.prom") -> Iterator[Snapshot]:
    """Yield the snapshots of a concatenation; text before the first head line is ignored."""
    owners: dict[str, tuple[str, ...]] = {}
    before, *parts = f"\n{text}".split(f"\n{_HEAD}")
    line_number = 1 + before.count("\n")
    for part in parts:
        head, _, body = part.partition("\n")
        snapshot = _snapshot(head.split(), f"{file}:{line_number}")
        try:
            snapshot.values.update(_values(body, owners, wanted, is_tick=not snapshot.phase))
        except ValueError as error:
            raise UserError(f"{file}:{line_number}: /metrics of this snapshot cannot be read: {error}") from None
        yield snapshot
        line_number += part.count("\n") + 1


def _snapshot(words: list[str], where: str) -> Snapshot:
    try:
        epoch = float(words[0])
    except (IndexError, ValueError):
        raise UserError(f"{where}: a snapshot's head begins with its time in epoch seconds") from None
    if words[1:] == ["tick"]:
        return Snapshot(epoch, "", "", "", {})
    if len(words) >= _EDGE_WORDS and words[1] == "edge" and words[3] in {"begin", "end"}:
        return Snapshot(epoch, words[2], words[3], " ".join(words[4:]), {})
    raise UserError(
        f"{where}: a snapshot is 'tick' or 'edge PHASE begin|end [QUERY_TYPE]', not {' '.join(words[1:])!r}"
    )


def _values(body: str, owners: dict[str, tuple[str, ...]], wanted: Wanted, *, is_tick: bool) -> dict[str, float]:
    values: dict[str, float] = {}
    for line in filter(None, body.split("\n")):
        series, _, number = line.rpartition(" ")
        try:
            if series not in owners or "\t" in number:  # it is new, or there is more behind the value
                series, number = _split(line)
            if series not in owners:
                owners[series] = _owners(series, wanted)
            value = float(number) if owners[series] else 0.0
        except ValueError:
            if is_tick:
                continue  # a failed scrape cuts a line short: this tick lacks the counter
            raise
        for ours in owners[series] if math.isfinite(value) else ():
            values[ours] = values.get(ours, 0.0) + value
    return values


def _split(line: str) -> tuple[str, str]:
    """Return the series of a sample as NAME{LABELS}, and its value; of a line that is none, its name and no number."""
    if sample := _SAMPLE.fullmatch(line):
        return sample[1] + (sample[2] or ""), sample[3]
    begin = _BEGIN.match(line)
    return (f"{begin[1]} " if begin else "#"), line[:200]


def _owners(series: str, wanted: Wanted) -> tuple[str, ...]:
    """Return our names of the counters that a series is part of; of a name with a blank behind it, all."""
    name = series.partition("{")[0]
    if name.endswith(" "):
        return tuple(ours for ours, counter in wanted.items() if name[:-1] in counter.names)
    if not any(name in counter.names for counter in wanted.values()):
        return ()
    return tuple(
        ours
        for family in text_string_to_metric_families(f"{series} 0\n")
        for sample in family.samples
        for ours, counter in wanted.items()
        if sample.name in counter.names
        and counter.role in {"", sample.labels.get(ROLE)}
        and all(re.fullmatch(pattern, sample.labels.get(label, "")) for label, pattern in counter.labels.items())
    )


def edge(snapshots: Sequence[Snapshot], phase: str, which: str, query_type: str = "") -> Snapshot | None:
    """Return the last snapshot of an edge (a phase that was started again has several), or None."""
    key = (phase, which, query_type)
    return next((s for s in reversed(snapshots) if (s.phase, s.edge, s.query_type) == key), None)


def difference(begin: Snapshot | None, end: Snapshot | None, counter: str) -> float | None:
    """Return the growth of a counter between two snapshots, None if the later one does not have it.

    VictoriaMetrics leaves some counters out until they first change, so a counter that only the later snapshot has
    counts from 0: not if the earlier one has the kernel's counters alone, since /metrics was then not read.
    """
    if begin is None or end is None or counter not in end.values:
        return None
    if counter not in begin.values and all(name.partition("@")[0] in OURS for name in begin.values):
        return None
    return end.values[counter] - begin.values.get(counter, 0.0)
