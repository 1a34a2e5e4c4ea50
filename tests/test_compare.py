"""Estimates and directions; honesty about everything else."""

import csv
import json
import math
import re

import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st

from tsduel.core.errors import UserError
from tsduel.stats import compare
from tsduel.stats.estimate import hodges_lehmann, log_ratios, percent
from tsduel.stats.verdict import VERDICTS
from tsduel.tidy import tables as tidy

SPEC = synthetic.Spec(blocks=6, query_types=("cpu-max-all-1", "double-groupby-1"), load_s=8, query_s=6)
COLUMNS = (
    "metric,query_type,unit,better,baseline,candidate,baseline_median,candidate_median,change_pct,lo_pct,hi_pct,p,p_adj,blocks,mde_pct,blocks_needed,"
    "verdict,warnings"
)
BASELINE = [100, 102, 98.5, 101, 97, 103, 99.5, 100.5]
CANDIDATE = [104, 105.5, 103, 103.5, 101.5, 106, 104.5, 102]
positive = st.floats(1e-3, 1e6)
pairs = st.lists(st.tuples(positive, positive), min_size=1, max_size=12)


def write(tmp_path, **changes):
    """Write and tidy a run."""
    run = synthetic.write_run(tmp_path / "run", synthetic.Spec(**(vars(SPEC) | changes)))
    tidy.main(run)
    return run


def rows(run):
    """Compare, and return the rows by metric and query type."""
    compare.main(run)
    with (run / "stats/comparison.csv").open() as stream:
        return {(row["metric"], row["query_type"]): row for row in csv.DictReader(stream)}


def test_the_vector_of_the_specification():
    """MEASUREMENT.md's figures give its estimate."""
    ratios = log_ratios(BASELINE, CANDIDATE)
    assert ratios is not None
    assert percent(hodges_lehmann(ratios)) == pytest.approx(3.6334, abs=5e-5)


@given(pairs)
def test_swapping_the_variants_mirrors_the_estimate(values):
    """A against B is B against A with the other sign."""
    baseline, candidate = [b for b, _ in values], [c for _, c in values]
    forth, back = log_ratios(baseline, candidate), log_ratios(candidate, baseline)
    assert forth is not None
    assert back is not None
    assert hodges_lehmann(forth) == pytest.approx(-hodges_lehmann(back), abs=1e-9)


@given(pairs, positive)
def test_a_unit_does_not_matter(values, factor):
    """Scaling both sides changes nothing."""
    plain = log_ratios([b for b, _ in values], [c for _, c in values])
    scaled = log_ratios([b * factor for b, _ in values], [c * factor for _, c in values])
    assert plain is not None
    assert scaled is not None
    assert hodges_lehmann(plain) == pytest.approx(hodges_lehmann(scaled), abs=1e-9)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12))
def test_the_estimate_is_the_median_of_walsh_averages(differences):
    """The definition, by brute force."""
    n = len(differences)
    walsh = sorted((differences[i] + differences[j]) / 2 for i in range(n) for j in range(i, n))
    middle = (walsh[(len(walsh) - 1) // 2] + walsh[len(walsh) // 2]) / 2
    assert hodges_lehmann(differences) == pytest.approx(middle, abs=1e-12)


def test_columns_and_verdicts(tmp_path):
    """The columns are those of the contract, and what was put in is found."""
    run = write(tmp_path)
    found = rows(run)
    assert (run / "stats/comparison.csv").read_text().splitlines()[0] == COLUMNS
    rate = found["load_rate", ""]
    assert rate["verdict"] == "regression"
    assert float(rate["lo_pct"]) < -8 < float(rate["hi_pct"]) < 0
    assert (rate["p"], rate["p_adj"]) == ("0.03125", "0.03125")
    assert float(rate["mde_pct"]) > 0
    assert int(rate["blocks_needed"]) >= 6
    assert found["query_mean_ms", "geomean"]["verdict"] == "improvement"
    assert found["query_rate", "geomean"]["verdict"] == "shown"
    assert found["rows_merged", ""]["verdict"] == "equivalent"
    assert {row["verdict"] for row in found.values()} <= set(VERDICTS)
    assert {row["blocks"] for row in found.values()} == {"6"}


def test_the_document_has_more(tmp_path):
    """Level, order effect, spread and benchstat's p are in comparison.json, and only proper JSON."""
    run = write(tmp_path)
    rows(run)
    document = json.loads((run / "stats/comparison.json").read_text(), parse_constant=pytest.fail)
    rate = next(row for row in document["rows"] if row["metric"] == "load_rate")
    assert (rate["family"], rate["threshold_pct"], rate["level"]) == ("primary", 5.0, 0.96875)
    assert rate["s_d"] > 0
    assert rate["order_effect_p"] <= 1
    assert rate["mann_whitney_p"] < 0.05
    assert rate["lo90_pct"] >= rate["lo_pct"]
    assert document["failed_rounds"] == {"baseline": 0, "candidate": 0}


def test_thresholds_of_the_experiment_count(tmp_path):
    """What matters is the user's to say, before the run."""
    run = write(tmp_path)
    path = run / "plan/experiment.json"
    plan = json.loads(path.read_text())
    plan["design"]["thresholds"] = {"load_rate": 20.0}
    path.write_text(json.dumps(plan))
    assert rows(run)["load_rate", ""]["verdict"] == "negligible"


def test_a_block_that_was_not_planned_does_not_count(tmp_path):
    """A run cannot quietly gain blocks."""
    run = write(tmp_path)
    path = run / "plan/rounds.tsv"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("6\t")))
    assert rows(run)["load_rate", ""]["verdict"] == "inconclusive (n < 6)"
    dropped = json.loads((run / "stats/comparison.json").read_text())["blocks"]["candidate"]["dropped"]
    assert dropped == [{"block": 6, "reason": "it is not in plan/rounds.tsv, which was drawn before the run"}]


def test_a_second_value_is_refused(tmp_path):
    """A round that stands twice in the table is a sentence with the line."""
    run = write(tmp_path)
    path = run / "tidy/measurements.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[1]]) + "\n")
    with pytest.raises(UserError, match=rf"measurements\.csv:{len(lines) + 1}: block 0, .* has a second value of "):
        compare.main(run)


@pytest.mark.parametrize("text", ["", "a,b\n1,2,3\n4,5,6,7\n"])
def test_no_table_at_all_is_a_sentence(tmp_path, text):
    """An empty or ragged file is no stack trace."""
    run = write(tmp_path)
    (run / "tidy/measurements.csv").write_text(text)
    with pytest.raises(UserError, match=r"measurements\.csv:.*make tidy"):
        compare.main(run)


def test_rounds_of_one_variant_only(tmp_path):
    """Every block is dropped with its reason; nothing is judged."""
    run = write(tmp_path)
    path = run / "tidy/measurements.csv"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if ",candidate," not in line))
    assert {row["verdict"] for row in rows(run).values()} == {"inconclusive (n < 6)", "shown"}
    dropped = json.loads((run / "stats/comparison.json").read_text())["blocks"]["candidate"]["dropped"]
    assert [one["reason"] for one in dropped] == ["candidate was not run"] * 6


def test_directions_and_known_factors(tmp_path):
    """The factors that were put in come out with their direction."""
    run = write(tmp_path, noise=0.0, factors={"rate": 0.9, "query_rate": 1.25, "bytes": 1.1, "rss": 0.8})
    found = rows(run)
    for name, change, better in (
        ("load_rate", -10, "higher"),
        ("load_seconds", 100 / 9, "lower"),
        ("disk_bytes", 10, "lower"),
        ("rss_peak_bytes", -20, "lower"),
    ):
        row = found[name, ""]
        assert float(row["change_pct"]) == pytest.approx(change, abs=0.1)
        assert row["better"] == better
    assert float(found["query_rate", "geomean"]["change_pct"]) == pytest.approx(25, abs=0.1)
    assert float(found["query_mean_ms", "geomean"]["change_pct"]) == pytest.approx(-20, abs=1)


def test_geomean_is_that_of_the_types(tmp_path):
    """Its change is the mean of log ratios over types in each block."""
    found = rows(write(tmp_path))
    sides = [float(found["query_rate", t]["baseline_median"]) for t in SPEC.query_types]
    assert float(found["query_rate", "geomean"]["baseline_median"]) == pytest.approx(math.prod(sides) ** 0.5, rel=0.05)


def test_geomean_says_what_it_leaves_out(tmp_path):
    """A type that lacks a value in one block is in no block's mean; its own row has the other blocks."""
    run = write(tmp_path)
    path = run / "tidy/measurements.csv"
    missing = re.compile(r"3,.*,candidate,query,cpu-max-all-1,query_mean_ms,")
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if not missing.match(line)))
    found = rows(run)
    assert found["query_mean_ms", "geomean"]["warnings"].startswith("without cpu-max-all-1, not above zero in every")
    assert (
        found["query_mean_ms", "geomean"]["baseline_median"]
        == found["query_mean_ms", "double-groupby-1"]["baseline_median"]
    )
    assert found["query_mean_ms", "cpu-max-all-1"]["blocks"] == "5"
    assert found["query_mean_ms", "geomean"]["blocks"] == "6"


def test_warmup_is_left_out(tmp_path):
    """The figures of block 0 change nothing."""
    run = write(tmp_path)
    before = rows(run)
    path = run / "tidy/measurements.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("0,")) + "\n")
    assert rows(run) == before


def test_a_failed_round_drops_its_block(tmp_path):
    """The whole block goes, with its reason; under 6 blocks it is a screen."""
    run = write(tmp_path)
    path = next(run.glob("raw/03-*-candidate")) / "round.json"
    record = json.loads(path.read_text()) | {"status": "failed", "failure": {"phase": "load", "message": "it died"}}
    path.write_text(json.dumps(record))
    tidy.main(run)
    row = rows(run)["load_rate", ""]
    assert row["blocks"] == "5"
    assert "a screen" in row["warnings"]
    document = json.loads((run / "stats/comparison.json").read_text())
    assert document["blocks"]["candidate"]["dropped"] == [{"block": 3, "reason": "candidate failed: it died"}]
    assert document["blocks"]["candidate"]["valid"] == [1, 2, 4, 5, 6]


def test_a_killed_run_is_compared_as_far_as_it_went(tmp_path):
    """After three blocks there are estimates over three."""
    run = synthetic.write_run(tmp_path / "run", SPEC)
    for path in [*run.glob("raw/0[456]-*"), *run.glob("raw/03-2-*")]:
        path.rename(path.with_name(path.name + ".partial"))
    tidy.main(run)
    assert rows(run)["load_rate", ""]["blocks"] == "2"
    document = json.loads((run / "stats/comparison.json").read_text())
    assert [dropped["block"] for dropped in document["blocks"]["candidate"]["dropped"]] == [3, 4, 5, 6]


def test_a_failed_check_fails_what_it_touches(tmp_path):
    """Wrong answers of one type fail its metrics and the sums, not the others; lost samples fail everything."""
    run = write(tmp_path)
    path = run / "tidy/checks.csv"
    good = path.read_text()
    path.write_text(good + "1,2,01-2-baseline,baseline,responses,cpu-max-all-1,responses_same,same,differ,false,no\n")
    found = rows(run)
    assert found["query_rate", "cpu-max-all-1"]["verdict"] == "failed"
    assert found["query_rate", "geomean"]["verdict"] == "failed"
    assert found["cpu_seconds", ""]["verdict"] == "failed"
    assert found["query_mean_ms", "double-groupby-1"]["verdict"] == "improvement"
    assert found["load_rate", ""]["verdict"] == "regression"
    path.write_text(good + "1,2,01-2-baseline,baseline,load,,samples_stored,5,4,false,lost\n")
    assert {row["verdict"] for row in rows(run).values()} == {"failed"}


def test_a_metric_of_one_side_only_is_not_comparable(tmp_path):
    """Names come and go between versions: the side that has it is shown."""
    run = write(tmp_path)
    path = run / "tidy/measurements.csv"
    lines = [line for line in path.read_text().splitlines() if not ("candidate" in line and ",slow_inserts," in line)]
    path.write_text("\n".join(lines) + "\n")
    row = rows(run)["slow_inserts", ""]
    assert row["warnings"] == "not comparable: candidate never has it"
    assert (row["candidate_median"], row["change_pct"], row["blocks"]) == ("", "", "0")
    assert row["baseline_median"] != ""


def test_zero_has_no_ratio(tmp_path):
    """No epsilon is added to a zero."""
    row = rows(write(tmp_path))["major_faults", ""]
    assert row["change_pct"] == ""
    assert "no ratio" in row["warnings"]


def test_short_phases_carry_a_warning(tmp_path):
    """What was measured in under 5 s says how long it was."""
    found = rows(write(tmp_path, query_s=2.0, noise=0.0))
    assert "a phase of" in found["query_rate", "cpu-max-all-1"]["warnings"]
    assert "a phase of" not in found["load_rate", ""]["warnings"]


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        ("metric,value,unit", "metric,valu,unit", r"measurements\.csv:1: column value is missing"),
        ("load_seconds,", "load_seconds,nan", r"measurements\.csv:3: value is 'nan"),
    ],
)
def test_broken_tables_are_sentences(tmp_path, pattern, replacement, message):
    """A table that somebody edited names file and line."""
    run = write(tmp_path)
    path = run / "tidy/measurements.csv"
    path.write_text(path.read_text().replace(pattern, replacement))
    with pytest.raises(UserError, match=message):
        compare.main(run)


def test_missing_tidy_names_the_command(tmp_path):
    """What to do next is said."""
    run = synthetic.write_run(tmp_path / "run", SPEC)
    with pytest.raises(UserError, match="make tidy"):
        compare.main(run)


THREE = (("baseline", "candidate", "third"), ("third", "baseline", "candidate"), ("candidate", "third", "baseline"))


def test_every_candidate_is_held_against_the_baseline(tmp_path):
    """The column candidate names it; each has its own change; all of them are one family."""
    run = write(tmp_path, blocks=9, order=THREE, more_factors={"third": {"rate": 1.15}})
    compare.main(run)
    with (run / "stats/comparison.csv").open() as stream:
        found = {(r["candidate"], r["metric"], r["query_type"]): r for r in csv.DictReader(stream)}
    assert {candidate for candidate, _, _ in found} == {"candidate", "third"}
    assert {r["baseline"] for r in found.values()} == {"baseline"}
    rates = [found[name, "load_rate", ""] for name in ("candidate", "third")]
    assert [r["verdict"] for r in rates] == ["regression", "improvement"]
    assert rates[0]["baseline_median"] == rates[1]["baseline_median"]
    assert float(rates[1]["change_pct"]) == pytest.approx(15, abs=3)
    texts = [(run / f"stats/{name}.bench.txt").read_text() for name in ("baseline", "candidate", "third")]
    assert len({text.count("phase=load") for text in texts}) == 1
    # In a family of its own the first candidate's p is no larger, and somewhere smaller.
    two = write(tmp_path / "two", blocks=9, order=THREE, more_factors={"third": {"rate": 1.15}})
    plan = json.loads((two / "plan/experiment.json").read_text())
    plan["variants"] = plan["variants"][:2]
    (two / "plan/experiment.json").write_text(json.dumps(plan))
    alone = rows(two)
    both = [(row["p_adj"], found["candidate", *name]["p_adj"]) for name, row in alone.items() if row["p_adj"]]
    assert all(float(one) <= float(joint) + 1e-12 for one, joint in both)
    assert any(float(one) < float(joint) for one, joint in both)


def test_a_candidate_that_fails_does_not_take_the_others_blocks(tmp_path):
    """A block counts for those that finished it; the other candidate lists what it lost, and why."""
    run = write(tmp_path, blocks=7, order=THREE)
    path = next(run.glob("raw/03-*-third")) / "round.json"
    record = json.loads(path.read_text()) | {"status": "failed", "failure": {"phase": "load", "message": "it died"}}
    path.write_text(json.dumps(record))
    tidy.main(run)
    compare.main(run)
    blocks = json.loads((run / "stats/comparison.json").read_text())["blocks"]
    assert blocks["candidate"] == {"valid": [1, 2, 3, 4, 5, 6, 7], "dropped": []}
    assert blocks["third"]["dropped"] == [{"block": 3, "reason": "third failed: it died"}]
    with (run / "stats/comparison.csv").open() as stream:
        rate = [r for r in csv.DictReader(stream) if (r["candidate"], r["metric"]) == ("third", "load_rate")]
    assert [r["blocks"] for r in rate] == ["6"]
