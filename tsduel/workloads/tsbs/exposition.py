"""Snapshots of /metrics, as the host concatenates them in metrics.prom.gz.

A snapshot begins with `# snapshot EPOCH edge PHASE begin|end [QUERY_TYPE]` or `# snapshot EPOCH tick`. Edges are read
with prometheus_client's parser, but only the lines of wanted names: about 100 of 1,300. Ticks are read without it: a
long run has about a million tick lines, and the library parses about 100,000 a second. In one file the part of a line
before its value is always the same string, so a dictionary says which counters the line belongs to. A missing name is
never an error: names differ between versions.
"""

import gzip
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

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
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as stream:
            return list(parse_snapshots(stream.read(), wanted, str(path)))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a whole gzip file ({error}): what wrote it was cut short") from None


def parse_snapshots(text: str, wanted: Wanted, file: str = "metrics.prom") -> Iterator[Snapshot]:
    """Yield the snapshots of a concatenation; text before the first head line is ignored."""
    owners: dict[str, tuple[str, ...]] = {}
    before, *parts = f"\n{text}".split(f"\n{_HEAD}")
    line_number = 1 + before.count("\n")
    for part in parts:
        head, _, body = part.partition("\n")
        words, where = head.split(), f"{file}:{line_number}"
        is_edge = words[1:2] == ["edge"]
        values = _edge_values(body, wanted, where) if is_edge else _tick_values(body, owners, wanted)
        yield _snapshot(words, values, where)
        line_number += part.count("\n") + 1


def _snapshot(words: list[str], values: dict[str, float], where: str) -> Snapshot:
    try:
        epoch = float(words[0])
    except (IndexError, ValueError):
        raise UserError(f"{where}: a snapshot's head begins with its time in epoch seconds") from None
    if words[1:] == ["tick"]:
        return Snapshot(epoch, "", "", "", values)
    if len(words) >= _EDGE_WORDS and words[1] == "edge" and words[3] in {"begin", "end"}:
        return Snapshot(epoch, words[2], words[3], " ".join(words[4:]), values)
    raise UserError(
        f"{where}: a snapshot is 'tick' or 'edge PHASE begin|end [QUERY_TYPE]', not {' '.join(words[1:])!r}"
    )


def _edge_values(body: str, wanted: Wanted, where: str) -> dict[str, float]:
    names = {name for counter in wanted.values() for name in counter.names}
    kept = [line for line in body.split("\n") if line.replace("{", " ", 1).partition(" ")[0] in names]
    values: dict[str, float] = {}
    try:
        for sample in _samples("\n".join(kept)):
            for ours in _matching(wanted, sample) if math.isfinite(sample.value) else ():
                values[ours] = values.get(ours, 0.0) + sample.value
    except ValueError as error:
        raise UserError(f"{where}: /metrics of this snapshot cannot be read: {error}") from None
    return values


def _samples(text: str) -> Iterator[Sample]:
    return (sample for family in text_string_to_metric_families(f"{text}\n") for sample in family.samples)


def _matching(wanted: Wanted, sample: Sample) -> tuple[str, ...]:
    """Return our names of the counters that a sample is part of."""
    return tuple(
        ours
        for ours, counter in wanted.items()
        if sample.name in counter.names
        and counter.role in {"", sample.labels.get(ROLE)}
        and all(re.fullmatch(pattern, sample.labels.get(label, "")) for label, pattern in counter.labels.items())
    )


def _tick_values(body: str, owners: dict[str, tuple[str, ...]], wanted: Wanted) -> dict[str, float]:
    values: dict[str, float] = {}
    for line in body.split("\n"):
        series, _, number = line.rpartition(" ")
        if series not in owners:
            owners[series] = _owners(line, wanted)
        for ours in owners[series]:
            try:
                value = float(number)
            except ValueError:
                continue  # a failed scrape cuts a line short: this tick lacks the counter
            if math.isfinite(value):
                values[ours] = values.get(ours, 0.0) + value
    return values


def _owners(line: str, wanted: Wanted) -> tuple[str, ...]:
    if not line or line.startswith("#"):
        return ()
    try:
        return tuple(ours for sample in _samples(line) for ours in _matching(wanted, sample))
    except ValueError:
        return ()


def edge(snapshots: Sequence[Snapshot], phase: str, which: str, query_type: str = "") -> Snapshot | None:
    """Return the last snapshot of an edge (a phase that was started again has several), or None."""
    key = (phase, which, query_type)
    return next((s for s in reversed(snapshots) if (s.phase, s.edge, s.query_type) == key), None)


def difference(begin: Snapshot | None, end: Snapshot | None, counter: str) -> float | None:
    """Return the growth of a counter between two snapshots, None if the later one does not have it.

    VictoriaMetrics leaves some counters out until they first change, so a counter that only the later snapshot has
    counts from 0.
    """
    if begin is None or end is None or counter not in end.values:
        return None
    return end.values[counter] - begin.values.get(counter, 0.0)
