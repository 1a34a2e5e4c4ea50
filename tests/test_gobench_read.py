"""What Go's benchmarks print becomes: values, ratios of short runs in turn, rows and columns, benchstat's lines."""

from __future__ import annotations

import csv
import json
import math
import statistics

import pytest
import synthetic_gobench
from synthetic import tidied

from tsduel.core.errors import UserError
from tsduel.stats import compare
from tsduel.workloads.gobench import parse, read, units


def made(path, **spec):
    """Write a run and compare it."""
    run = synthetic_gobench.write_run(path / "run", synthetic_gobench.Spec(**spec))
    tidied(run)
    compare.main(run)
    return run


def rows(run):
    """Return the rows of comparison.json."""
    found = json.loads((run / "stats/comparison.json").read_text())["rows"]
    return {(row["candidate"], row["metric"], row["query_type"]): row for row in found}


def lines(run, name):
    """Return the lines of a table of tidy/."""
    with (run / f"tidy/{name}.csv").open() as stream:
        return list(csv.DictReader(stream))


def test_units_get_their_direction_threshold_and_family():
    """Go's own first; throughput is only shown, and a custom unit is judged where somebody gives it a direction."""
    found = units.metrics(["rows/op", "B/s", "hits/op", "allocs/op", "sec/op", "B/op"], {"rows/op": "higher"})
    assert [(m.name, m.better, m.family, m.threshold, m.geomean) for m in found] == [
        ("sec/op", "lower", "secondary", 3.0, "primary"),
        ("B/op", "lower", "secondary", 1.0, "primary"),
        ("allocs/op", "lower", "secondary", 1.0, "primary"),
        ("B/s", "higher", "shown", 3.0, "shown"),
        ("rows/op", "higher", "secondary", 3.0, None),
        ("hits/op", "none", "shown", 3.0, None),
    ]


def test_one_run_a_block_is_a_ratio_of_values(tmp_path):
    """Each benchmark once: no pairs within the block, and the verdicts of what was put in."""
    run = made(tmp_path)
    assert lines(run, "pairs") == []
    found = rows(run)
    for key, verdict in (
        (("candidate", "sec/op", "geomean"), "improvement"), (("candidate", "B/op", "Search/Data/100"), "regression"),
        (("candidate", "allocs/op", "geomean"), "equivalent"),
    ):  # fmt: skip
        assert found[key]["verdict"] == verdict
    assert found["candidate", "sec/op", "geomean"]["family"] == "primary"
    text = (run / "stats/candidate.bench.txt").read_text()
    assert "BenchmarkSearch/Data/100-8 1000 " in text
    assert "pkg: example.org/m/p" in text


def test_short_runs_in_turn_are_pairs(tmp_path):
    """The value is the median of a block's runs, the ratio the mean over their pairs, with its error."""
    run = made(tmp_path, turns=8, noise=0.03)
    value = [line for line in lines(run, "measurements") if (line["block"], line["metric"]) == ("1", "sec/op")]
    mine = {(line["variant"], line["query_type"]): float(line["value"]) for line in value}
    printed = {
        variant: [
            result.values["sec/op"]
            for result in parse.results((run / f"raw/host1/001/{variant}/bench.txt").read_text())
            if result.name == "BenchmarkSearch/Data/100-8"
        ]
        for variant in ("baseline", "candidate")
    }
    assert mine["baseline", "Search/Data/100"] == pytest.approx(statistics.median(printed["baseline"]))
    pairs = {(p["block"], p["metric"], p["query_type"]): p for p in lines(run, "pairs")}
    found = pairs["1", "sec/op", "Search/Data/100"]
    ratios = [math.log(c / b) for b, c in zip(*printed.values(), strict=True)]
    assert float(found["log_ratio"]) == pytest.approx(statistics.fmean(ratios))
    assert float(found["se"]) == pytest.approx(statistics.stdev(ratios) / math.sqrt(8))
    assert found["n"] == "8"
    row = rows(run)["candidate", "sec/op", "Search/Data/100"]
    assert row["verdict"] == "improvement"
    assert row["within"] > 0
    assert "BenchmarkSearch/Data/100-8 8000 " in (run / "stats/baseline.bench.txt").read_text()


def test_a_zero_in_one_turn_loses_no_block():
    """Go prints whole allocations: a row whose medians are above zero has their ratio, without an error."""
    assert read._ratio([1.0, 1.0, 1.0], [0.0, 2.0, 2.0]) == (math.log(2), None)
    assert read._ratio([0.0, 0.0, 1.0], [1.0, 1.0, 1.0]) is None


def test_columns_of_a_pivot_are_compared_as_variants(tmp_path):
    """Every value of the key against the first one, in one file for benchstat."""
    factors = {"10": {"ns/op": 0.5}, "1": {}}
    run = made(tmp_path, variants=("baseline",), rows=("Gather/series=1",), columns=("1", "10"), factors=factors)
    found = rows(run)
    assert {candidate for candidate, _, _ in found} == {"10"}
    assert found["10", "sec/op", "Gather/series=1"]["change_pct"] == pytest.approx(-50, abs=1)
    assert [path.name for path in (run / "stats").glob("*.bench.txt")] == ["baseline.bench.txt"]
    text = (run / "stats/baseline.bench.txt").read_text()
    assert "BenchmarkGather/series=1/batch=10-8 1000 " in text


def test_a_row_of_one_variant_only_is_not_comparable(tmp_path):
    """It stands in its own file for benchstat, too."""
    run = made(tmp_path, only={"Search/Names/100": "candidate"})
    assert rows(run)["candidate", "sec/op", "Search/Names/100"]["verdict"] == "not comparable"
    assert "Names/100" in (run / "stats/candidate.bench.txt").read_text()
    assert "Names/100" not in (run / "stats/baseline.bench.txt").read_text()


def test_directions_come_from_the_text_and_from_the_experiment(tmp_path):
    """A unit of the benchmark's own is judged once somebody says which direction is better; the experiment wins."""
    given = {"units": {"ns/op": 1e5, "hits/op": 10.0, "rows/op": 5.0}, "output": "Unit rows/op better=higher\n"}
    run = made(tmp_path, **given, factors={"candidate": {"rows/op": 0.5}}, go={"units": {"hits/op": "lower"}})
    assert [tuple(line.values()) for line in lines(run, "units")] == [("hits/op", "lower"), ("rows/op", "higher")]
    assert rows(run)["candidate", "rows/op", "Search/Data/100"]["verdict"] == "regression"


def test_zero_allocations_need_no_mean(tmp_path):
    """Each row says that it is identical; a geometric mean of nothing is no row."""
    found = rows(made(tmp_path, units={"ns/op": 1e5, "allocs/op": 0.0}))
    assert ("candidate", "allocs/op", "geomean") not in found
    assert found["candidate", "allocs/op", "Search/Data/100"]["verdict"] == "equivalent"


def test_failed_blocks_and_lost_files(tmp_path):
    """A block that failed has no values of who failed; a file that should be there is missed."""
    run = made(tmp_path, failed={2: ("candidate", "BenchmarkX hangs")}, blocks=7)
    assert {(x["block"], x["variant"]) for x in lines(run, "measurements")} >= {("2", "baseline"), ("1", "candidate")}
    assert ("2", "candidate") not in {(x["block"], x["variant"]) for x in lines(run, "measurements")}
    assert rows(run)["candidate", "sec/op", "geomean"]["blocks"] == 6
    (run / "raw/host1/003/baseline/outputs.tsv").unlink()
    with pytest.raises(UserError, match=r"outputs\.tsv is missing, though its block was finished"):
        tidied(run)
