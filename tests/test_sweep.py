"""Sweeps: cells of a matrix, what is refused, the order of blocks, growth of figures, and the report."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import simulate
import sweeps
from asking import written
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import drawing
from synthetic import tidied

from plots import comment, exports, report
from plots.sections import sweep as sections_sweep
from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS
from tsduel.core.record import table
from tsduel.core.rundir import open_run
from tsduel.core.sections import Design
from tsduel.plan import cells, order, resolve
from tsduel.question import matrix, read
from tsduel.stats import compare, sweep
from tsduel.stats.verdict import IMPROVEMENT, REGRESSION

SCALES = {"workload.scale": [2, 20, 200]}
SIDES = ("baseline", "candidate")


def expanded(swept, **parts):
    """Return the cells of a small experiment with this matrix."""
    return read.expand(written(**parts) | {"matrix": swept}, "x.yml")


def names(swept):
    """Return the names of its cells."""
    return [one.name for one in expanded(swept)]


def planned(swept, **parts):
    """Return its plan."""
    found = expanded(swept, **parts)
    return resolve.resolve(found[0].asked, cells=found, run="r")


class TestCells:
    """From a matrix to cells."""

    def test_every_combination_is_a_cell_with_a_short_name(self):
        """The last key varies fastest; keys are called by their last part, the window by its length."""
        found = expanded({"workload.scale": [2, 20], "workload": {"batch_size": [100, 1000]}})
        assert [one.name for one in found] == [f"scale={s} batch={b}" for s in (2, 20) for b in (100, 1000)]
        assert [(one.asked.workload.scale, one.asked.workload.batch_size) for one in found][1] == (2, 1000)
        windows = {"workload.end": ["2025-06-10T20:00:00Z", "2025-06-11T00:00:00Z"], "duel.in_flight": [1]}
        assert names(windows) == ["window=20h in_flight=1", "window=24h in_flight=1"]
        workers = {"workload.workers": [1, 2], "queries.workers": [3]}
        assert names(workers) == [f"workload.workers={n} queries.workers=3" for n in (1, 2)]

    def test_a_combination_can_be_left_out(self):
        """An exclusion may name some of the keys."""
        swept = {"workload.scale": [2, 20, 200], "workload.batch_size": [1, 9]}
        left = {"exclude": [{"workload.scale": 2}, {"workload": {"scale": 20}, "workload.batch_size": 9}]}
        assert names(swept | left) == ["scale=20 batch=1", "scale=200 batch=1", "scale=200 batch=9"]

    def test_without_a_matrix_there_is_one_cell_without_a_name(self):
        """A matrix with a single combination is the same as an experiment with these values."""
        assert [(one.name, one.set) for one in read.expand(written(), "x.yml")] == [("", {})]
        (one,) = expanded({"workload.scale": [7]})
        assert (one.name, one.asked.workload.scale) == ("", 7)
        assert not planned({"workload.scale": [7]}).sweeps

    def test_long_values_are_cut_and_told_apart(self):
        """Flags may be any text, and a name has no space but between its parts."""
        flags = [[], ["-a=1"], ["-search.maxQueryLen=10000 x"], ["-search.maxQueryLen=10000 y"]]
        long = "flags=-search.maxQueryLen=100…"
        assert names({"variants.candidate.flags": flags}) == ["flags=none", "flags=-a=1", f"{long} #1", f"{long} #2"]

    @pytest.mark.parametrize(
        ("swept", "sentence"),
        [
            ({"workload.scal": [1, 2]}, "x.yml: cell scal=1: workload.scal: unknown key; allowed here: batch_size"),
            ({"workload.scale": [1, 0]}, "x.yml: cell scale=0: workload.scale: input should be greater than or equal"),
            (
                {"workload.end": ["2025-06-11T00:00:00Z", "2025-06-10T00:30:00Z"]},
                "x.yml: cell end=2025-06-10T00:30:00Z: workload: the window 2025-06-10T00:00:00Z",
            ),
            ({"workload.scale": 5}, "matrix: workload.scale: a list of values is needed (it is 5)"),
            ({"workload.scale": []}, "a list of values is needed"),
            ({"workload.scale": [5, 5]}, "matrix: workload.scale: 5 is there twice"),
            ({"design.blocks": [6, 8]}, "matrix: design.blocks is the same for the whole run; what can be swept is in"),
            ({"report.shift": [True, False]}, "report.shift is the same for the whole run"),
            (SCALES | {"exclude": [{"workload.batch_size": 1}]}, "matrix.exclude: workload.batch_size is not swept"),
            (SCALES | {"exclude": [{"workload.scale": 3}]}, "matrix.exclude: 3 is no value of workload.scale"),
            (SCALES | {"exclude": [{"workload.scale": n} for n in (2, 20, 200)]}, "exclude leaves no cell"),
            ({"variants.candidate.path.x": [1, 2]}, "matrix: variants.candidate.path.x: path holds no fields"),
            ([1], "matrix: keys with lists are needed"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_cell(self, swept, sentence):
        """A key that does not exist, a value that fails for one cell, a list that is none."""
        with pytest.raises(UserError) as caught:
            expanded(swept)
        assert sentence in str(caught.value)

    def test_two_hundred_cells_are_many(self):
        """More take YES=1, since each has all blocks of the design."""
        many = {"workload.scale": list(range(1, 102)), "workload.batch_size": [1, 2]}
        with pytest.raises(UserError, match=r"more than 200 cells.*YES=1"):
            expanded(many)
        assert len(matrix.combinations(many, "", ("workload",), many=True)) == 202

    def test_what_does_not_go_with_a_sweep(self, tmp_path):
        """Data that is loaded once for all blocks, a build for a cell alone, and a knob for what is swept."""
        with pytest.raises(UserError, match=r"design.reload: once keeps the data of one setting"):
            expanded(SCALES, design={"reload": "once"})
        with pytest.raises(UserError, match=r"variants.candidate.path: a cell has no builds of its own"):
            planned({"variants.candidate.path": [str(written()["variants"]["candidate"]["path"]), "/bin/true"]})
        path = tmp_path / "x.yml"
        path.write_text(json.dumps({"name": "x", "matrix": {"workload.scale": [1, 2]}}))
        for knob in ({"TSBS_SCALE": "9"}, {"SET": "workload.scale=9"}):
            with pytest.raises(UserError, match=r"workload.scale is swept over 2 cells"):
                read.read({"EXPERIMENT": str(path), **knob})
        found = read.read({"EXPERIMENT": str(path), "SET": "matrix.workload.scale=[3,4,5]"})
        assert [one.name for one in found.cells] == ["scale=3", "scale=4", "scale=5"]


class TestPlan:
    """A sweep in the plan."""

    def test_a_cell_has_what_it_changes_and_the_plan_gives_it_whole(self):
        """A cell has only the sections that differ; data and queries that differ have their own keys."""
        plan = planned({"workload.scale": [2, 20], "duel.in_flight": [1, 2]})
        first, _, _, last = plan.cells
        assert (first.workload, first.duel, first.queries) == (None, None, None)
        assert (last.workload.scale, last.duel.in_flight, last.settle) == (20, 2, None)
        whole = plan.at("scale=20 in_flight=2")
        assert (whole.workload.scale, whole.duel.in_flight, whole.settle) == (20, 2, plan.settle)
        assert whole.queries.types[0].keys != plan.queries.types[0].keys
        assert plan.at("scale=2 in_flight=2").queries == plan.queries
        assert plan.model_validate_json(plan.model_dump_json()) == plan

    def test_components_are_started_with_other_flags(self):
        """Each cell has its own flags and environment; builds are the same for the run."""
        plan = planned({"variants.candidate.flags": [[], ["-x"]], "variants.baseline.env": [{}, {"A": "1"}]})
        last = plan.at(plan.cells[-1].name)
        assert [(v.server.flags, v.server.env) for v in last.variants] == [((), {"A": "1"}), (("-x",), {})]
        assert [v.server.flags for v in plan.variants] == [(), ()]

    def test_the_estimate_is_of_all_cells_and_the_largest_database(self):
        """Data that cells share counts once; the blocks of all cells count."""
        one = planned({"workload.scale": [2000]})
        both = planned({"workload.scale": [20, 2000]})
        shared = planned({"workload.batch_size": [1, 2], "workload.scale": [2000]})
        assert both.estimate.database_bytes == one.estimate.database_bytes == shared.estimate.database_bytes
        assert both.estimate.data_bytes > one.estimate.data_bytes == shared.estimate.data_bytes
        assert cells.memory(both) == cells.memory(one)
        assert shared.duration.total_s - shared.duration.prepare_s == pytest.approx(
            2 * (one.duration.total_s - one.duration.prepare_s) - one.duration.workload_s, abs=2
        )

    def test_the_plan_begins_with_cells_blocks_hours_and_disk(self):
        """In one line, before anything else."""
        said = cells.described(planned(SCALES), 24)
        assert said.startswith("sweep     3 cells (workload.scale), 24 blocks, about ")
        assert said.endswith(" of disk")

    @settings(deadline=None, max_examples=30)
    @given(blocks=st.integers(1, 12), warmups=st.integers(0, 1), count=st.integers(1, 5), seed=st.integers(0, 99))
    def test_cells_take_turns(self, blocks, warmups, count, seed):
        """Every round has each cell once; each cell has the whole design, and numbers are of the run."""
        design = Design(blocks=blocks, warmup_blocks=warmups, spare_blocks=blocks // 4, seed=seed)
        names = {f"c{i}": ("a", "b") for i in range(count)}
        rows = order.draw(SIDES, names, design, dict.fromkeys(names, ("host1",)))
        assert [row.block for row in rows] == list(range(1 - warmups, len(rows) + 1 - warmups))
        assert len(rows) == count * (blocks + warmups + blocks // 4)
        for first in range(0, len(rows), count):
            turn = rows[first : first + count]
            assert ({row.cell for row in turn}, len({row.kind for row in turn})) == (set(names), 1)

    def test_rounds_differ_and_one_cell_is_as_it_was(self):
        """Turns are drawn from the seed; without a sweep nothing but the coin of the variants decides."""
        design = Design(blocks=40, spare_blocks=0, seed=3)
        rows = order.draw(SIDES, dict.fromkeys("abc", ("t", "u")), design, dict.fromkeys("abc", ("host1",)))
        assert len({tuple(row.cell for row in rows[i : i + 3]) for i in range(0, len(rows), 3)}) == 6
        alone = order.draw(SIDES, {"": ("t", "u")}, Design(blocks=6, spare_blocks=0), {"": ["h"]})
        assert [row.order[0] for row in alone] == [
            "baseline", "baseline", "candidate", "candidate", "baseline", "baseline", "candidate",
        ]  # fmt: skip


class TestExponents:
    """Power laws along a line of cells."""

    X = (1e3, 1e4, 1e5, 1e6)

    def law(self, beta, rounds=8, noise=0.02, drift=0.3, seed=1):
        """Return rounds that drift as a whole, with a power law in them."""
        draw = np.random.default_rng(seed)
        of_round = drift * draw.standard_normal((rounds, 1))
        return np.exp(of_round + beta * np.log(self.X) + noise * draw.standard_normal((rounds, len(self.X))))

    def test_a_known_exponent_is_found_through_drift(self):
        """A drift of whole rounds by a third is not growth; five rounds give an estimate without an interval."""
        found = sweep.exponent(self.X, self.law(0.12))
        assert found["exponent"] == pytest.approx(0.12, abs=0.005)
        assert found["lo"] < 0.12 < found["hi"]
        assert found["hi"] - found["lo"] < 0.01
        assert (found["bent"], found["rounds"]) == (False, 8)
        assert found["off_pct"] < 5
        few = sweep.exponent(self.X, self.law(1, rounds=5))
        assert (few["lo"], few["exponent"]) == (None, pytest.approx(1, abs=0.02))

    def test_the_interval_holds_the_truth_as_often_as_it_says(self):
        """At 96.1 % with eight rounds."""
        inside = 0
        for seed in range(400):
            found = sweep.exponent(self.X, self.law(0.5, seed=seed, noise=0.05))
            inside += found["lo"] <= 0.5 <= found["hi"]
        assert 0.93 < inside / 400 < 0.99

    def test_what_is_no_power_law_says_so(self):
        """Flat, then linear: it has the exponents at both ends."""
        values = self.law(0.0) * np.array([1, 1, 1, 10])
        found = sweep.exponent(self.X, values)
        assert found["bent"]
        assert (found["first"], found["last"]) == (pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02))

    def test_lines_are_cells_that_differ_in_one_number(self):
        """The volume is in samples if one key alone changes it; values that are no numbers make no line."""
        (line,) = sweep.lines(planned({"workload.interval": ["1h", "30m", "2h"]}))
        assert (line.name, line.cells) == ("samples", ("interval=2h", "interval=1h", "interval=30m"))
        assert line.at[2] == 2 * line.at[1]
        swept = {"workload.scale": [2, 4], "workload.data_kind": ["regular", "irregular"]}
        found = sweep.lines(planned(swept))
        assert [(one.name, one.beside, one.at) for one in found] == [
            ("scale", "data=regular", (2.0, 4.0)), ("scale", "data=irregular", (2.0, 4.0)),
        ]  # fmt: skip
        (one, *_) = sweep.lines(planned({"workload.interval": ["1h", "2h"], "workload.scale": [1, 2]}))
        assert (one.name, one.at) == ("interval", (3600.0, 7200.0))


@pytest.mark.slow
def test_one_family_over_all_cells_keeps_its_error_rate():
    """Of 60 sweeps of a binary against itself hardly more than 5 % flag anything; what one cell alone has is seen."""
    assert simulate.false_alarms(simulate.QUIET, 8, 60, 7, cells=3)["primary"] <= 0.12
    assert simulate.detection(simulate.QUIET, 8, ("duel", 0.035), 20, 7, cells=3)["flagged"] >= 0.8


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Report a sweep over three scales: no difference at first, then 6 % slower; the load's CPU grows as scale^1.1."""
    written_cells = {}
    for times, worse in (
        (1, {}),
        (10, {"service": 1.06, "query_cpu": 1.06}),
        (100, {"service": 1.06, "query_cpu": 1.06}),
    ):
        grown = {"cpu": times**1.1}
        factors = {"baseline": grown, "candidate": worse | grown}
        written_cells[100 * times] = {"samples": 108_000 * times, "factors": factors}
    spec = replace(sweeps.SPEC, blocks=8, spare_blocks=2, noise=0.005, between=0.003)
    run = sweeps.write(tmp_path_factory.mktemp("sweep"), written_cells, spec)
    tidied(run)
    compare.main(run)
    with drawing():
        report.main(run)
    return run


class TestReport:
    """What becomes of a sweep's blocks."""

    def test_every_cell_has_its_rows_and_its_blocks(self, run):
        """In stats/comparison.json, in the order of the plan."""
        rows = json.loads((run / "stats/comparison.json").read_text())["rows"]
        assert list(dict.fromkeys(row["cell"] for row in rows)) == ["scale=100", "scale=1000", "scale=10000"]
        typical = {
            row["cell"]: row for row in rows if (row["metric"], row["query_type"]) == ("duel_typical_ms", "geomean")
        }
        assert [row["verdict"] for row in typical.values()][1:] == [REGRESSION, REGRESSION]
        assert {row["blocks"] for row in typical.values()} == {8}
        assert IMPROVEMENT not in {row["verdict"] for row in rows}

    def test_where_the_difference_begins_is_named(self, run):
        """In stats/sweep.json, in the report's first sentence, in the comment and on the terminal."""
        document = json.loads((run / sweep.FILE).read_text())
        (one,) = [o for o in document["begins"] if (o["metric"], o["query_type"]) == ("duel_typical_ms", "geomean")]
        assert (one["cell"], one["verdict"]) == ("scale=1000", REGRESSION)
        for text in ((run / "report.md").read_text(), comment.main(run)):
            assert "**✗ worse** from scale=1000 on: Query time, all types (5." in text

    def test_growth_is_told_as_a_power(self, run):
        """Of each variant, per sample where that is what grows."""
        document = json.loads((run / sweep.FILE).read_text())
        fits = {(f["metric"], f["query_type"], f["variant"]): f for f in document["fits"]}
        cpu = fits["load_cpu_seconds", "", "baseline"]
        assert cpu["per"] == "sample"
        assert cpu["lo"] < 0.1 < cpu["hi"] or cpu["exponent"] == pytest.approx(0.1, abs=0.02)

    def test_the_report_has_powers_a_table_by_cell_and_a_picture(self, run):
        """And each cell's own answer, folded; no line of a table is of other cells."""
        text = (run / "report.md").read_text()
        for part in (
            *("**CPU of ingestion a sample** ", "scale^", "## By cell", "## Each cell"),
            *("(plots/scaling.png)", "(plots/scaling-types.png)"),
        ):
            assert part in text
        assert (run / "plots/scaling.svg").stat().st_size > 5000
        assert text.count("| scale=1000 ") >= 2

    def test_what_feeds_alerts_is_not_written(self, run):
        """A sweep runs once, and has no series; its points have their cell."""
        assert "a sweep is asked once" in exports.main(run)
        assert {path.name for path in (run / "exports").iterdir()} == {
            "baseline.bench.txt", "candidate.bench.txt", "openmetrics.txt",
        }  # fmt: skip
        assert 'cell="scale=100"' in (run / "exports/openmetrics.txt").read_text()
        assert "BenchmarkTSBS/scale=100/phase=load/" in (run / "stats/candidate.bench.txt").read_text()

    def test_a_run_without_a_sweep_has_none_of_it(self, run, tmp_path):
        """It removes the file of another plan."""
        alone = sweeps.synthetic.write_run(tmp_path / "r", replace(sweeps.SPEC, blocks=2))
        tidied(alone)
        (alone / "stats").mkdir()
        (alone / sweep.FILE).write_text("{}")
        compare.main(alone)
        assert not (alone / sweep.FILE).exists()
        assert open_run(run).plan.sweeps


def test_two_cells_run_in_turn(project):
    """Their data and queries are made at the beginning, counts are by cell, and each block has its cell's setting."""
    plan = project.plan(
        matrix={"workload.scale": [2, 3], "variants.candidate.flags": [[], ["-calm"]],
                "exclude": [{"workload.scale": 2, "variants.candidate.flags": ["-calm"]},
                            {"workload.scale": 3, "variants.candidate.flags": []}]},
        design={"blocks": 1, "warmup_blocks": 1},
    )  # fmt: skip
    names = [cell.name for cell in plan.cells]
    assert names == ["scale=2 flags=none", "scale=3 flags=-calm"]
    said = project.run()
    assert "0 of 4 blocks are finished, 2 cells in turn" in said
    run = open_run(project.run_dir)
    assert Counter(block.cell for block in run.blocks) == dict.fromkeys(names, 2)
    assert {block.status for block in run.blocks} == {"ok"}
    for block in run.blocks:
        sent = {int(row["actual"]) for row in table(block, "checks") if row["check"] == "samples_sent"}
        assert sent == {plan.at(block.cell).workload.samples}
    workload, counts = (
        json.loads((run.path / f"raw/host1/{name}.json").read_text()) for name in ("workload", "calibration")
    )
    assert [one["cells"] for one in workload["data"]] == [[name] for name in names]
    assert set(counts["cells"]) == set(names)
    tidied(run.path)
    compare.main(run.path)
    assert (run.path / sweep.FILE).exists()
    assert {row["cell"] for row in json.loads((run.path / "stats/comparison.json").read_text())["rows"]} == set(names)


@pytest.mark.parametrize("name", ["scaling", "volume", "batch-size", "data-kinds"])
def test_the_sweeps_that_we_ship_are_whole(name):
    """Each is a sweep that can be planned."""
    path = Path("experiments") / f"{name}.yml"
    found = read.expand(read.read_file(path), str(path))
    assert len(found) > 2
    assert found[0].asked.name == name


def test_changes_both_ways_have_their_signs():
    """Of cells with one verdict some can be faster and some slower, and no word is true of both."""
    row = {"threshold_pct": 2.0, "lo_pct": None, "hi_pct": None, "range_pct": None}
    rows = [row | {"change_pct": change} for change in (-1.0, 1.2)]
    assert sections_sweep._sizes(rows, METRICS["duel_typical_ms"]) == " (-1.0 to +1.2 %)"
    assert sections_sweep._sizes(rows[1:], METRICS["duel_typical_ms"]) == " (1.2 % slower)"
    apart = [row | {"change_pct": change, "threshold_pct": 0.0} for change in (338.0, 256.0, -50.0)]
    assert sections_sweep._sizes(apart[:2], METRICS["duel_typical_ms"]) == " (3.56 to 4.38 times as slow)"
    assert sections_sweep._sizes(apart, METRICS["duel_typical_ms"]) == " (2 times as fast to 4.38 times as slow)"
