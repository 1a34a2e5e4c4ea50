"""Snapshots of /metrics, as the host concatenates them in metrics.prom.gz.

A snapshot begins with `# snapshot EPOCH edge PHASE begin|end [QUERY_TYPE]` or `# snapshot EPOCH tick`. Edges are read
with prometheus_client's parser, but only the lines of wanted names: an edge has about 1,300 lines of which we want 100.
Ticks are read by a split of our own: a long run has about a million tick lines, the library's parser does about 100,000
a second, and in one file the part of a line before its value is always the same string, so that a dictionary answers
what it belongs to. A name that is missing is never an error: names come and go between versions.
"""

import gzip
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tsduel.core.errors import UserError
from tsduel.core.plan import Counter

Wanted = Mapping[str, Counter]

ROLE = "tsduel_role"
"""The label by which the host says which component a sample is of."""
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
"""What the host reads from the kernel, the same for every database; sums over the components of a variant."""


def of_roles(roles: Sequence[str]) -> dict[str, Counter]:
    """Return the same for each of several components, each name with the role behind an @."""
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
    names = {name for counter in wanted.values() for name in counter.names}
    owners: dict[str, tuple[str, ...]] = {}
    line_number = 1
    for number, part in enumerate(("\n" + text).split("\n" + _HEAD)):
        if number > 0:
            head, _, body = part.partition("\n")
            words = head.split()
            values = (
                _edge_values(body, names, wanted, f"{file}:{line_number}")
                if words[1:2] == ["edge"]
                else _tick_values(body, owners, wanted)
            )
            yield _snapshot(words, values, f"{file}:{line_number}")
        line_number += part.count("\n") + (1 if number > 0 else 0)


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


def _edge_values(body: str, names: set[str], wanted: Wanted, where: str) -> dict[str, float]:
    kept = [line for line in body.split("\n") if line.replace("{", " ", 1).partition(" ")[0] in names]
    values: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families("\n".join(kept) + "\n"):
            for sample in family.samples:
                for ours in _matching(wanted, sample.name, sample.labels) if math.isfinite(sample.value) else ():
                    values[ours] = values.get(ours, 0.0) + sample.value
    except ValueError as error:
        raise UserError(f"{where}: /metrics of this snapshot cannot be read: {error}") from None
    return values


def _matching(wanted: Wanted, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        ours
        for ours, counter in wanted.items()
        if name in counter.names
        and counter.role in {"", labels.get(ROLE)}
        and all(re.fullmatch(pattern, labels.get(label, "")) for label, pattern in counter.labels.items())
    )


def _tick_values(body: str, owners: dict[str, tuple[str, ...]], wanted: Wanted) -> dict[str, float]:
    values: dict[str, float] = {}
    for line in body.split("\n"):
        series, _, number = line.rpartition(" ")
        owned = owners.get(series)
        if owned is None:
            owned = owners[series] = _owners(line, wanted)
        for ours in owned:
            try:
                value = float(number)
            except ValueError:
                continue  # a line cut short by a scrape that failed: that tick lacks the counter
            if math.isfinite(value):
                values[ours] = values.get(ours, 0.0) + value
    return values


def _owners(line: str, wanted: Wanted) -> tuple[str, ...]:
    if not line or line.startswith("#"):
        return ()
    try:
        samples = [s for family in text_string_to_metric_families(line + "\n") for s in family.samples]
    except ValueError:
        return ()
    return tuple(ours for sample in samples for ours in _matching(wanted, sample.name, sample.labels))


def edge(snapshots: Sequence[Snapshot], phase: str, which: str, query_type: str = "") -> Snapshot | None:
    """Return the last snapshot of an edge (a phase that was started again has several), or None."""
    for snapshot in reversed(snapshots):
        if (snapshot.phase, snapshot.edge, snapshot.query_type) == (phase, which, query_type):
            return snapshot
    return None


def difference(begin: Snapshot | None, end: Snapshot | None, counter: str) -> float | None:
    """Growth of a counter between two snapshots, None where the later one does not have it.

    VictoriaMetrics leaves a counter out until something touches it in some families, so a name that is absent at the
    beginning and present at the end counts from 0.
    """
    if begin is None or end is None or counter not in end.values:
        return None
    return end.values[counter] - begin.values.get(counter, 0.0)
