"""Operations at fixed rates: what may be asked, what is sent and stored, what the report makes of it."""

from __future__ import annotations

import json

import pytest
from asking import TYPES, asked, planned, written
from reports import reported

from tsduel.core.errors import UserError
from tsduel.core.rundir import open_run
from tsduel.question import read
from tsduel.targets import databases
from tsduel.tidy.read import read_table
from tsduel.workloads import workload_of
from tsduel.workloads.tsbs.read import read_counts

MIXED = {"seconds": 1, "ingest": 2000, "queries": 50, "batch_size": 10, "connections": 4, "late_pct": 100}
LADDER = {"seconds": 1, "rates": [20, 40], "within_ms": 5000, "connections": 4, "late_pct": 100}


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"mixed": MIXED | {"queries": 0}}, "mixed.queries"),
        ({"mixed": MIXED | {"ingest": -5}}, "mixed.ingest"),
        ({"mixed": MIXED | {"queries": 1e6, "seconds": 60}}, "60,000,000 queries in one phase; 10,000,000 at most"),
        ({"mixed": MIXED | {"seconds": 3, "window_s": 0.3}}, "a slope is of 12 windows at least: fewer seconds each"),
        ({"mixed": MIXED | {"types": ["cpu-max-all-8"]}}, "mixed.types: cpu-max-all-8 is none of queries.types"),
        ({"capacity": LADDER | {"types": ["lastpoint"]}}, "capacity.types: lastpoint is none of queries.types"),
        ({"capacity": LADDER | {"rates": [40, 20]}}, "rates: each has to be higher than the one before it"),
        ({"capacity": LADDER | {"rates": [0, 20]}}, "capacity.rates"),
        ({"workload": {"churn": {"pct": 10, "every_s": 60}}}, "workload.churn: has no effect without `mixed:`"),
        ({"mixed": MIXED, "workload": {"churn": {"pct": 10, "every_s": 360_000}}}, "are not shorter than all"),
    ],
)
def test_what_cannot_be_sent_is_refused(parts, sentence):
    """Before anything is built, with the key and what is allowed."""
    with pytest.raises(UserError) as caught:
        asked(**parts)
    assert sentence in str(caught.value)


def test_a_database_that_takes_no_lines_is_refused(monkeypatch):
    """There is nothing that could be sent at a rate."""
    database = databases()["victoriametrics"]
    no_lines = type(database)(**(vars(database) | {"target": database.target.model_copy(update={"write_path": ""})}))
    monkeypatch.setitem(databases(), "victoriametrics", no_lines)
    with pytest.raises(UserError, match="mixed: victoriametrics does not take lines over HTTP"):
        read.validate(written(mixed=MIXED), "x.yml")


def test_what_is_written_lies_behind_what_was_loaded():
    """Whole intervals that hold all of it, under a key of their own, which churn changes."""
    plan = planned(mixed=MIXED)
    mixed = plan.mixed
    # 200 lines of 2 hosts are 100 hours.
    assert (mixed.start, mixed.end, mixed.lines, mixed.samples) == (
        *(plan.workload.end, "2025-06-15T04:00:00Z"),
        *(200, 2000),
    )
    churned = planned(mixed=MIXED, workload={"churn": {"pct": 50, "every_s": 3600}}).mixed
    assert len({plan.workload.data[0].key, mixed.data[0].key, churned.data[0].key}) == 3
    assert mixed.types == tuple(TYPES[:1])
    assert plan.measures("mixed")
    assert not plan.measures("capacity")


def test_a_window_in_another_month_is_said():
    """It is allowed: a partition that begins is what somebody may want to see."""
    plan = planned(mixed=MIXED | {"ingest": 20_000})
    said = workload_of(plan).described(plan)
    assert said[-1].startswith("warning   mixed writes up to 2025-07-")


@pytest.mark.slow
def test_a_block_at_fixed_rates(project):
    """Sent is stored, all is answered, histograms are kept, the report has it; what is void is in no figure."""
    sections = {"queries": {"types": TYPES}, "workload": {"churn": {"pct": 50, "every_s": 7200}}}
    project.plan(
        mixed=MIXED, capacity=LADDER, duel={"enabled": False}, design={"reload": "once", "blocks": 2}, **sections
    )
    project.run()
    for name in ("001", "002"):
        block = project.block(name)
        assert (block["status"], block["failures"], block["void"]) == ("ok", [], "")
        assert [p["phase"] for p in block["phases"] if p["part"] != "solo"] == (
            ["start", "mixed", "stop"] * 2 + ["start", "rung", "rung", "stop"] * 2
        )
        for variant in ("baseline", "candidate"):
            (phase,) = block["mixed"][variant]["phases"]
            query, batch = phase["streams"]
            assert (query["planned"], query["answered"], batch["planned"], batch["answered"]) == (50, 50, 20, 20)
            assert phase["samples"] == phase["counters"]["stored"] == 2000
            assert [rung["held"] for rung in block["capacity"][variant]["phases"]] == [True, True]
            counts = read_counts(project.run_dir / "raw/host1" / name / variant / "mixed.csv.gz")
            assert sum(counts[50.0, "query", "response"].values()) == 50
            assert max(counts[50.0, "query", "response"]) >= query["response_ns"]["max"]
    assert not list((project.cache / "scratch").glob("feed.*"))  # a finished run leaves no data

    block = project.block("002")
    block["mixed"]["candidate"]["phases"][0]["void"] = "the client used 97 % of its CPUs"
    (project.run_dir / "raw/host1/002/block.json").write_text(json.dumps(block))
    run = open_run(project.run_dir)
    reported(run.path)
    pooled = read_table(run.path, "responses")
    of = pooled[(pooled["part"] == "mixed") & (pooled["operation"] == "query") & (pooled["time"] == "response")]
    assert of.groupby("variant")["n"].max().to_dict() == {"baseline": 100, "candidate": 50}
    values = read_table(run.path, "measurements")
    assert (values["metric"] == "mixed_query_p99_ms").sum() == 3
    said = (run.path / "report.md").read_text()
    assert "## Writes and queries at once, at a fixed rate" in said
    assert "(candidate) in 1 phase**, first in block 2: the client used 97 %" in said
    assert "held all of the ladder: its capacity is 40 queries/s or more in 2 blocks" in said
    assert "[![p99 of response times against the rate" in said

    block = project.block("001")
    block["capacity"]["candidate"]["phases"] = [
        block["capacity"]["candidate"]["phases"][0] | {"void": "the client was late", "held": False}
    ]
    (project.run_dir / "raw/host1/001/block.json").write_text(json.dumps(block))
    reported(run.path)
    said = (run.path / "report.md").read_text()
    assert "held no rung" not in said  # nobody has tested the server
