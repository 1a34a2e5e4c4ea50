"""What several tests share."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from fakecompute import FakeCompute
from fakeproject import Project
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

from tsduel.cli.knobs import KNOBS
from tsduel.places.gcp import api as compute_api
from tsduel.plan import sources

# No test asserts a time: on a busy machine each example may take long.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
# Nobody asks the metadata server from a test: it is Google's.
os.environ["NO_GCE_CHECK"] = "true"
GROUP = re.compile(r"xdist_group\(\"(\w+)\"\)")
# In the order in which they begin: those that take longest first. The tests without a group come last.
GROUPS = ("planted", "databases", "bare", "provider", "blocks", "real", "fleets", "k8s")
# Files whose tests make reports, type make, or start servers, scripts and builds: they are marked `long`.
LONG = re.compile(
    "test_(build|cli|compare|components|crossing|disk|doctor|end_to_end|examine|exports|faults|gcp_faults"
    "|gobench_shared|hostile|hosts|import|make|one_host|outcome|page|pairs|pictures|profiles|provide|remote|report"
    "|runlog|runs|safety|settings|spares|uninstall|upgrade|view_terminal)"
)


@pytest.fixture
def project(tmp_path):
    """Return a project with a fake database, of which nothing runs on after the test."""
    project = Project(tmp_path)
    yield project
    project.clean_up()


@pytest.fixture
def google(monkeypatch):
    """Return a fake Google with one project that gets this process's requests; retries are quick."""
    fake = FakeCompute()
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(compute_api, "FIRST_WAIT_S", 0.01)
    yield fake
    fake.close()


@pytest.fixture(autouse=True)
def _other_revisions():
    """Find revisions anew in each test: a plan finds each once."""
    sources._found.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def _empty_pictures():
    """Leave pictures empty unless a test draws them (`reports.drawing`): they take longer than the rest of a report."""
    with pytest.MonkeyPatch.context() as patch:
        if reports := sys.modules.get("reports"):
            patch.setattr("plots.charts.style.save", reports.sketch)
        yield


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
    # A test gives its own knobs.
    for name in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", *KNOBS} - {"TSDUEL_CACHE"}:
        os.environ.pop(name, None)


def pytest_unconfigure():
    """Remove the lock of these tests."""
    Path(os.environ["TSDUEL_LOCK"]).unlink(missing_ok=True)


def pytest_xdist_make_scheduler(config, log):
    """Run the tests of a group one after the other, in our order."""
    config.option.loadscopereorder = False
    return GroupsByFile(config, log)


class GroupsByFile(LoadGroupScheduling):
    """A file that names a group is in it as a whole.

    xdist's own way is to write the group into Item._nodeid, which pytest 9 has no more: then all run at once, silently.
    """

    def _split_scope(self, nodeid):
        path = nodeid.split("::")[0]
        text = source(Path(self.config.rootpath) / path)
        # What is made for a file is made once.
        return group(text) or (path if 'fixture(scope="module")' in text else nodeid)

    def _reschedule(self, node):
        # xdist gives more to a worker that has two tests left, of which the first may take minutes.
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


@functools.cache
def source(path):
    """Return the text of a test file."""
    return path.read_text(encoding="utf-8")


def group(text):
    """Return the group that the text of a test file names; empty where it names none."""
    found = GROUP.search(text)
    return found[1] if found else ""


def pytest_collection_modifyitems(items):
    """Begin with what takes longest, so that nobody waits for it in the end; mark what FAST=1 leaves out."""
    for item in items:
        if LONG.fullmatch(item.path.stem) or "project" in item.fixturenames:
            item.add_marker("long")
    items.sort(key=lambda item: [*GROUPS, ""].index(group(source(item.path))))


def pytest_terminal_summary(terminalreporter):
    """Say what came of all the kills, and of two commands at once: figures that bench/faults.py reads, too."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    for kind, what, left in (("faults", "kills", "processes left"), ("pairs", "pairs", "left half done")):
        found = [value for report in reports for name, value in report.user_properties if name == kind]
        if found:
            counts = [sum(column) for column in zip(*found, strict=True)]
            terminalreporter.write_line(
                "{}: {} {}, {} blocks lost, {} repeated, {} {}".format(kind, counts[0], what, *counts[1:], left)
            )
