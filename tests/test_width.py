"""Lines, files and types are small enough to be read: ruff checks lines of Python, and these tests the rest."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
CODE, PROSE, FILE, METHODS = 120, 110, 400, 25
# The receiver of a method in Go; a class and a method in Python.
GO = re.compile(r"^func \(\w+ \*?(\w+)\)")
CLASS, METHOD = re.compile(r"^class (\w+)"), re.compile(r"^    (?:async )?def ")


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


def _product():
    return _lines("*.go", "*.py", "*.sh", ":!tests", ":!*_test.go")


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="git does not know these files")
def test_no_file_of_the_product_is_longer_than_its_subject():
    """At most 400 lines."""
    lengths = Counter(place.rpartition(":")[0] for place, _ in _product())
    assert len(lengths) > METHODS
    assert not {name: length for name, length in lengths.items() if length > FILE}


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="git does not know these files")
def test_no_type_of_the_product_has_more_methods_than_a_page():
    """At most 25, in Go over all files of a package."""
    methods, owner = Counter(), ""
    for place, line in _product():
        path = Path(place.rpartition(":")[0])
        if path.suffix == ".go":
            found = GO.match(line)
            methods[f"{path.parent}.{found[1]}" if found else ""] += bool(found)
        elif line[:1].strip():
            found = CLASS.match(line)
            owner = f"{path}:{found[1]}" if found else ""
        elif METHOD.match(line):
            methods[owner] += 1
    del methods[""]
    assert len(methods) > METHODS
    assert not {name: count for name, count in methods.items() if count > METHODS}
