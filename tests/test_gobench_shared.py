"""What leaves a run of Go benchmarks: exports, the block for a pull request, pictures and the page."""

import csv
import json
import math
import re
from dataclasses import replace

import jsonschema
import profiled
import pytest
import synthetic_gobench as synthetic
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from synthetic import tidied
from test_exports import BENCHER, CUSTOM_BENCHMARKS

from plots import comment, exports, report
from plots.exports.trackers import LONGEST, safe
from plots.sections import bench, blocks, profiles
from plots.source import open_source
from tsduel.plan import changes
from tsduel.stats import compare, outcome

SPEC = synthetic.Spec()
OWN = {**synthetic.UNITS, "rows/op": 5.0, "hits": 3.0, "MB/s": 20.0, "ms/op": 7.0}
DIRECTED = synthetic.Spec(units=OWN, go={"units": {"rows/op": "higher"}})
TRACKERS = {"smaller-is-better.json", "bencher.json", "otava-candidate.csv", "otava.yaml"}
ALWAYS = {"baseline.bench.txt", "candidate.bench.txt", "openmetrics.txt"}
THREE = synthetic.Spec(variants=("baseline", "curr-pt", "pt-only"), factors={"pt-only": {"B/op": 1.2}})
PIVOT = synthetic.Spec(variants=("baseline",), columns=("1", "10"), factors={"10": {"allocs/op": 0.5}})


@pytest.fixture(autouse=True)
def _no_benchstat(monkeypatch):
    """Leave benchstat out, which has to be built; tests/test_gobench.py has the real one."""
    monkeypatch.setattr(bench, "printed", lambda words, *_: f"benchstat of {words[-1]}")


def made(path, spec=SPEC, **changes):
    """Write a run, and take it through tidy and compare."""
    run = synthetic.write_run(path / "20261120T140000Z-small", spec, **changes)
    tidied(run)
    compare.main(run)
    return run


def exported(path, spec=SPEC, **changes):
    """Do the same and export it; return the run, and which files there are."""
    run = made(path, spec, **changes)
    exports.main(run)
    return run, {file.name for file in (run / "exports").iterdir()}


def families(run):
    """Read the exposition with prometheus_client's own OpenMetrics parser."""
    found = text_string_to_metric_families((run / "exports/openmetrics.txt").read_text())
    return {family.name: family for family in found}


def test_a_result_has_every_export(tmp_path):
    """The same files as of a database; names hold the unit and the row, and no revision."""
    run, files = exported(tmp_path)
    assert files == ALWAYS | TRACKERS
    assert (run / "exports/candidate.bench.txt").read_bytes() == (run / "stats/candidate.bench.txt").read_bytes()
    entries = json.loads((run / "exports/smaller-is-better.json").read_text())
    jsonschema.validate(entries, CUSTOM_BENCHMARKS)
    by_name = {entry["name"]: entry for entry in entries}
    units, rows = ("sec/op", "B/op", "allocs/op"), (*SPEC.rows, "geomean")
    assert set(by_name) == {f"small/candidate/{unit}/{row}" for unit in units for row in rows}
    entry = by_name["small/candidate/B/op/Search/Names/100"]
    assert (entry["value"], entry["unit"]) == (pytest.approx(2048 * 1.1 * 2, rel=1e-5), "B/op")
    assert entry["extra"].splitlines() == [
        f"v1.1.0, revision {'candidate':0<40}",
        "median of 6 blocks",
        f"against v1.0.0, revision {'baseline':0<40}: +10.0 %, regression",
        "Intel(R) Xeon(R) CPU @ 2.20GHz; package ./p; run 20261120T140000Z-small",
    ]

    document = json.loads((run / "exports/bencher.json").read_text())
    jsonschema.validate(document, BENCHER)
    assert set(document) == {f"small/candidate/{row}" for row in rows}
    assert set(document["small/candidate/geomean"]) == {"sec-op", "b-op", "allocs-op"}
    with (run / "exports/otava-candidate.csv").open(newline="") as stream:
        (line,) = csv.DictReader(stream)
    assert line["commit"] == f"{'candidate':0<40}"
    assert float(line["allocs/op.Search/Data/100"]) == 100.0
    assert "sec/op.geomean" in line


def test_a_benchmark_s_own_metrics_are_exported_with_their_direction(tmp_path):
    """A unit that nobody has given a direction is tracked nowhere; OpenMetrics has them all."""
    run, files = exported(tmp_path, DIRECTED)
    assert "bigger-is-better.json" in files
    names = {entry["name"] for entry in json.loads((run / "exports/bigger-is-better.json").read_text())}
    assert names == {
        *(f"small/candidate/rows/op/{row}" for row in SPEC.rows),
        *(f"small/candidate/B/s/{row}" for row in (*SPEC.rows, "geomean")),
    }
    assert "hits" not in (run / "exports/smaller-is-better.json").read_text()
    found = families(run)
    units = {"seconds_per_op", "bytes_per_op", "allocs_per_op", "bytes_per_second", "rows_per_op", "hits", "ms_per_op"}
    assert set(found) == {"tsduel_variant", *(f"tsduel_bench_{unit}" for unit in units)}
    samples = found["tsduel_bench_seconds_per_op"].samples
    assert len(samples) == 2 * SPEC.blocks * len(SPEC.rows)
    assert {sample.labels["benchmark"] for sample in samples} == set(SPEC.rows)
    assert all(1e-5 < sample.value < 1e-3 for sample in samples)
    # Its own units are not converted: nobody knows what they mean.
    assert {sample.value for sample in found["tsduel_bench_ms_per_op"].samples} == {7.0, 14.0}


def test_names_that_another_tool_allows():
    """Any word may be a unit: what has no letters, is too long or would be another's gets a name of its own."""
    words = ["sec/op", "B/op", "b-op", "%", "µ", "x" * 99]
    found = safe({word: word for word in words}, "-")
    assert found["sec/op"] == "sec-op"
    assert re.fullmatch("b-op-[0-9a-f]{8}", found["B/op"])
    assert len(set(found.values())) == len(words)
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name) and len(name) <= LONGEST for name in found.values())
    assert safe({word: word for word in reversed(words)}, "-") == found


def test_keys_as_columns_are_exported_as_one_revision(tmp_path):
    """A pivot has no candidate that a tracker could follow; its columns are variants to OpenMetrics."""
    run = made(tmp_path, PIVOT)
    assert "with a pivot there is one revision" in exports.main(run)
    assert {file.name for file in (run / "exports").iterdir()} == {"baseline.bench.txt", "openmetrics.txt"}
    found = families(run)
    assert {s.labels["variant"] for s in found["tsduel_bench_allocs_per_op"].samples} == {"1", "10"}
    assert {s.labels["revision"] for s in found["tsduel_variant"].samples} == {f"{'baseline':0<40}"}


def test_the_comment_begins_with_the_answer_and_warns(tmp_path):
    """Worse memory, better time; toolchains that differ and a row that one side lacks are told, once each."""
    lacking = replace(SPEC, only={"Search/Names/100": "baseline"}, go_versions={"candidate": "go1.27.0"})
    run = made(tmp_path, lacking)
    found = comment.main(run).splitlines()
    assert found[0].startswith("<!-- tsduel: ")
    assert found[2].startswith(
        "**v1.1.0 against v1.0.0**: **✗ worse**: Memory, all benchmarks (10.0 % more). **✓ better**: "
    )
    said = "\n".join(found)
    assert "The toolchains differ (baseline go1.26.8, candidate go1.27.0)" in said
    assert said.count("Search/Names/100 exists in v1.0.0 only: it is shown, and not compared.") == 1
    assert re.search(r"\| Search/Data/100 +\|", said) or "Time, Search/Data/100" in said


def test_a_unit_that_one_side_lacks_is_named_and_not_its_benchmark(tmp_path):
    """The benchmark is on both sides."""
    run = made(tmp_path)
    table, mine = run / "tidy/measurements.csv", ("candidate", "B/op", "Search/Data/100")
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if not all(f",{word}," in line for word in mine)))
    compare.main(run)
    said = comment.main(run)
    assert "Memory, Search/Data/100 has a value in v1.0.0 only" in said
    assert "exists in" not in said


@pytest.mark.parametrize(
    ("spec", "drawn"),
    [
        (SPEC, {"change", "change-narrow", "change-in-memory", "blocks"}),
        (THREE, {"change", "blocks"}),
        (PIVOT, {"change", "blocks"}),
    ],
)
def test_the_report_of_every_shape(tmp_path, capsys, spec, drawn):
    """The sections of benchmarks, its pictures, a column a unit with units that suit, benchstat's own view."""
    run = made(tmp_path, spec)
    report.main(run)
    found = (run / "report.md").read_text()
    assert re.findall(r"^## (.*)$", found, re.MULTILINE)[:3] == ["What differs", "Benchmarks", "benchstat's view"]
    assert drawn <= {path.stem for path in run.glob("plots/*.svg")}
    assert "benchstat of" in found
    assert re.search(r"\| Search/Data/100 +\| +\d[\d.]+ → \d[\d.]+ µs/op \([-+]\d", found)
    assert re.search(r"Checked (\d+) of \1, none failed", found)
    assert found.count("**Answer.**") == len(spec.columns or spec.variants) - 1
    assert "`-test.benchmem -test.benchtime=Nx`" in found
    report.print_summary(run)
    assert "Time, Search/Data/100" in capsys.readouterr().out


def test_profiles_of_the_difference(tmp_path, monkeypatch):
    """Functions, flame graph and pprof's view of each kind; what benchmarks held at their end means nothing."""
    monkeypatch.setattr(profiles, "printed", lambda words, *_: " ".join(words[3:6]))
    monkeypatch.setattr(changes, "between", lambda *_: changes.Changes(why="nobody knows"))
    of = [
        (profiled.entry(side, work="", role="", kind=kind, file=f"{side}.{kind}", operations=0), stacks)
        for side, stacks in (("baseline", profiled.BASELINE), ("candidate", profiled.CANDIDATE))
        for kind in ("cpu", "heap")
    ]
    run = synthetic.write_run(tmp_path / "run", replace(SPEC, go={"profile": ["cpu", "mem"]}))
    profiled.write(run, of)
    tidied(run)
    compare.main(run)
    report.main(run)
    said = (run / "report.md").read_text().partition("## Profiles of the difference")[2]
    assert re.findall("^### (.*)$", said, re.MULTILINE) == [
        "CPU of the benchmarks",
        "Memory allocated of the benchmarks",
    ]
    assert "10 → 10.70 s (+7.0 %, by chance up to 13.6) in the profile. In the measured blocks it is part of" in said
    assert "app/vmselect.planted" in said
    assert "```text\ngo tool pprof" in said
    assert len(list(run.glob("plots/flame-*.svg"))) == 2


def test_a_benchmark_that_broke_begins_the_answer_and_is_a_failed_check(tmp_path, capsys):
    """It is found by the warm-up block, whose other failures count for nothing; the mean of the others stands."""
    row, why = "Search/Names/100", "BenchmarkSearch/Names/100 ended with exit code 2: panic: queue is closed"
    run = made(tmp_path, replace(SPEC, only={row: "baseline"}, lacking={row: ("candidate", why)}))
    answer = comment.main(run).splitlines()[2]
    assert f"**: **✗ a check failed**: v1.1.0: {why}. **✗ worse**: Memory" in answer
    assert outcome.exit_code(run, "") == outcome.exit_code(run, "regression") == 4
    assert f"1 check failed (candidate: {why})" in capsys.readouterr().err
    report.print_summary(run)
    assert f"✗ a check failed: v1.1.0: {why}" in capsys.readouterr().out


def test_one_program_on_both_sides_begins_every_answer(tmp_path, capsys):
    """Two revisions whose executables are the same bytes: report, comment and terminal say so first."""
    run, said = made(tmp_path, replace(SPEC, sha256="ab" * 32)), "! Both sides run the same program"
    assert f"**: **{said}**: they differ in revision" in comment.main(run).splitlines()[2]
    report.main(run)
    assert said in (run / "report.md").read_text().partition("Answer.")[2][:200]
    report.print_summary(run)
    assert said in capsys.readouterr().out


def test_a_row_that_goes_from_zero_to_one_begins_the_answer(tmp_path):
    """No mean of ratios has it; FAIL_ON=regression sees it, so the first line names it."""
    fixed = {("baseline", 1): {"allocs/op": 0.0}, ("candidate", 1): {"allocs/op": 1.0}}
    run = made(tmp_path, replace(SPEC, factors={}, fixed=fixed))
    first = comment.main(run).splitlines()[2]
    assert "**✗ worse**: Allocations, Search/Names/100 (0 → 1 allocs/op)." in first
    assert outcome.exit_code(run, "regression") == 6
    report.main(run)
    assert "| 0 → 1 (+1 allocs/op) ✗ |" in re.sub(" +", " ", (run / "report.md").read_text())
    assert "Not drawn, since it has no percent: Allocations, Search/Names/100." in (run / "report.md").read_text()
    assert "1 of 2 worse, largest Search/Names/100 (0 → 1 allocs/op)" in (run / "comment.md").read_text()


def test_a_mean_over_no_type_is_none_and_keeps_no_verdict(tmp_path):
    """Each row has a block without allocations; their own rows decide."""
    run = made(tmp_path, replace(SPEC, factors={}, fixed={("candidate", 0): {"allocs/op": 0.0}}, rows=SPEC.rows[:1]))
    rows = json.loads((run / "stats/comparison.json").read_text())["rows"]
    (mean,) = [row for row in rows if (row["metric"], row["query_type"]) == ("allocs/op", "geomean")]
    assert (mean["verdict"], mean["family"]) == ("shown", "shown")
    assert "never has it" not in mean["warnings"]
    assert "not above zero in every block" in mean["warnings"]


def test_a_benchmark_without_allocations_takes_no_lane_and_no_range_from_the_others(tmp_path):
    """The mean is over the other one, and so are its values, its picture and its range."""
    none = {(side, 1): {"allocs/op": 0.0} for side in SPEC.variants}
    run, _ = exported(tmp_path, replace(SPEC, fixed=none, noise=0.0))
    opened = open_source(run)
    values = blocks.values_of(opened, "allocs/op", "geomean")
    assert [*values["value"]] == pytest.approx([100.0] * len(values))
    assert set(values["block"]) == set(range(1, 7))


def test_a_mean_has_dots_of_the_benchmarks_that_took_no_turns(tmp_path):
    """Dots are of all benchmarks, as the estimate is."""
    run = made(tmp_path, replace(SPEC, turns=8))
    table = run / "tidy/pairs.csv"
    table.write_text("".join(line for line in table.read_text().splitlines(keepends=True) if "Names" not in line))
    compare.main(run)
    opened = open_source(run)
    (side,) = opened.comparisons
    row = side.row("sec/op", "geomean")
    dots = blocks.changes_of(opened, side, row)
    found = [math.log1p(change / 100) for change in dots["change"]]
    assert found == pytest.approx(row["differences"], abs=1e-6)


def test_a_run_that_has_measured_nothing_says_so(tmp_path):
    """Every block failed: a report all the same."""
    run = made(tmp_path, replace(SPEC, failed=dict.fromkeys(range(1, 7), ("baseline", "it panicked"))))
    report.main(run)
    found = (run / "report.md").read_text()
    assert "? nothing was measured" in found
    assert "it panicked" in found
