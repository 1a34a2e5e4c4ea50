"""A disk that fills up under the real database."""

from __future__ import annotations

import contextlib
import json

import pytest
from checkout import CACHE, PROJECT, build
from fakeproject import UNJUDGED, free_port, wait_for

from tsduel.plan import resolve
from tsduel.question import read

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("planted")]


def test_a_disk_that_fills_up_under_victoriametrics(project, small_disk):
    """It refuses to write: the run ends and says which disk, and goes on once there is room."""
    scratch = small_disk(project.cache / "scratch", 200)
    data = read.read_file(PROJECT / "experiments" / "smoke.yml")
    data |= {"noise": UNJUDGED, "host": {"port": free_port()}}
    data["design"] |= {"blocks": 1, "max_failed_blocks": 0}
    data["workload"] |= {"scale": 200}
    project.cache.mkdir(exist_ok=True)
    resolve.write(project.run_dir, resolve.resolve(read.validate(data, "test"), run="r", aa=True), cache=CACHE)
    build(project.run_dir)
    plan = project.run_dir / "plan" / "experiment.json"
    # Small enough for the disk, and large enough that its version is not blamed.
    small = {"data_bytes": 1 << 20, "query_bytes": 1 << 20, "database_bytes": 120 << 20, "results_bytes": 1 << 20}
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"estimate": small}))
    process = project.start()
    wait_for(lambda: process.poll() is not None or project.loads())
    ballast = scratch / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as stream:
        while stream.write(bytes(1 << 20)):
            pass
    said = project.end(process)
    assert process.returncode == 2, said
    assert f"the disk of {scratch} is full (" in said
    assert project.blocks() == []
    ballast.unlink()
    project.run()
    assert project.block("001")["status"] == "ok"
