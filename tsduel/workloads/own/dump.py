"""Data that are read before they are loaded: workload.file, workload.shape, and TSBS's use cases devops and iot.

The agent (host/workload) puts them once into the cache.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tsduel.core import caches, files
from tsduel.core.errors import UserError
from tsduel.core.sections import Shape, WorkloadAsked
from tsduel.core.target import Target
from tsduel.core.tsbs import DataFile
from tsduel.core.wording import number_of
from tsduel.workloads.own import agent

SHAPE, USE_CASE = "workload.shape", "workload.use_case"
CASES = ("devops", "iot")
"""Use cases of TSBS whose lines have no common number of samples."""
_GENERATOR = "github.com/timescale/tsbs/cmd/tsbs_generate_data"
AHEAD_MS = 2 * 86_400_000
"""VictoriaMetrics drops samples that are further in the future."""
_RETENTION = re.compile(r"-{1,2}retentionPeriod=(\d+(?:\.\d+)?)([hdwy]?)")
_UNITS_MS = {"h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000, "": 31 * 86_400_000}


@dataclass(frozen=True)
class Dump:
    """What is known of the data. Samples of the same series and time as the one before are `duplicates`.

    `plain`: TSBS's own loader can send all lines. `labels`: the first values of each. `precision`: units of Influx's
    times.
    """

    path: str
    key: str
    format: str
    plain: bool
    lines: int
    samples: int
    series: int
    start_ms: int
    end_ms: int
    duplicates: int
    late: int
    numberless: int
    names: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    precision: tuple[str, ...] = ()

    @property
    def key_name(self) -> str:
        """The key of the experiment that asks for the data."""
        return self.path if self.path in {SHAPE, USE_CASE} else "workload.file"

    @property
    def window(self) -> dict[str, Any]:
        """The fields of a workload that the data decides: whole seconds around all samples; hosts of ten series."""
        start, end = self.start_ms // 1000, self.end_ms // 1000 + 1
        # A window has at least one interval.
        return {
            "start": _written(start),
            "end": _written(max(end, start + 2)),
            "interval": "1s",
            "scale": max(1, self.series // 10),
        }

    @property
    def holds(self) -> str:
        """What the file holds, in words."""
        extra = [
            number_of(count, what)
            for count, what in ((self.duplicates, "duplicate"), (self.late, "out-of-order sample"))
            if count
        ]
        return (
            f"{self.samples:,} samples of {self.series:,} series in {self.lines:,} lines ({self.format})"
            + (f"; {', '.join(extra)}: all are sent, and counted as the database counts them" if extra else "")
            + (f"; {number_of(self.numberless, 'value')} like NaN, which no database keeps" if self.numberless else "")
        )

    def planned(self, target: Target) -> tuple[dict[str, Any], Target]:
        """Return the counts and the file of a planned workload, and the target that takes these lines."""
        told_unit = target.tells_precision and self.precision not in {(), ("ns",)}
        is_plain = self.plain and "InfluxDB" in target.protocol and not told_unit
        name = target.data_format if is_plain else self.format
        data = (DataFile(format=name, key=self.key),)
        counted = {"lines": self.lines, "samples": self.samples, "data": data}
        counted["own_data"] = {"path": self.path, "holds": self.holds}
        path = target.own_paths[self.format] + (f"&precision={self.precision[0]}" if told_unit else "")
        counted["loader"] = "tsbs" if is_plain else "own"
        return counted, target.model_copy(update={"data_format": name, "write_path": path})

    def later(self, lines: int, window_s: int, target: Target) -> dict[str, Any]:
        """Return the counts and the file of so many lines that continue the data: the same, later by whole windows."""
        (data,) = self.planned(target)[0]["data"]
        key = hashlib.sha256(f"{self.key} {window_s} {lines}".encode()).hexdigest()[:16]
        samples = round(lines * self.samples / self.lines)
        return {"lines": lines, "samples": samples, "data": (data.model_copy(update={"key": key}),)}

    def refused(
        self, target: Target, flags: list[str], against: list[str], *, own_queries: bool, more_s: int = 0
    ) -> Iterator[str]:
        """Yield why it cannot be loaded: by keys that it does not go with, queries, format and age.

        ``more_s``: so much later are the last lines that continue the data.
        """
        for key in against:
            yield f"{self.key_name}: is loaded as it is, by one client, into one database's versions: leave out {key}"
        if not own_queries:
            yield f"{self.key_name}: TSBS's queries are of TSBS's data: give your own (queries.file, log or rules)"
        if self.format not in target.own_paths:
            yield (
                f"{self.key_name}: {target.name} does not take lines of the format {self.format}; "
                f"allowed: {', '.join(target.own_paths) or 'none'}"
            )
        if target.tells_precision and len(self.precision) > 1:
            units = " and ".join(self.precision)
            yield f"{self.key_name}: its times are in {units}, and {target.name} takes one unit: write all in ns"
        if target.tells_precision and self.numberless:
            yield (
                f"{self.key_name}: {number_of(self.numberless, 'value')} like NaN, which {target.name} does not take: "
                "remove them"
            )
        if outside := self.outside(flags, more_s):
            yield f"{self.key_name}: {outside}"

    def outside(self, flags: list[str], more_s: int = 0) -> str:
        """Say in a phrase that samples lie outside what a database keeps with these flags; "" if none does."""
        now_ms = time.time() * 1000
        if (last_ms := self.end_ms + more_s * 1000) > now_ms + AHEAD_MS:
            later = " with those that continue them" if more_s else ""
            return (
                f"{self.path}: samples up to {_written(last_ms // 1000)}{later} lie in the future, which nobody "
                "keeps: give them older times"
            )
        for flag in flags:
            if match := _RETENTION.fullmatch(flag):
                begin_ms = now_ms - float(match[1]) * _UNITS_MS[match[2]]
                if self.start_ms < begin_ms:
                    first, kept = _written(self.start_ms // 1000), _written(int(begin_ms // 1000))
                    return (
                        f"{self.path}: samples from {first} on lie outside {flag}, which keeps those from {kept} on: "
                        "give a longer one in flags, or newer data"
                    )
        return ""


def _written(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):  # as where ms are counted in ns
        return f"the year {1970 + seconds // 31_556_952:,}"


def of(workload: WorkloadAsked) -> Dump | None:
    """Return the data in place of TSBS's; None where TSBS makes them."""
    if workload.file and workload.shape:
        raise ValueError("workload: file and shape are two kinds of data: leave one out")
    if workload.file:
        return read(workload.file)
    if workload.shape:
        return made(_shape(workload, workload.shape))
    if workload.use_case in CASES:
        return generated(
            f"--use-case={workload.use_case}", f"--scale={workload.scale}", f"--seed={workload.seed}",
            f"--timestamp-start={workload.start}", f"--timestamp-end={workload.end}",
            f"--log-interval={workload.interval}",
        )  # fmt: skip
    return None


def _shape(workload: WorkloadAsked, shape: Shape) -> str:
    """Return a shape as host/workload/shape.go takes it."""
    fields = shape.model_dump(exclude={"churn"})
    start, end = (int(datetime.fromisoformat(time).timestamp()) for time in (workload.start, workload.end))
    if churn := shape.churn:
        fields |= {"churn_pct": churn.pct, "churn_every_s": churn.every_s}
    window = {"start": start, "end": end, "interval_s": workload.step_s}
    return json.dumps(fields | window | {"targets": workload.scale, "seed": workload.seed}, sort_keys=True)


@functools.cache
def made(shape: str) -> Dump:
    """Have the agent make data of a shape, if the cache does not have them."""
    return _known("shape", shape, shape, SHAPE)


@functools.cache
def generated(*words: str) -> Dump:
    """Have the agent read what TSBS generates, if the cache does not have it."""
    command = [*agent.go("ansible/roles/build/files/tsbs"), _GENERATOR, "--format=influx", *words]
    return _known("dump", "-", " ".join(words), USE_CASE, command)


@functools.cache
def read(path: str) -> Dump:
    """Read a file of data, or stdin (-), into the cache. A UserError names file and line of what is wrong.

    A file that has not changed since it was read is not read again.
    """
    try:
        stat = Path(path).stat() if path != "-" else None
    except OSError as error:
        raise UserError(f"workload.file: {path}: {error.strerror}; give the path of a file") from None
    if not stat:
        return _known("dump", path, "", path)
    place = str(Path(path).resolve())
    return _known("dump", place, f"{place} {stat.st_size} {stat.st_mtime_ns}", path)


def _known(verb: str, word: str, identity: str, path: str, feed: Sequence[str] = ()) -> Dump:
    """Ask the agent about data, unless it was asked about these before. Without an identity it is always asked.

    ``feed``: a command whose output it reads.
    """
    cache = caches.directory(os.environ)
    file = cache / "workload" / "dumps.json"
    dumps: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError, ValueError):  # half of it is nothing
        dumps = json.loads(file.read_text())
    found = dumps.get(identity)
    if not found or "precision" not in found or not (cache / "workload" / found["key"] / "data.zst.json").exists():
        caches.own(cache, os.environ)
        found = json.loads(agent.said(verb, word, str(cache.resolve()), feed=feed))
        file.parent.mkdir(parents=True, exist_ok=True)
        if identity:
            files.write(file, json.dumps({**dumps, identity: found}))
    counts = ("lines", "samples", "series", "duplicates", "late", "numberless")
    fields = {name: found[name] for name in ("key", "format", "plain", *counts)}
    times = {"start_ms": found["start"], "end_ms": found["end"]}
    labels = {name: tuple(values) for name, values in found["labels"].items()}
    names, precision = (tuple(found[name] or ()) for name in ("names", "precision"))
    return Dump(path, **fields, **times, names=names, labels=labels, precision=precision)
