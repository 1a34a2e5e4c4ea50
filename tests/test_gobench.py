"""Go benchmarks from plan to report, with a small module that is really built and run."""

from __future__ import annotations

import csv
import os
import re

import pytest
from gomodule import BUILD, Module, Run

from tsduel.workloads.gobench import parse

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("blocks")]
# Of time, on a machine that runs other tests: only a factor is seen.
WIDE = {"sec/op": 99.0}


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """Make the module, with one revision."""
    made = Module(tmp_path_factory.mktemp("module") / "small")
    made.plain = made.commit()
    return made


@pytest.fixture
def run(tmp_path):
    """Make an empty run."""
    return Run(tmp_path)


def test_a_known_difference_is_found_and_reported(run, module):
    """A tenth more allocations, bytes and loops are regressions, more work is seen in the time, the rest is equal."""
    variants = {"baseline": module.plain, "candidate": module.commit(loops=1100, allocs=11, slow=20_000)}
    run.plan(variants, design={"blocks": 6, "thresholds": WIDE}, gobench={"profile": ["cpu", "mem"]})
    rows = run.all()
    for unit, name in (("allocs/op", "Work/alloc"), ("B/op", "Work/alloc"), ("loops/op", "Work/spin")):
        row = rows[unit, name]
        assert (row["verdict"], round(row["change_pct"], 6)) == ("regression", 10.0)
    assert rows["sec/op", "Work/slow"]["verdict"] == "regression"
    assert rows["sec/op", "Work/spin"]["verdict"] not in {"regression", "improvement"}
    assert rows["B/op", "Work/spin"]["verdict"] == rows["allocs/op", "Work/spin"]["verdict"] == "equivalent"
    report = run.text("report.md")
    assert "10.0 % more" in report
    # benchstat's own table of the same values stands in it, and where the difference is, function by function.
    assert "+10.00% (p=0.002 n=6)" in report
    assert "example.org/small/work.spin" in report

    # Raw text is what Go wrote, with the same operations on both sides.
    counts = {row["row"]: row["count"] for row in run.json("raw/host1/calibration.json")["rows"]}
    texts = [path.read_text() for path in sorted(run.directory.glob("raw/host1/00[1-6]/*/bench.txt"))]
    assert len(texts) == 12
    for text in texts:
        found = {r.name.rpartition("-")[0].removeprefix("Benchmark"): r.operations for r in parse.results(text)}
        assert found == counts
    # A second call repeats nothing; a block that was interrupted is run again.
    (run.directory / "raw/host1/006").rename(run.directory / "raw/host1/006.partial")
    said = run.stage("run")
    assert re.findall(r"block (\d+) ok", said) == ["6"]


def test_one_binary_as_both_sides_in_short_turns(run, module):
    """Bytes and allocations are identical in every block; each turn is a result of its own, for benchstat too."""
    # Long beside what a process costs before its first operation, on a machine that does other things, too.
    bench = {"bench": "^BenchmarkWork$/^alloc$", "seconds": 6.0}
    run.plan({"baseline": module.plain, "candidate": module.plain}, gobench=bench)
    rows = run.all()
    (planned,) = run.json("raw/host1/calibration.json")["rows"]
    assert planned["parts"] in {4, 8}, planned
    assert rows["allocs/op", "Work/alloc"]["change_pct"] == 0.0
    assert "none failed" in run.text("report.md")
    assert "not made" not in run.text("report.md")
    assert run.text("raw/host1/001/candidate/bench.txt").count("BenchmarkWork/alloc-") >= planned["parts"]
    with (run.directory / "tidy/pairs.csv").open() as stream:
        pairs = [row for row in csv.DictReader(stream) if row["metric"] == "sec/op" and row["block"] != "0"]
    assert {int(row["n"]) for row in pairs} == {planned["parts"]}
    assert all(float(row["se"]) > 0 for row in pairs)


def test_keys_of_the_names_as_columns(run, module):
    """`pivot:` compares every value of a key with the first, in one revision."""
    run.plan({"baseline": module.plain}, gobench={"bench": "^BenchmarkKeys$", "pivot": {"column": "batch"}})
    rows = run.all()
    assert {name for _, name in rows} == {"Keys/size=1", "Keys/size=4", "geomean"}
    assert rows["allocs/op", "Keys/size=4"]["candidate"] == "10"
    # One block is a screen.
    assert rows["allocs/op", "Keys/size=4"]["verdict"] == "inconclusive (n < 6)"


@pytest.mark.parametrize(
    ("package", "parts", "sentence"),
    [
        ("./nosuch", {}, "package ./nosuch cannot be built: there is no such package in this revision"),
        ("./empty", {}, "package ./empty has no tests in this revision, so no benchmarks"),
        ("./cgo", {}, "it needs a C library that is not installed: its header is no_such_header.h"),
        ("./linked", {}, "it needs a C library that is not installed: libno_such_library"),
        ("./work", {"files": ["./data"]}, "gobench.files: there is no ./data in this revision"),
    ],
)
def test_what_cannot_be_built_is_a_sentence(run, module, package, parts, sentence):
    """The last lines of the log, with one that says what is the matter."""
    run.plan({"baseline": module.plain, "candidate": module.plain}, gobench={"package": package, **parts})
    command = [str(BUILD), str(run.directory), "baseline"]
    done = run.call(command, expect=2)
    assert sentence in done
    assert "variant baseline: the build failed; the last lines of " in done
    assert not [path for path in os.scandir(run.root / "cache/variants") if path.is_dir()]
