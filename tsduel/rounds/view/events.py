"""Lines of raw/HOST/events.jsonl -> events. A torn line is skipped, and no value can harm a terminal."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from tsduel.core.wording import printable

LONGEST = 2000
LARGEST = 1e15
# The end of the year 9999, the last date of datetime.
LAST_T = 253_402_300_799
T = TypeVar("T", list[Any], dict[str, Any])


@dataclass(frozen=True)
class Event:
    """One event: epoch seconds, name, and fields. Its methods return only what a terminal can print."""

    t: float
    name: str
    fields: Mapping[str, Any]

    def text(self, field: str) -> str:
        """Return a field as text; "" if it is none."""
        value = self.fields.get(field)
        return clean(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""

    def number(self, field: str) -> float:
        """Return a field as a number of at least 0; 0 if it is none, or not sane."""
        value = self.fields.get(field)
        return float(value) if is_sane(value) else 0.0  # type: ignore[arg-type]  # it is one

    def get(self, field: str, kind: type[T]) -> T:
        """Return a field that is a list or a dict; an empty one if it is none."""
        value = self.fields.get(field)
        return value if isinstance(value, kind) else kind()

    def line(self, host: str = "") -> str:
        """Return a plain line with the sentence from host/record/events.go, or "". `host`: of a fleet."""
        text = self.text("line")
        return f"{clock(self.t)} {f'{host} ' if host else ''}{text}" if text else ""

    @property
    def is_bad(self) -> bool:
        """Whether the line is a warning."""
        broken = self.name == "phase-end" and self.number("exit") != 0
        bad_end = self.name in {"block-end", "run-end"} and self.text("status") != "ok"
        return broken or bad_end or bool(self.text("void")) or self.name in {"block-replaced", "note"}


def clock(t: float) -> str:
    """Return hours, minutes and seconds of an epoch time in UTC."""
    return datetime.fromtimestamp(t, UTC).strftime("%H:%M:%S")


def is_sane(value: object, least: float = 0.0) -> bool:
    """Whether a value is a number between ``least`` and LARGEST."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= LARGEST


def clean(text: str) -> str:
    """Return the first LONGEST letters of a text, without any character that a terminal would obey."""
    return printable(text[:LONGEST])


def parse(line: bytes) -> Event | None:
    """Return the event of a line, or None: the machine may have lost its power while the line was written."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("event"), str):
        return None
    t = fields.get("t")
    if isinstance(t, bool) or not isinstance(t, int | float) or not 0 < t < LAST_T:
        return None
    return Event(float(t), fields["event"], fields)


class Tail:
    """Reads each whole line of a growing file once. `lines`: known lines, also those from elsewhere."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self._in_file = 0
        self._offset = 0

    def read(self) -> list[Event]:
        """Return the new events; none if the file does not exist yet."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._offset)
                text = stream.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = whole.split(b"\n")[:-1]
        unknown = lines[max(0, self.lines - self._in_file) :]
        self._in_file += len(lines)
        self.lines = max(self.lines, self._in_file)
        return [event for event in map(parse, unknown) if event]
