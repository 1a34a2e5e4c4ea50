"""What several tests share."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from fakeproject import Project
from xdist.scheduler import LoadGroupScheduling

GROUP = re.compile(r"xdist_group\(\"(\w+)\"\)")


@pytest.fixture
def project(tmp_path):
    """Return a project with a fake database, of which nothing runs on after the test."""
    project = Project(tmp_path)
    yield project
    project.clean_up()


@pytest.fixture
def small_disk():
    """Return a function that mounts a small disk on a directory."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root; CI has it")
    mounted = []

    def mount(directory, mib):
        directory.mkdir(parents=True, exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tsduel-test", directory]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        mounted.append(directory)
        return directory

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "-l", directory], check=False)


def pytest_configure():
    """Let what tests start be interrupted: a suite that was started in the background has SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Runs of tests beside each other, and beside a real one, do not exclude each other.
    os.environ["TSDUEL_LOCK"] = str(Path(tempfile.gettempdir()) / f"tsduel-tests-{os.getpid()}.lock")
    # `make test` exports every knob, RUN=latest among them: a test gives its own.
    makefile = Path(__file__).resolve().parent.parent / "Makefile"
    knobs = re.findall(r"^(\w+) \?=", makefile.read_text(encoding="utf-8"), re.MULTILINE)
    for name in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", *knobs} - {"TSDUEL_CACHE"}:
        os.environ.pop(name, None)


def pytest_unconfigure():
    """Remove the lock of these tests."""
    Path(os.environ["TSDUEL_LOCK"]).unlink(missing_ok=True)


def pytest_xdist_make_scheduler(config, log):
    """Run the tests of a group one after the other."""
    return GroupsByFile(config, log)


class GroupsByFile(LoadGroupScheduling):
    """A file that names a group is in it as a whole.

    xdist's own way is to write the group into Item._nodeid, which pytest 9 has no more: then all run at once, silently.
    """

    def _split_scope(self, nodeid):
        path = nodeid.split("::")[0]
        if path not in _GROUPS:
            found = GROUP.search((Path(self.config.rootpath) / path).read_text(encoding="utf-8"))
            _GROUPS[path] = found[1] if found else ""
        return _GROUPS[path] or nodeid


_GROUPS: dict[str, str] = {}


def pytest_terminal_summary(terminalreporter):
    """Say what came of all the kills: the figures of issue 7, which bench/faults.py reads, too."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    found = [value for report in reports for name, value in report.user_properties if name == "faults"]
    if found:
        kills, lost, repeated, left = (sum(column) for column in zip(*found, strict=True))
        terminalreporter.write_line(
            f"faults: {kills} kills, {lost} blocks lost, {repeated} repeated, {left} processes left"
        )
