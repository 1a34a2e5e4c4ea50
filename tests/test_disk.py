"""A full disk, told as what it is by the stages in Python; what the blocks say of one is in host/run."""

from __future__ import annotations

import contextlib

from tsduel import __main__ as command_line
from tsduel.core import files

MIB = 1 << 20


def fill(directory):
    """Write until there is no room."""
    with contextlib.suppress(OSError), (directory / "ballast").open("wb", buffering=0) as stream:
        while stream.write(bytes(MIB)):
            pass


def test_a_stage_in_python_says_it_as_well(small_disk, tmp_path, monkeypatch, capsys):
    """No stack trace, exit code 2."""
    disk = small_disk(tmp_path / "results", 1)
    fill(disk)

    def write(*_given):
        files.write(disk / "x", "y" * MIB)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(command_line.STAGES, "tidy", command_line.Stage("", "tsduel.tidy", write, makes_run=True))
    monkeypatch.setattr("sys.argv", ["tsduel", "tidy", "r"])
    assert command_line.main() == 2
    assert "its disk is full; free some, then type the same command again" in capsys.readouterr().err
