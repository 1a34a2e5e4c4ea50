"""Answers of the database to a sample of queries, as `tsbs_run_queries --print-responses` prints them on stderr.

Each line is prefixed `ID n: `; a body is pretty-printed JSON. A file can be gigabytes at 100,000 hosts, so files are
streamed, and compared by a digest that leaves out what may differ between equal answers (the server's execution time);
only where digests differ are the bodies parsed.
"""

import gzip
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.targets.counters import Target

REL_TOLERANCE = 1e-9
_CHUNK = 4 << 20
_ID = re.compile(rb"^ID (\d+): ?(.*)$", re.DOTALL)


@dataclass(frozen=True)
class Summary:
    """A file of answers: how many there are, how many of them hold no data, and a digest of all that must be equal."""

    answers: int
    empty: int
    digest: str


def summarize(path: Path, target: Target) -> Summary:
    """Read a responses file once, at the speed of gunzip."""
    good, empty, volatile = target.answer_marks
    pattern = re.compile(volatile)
    digest = hashlib.blake2b(digest_size=16)
    answers = empties = 0
    try:
        with gzip.open(path, "rb") as stream:
            carry = b""
            while chunk := stream.read(_CHUNK):
                head, newline, carry = (carry + chunk).rpartition(b"\n")  # no mark is cut in two: marks are in one line
                text = head + newline
                answers += text.count(good)
                empties += text.count(empty)
                digest.update(pattern.sub(b"", text))
            answers += carry.count(good)
            digest.update(pattern.sub(b"", carry))
    except (gzip.BadGzipFile, EOFError) as error:
        raise UserError(f"{path}: not a whole gzip file ({error})") from None
    return Summary(answers, empties, digest.hexdigest())


def first_difference(path: Path, other: Path) -> str | None:
    """Say the first difference of two files of answers in a sentence, or None where they mean the same.

    The same is: the same queries, the same series whatever their order, the same timestamps, values equal within a
    relative 1e-9 (MEASUREMENT.md 4).
    """
    for ours, theirs in itertools.zip_longest(bodies(path), bodies(other)):
        if ours is None or theirs is None:
            number, where = (theirs or ours)[0], path if ours is None else other
            return f"query {number} has no answer in {_short(where)}"
        if ours[0] != theirs[0]:
            return f"query {theirs[0]} is answered in {_short(other)}, query {ours[0]} in its place in {_short(path)}"
        if ours[1] != theirs[1]:
            found = _body_difference(ours[1], theirs[1])
            if found:
                return f"query {ours[0]}: {found}"
    return None


def bodies(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (number of the query, its body without prefixes) in the order of the file."""
    number, lines = -1, list[bytes]()
    with gzip.open(path, "rb") as stream:
        for line_number, line in enumerate(stream, start=1):
            match = _ID.match(line)
            if match is None:
                if line.strip():
                    raise UserError(f"{path}:{line_number}: not a line of an answer ('ID n: ...'): {line[:80]!r}")
                continue
            if int(match[1]) != number and lines:
                yield number, b"".join(lines)
                lines = []
            number = int(match[1])
            lines.append(match[2])
    if lines:
        yield number, b"".join(lines)


def _short(path: Path) -> str:
    return "/".join(path.parts[-3:])


def _body_difference(ours: bytes, theirs: bytes) -> str | None:
    try:
        left, right = _series(ours), _series(theirs)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        return f"an answer is not a range query's result ({error!r})"
    for name in sorted(left.keys() | right.keys()):
        if name not in left or name not in right:
            return f"series {name} is in {'the second' if name not in left else 'the first'} answer only"
        found = _values_difference(left[name], right[name])
        if found:
            return f"series {name}: {found}"
    return None


def _series(body: bytes) -> dict[str, dict[float, float]]:
    """Map the name of each series of a Prometheus range query's answer to its values by timestamp."""
    found: Any = json.loads(body)
    if found.get("status") != "success":
        raise ValueError(f"status {found.get('status')!r}")
    return {
        json.dumps(series["metric"], sort_keys=True): {float(t): float(v) for t, v in series["values"]}
        for series in found["data"]["result"]
    }


def _values_difference(left: dict[float, float], right: dict[float, float]) -> str | None:
    for at in sorted(left.keys() | right.keys()):
        a, b = left.get(at), right.get(at)
        if a is None or b is None:
            return f"timestamp {at:.0f} is in {'the second' if a is None else 'the first'} answer only"
        if not (math.isclose(a, b, rel_tol=REL_TOLERANCE) or (math.isnan(a) and math.isnan(b))):
            return f"at {at:.0f} the values are {a!r} and {b!r}"
    return None
