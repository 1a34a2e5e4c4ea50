"""docs/troubleshooting.md quotes messages that the project really has."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def test_every_message_that_the_page_quotes_stands_in_the_code():
    """What is in backticks in the first column is a part of a sentence of Python, Go or Bash."""
    page = (PROJECT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("|")]
    quoted = [message for cell in rows for message in re.findall(r"`([^`]+)`", cell) if not message.startswith("kill")]
    assert len(quoted) > 20
    files = [path for room in ("tsduel", "plots", "host", "scripts") for path in (PROJECT / room).rglob("*")]
    code = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file())
    assert not [message for message in quoted if message not in code]
