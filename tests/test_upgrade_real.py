"""From v1.132.0 of VictoriaMetrics to v1.133.0 with data on disk, and back: whatever comes of that is on record."""

from __future__ import annotations

import pytest
from checkout import CACHE, PROJECT, build
from fakeproject import UNJUDGED, free_port

from tsduel.plan import resolve
from tsduel.question import read

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("blocks")]


def test_an_upgrade_and_the_way_back(project):
    """Both start on what v1.132.0 left, and agree in every answer over old and new data; the way back is on record."""
    data = read.read_file(PROJECT / "experiments" / "upgrade-partition-index.yml")
    data |= {"noise": UNJUDGED, "host": {"port": free_port(), "pin": "off"}}
    data["design"] |= {"blocks": 1, "warmup_blocks": 0, "spare_blocks": 0, "reload": "every"}
    data["workload"] |= {"scale": 20}
    data["queries"] |= {"types": ["single-groupby-1-1-1", "cpu-max-all-8"], "max_count": 100}
    data["duel"] |= {"seconds": 0.2, "min_exchanges": 8}
    plan = resolve.resolve(read.validate(data, "test"), run="r")
    resolve.write(project.run_dir, plan, cache=CACHE)
    build(project.run_dir)
    project.run()
    block = project.block("001")
    assert (block["status"], block["failures"], block["void"]) == ("ok", [], "")
    upgrade = block["upgrade"]
    for name in ("baseline", "candidate"):
        start, copy = upgrade["start"][name], upgrade["copies"][name]
        assert 0 < start["start_s"] < start["first_answer_s"] <= start["quiet_s"]
        # Files of parts are shared, and are what they were: a block in which one was written to has no record.
        assert copy["linked"] >= 4
        assert copy["copied"] > 0
        assert upgrade["ingest"][name]["written_bytes"] > 0
    asked = [of for duel in ("before", "after") for of in upgrade[duel]["types"]]
    assert len(asked) == 6 * 2  # in two sittings
    assert all(of["exchanges"] == of["compared"] >= 4 and of["differences"] == of["empty"] == 0 for of in asked)
    back = upgrade["downgrade"]["candidate"]
    assert back["starts"] or back["said"]
    assert [of["asked"] for of in back["answers"]] == [16] * 3 * back["starts"]
    # Nothing is taken back of what the baseline had written itself.
    assert not back["starts"] or back["answers"][0]["same"] == 16
