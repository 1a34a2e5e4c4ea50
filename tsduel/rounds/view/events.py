"""Lines of raw/events.jsonl -> events. A line that is torn, or is no event, is none; no value can harm a terminal."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST = 2000
LARGEST = 1e15
# What a date can be made of: the end of the year 9999.
LAST_T = 253_402_300_799


@dataclass(frozen=True)
class Event:
    """One event: epoch seconds, its name, and what it is about; what is read of it any terminal can be given."""

    t: float
    name: str
    fields: Mapping[str, Any]

    def text(self, field: str) -> str:
        """Return a field as text; empty where there is none."""
        value = self.fields.get(field)
        return clean(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""

    def number(self, field: str) -> float:
        """Return a field as a number of at least 0; 0 where it is none, or one that nobody could mean."""
        value = self.fields.get(field)
        return float(value) if is_sane(value) else 0.0  # type: ignore[arg-type]  # it is one

    def items(self, field: str) -> list[Any]:
        """Return a field that is a list; empty where it is none."""
        value = self.fields.get(field)
        return value if isinstance(value, list) else []

    def table(self, field: str) -> Mapping[str, Any]:
        """Return a field that is an object; empty where it is none."""
        value = self.fields.get(field)
        return value if isinstance(value, dict) else {}


def is_sane(value: object, least: float = 0.0) -> bool:
    """Whether a value is a number of at least ``least`` that somebody could mean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= LARGEST


def clean(text: str) -> str:
    """Return a text as one line without anything that a terminal would obey, and not without end."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:LONGEST])


def parse(line: bytes) -> Event | None:
    """Return the event of a line, or None: the power may have gone while it was written."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        return None
    t = found.get("t")
    if isinstance(t, bool) or not isinstance(t, int | float) or not 0 < t < LAST_T:
        return None
    return Event(float(t), found["event"], found)


class Tail:
    """Reads a file that grows, each whole line once; a line that is not whole yet is left for later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0  # known so far, whatever was in them; who knows more from elsewhere says so here
        self._in_file = 0
        self._offset = 0

    def read(self) -> list[Event]:
        """Return the events that have come since; none while there is no file."""
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
