"""The real VictoriaMetrics and loader of TSBS in bad luck; TestMisbehaviour of host/block has all of it with fakes."""

from __future__ import annotations

import pytest
from checkout import CACHE, PROJECT, build
from fakeproject import UNJUDGED, free_port

from tsduel.plan import resolve
from tsduel.question import read

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("blocks")]


def test_503_for_ever(project):
    """Read-only for want of disk: the loader would retry for ever; it is ended in time and the status is named."""
    data = read.read_file(PROJECT / "experiments" / "smoke.yml")
    data |= {"noise": UNJUDGED, "host": {"port": free_port(), "pin": "off"}, "watchdog": {"load_stall_s": 15}}
    data["design"] = {"blocks": 1, "warmup_blocks": 0, "max_failed_blocks": 0}
    full = {"flags": ["-storage.minFreeDiskSpaceBytes=9999999999999"]}
    data["variants"] = dict.fromkeys(("baseline", "candidate"), data["variants"]["baseline"] | full)
    resolve.write(project.run_dir, resolve.resolve(read.validate(data, "test"), run="r", aa=True), cache=CACHE)
    build(project.run_dir)
    said = project.run(expect=3)
    assert "1 of the blocks failed" in said
    found, *_ = project.block("001")["failures"]
    assert found["phase"] == "load"
    assert "no sample was acknowledged for 15 s: the server answers HTTP status 503" in found["message"]
