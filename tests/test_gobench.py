"""Go benchmarks from plan to report, with a small module that is really built and run."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import time

import pytest
from gomodule import Module, Run

from tsduel.core.errors import UserError
from tsduel.workloads.gobench import parse

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]
# Of time, on a machine that runs other tests: only a factor is seen.
WIDE = {"sec/op": 99.0}
LINKED = 'package work\n\n// #cgo LDFLAGS: -lno_such_library\n// int f(void);\nimport "C"\n\nvar _ = C.f()\n'
PKG_CONFIG = (
    "it needs a C library that is not installed: no-such-library"
    if shutil.which("pkg-config")
    else 'it needs cgo: "pkg-config": executable file not found'
)


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


@pytest.fixture
def built(run, module):
    """Return a function that plans and builds both sides of one revision, and returns the run."""

    def build(**parts):
        run.plan({"baseline": module.plain, "candidate": module.plain}, **parts)
        run.build()
        return run

    return build


def still_running(run):
    """Return the processes that a run has left, by its cache in their command lines."""
    return subprocess.run(["pgrep", "-f", str(run.cache)], capture_output=True, text=True, check=False).stdout


def test_a_known_difference_is_found_and_reported(run, module):
    """A tenth more allocations, bytes and loops are regressions, more work is seen in the time, the rest is equal."""
    variants = {"baseline": module.plain, "candidate": module.commit(loops=1100, allocs=11, slow=20_000)}
    run.plan(variants, design={"blocks": 6, "thresholds": WIDE})
    run.build()
    run.blocks()
    rows = run.read()
    for unit, name in (("allocs/op", "Work/alloc"), ("B/op", "Work/alloc"), ("loops/op", "Work/spin")):
        row = rows[unit, name]
        assert (row["verdict"], round(row["change_pct"], 6), row["clear"]) == ("regression", 10.0, True)
    assert rows["sec/op", "Work/slow"]["verdict"] == "regression"
    assert rows["sec/op", "Work/spin"]["verdict"] not in {"regression", "improvement"}
    assert rows["B/op", "Work/spin"]["verdict"] == "equivalent"
    assert rows["allocs/op", "Work/spin"]["verdict"] == "equivalent"
    assert {(u, r["family"]) for (u, n), r in rows.items() if n == "geomean"} == {
        ("sec/op", "primary"), ("B/op", "primary"), ("allocs/op", "primary"),
    }  # fmt: skip
    report = run.text("report.md")
    assert "✗ **Memory** (geometric mean): 10.0 % more" in report
    assert "1 of 3 rows worse, most Work/alloc (+10.0 %)" in report
    # benchstat's own table of the same values stands in it.
    assert "+10.00% (p=0.002 n=6)" in report
    assert "checked 86 of 86, none failed" in report

    # Raw text is what Go wrote, of one process a benchmark, with the same operations on both sides.
    counts = {row["row"]: row["count"] for row in run.json("raw/calibration.json")["rows"]}
    for path in sorted(run.directory.glob("raw/0[1-6]-*/bench.txt")):
        found = {
            r.name.rpartition("-")[0].removeprefix("Benchmark"): r.operations for r in parse.results(path.read_text())
        }
        assert found == counts
        assert path.read_text().count("\nPASS\n") == 3
    orders = {tuple(p["query_type"] for p in run.json(f"raw/{path.parent.name}/round.json")["phases"])
              for path in run.directory.glob("raw/0[1-6]-*/bench.txt")}  # fmt: skip
    assert len(orders) > 1

    # A second call repeats nothing; a round that was interrupted is run again.
    last = next(run.directory.glob("raw/06-2-*"))
    last.rename(f"{last}.partial")
    said = run.blocks()
    assert f" {last.name} begins (measured)" in said
    assert said.count("begins") == 1


def test_one_binary_as_both_sides_differs_in_nothing_but_noise(run, module):
    """A/A: bytes and allocations are identical in every block, and no time is called different."""
    sides = {"baseline": module.plain, "candidate": module.plain}
    bench = {"bench": "^BenchmarkWork$/^(spin|alloc)$"}
    run.plan(sides, aa=True, design={"blocks": 6, "thresholds": WIDE}, gobench=bench)
    run.build()
    run.blocks()
    rows = run.read()
    assert {r["verdict"] for (unit, _), r in rows.items() if unit in {"B/op", "allocs/op", "loops/op"}} == {
        "equivalent"
    }
    assert rows["allocs/op", "Work/alloc"]["warnings"] == "identical in every block"
    assert "**the same binary** (A/A)" in run.text("report.md")
    (kept,) = (run.directory.parent / "aa").glob("*.gobench.json")
    assert json.loads(kept.read_text())["gobench"]["package"] == "./work"
    assert {r["verdict"] for (unit, _), r in rows.items() if unit == "sec/op"} <= {
        "equivalent",
        "inconclusive",
        "negligible",
    }


def test_a_benchmark_gets_a_clean_directory_and_the_package_s_testdata(built):
    """What one process writes the next does not see; what `require:` names must be above zero."""
    run = built(gobench={"bench": "^BenchmarkReads$", "require": [{"output": "rows=([0-9]+)"}]}, design={"blocks": 2})
    run.blocks()
    run.read()
    with (run.directory / "tidy/checks.csv").open() as stream:
        checks = [row for row in csv.DictReader(stream) if row["check"] == "bench_required"]
    assert [(c["actual"], c["ok"]) for c in checks] == [("5", "true")] * 4


def test_a_required_metric_of_zero_is_a_failed_check(built):
    """An empty answer cannot pass: its rows are not compared, and the report says which benchmark it was."""
    run = built(gobench={"bench": "^BenchmarkReads$", "require": [{"metric": "empty/op"}]})
    run.blocks()
    run.read()
    assert run.json("stats/comparison.json")["checks"]["failed"] == 2
    assert "empty/op is not there, or not above zero (`bench_required`)" in run.text("report.md")
    assert "3 FAILED" not in run.text("report.md")
    assert run.text("tidy/measurements.csv").count("\n") == 1


def test_names_that_differ_meet_in_one_row(run, module):
    """With `rename:` each variant has a pattern of its own; several candidates stand beside one baseline."""
    sides = {
        "baseline": {**module.plain, "bench": "^BenchmarkWork$/^spin$"},
        "candidate": {**module.plain, "bench": "^BenchmarkWork$/^alloc$"},
        "slow": {**module.plain, "bench": "^BenchmarkWork$/^slow$"},
    }
    run.plan(sides, gobench={"rename": [{"match": "/(spin|alloc)$", "to": "/of-$1"}, {"drop": 1}]})
    run.build()
    run.blocks()
    (row,) = run.json("raw/calibration.json")["rows"]
    assert row["row"] == "Work"
    assert row["names"] == {
        "baseline": "BenchmarkWork/spin",
        "candidate": "BenchmarkWork/alloc",
        "slow": "BenchmarkWork/slow",
    }
    rows = run.read()
    assert rows["B/op", "Work"]["candidate_median"] == 10 * 1024
    # One block is a screen.
    assert rows["sec/op", "Work"]["verdict"] == "inconclusive (n < 6)"
    header = next(line for line in run.text("report.md").splitlines() if line.startswith("| Benchmark"))
    assert [f"({name})" in header for name in sides] == [True] * 3
    assert {path.name for path in (run.directory / "stats").glob("*.bench.txt")} == {f"{n}.bench.txt" for n in sides}


def test_keys_of_the_names_as_columns(run, module):
    """`pivot:` compares every value of a key with the first, in one revision."""
    run.plan({"baseline": module.plain}, gobench={"bench": "^BenchmarkKeys$", "pivot": {"column": "batch"}},
             design={"blocks": 6, "thresholds": WIDE})  # fmt: skip
    run.build()
    run.blocks()
    rows = run.read()
    assert run.json("stats/comparison.json")["baseline"] == "1"
    assert {name for _, name in rows} == {"Keys/size=1", "Keys/size=4", "geomean"}
    for name, change in (("Keys/size=1", 11 / 20 - 1), ("Keys/size=4", 14 / 50 - 1)):
        row = rows["allocs/op", name]
        assert (row["candidate"], row["verdict"]) == ("10", "improvement")
        assert row["change_pct"] == pytest.approx(100 * change)
    report = run.text("report.md")
    assert "batch=10 against batch=1" in report
    assert "│      1      │" in report or "│     1      │" in report  # benchstat's columns


def test_a_benchmark_of_one_side_is_reported_and_not_compared(run, module):
    """What exists only in the candidate has its value in the table, and no verdict."""
    run.plan({"baseline": {**module.plain, "bench": "^BenchmarkWork$/^spin$"},
              "candidate": {**module.plain, "bench": "^BenchmarkWork$/^(spin|slow)$"}})  # fmt: skip
    run.build()
    run.blocks()
    row = run.read()["sec/op", "Work/slow"]
    assert (row["verdict"], row["baseline_median"]) == ("not comparable", None)
    assert row["candidate_median"] > 0
    assert "Work/slow exists in" in run.text("report.md")


@pytest.mark.parametrize(
    ("bench", "sentences"),
    [
        ("^BenchmarkNope$", ["the pattern ^BenchmarkNope$ matches no benchmark of", "BenchmarkKeys, BenchmarkLeaves"]),
        ("^BenchmarkWork$/^nope$", ["matches no benchmark of", "BenchmarkWork"]),
        ("^BenchmarkFails$", ["ended with exit code 1: bad_test.go:9: the cluster is down --- FAIL: BenchmarkFails"]),
        ("^BenchmarkSkips$", ["was not measured: bad_test.go:10: needs an S3 bucket --- SKIP: BenchmarkSkips"]),
        ("^BenchmarkPanics$", ["ended with exit code 2: panic: index out of range"]),
        ("^BenchmarkLeaves$", ["ended with exit code 1: panic: unexpected call to os.Exit(0)", "ended without PASS"]),
        ("^BenchmarkSleeps$", ["hangs: no output and no CPU for 3 s (watchdog.idle_s)"]),
        ("^BenchmarkSpins$", ["did not end: no output for 6 s (watchdog.silent_s)"]),
    ],
)
def test_what_measures_nothing_fails_with_its_reason(built, bench, sentences):
    """No benchmark that fails, skips, panics, hangs, or is not there gets as far as a figure."""
    patience = {"idle_s": 3, "silent_s": 6} if bench[-3:] == "ps$" or bench == "^BenchmarkSpins$" else {}
    run = built(gobench={"bench": bench}, watchdog=patience)
    said = run.blocks(expect=3)
    assert any(sentence in said for sentence in sentences), said
    assert not (run.directory / "raw/calibration.json").exists()
    # Nothing of it runs on.
    assert still_running(run) == ""


def test_an_interrupted_run_leaves_nothing_running(built):
    """SIGTERM ends the benchmark with the round, and says how to go on."""
    run = built(gobench={"bench": "^BenchmarkSpins$"})
    with subprocess.Popen(
        [run.scripts / "run-rounds", run.directory],
        env=run.env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 120
        while "BenchmarkSpins" not in "".join(p.read_text() for p in run.directory.glob("raw/*.partial/part.stdout")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "To go on: make gobench RUN=r" in said
    assert still_running(run) == ""


@pytest.mark.parametrize(
    ("package", "change", "sentence"),
    [
        ("./nowhere", {}, "package ./nowhere cannot be built: there is no such package in this revision"),
        ("./empty", {}, "package ./empty has no tests in this revision, so no benchmarks"),
        ("./work", {"go.mod": "module example.org/small\n\ngo 1.99\n"}, "its module needs Go 1.99 or newer"),
        (
            "./work",
            {"work/c.go": 'package work\n\n// #include <no_such_library.h>\nimport "C"\n'},
            "it needs a C library that is not installed: its header is no_such_library.h",
        ),
        (
            "./work",
            {"work/c.go": LINKED},
            "it needs a C library that is not installed: libno_such_library",
        ),
        (
            "./work",
            {"work/c.go": 'package work\n\n// #cgo pkg-config: no-such-library\nimport "C"\n'},
            PKG_CONFIG,
        ),
    ],
)
def test_a_package_that_cannot_be_built_says_why(run, tmp_path, package, change, sentence):
    """The build fails in a sentence of ours, behind what Go said."""
    broken = Module(tmp_path / "broken")
    for name, text in change.items():
        broken.repository.write(name, text)
    variant = broken.commit()
    run.plan({"baseline": variant, "candidate": variant}, gobench={"package": package})
    script_said = run.build_first(expect=2)
    assert sentence in script_said


def test_files_that_are_named_must_be_there(run, module):
    """`files:` is copied as it lies in the module, and what is missing is named."""
    run.plan({"baseline": module.plain, "candidate": module.plain}, gobench={"files": ["./go.mod", "no/such"]})
    assert "gobench.files: there is no no/such in this revision" in run.build_first(expect=2)


def test_names_that_do_not_meet_are_refused_before_anything_is_measured(run, module):
    """Two patterns without a `rename:` have no row in common; a rename that maps two names to one row is refused."""
    sides = {"baseline": {**module.plain, "bench": "^BenchmarkWork$/^spin$"},
             "candidate": {**module.plain, "bench": "^BenchmarkWork$/^alloc$"}}  # fmt: skip
    run.plan(sides)
    run.build()
    said = run.blocks(expect=2)
    assert (
        "no benchmark of candidate has the row of one of baseline (Work/alloc and Work/spin): see gobench.rename"
        in said
    )
    assert json.loads(run.text("plan/experiment.json"))["kind"] == "gobench"


def test_a_rename_that_joins_two_benchmarks_is_refused(built):
    """Every benchmark of a variant needs a row of its own."""
    said = built(gobench={"rename": [{"drop": 1}]}).blocks(expect=2)
    assert "gobench.rename: BenchmarkWork/" in said
    assert "of baseline would both be the row Work" in said


def test_profiles_on_demand(run, module):
    """`profile:` keeps the profiles of one more run, and shows where the difference is, function by function."""
    variants = {
        "baseline": {**module.plain, "bench": "^BenchmarkWork$/^(slow|alloc)$"},
        "candidate": {**module.commit(slow=10_000, allocs=11), "bench": "^BenchmarkWork$"},
    }
    run.plan(variants, gobench={"seconds": 0.3, "profile": ["cpu", "mem"]})
    run.build()
    run.blocks()
    kept = {path.name for path in (run.directory / "raw/profiles").iterdir()}
    profiles = {f"{variant}.{kind}.pprof" for variant in ("baseline", "candidate") for kind in ("cpu", "mem")}
    assert kept == {"bench.stderr", "bench.txt"} | profiles
    run.read()
    report = run.text("report.md")
    cpu, memory = report.partition("CPU, candidate minus baseline")[2].split(
        "memory allocated, candidate minus baseline"
    )
    assert "example.org/small/work.spin" in cpu
    # Both sides did the same number of operations, so it is about a tenth as in B/op; what one side lacks is not in it.
    share = re.search(r"Showing nodes accounting for [0-9.]+[kMG]B, ([0-9.]+)% of", memory)
    assert share
    assert 6.0 < float(share[1]) < 14.0
    assert "Work.func1" not in cpu


def test_a_run_without_its_raw_files_is_refused(built):
    """A round that was finished and has lost its text is no round."""
    run = built(gobench={"bench": "^BenchmarkWork$/^spin$"})
    run.blocks()
    next(run.directory.glob("raw/01-1-*/bench.txt")).unlink()
    with pytest.raises(UserError, match=r"bench\.txt is missing, though its round was finished"):
        run.read()
