"""Estimates and directions; honesty about everything else."""

import csv
import json
import math
import re

import pandas as pd
import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from reports import edit_plan

from tsduel.core import tables
from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS
from tsduel.core.rundir import open_run
from tsduel.stats import compare
from tsduel.stats.estimate import hodges_lehmann, log_ratios
from tsduel.stats.verdict import VERDICTS
from tsduel.workloads import primary

TYPES = synthetic.TWO_TYPES
SPEC = synthetic.Spec(blocks=6, query_types=TYPES, load_s=6, exchanges=60)
THREE = ("baseline", "candidate", "third")
positive = st.floats(1e-3, 1e6)
pairs = st.lists(st.tuples(positive, positive), min_size=1, max_size=12)


def write(path, **changes):
    """Write and tidy a run."""
    run = synthetic.write_run(path / "run", synthetic.Spec(**(vars(SPEC) | changes)))
    synthetic.tidied(run)
    return run


def rows(run, candidate="candidate"):
    """Compare, and return the rows of a candidate by metric and query type."""
    compare.main(run)
    with (run / "stats/comparison.csv").open() as stream:
        return {(r["metric"], r["query_type"]): r for r in csv.DictReader(stream) if r["candidate"] == candidate}


def document(run):
    """Return comparison.json; only proper JSON."""
    return json.loads((run / "stats/comparison.json").read_text(), parse_constant=pytest.fail)


def design(run, **changes):
    """Change the design of a run."""
    edit_plan(run, lambda plan: plan["design"].update(changes))


def row_of(run, metric, query_type=""):
    """Return the row of a metric in comparison.json."""
    return next(row for row in document(run)["rows"] if (row["metric"], row["query_type"]) == (metric, query_type))


def edit(run, name, change):
    """Change a table of tidy/ by a function of its lines."""
    path = run / f"tidy/{name}.csv"
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


def drop(run, pattern, *names):
    """Take lines out of tables of tidy/."""
    for name in names:
        edit(run, name, lambda lines: [line for line in lines if not re.search(pattern, line)])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Compare the candidate of the synthetic run: loads 8 % slower, answers 5 % slower with 4 % more CPU."""
    run = write(tmp_path_factory.mktemp("compare"), blocks=8)
    compare.main(run)
    return run


@given(pairs, positive)
def test_the_estimate_has_a_mirror_and_no_unit(values, factor):
    """A against B is B against A with the other sign, and scaling both sides changes nothing."""
    baseline, candidate = [b for b, _ in values], [c for _, c in values]
    forth, back = log_ratios(baseline, candidate), log_ratios(candidate, baseline)
    scaled = log_ratios([b * factor for b in baseline], [c * factor for c in candidate])
    assert hodges_lehmann(forth) == pytest.approx(-hodges_lehmann(back), abs=1e-9)
    assert hodges_lehmann(forth) == pytest.approx(hodges_lehmann(scaled), abs=1e-9)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12))
def test_the_estimate_is_the_median_of_walsh_averages(differences):
    """The definition, by brute force."""
    n = len(differences)
    walsh = sorted((differences[i] + differences[j]) / 2 for i in range(n) for j in range(i, n))
    middle = (walsh[(len(walsh) - 1) // 2] + walsh[len(walsh) // 2]) / 2
    assert hodges_lehmann(differences) == pytest.approx(middle, abs=1e-12)


def test_what_was_put_in_is_found(run):
    """Columns of the contract, primary metrics first called, everything with a word of the ladder."""
    assert tuple((run / "stats/comparison.csv").read_text().splitlines()[0].split(",")) == tables.COMPARISON
    found = rows(run)
    for key, change in (
        (("load_rate", ""), -8), (("duel_typical_ms", "geomean"), 5), (("duel_cpu_us", "all"), 4),
        (("load_cpu_seconds", ""), 8), (("duel_typical_ms", "cpu-max-all-1"), 5),
    ):  # fmt: skip
        assert found[key]["verdict"] == "regression"
        assert float(found[key]["lo_pct"]) < change < float(found[key]["hi_pct"])
    assert found["rows_merged", ""]["verdict"] == "equivalent"
    assert found["duel_p50_ms", "cpu-max-all-1"]["verdict"] == "shown"
    assert {row["verdict"] for row in found.values()} <= set(VERDICTS)
    families = {(row["metric"], row["query_type"]): row["family"] for row in document(run)["rows"]}
    assert {key for key, family in families.items() if family == "primary"} == {
        ("load_rate", ""), ("load_cpu_seconds", ""), ("duel_typical_ms", "geomean"), ("duel_cpu_us", "all"),
    }  # fmt: skip
    # 60 exchanges have no p99 to be judged by.
    assert families["duel_p99_ms", "cpu-max-all-1"] == "shown"
    rate = row_of(run, "load_rate")
    assert (rate["threshold_pct"], rate["level"]) == (3.0, 0.9609375)
    assert rate["mann_whitney_p"] < 0.05
    assert document(run)["failed_blocks"] == {"baseline": 0, "candidate": 0}


def test_the_spread_is_split_into_its_parts(run):
    """Within blocks from their errors, between blocks what is left of the variance, floored at nothing."""
    frame = pd.read_csv(run / "tidy/pairs.csv", keep_default_na=False)
    mine = frame[(frame["metric"] == "duel_typical_ms") & (frame["query_type"] == TYPES[0]) & (frame["block"] > 0)]
    within = math.sqrt((mine["se"].astype(float) ** 2).mean())
    row = row_of(run, "duel_typical_ms", TYPES[0])
    assert row["within"] == pytest.approx(within, rel=1e-6)
    below = within**2 + math.log1p(row["sitting_pct"] / 100) ** 2 / 2
    assert row["between"] == pytest.approx(math.sqrt(max(0.0, mine["log_ratio"].var() - below)), rel=1e-6)
    assert row["shares"]["exchange"] + row["shares"]["sitting"] == pytest.approx(below, rel=1e-6)
    assert row["within_pct"] == pytest.approx(100 * math.expm1(within), rel=1e-6)
    load = rows(run)["load_rate", ""]
    assert (load["within_pct"], load["between_pct"]) == ("", "")
    both = [r["within"] for r in document(run)["rows"] if r["metric"] == "duel_typical_ms" and r["query_type"] in TYPES]
    geomean = row_of(run, "duel_typical_ms", "geomean")
    assert geomean["within"] == pytest.approx(math.hypot(*both) / 2, rel=0.02)


def test_ratios_of_pairs_come_before_ratios_of_values(run, tmp_path):
    """Where operations were exchanged the pairs decide, whatever the values beside them are."""
    other, mine = write(tmp_path, blocks=8), re.compile(r"(candidate.*duel_typical_ms),[^,]+")
    edit(other, "measurements", lambda lines: [mine.sub(r"\1,1", x) for x in lines])
    found, before = (rows(one)["duel_typical_ms", TYPES[0]] for one in (other, run))
    assert found["change_pct"] == before["change_pct"]
    assert found["candidate_median"] == "1"


def test_thresholds_of_the_experiment_count(tmp_path):
    """What matters is the user's to say, before the run."""
    run = write(tmp_path)
    design(run, thresholds={"load_rate": 20.0})
    assert rows(run)["load_rate", ""]["verdict"] == "negligible"


def test_ingestion_in_turn_is_judged_in_place_of_the_load(run, tmp_path):
    """Where batches are exchanged they are primary, and what a load alone says less precisely is secondary."""
    ingestion = {"duel_load_typical_ms": "load_rate", "duel_load_cpu_us": "load_cpu_seconds"}
    both = write(tmp_path, duel_load=True)
    compare.main(both)
    family = {one["metric"]: one["family"] for one in document(both)["rows"] if one["query_type"] == ""}
    alone = {one["metric"]: one["family"] for one in document(run)["rows"] if one["query_type"] == ""}
    for exchanged, loaded in ingestion.items():
        assert (family[exchanged], family[loaded]) == ("primary", "secondary")
        assert (alone.get(exchanged), alone[loaded]) == (None, "primary")


def test_loads_in_turn_are_judged_and_the_large_one_is_not(tmp_path):
    """design.load: in_turn: ingestion in turn is primary, and no row is of loads alone."""
    run = write(tmp_path, load="in_turn", alone_s=5.0)
    found = rows(run)
    assert not [metric for metric, _ in found if metric.startswith("load_")]
    assert found["duel_load_acknowledged_cpu_us", ""]["verdict"] == "shown"
    family = {(one["metric"], one["query_type"]): one["family"] for one in document(run)["rows"]}
    primary = {key for key, of in family.items() if of == "primary"}
    assert primary == {
        ("duel_typical_ms", "geomean"), ("duel_cpu_us", "all"), ("duel_load_typical_ms", ""), ("duel_load_cpu_us", ""),
    }  # fmt: skip
    assert family["disk_bytes", ""] == family["rss_peak_bytes", ""] == "secondary"


def test_three_levels_of_spread_are_told_apart(tmp_path):
    """Exchanges, sittings and blocks: what was put in comes out of sixty blocks, without what starting second does."""
    spec = {"within": 0.02, "sitting": 0.006, "between": 0.004, "second_effect": 0.01, "exchanges": 200, "sittings": 4}
    spec |= {"seed": 3}
    run = write(tmp_path, blocks=60, query_types=TYPES[:1], load_s=1, factors={}, **spec)
    compare.main(run)
    row = row_of(run, "duel_total_ms", TYPES[0])
    # Both sides have the error of an exchange.
    assert row["within_pct"] == pytest.approx(100 * 0.02 * math.sqrt(2 / 200), rel=0.15)
    assert row["sitting_pct"] == pytest.approx(0.6, rel=0.15)
    assert row["between_pct"] == pytest.approx(0.4, rel=0.35)
    assert row["second_effect_pct"] == pytest.approx(1.0, rel=0.1)
    assert abs(row["change_pct"]) < 0.3


@pytest.mark.parametrize("coin", ["order", "start", "read", "ask"])
def test_each_coin_has_its_effect(tmp_path, coin):
    """The side that is second by one coin takes longer: that coin is named, and the others show nothing."""
    run = write(tmp_path, blocks=8, query_types=TYPES[:1], between=0.0005, within=0.005, factors={})
    table = (run / "tidy/blocks.csv").read_text().splitlines()
    second = {row["block"]: row[coin] for row in csv.DictReader(table)}

    def moved(line):
        block, metric, ratio = (line.split(",")[at] for at in (0, 5, 6))
        if metric != "duel_typical_ms":
            return line
        return line.replace(f",{ratio},", f",{float(ratio) + (0.01 if second[block] == 'true' else -0.01)},", 1)

    edit(run, "pairs", lambda lines: [lines[0], *map(moved, lines[1:])])
    compare.main(run)
    row = row_of(run, "duel_typical_ms", TYPES[0])
    effects = row["order_effects"]
    assert effects[coin]["change_pct"] == pytest.approx(1.0, abs=0.1)
    assert (row["order_effect"], effects[coin]["p"] < 0.001) == (coin, True)
    assert all(abs(of["change_pct"]) < 0.2 for name, of in effects.items() if name != coin)
    words = {"order": "ran", "start": "was started", "read": "was read", "ask": "was asked"}
    assert f"where the candidate {words[coin]} second" in row["warnings"]


def test_directions_and_known_factors(tmp_path):
    """The factors that were put in come out with their direction."""
    factors = {"candidate": {"rate": 0.9, "solo": 0.8, "bytes": 1.1, "rss": 0.8}}
    found = rows(write(tmp_path, noise=0.0, solo_s=4, factors=factors))
    for key, change, better in (
        (("load_rate", ""), -10, "higher"), (("load_seconds", ""), 100 / 9, "lower"), (("disk_bytes", ""), 10, "lower"),
        (("rss_peak_bytes", ""), -20, "lower"), (("query_rate", "geomean"), 25, "higher"),
    ):  # fmt: skip
        assert float(found[key]["change_pct"]) == pytest.approx(change, abs=0.1)
        assert found[key]["better"] == better
    assert float(found["query_mean_ms", "geomean"]["change_pct"]) == pytest.approx(-20, abs=1)
    assert "a phase of" not in found["load_rate", ""]["warnings"]
    assert "a phase of" in found["query_rate", "double-groupby-1"]["warnings"]


def test_geomean_says_what_it_leaves_out(tmp_path):
    """A type that lacks a value in one block is in no block's mean; its own row has the other blocks."""
    run = write(tmp_path)
    drop(run, "^3,candidate,duel,exchange,cpu-max-all-1,duel_typical_ms,", "measurements", "pairs")
    found = rows(run)
    geomean = found["duel_typical_ms", "geomean"]
    assert geomean["warnings"].startswith("without cpu-max-all-1, not above zero in every")
    assert geomean["change_pct"] == found["duel_typical_ms", "double-groupby-1"]["change_pct"]
    assert (found["duel_typical_ms", "cpu-max-all-1"]["blocks"], geomean["blocks"]) == ("5", "6")


def test_what_does_not_count_changes_nothing(tmp_path):
    """Figures of the warm-up and of unplanned blocks do not count; only the six planned blocks decide."""
    run = write(tmp_path, blocks=7)
    before = rows(run)
    drop(run, "^0,", "measurements")
    assert rows(run) == before
    lines = (run / "plan/blocks.tsv").read_text().splitlines()
    (run / "plan/blocks.tsv").write_text("\n".join(lines[:-2]) + "\n")
    synthetic.tidied(run)
    assert rows(run)["load_rate", ""]["verdict"] == "inconclusive (n < 6)"
    reason = "it is not in plan/blocks.tsv, which was drawn before the run"
    dropped = document(run)["blocks"]["candidate"]["dropped"]
    assert dropped == [{"block": b, "cause": "unplanned", "reason": reason} for b in (6, 7)]


def test_a_second_value_is_refused(tmp_path):
    """A value that stands twice in the table is a sentence with the line."""
    run = write(tmp_path)
    edit(run, "measurements", lambda lines: [*lines, lines[1]])
    with pytest.raises(UserError, match=r"measurements\.csv:\d+: block 0, .* has a second value of "):
        compare.main(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: "", r"measurements\.csv:.*make tidy"),
        (lambda _: "a,b\n1,2,3\n4,5,6,7\n", r"measurements\.csv:.*make tidy"),
        (lambda text: text.replace("metric,value,unit", "metric,valu,unit"), r"csv:1: column value is missing"),
        (lambda text: text.replace("load_rate,", "load_rate,nan", 1), r"measurements\.csv:\d+: value is 'nan"),
        (None, "make tidy"),
    ],
)
def test_broken_tables_are_sentences(tmp_path, change, message):
    """A table that is missing, empty, ragged or edited names file and line, and what to do."""
    run = write(tmp_path)
    path = run / "tidy/measurements.csv"
    text = path.read_text()
    path.unlink()
    if change:
        path.write_text(change(text))
    with pytest.raises(UserError, match=message):
        compare.main(run)


def test_a_failed_block_is_dropped_for_whom_it_failed(tmp_path):
    """With its reason. Below six blocks it is a screen; other candidates keep the block."""
    run = write(tmp_path, variants=THREE, failed={3: ("candidate", "solo", "it died")})
    row = rows(run)["load_rate", ""]
    assert (row["blocks"], row["verdict"]) == ("5", "inconclusive (n < 6)")
    found = document(run)
    reason = {"block": 3, "cause": "failed", "reason": "candidate failed: it died"}
    assert found["blocks"]["candidate"] == {"valid": [1, 2, 4, 5, 6], "dropped": [reason]}
    assert found["blocks"]["third"] == {"valid": [1, 2, 3, 4, 5, 6], "dropped": []}
    assert found["failed_blocks"] == {"baseline": 0, "candidate": 1, "third": 0}
    assert rows(run, "third")["load_rate", ""]["verdict"] != "inconclusive (n < 6)"


def test_a_failed_check_fails_what_it_touches(tmp_path):
    """Wrong answers of one type fail its metrics and the sums, not the others; lost samples fail everything."""
    answers = {2: ("exchanges_same", "", "cpu-max-all-1", "the values are 1 and 2")}
    found = rows(run := write(tmp_path / "one", wrong=answers))
    for key in (("duel_typical_ms", "cpu-max-all-1"), ("duel_typical_ms", "geomean"), ("duel_cpu_us", "all")):
        assert found[key]["verdict"] == "failed"
        assert "failed checks (1): exchanges_same" in found[key]["warnings"]
    assert found["duel_typical_ms", "double-groupby-1"]["verdict"] == "regression"
    assert found["load_rate", ""]["verdict"] == "regression"
    assert document(run)["checks"]["failed"] == 1
    lost = {2: ("samples_stored", "candidate", "", "1 is missing")}
    assert {row["verdict"] for row in rows(write(tmp_path / "two", wrong=lost)).values()} == {"failed"}


@pytest.mark.parametrize("where", [{"spoilt": {2: "a build"}, "spares_run": 1}, {}])
def test_a_failed_check_where_nothing_counts_fails_nothing(tmp_path, where):
    """In a spoilt block that was replaced, and in the warm-up."""
    block = 2 if where else 0
    lost = {block: ("samples_stored", "candidate", "", "1 is missing")}
    run = write(tmp_path, blocks=8, spare_blocks=2, wrong=lost, **where)
    assert "failed" not in {row["verdict"] for row in rows(run).values()}
    assert document(run)["checks"]["failed"] == 0


def test_too_much_noise_leaves_no_verdict(tmp_path):
    """Where a spoilt block lacks its spare; not where the crash of another variant is the reason for that."""
    spoilt = {2: "a build", 3: "another"}
    owed = rows(write(tmp_path / "one", blocks=8, variants=THREE, spare_blocks=2, spares_run=1, spoilt=spoilt))
    assert owed["load_rate", ""]["verdict"] == "inconclusive: environment"
    crash = {2: ("third", "solo", "it died"), 3: ("third", "solo", "it died")}
    found = rows(write(tmp_path / "two", blocks=8, variants=THREE, spare_blocks=2, spoilt=spoilt, failed=crash))
    assert (found["load_rate", ""]["verdict"], found["load_rate", ""]["blocks"]) == ("regression", "6")


def test_a_metric_of_one_side_only_is_not_comparable(tmp_path):
    """Names come and go between versions: the side that has it is shown."""
    run = write(tmp_path)
    drop(run, "candidate.*,slow_inserts,", "measurements")
    row = rows(run)["slow_inserts", ""]
    assert row["warnings"] == "not comparable: candidate never has it"
    assert (row["candidate_median"], row["change_pct"], row["blocks"]) == ("", "", "0")
    assert row["baseline_median"] != ""


def test_what_may_be_nothing_is_compared_in_its_own_unit(tmp_path):
    """CPU when nobody asks: 4 ms a second against 44; the limit is 1 ms a second."""
    burner = {"candidate": {"idle": 11.0}}
    run = write(tmp_path, blocks=8, factors=burner)
    row = rows(run)["duel_idle_cpu_ms", ""]
    assert (row["verdict"], row["change_pct"]) == ("regression", "")
    native = row_of(run, "duel_idle_cpu_ms")["native"]
    assert native["difference"] == pytest.approx(40, rel=0.1)
    assert native["limit"] == 1.0
    assert rows(run)["major_faults", ""]["change_pct"] == ""


def test_data_that_was_loaded_once_is_no_sample(tmp_path):
    """design.reload: once leaves one load of each variant: shown, and the duel is judged."""
    found = rows(write(tmp_path, reload="once"))
    assert found["load_rate", ""]["verdict"] == "shown"
    assert "loaded once" in found["load_rate", ""]["warnings"]
    assert found["duel_typical_ms", "geomean"]["verdict"] == "regression"


@pytest.mark.parametrize(("metric", "query_type"), [("upgrade_half_typical_ms", "a-1"), ("duel_role_cpu_us", "server")])
def test_a_wrong_answer_touches_the_rows_that_it_is_part_of(metric, query_type):
    """A window of an upgrade is checked by a name of its own; a component's CPU is that of all types."""
    failed = pd.DataFrame({"check": ["answers"], "query_type": ["a-1@half"]})
    assert compare.touched(failed, METRICS[metric], query_type) == "failed checks (1): answers"
    assert not compare.touched(failed, METRICS["duel_typical_ms"], "b-1")


def test_blocks_that_came_later_are_not_left_out_in_silence(tmp_path):
    """A fetch may have brought more of a run that goes on: compare and report say what to type."""
    run = write(tmp_path)
    table = run / "tidy/blocks.csv"
    lines = table.read_text().splitlines()
    lines[-1] = lines[-1].replace(",true,,", ",false,missing,", 1)
    table.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match="1 block came after tidy/ was made; first: make tidy compare report RUN="):
        compare.compare(open_run(run), compare.tidied_of(open_run(run)))


def test_what_prepares_a_duel_can_be_left_unjudged(tmp_path):
    """design.judged: duel shows the load, and every block has one; fewer tests are in the family."""
    run = write(tmp_path)
    before = rows(run)
    design(run, judged="duel")
    found = rows(run)
    assert {row["verdict"] for key, row in found.items() if key[0].startswith(("load_", "disk_", "rss_"))} == {"shown"}
    assert {row["verdict"] for key, row in found.items() if key[0] == "query_mean_ms"} <= {"shown"}
    assert found["load_rate", ""]["change_pct"] == before["load_rate", ""]["change_pct"]
    assert found["duel_typical_ms", "geomean"]["verdict"] == "regression"


def test_work_can_be_judged_alone(tmp_path):
    """design.judged: work shows time and CPU; one object more of 300 is a regression where that much matters."""
    run = write(tmp_path, factors={"candidate": {"objects": 1 + 1 / 300, "service": 1.05}})
    assert rows(run)["duel_objects", "all"]["verdict"] == "negligible"
    design(run, judged="work", thresholds={"duel_objects": 0.2})
    found = rows(run)
    assert found["duel_typical_ms", "geomean"]["verdict"] == "shown"
    assert found["duel_objects", "cpu-max-all-1"]["verdict"] == "regression"
    assert {row["verdict"] for key, row in found.items() if "object" not in key[0]} == {"shown"}
    assert {metric.name for metric, _ in primary(open_run(run).plan)} == {"duel_objects", "duel_object_bytes"}


def test_a_type_whose_work_few_blocks_count_has_those_blocks(tmp_path):
    """Each block counts a third of the types: the others are no missing values, and types have no mean in common."""
    run = write(tmp_path, blocks=9, factors={"candidate": {"objects": 1.02}})
    for block in (1, 2, 4):
        drop(run, f"^{block},.*duel_objects", "pairs")
        drop(run, f"^{block},.*duel_objects", "measurements")
    row = rows(run)["duel_objects", "cpu-max-all-1"]
    assert (row["blocks"], row["verdict"]) == ("6", "regression")
    assert ("duel_objects", "geomean") not in rows(run)


def test_without_a_duel_the_solo_part_is_judged(tmp_path):
    """As where the memory does not hold two."""
    found = rows(write(tmp_path, duel=False, solo_s=2.0))
    assert found["query_mean_ms", "geomean"]["verdict"] != "shown"
    assert not [key for key in found if key[0].startswith("duel_")]


def test_every_candidate_against_the_baseline(tmp_path):
    """Three variants: two comparisons, each with its own figures; all of them are one family."""
    factors = {"candidate": {"rate": 0.92, "service": 1.05}, "third": {"rate": 1.15, "service": 0.96}}
    run = write(tmp_path, blocks=9, variants=THREE, factors=factors)
    first, third = rows(run), rows(run, "third")
    assert (first["load_rate", ""]["verdict"], third["load_rate", ""]["verdict"]) == ("regression", "improvement")
    assert float(third["duel_typical_ms", "geomean"]["change_pct"]) == pytest.approx(-4, abs=0.5)
    assert first["load_rate", ""]["baseline_median"] == third["load_rate", ""]["baseline_median"]
    texts = [(run / f"stats/{name}.bench.txt").read_text() for name in THREE]
    assert len({text.count("phase=load") for text in texts}) == 1
    # In a family of its own the first candidate's p is no larger, and somewhere smaller.
    edit_plan(run, lambda plan: plan["variants"].pop())
    alone = rows(run)
    both = [(row["p_adj"], first[name]["p_adj"]) for name, row in alone.items() if row["p_adj"]]
    assert all(float(one) <= float(joint) + 1e-12 for one, joint in both)
    assert any(float(one) < float(joint) for one, joint in both)


def test_a_mix_of_the_users_queries_is_what_is_judged_of_all_types(tmp_path):
    """Its figure stands for all in place of the geometric mean; each query keeps a row of its own."""
    run = write(tmp_path, query_types=("mix", "busy"))
    mixed = rows(run)
    together, mix, busy = (mixed["duel_typical_ms", name]["change_pct"] for name in ("geomean", "mix", "busy"))
    assert together == mix != busy
    assert row_of(run, "duel_typical_ms", "geomean")["family"] == "primary"
