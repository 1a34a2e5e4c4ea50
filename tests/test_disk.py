"""A full disk is reported by the stages in Python; host/run has the tests for blocks."""

from __future__ import annotations

import contextlib

from tsduel import __main__ as command_line
from tsduel.cli.commands import COMMANDS, Command
from tsduel.core import files

MIB = 1 << 20


def fill(directory):
    """Fill the disk."""
    with contextlib.suppress(OSError), (directory / "ballast").open("wb", buffering=0) as stream:
        while stream.write(bytes(MIB)):
            pass


def test_a_stage_in_python_says_it_as_well(small_disk, tmp_path, monkeypatch, capsys):
    """A sentence and exit code 2, without a stack trace."""
    disk = small_disk(tmp_path / "results", 1)
    fill(disk)

    def write(*_given):
        files.write(disk / "x", "y" * MIB)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(COMMANDS, "tidy", Command("", "Tidy", "tsduel.tidy", write, makes_run=True))
    monkeypatch.setattr("sys.argv", ["tsduel", "tidy", "r"])
    assert command_line.main() == 2
    assert "its disk is full; free some, then type the same command again" in capsys.readouterr().err
