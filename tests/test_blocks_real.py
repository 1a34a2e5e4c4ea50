"""The real VictoriaMetrics in bad luck: every way a block of it can fail ends soon, with a sentence."""

from __future__ import annotations

import os
import signal

import pytest
from checkout import CACHE, PROJECT, build
from fakeproject import UNJUDGED, free_port, marked, wait_for

from tsduel.plan import resolve
from tsduel.question import read

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("blocks")]


@pytest.fixture
def failure(project):
    """Return a function that runs one block whose candidate has these flags, and gives what its record says failed."""

    def run(*flags, meanwhile=None):
        data = read.read_file(PROJECT / "experiments" / "smoke.yml")
        data |= {
            "noise": UNJUDGED,
            "settle": {"drain": False, "polls": 1},
            "host": {"port": free_port(), "pin": "off"},
            "watchdog": {"load_stall_s": 6},
        }
        data["design"] = {"blocks": 1, "warmup_blocks": 0, "max_failed_blocks": 0}
        data["workload"] |= {"scale": 300}
        data["queries"] |= {"types": ["double-groupby-1"]}
        data["variants"]["candidate"] = data["variants"]["baseline"] | {"flags": list(flags)}
        plan = resolve.resolve(read.validate(data, "test"), run="r")
        resolve.write(project.run_dir, plan, cache=CACHE)
        build(project.run_dir)
        process = project.start()
        if meanwhile:
            meanwhile(process)
        said = project.end(process)
        assert process.returncode == 3, said
        assert "1 of the blocks failed" in said
        assert project.alive() == []
        (found,) = project.block("001")["failures"]
        return found

    return run


def test_a_flag_that_it_does_not_know(failure):
    """It ends at once; the sentence has its own words and the place of its log."""
    found = failure("-no.such.flag=1")
    assert (found["variant"], found["phase"]) == ("candidate", "start")
    assert "died: " in found["message"]
    assert "flag provided but not defined: -no.such.flag" in found["message"]
    assert found["message"].endswith("/raw/host1/001/candidate/server.log)")


def test_killed_in_the_middle_of_a_load(project, failure):
    """The load is ended by the server's end and not by its stall, and the sentence says that the server died."""

    def kill(process):
        wait_for(lambda: project.loads() or process.poll() is not None)
        for pid, words in marked(project.cache / "scratch").items():
            if "-storageDataPath=" in words:
                os.kill(pid, signal.SIGKILL)

    found = failure(meanwhile=kill)
    assert found["phase"] == "load"
    assert ") died: " in found["message"]


def test_503_for_ever(failure):
    """Read-only for want of disk: the loader would retry for ever; it is ended in time and the status is named."""
    found = failure("-storage.minFreeDiskSpaceBytes=9999999999999")
    assert found["phase"] == "load"
    assert "no sample was acknowledged for 6 s: the server answers HTTP status 503" in found["message"]


def test_a_query_that_is_answered_with_an_error(failure):
    """The sentence has the query type and what the server answered."""
    found = failure("-search.maxUniqueTimeseries=1")
    assert (found["part"], found["query_type"]) == ("duel", "double-groupby-1")
    assert "422" in found["message"]
