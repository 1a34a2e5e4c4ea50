"""Lines are short enough to be read: ruff checks Python, and these tests the rest."""

import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
CODE, PROSE = 120, 110


def _lines(*patterns):
    """Yield the place and the text of each line of the files that git has."""
    command = ["git", "ls-files", "-z", "--", *patterns]
    listed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        path = PROJECT / name
        if path.is_file() and not path.is_symlink():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                yield f"{name}:{number}", line


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="git does not know these files")
def test_no_line_of_go_or_shell_is_wider_than_a_screen():
    """At most 120 columns, a tab being one."""
    lines = dict(_lines("*.go", "*.sh", "scripts", ".ci"))
    assert len(lines) > CODE
    assert not [place for place, line in lines.items() if len(line) > CODE]


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="git does not know these files")
def test_no_line_of_prose_is_wider_than_a_page():
    """At most 110 columns in Markdown that people write, but for tables, code, links and pictures."""
    wide, in_code = [], False
    lines = dict(_lines("*.md", ":!results/example", ":!tests/golden"))
    assert len(lines) > PROSE
    for place, line in lines.items():
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        if len(line) > PROSE and not in_code and not fence and not line.lstrip().startswith(("|", "#", "!", "[", "<")):
            wide.append(place)
    assert not wide
