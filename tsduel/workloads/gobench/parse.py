"""The text that Go's benchmarks print -> records: golang.org/design/14313-benchmark-format, and its `Unit` lines."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tsduel.core.metrics import Better

_UNIT_LINE = re.compile(r"Unit\s+(\S+)\s+(.*)")
_PAIR = 2  # a value and its unit
# As benchstat does: seconds and bytes, so that it can be seen which prefix suits.
_TIDY = ((re.compile(r"(^|-)ns(/op)?$"), r"\1sec\2", 1e-9), (re.compile(r"(^|-)MB(/s)?$"), r"\1B\2", 1e6))


@dataclass(frozen=True)
class Result:
    """One result line: `name` as printed, with -GOMAXPROCS; `values` by unit, in sec and B where it was ns and MB."""

    name: str
    operations: int
    values: Mapping[str, float]


def tidy_unit(unit: str) -> tuple[str, float]:
    """Return a unit as benchstat calls it and the factor to it: ns/op is ("sec/op", 1e-9)."""
    for pattern, replacement, factor in _TIDY:
        tidied, found = pattern.subn(replacement, unit)
        if found:
            return tidied, factor
    return unit, 1.0


def results(text: str) -> Iterator[Result]:
    """Yield the result lines of a text; what is no such line, or has no finite value, is none."""
    for line in text.splitlines():
        fields = line.split()
        if not line.startswith("Benchmark") or len(fields) < 2 + _PAIR or len(fields) % _PAIR:
            continue
        try:
            operations = int(fields[1])
            pairs = [(unit, float(value)) for value, unit in zip(fields[2::_PAIR], fields[3::_PAIR], strict=True)]
        except ValueError:
            continue
        values = {}
        for unit, value in pairs:
            name, factor = tidy_unit(unit)
            if math.isfinite(value):
                values[name] = value * factor
        yield Result(fields[0], operations, values)


def units(text: str) -> dict[str, Better]:
    """Return the directions that `Unit NAME better=higher|lower` lines give, by unit."""
    found: dict[str, Better] = {}
    for line in text.splitlines():
        match = _UNIT_LINE.fullmatch(line.strip())
        if not match:
            continue
        said = dict(part.partition("=")[::2] for part in match[2].split())
        if said.get("better") == "higher":
            found[tidy_unit(match[1])[0]] = "higher"
        elif said.get("better") == "lower":
            found[tidy_unit(match[1])[0]] = "lower"
    return found
