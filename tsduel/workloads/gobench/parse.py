"""The output of Go's benchmarks -> records: golang.org/design/14313-benchmark-format, and its `Unit` lines."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tsduel.core.metrics import Better

_UNIT_LINE = re.compile(r"\s*Unit\s+(\S+)\s+(?:.*\s)?better=(higher|lower)(?:\s.*)?")
_BETTER: Mapping[str, Better] = {"higher": "higher", "lower": "lower"}
# A result shares its line with what its benchmark has printed without a newline.
_RESULT = re.compile(r"(Benchmark\S*)[ \t]+([0-9]+)[ \t]+([-+0-9.NI].*)$")
_PAIR = 2  # a value and its unit
# Seconds and bytes, as in benchstat, which shows them with SI prefixes.
_TIDY = ((re.compile(r"(^|-)ns(/op)?$"), r"\1sec\2", 1e-9), (re.compile(r"(^|-)MB(/s)?$"), r"\1B\2", 1e6))


@dataclass(frozen=True)
class Result:
    """One result line: `name` as printed, with -GOMAXPROCS; `values` by unit, ns as sec and MB as B."""

    name: str
    operations: int
    values: Mapping[str, float]


def tidy_unit(unit: str) -> tuple[str, float]:
    """Return benchstat's name of a unit and the factor to it: ns/op is ("sec/op", 1e-9)."""
    for pattern, replacement, factor in _TIDY:
        if pattern.search(unit):
            return pattern.sub(replacement, unit), factor
    return unit, 1.0


def results(text: str) -> Iterator[Result]:
    """Yield the result lines of a text; other lines, and values that are not finite, are skipped."""
    for line in text.splitlines():
        match = _RESULT.search(line)
        if match is None:
            continue
        fields = match[3].split()
        try:
            operations = int(match[2])
            pairs = [(tidy_unit(u), float(value)) for value, u in zip(fields[::_PAIR], fields[1::_PAIR], strict=True)]
        except ValueError:
            continue
        values = {unit: value * factor for (unit, factor), value in pairs if math.isfinite(value)}
        yield Result(match[1], operations, values)


def units(text: str) -> dict[str, Better]:
    """Return the directions in `Unit NAME better=higher|lower` lines, by unit."""
    matches = map(_UNIT_LINE.fullmatch, text.splitlines())
    return {tidy_unit(match[1])[0]: _BETTER[match[2]] for match in matches if match}
