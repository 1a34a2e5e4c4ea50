"""The output of other programs, as text for the report."""

import subprocess
from collections.abc import Sequence

from tsduel.core.wording import last_line


def printed(words: Sequence[str], timeout_s: int, name: str) -> str:
    """Return what a program printed, or a sentence with the reason why it failed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"{name} did not end within {timeout_s} s; `make report` tries again."
    return f"{name} has no table: {last_line(done.stderr)}" if done.returncode else done.stdout.rstrip()
