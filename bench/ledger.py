"""Lines of a long study in a CSV file, and the part of a page that is made from them."""

import csv
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError

Protocol = int | Mapping[str, int]
"""Of all lines, or by the first column."""


def lines(path: Path, protocol: Protocol) -> list[dict[str, str]]:
    """Return the lines of this protocol."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        first = (rows.fieldnames or [""])[0]
        return [
            row for row in rows
            if row["protocol"] == str(protocol if isinstance(protocol, int) else protocol.get(row[first]))
        ]  # fmt: skip


def add(path: Path, columns: Sequence[str], row: Mapping[str, Any], protocol: Protocol) -> None:
    """Add a line; it replaces one whose first two columns are the same, and those of other protocols go."""
    key = [str(row[column]) for column in columns[:2]]
    kept = [old for old in lines(path, protocol) if [old[column] for column in columns[:2]] != key]
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, row])
    partial.replace(path)


def write_between(page: Path, begin: str, end: str, text: str) -> None:
    """Write a page's part between two markers anew."""
    between = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    made = f"{begin}\n{text}\n{end}"
    page.write_text(between.sub(lambda _: made, page.read_text(encoding="utf-8")), encoding="utf-8")


def deadline(words: list[str]) -> float:
    """Return when a study ends, by time.monotonic(): so many minutes from now as its first word says, or MINUTES."""
    minutes = words.pop(0) if words else os.environ.get("MINUTES", "").strip() or "60"
    try:
        return time.monotonic() + 60 * float(minutes)
    except ValueError:
        raise UserError(f"MINUTES: {minutes!r} is no number of minutes") from None
