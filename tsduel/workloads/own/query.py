"""What a file of queries becomes: named queries, each a list of templates of requests."""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tsduel.core import files, yamls
from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, GEOMEAN, MIX

RESERVED = (MIX, GEOMEAN, ALL)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_NO_LETTER = re.compile(r"[^\w.-]")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])")


@dataclass(frozen=True)
class Template:
    """One request before its placeholders are filled.

    `length_s`: of the range, 0 for an instant. `back_s`: how long before the end of the data it ends; None: anywhere.
    `reach_s`: how far before its time it reads, once that is known. `weight`: its share of the query's requests.
    """

    text: str
    length_s: float = 0.0
    step_s: float = 60.0
    back_s: float | None = None
    reach_s: float = 0.0
    weight: float = 1.0


@dataclass(frozen=True)
class Query:
    """A query type of the user: `where` is its FILE:LINE. `weight`: its share of the mix; of a rule, queries a second.

    `quiet`: all of its answers may be empty. `silent`: also where it is asked alone, or with silent ones only, as an
    alert's are while nothing is wrong.
    """

    name: str
    where: str
    templates: tuple[Template, ...]
    weight: float = 1.0
    quiet: bool = False
    silent: bool = False


@dataclass(frozen=True)
class Asked:
    """All queries of an experiment, the values of its placeholders, and sentences on what was left out, and why.

    `lost`: the weight of what was left out. `faults`: sentences for which the whole file is refused.
    """

    queries: tuple[Query, ...] = ()
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    lost: float = 0.0
    faults: tuple[str, ...] = ()


class RefusedError(Exception):
    """Why a line of a log cannot be replayed, or a query cannot be asked of the data."""


def seconds(text: object, where: str) -> float:
    """Return the seconds of 30s, 5m or 1h30m; a UserError unless they are more than 0."""
    if not 0 < (total := span(str(text))) < math.inf:
        raise UserError(f"{where}: {text!r} is no duration; write it like 30s, 5m or 1h30m")
    return total


def span(text: str) -> float:
    """Return the seconds of a duration, nan if it is none."""
    found = _DURATION.findall(text)
    if not found or "".join(number + unit for number, unit in found) != text:
        return math.nan
    return sum(float(number) * _UNITS[unit] for number, unit in found)


def named(name: object, where: str) -> str:
    """Check a name, which is also that of files, and return it composed (NFC), as most keyboards write it."""
    name = unicodedata.normalize("NFC", name) if isinstance(name, str) else name
    if not isinstance(name, str) or not name or _plain(name) != name or name in RESERVED:
        raise UserError(
            f"{where}: {name!r} is no name of a query: letters, digits, _ . and -, at most 50, "
            f"and none of {', '.join(RESERVED)}"
        )
    return name


def _plain(text: str) -> str:
    """Return what a name keeps of a text: letters of any script, digits, _ . and -, and 50 of these at most."""
    kept = _NO_LETTER.sub(_marked, unicodedata.normalize("NFC", text))
    return re.sub("-+", "-", kept).strip("-.")[:50].rstrip("-.")


def _marked(match: re.Match[str]) -> str:
    return match[0] if unicodedata.category(match[0])[0] == "M" else "-"


def unique(queries: Iterable[Query]) -> tuple[Query, ...]:
    """Make names of any text, and give equal names a number."""
    made: dict[str, Query] = {}
    last: dict[str, int] = {}
    for query in queries:
        name = base = _plain(query.name) or "query"
        while name in made or name in RESERVED:
            last[base] = last.get(base, 1) + 1
            name = f"{base}-{last[base]}"
        made[name] = replace(query, name=name)
    return tuple(made.values())


def read_text(path: str, key: str) -> str:
    """Return the text of a file that `key` of the experiment names."""
    try:
        text = files.text_of(Path(path))
    except OSError as error:
        raise UserError(f"{key}: {path}: {error.strerror}; give the path of a file") from None
    if not text.strip():
        raise UserError(f"{path}: it is empty; {key} needs at least one query")
    return text


class _Text(str):
    """A text and its line."""

    __slots__ = ("line",)
    line: int


class _Lines(yaml.SafeLoader):
    """Keeps the line of each mapping under the key None, which no file can have by accident, and of each text."""

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> _Text:
        made = _Text(super().construct_scalar(node))
        made.line = node.start_mark.line + 1
        return made

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001,FBT002
        return {**super().construct_mapping(node, deep=deep), None: node.start_mark.line + 1}


def place(path: str, found: object) -> str:
    """Return FILE:LINE of a part of a file that documents() has read; the file of a number."""
    line = found.get(None) if isinstance(found, dict) else getattr(found, "line", None)
    return f"{path}:{line}" if line else path


def documents(path: str, text: str) -> list[Any]:
    """Return what the documents of a file of YAML or JSON hold, each mapping with its line under None."""
    if text.lstrip()[:1] in {"{", "["}:
        text = text.replace("\t", " ")  # as JSON may be indented, and YAML not
    return yamls.documents(text, path, _Lines)


def strings(found: Any) -> Iterator[str]:
    """Yield each text that is a value in nested lists and mappings."""
    left = [found]
    while left:
        part = left.pop()
        if isinstance(part, str):
            yield part
        left += reversed(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())


def mapping(found: object, path: str, allowed: Sequence[str], what: str) -> dict[Any, Any]:
    """Check that a part of a file is a mapping with allowed keys only."""
    if not isinstance(found, dict):
        wanted = f"{what} is a mapping with {', '.join(allowed)}"
        raise UserError(f"{place(path, found)}: {wanted}, and here is {str(found)[:60]!r}")
    for key in found:
        if key is not None and key not in allowed:
            raise UserError(f"{path}:{found[None]}: {key}: unknown key of {what}; allowed: {', '.join(allowed)}")
    return found


def listed(found: object, path: str, what: str) -> list[Any]:
    """Check that a part of a file is a list with something in it."""
    if not isinstance(found, list) or not found:
        raise UserError(f"{path}: {what} is a list with at least one entry")
    return found


def as_json(text: str) -> Any:
    """Return what a text of JSON holds; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
