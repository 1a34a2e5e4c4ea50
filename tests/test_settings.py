"""A study of settings: the matrix, what is refused, its runs and their order, growth of figures, and the report."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import plans
import pytest
import simulate
import sweeps
import yaml
from asking import FAKES, written
from gitrepo import Repository
from listening import free_port
from renting import named
from reports import drawing, reported

from plots import comment, listing
from plots import sweep as page
from tsduel.cli import pipeline
from tsduel.core import runlock
from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS
from tsduel.core.rundir import Run
from tsduel.plan import resolve
from tsduel.question import matrix, read
from tsduel.stats.verdict import IMPROVEMENT, REGRESSION
from tsduel.studies import compare, growth
from tsduel.studies import settings as studies
from tsduel.studies.study import drive

SCALES = {"workload.scale": [2, 20, 200]}


def expanded(swept, **parts):
    """Return the settings of a small experiment with this matrix."""
    return read.expand(written(**parts) | {"matrix": swept}, "x.yml")


def names(swept):
    """Return their names."""
    return [one.name for one in expanded(swept)]


def lines(swept):
    """Return the lines of a study."""
    found = expanded(swept)
    plans = [resolve.resolve(one.asked, run="r") for one in found]
    return growth.lines([growth.At(o.name, o.set, Run(Path("r"), p), []) for o, p in zip(found, plans, strict=True)])


class TestMatrix:
    """From a matrix to settings."""

    def test_every_combination_is_a_setting_with_a_short_name(self):
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

    def test_without_a_matrix_there_is_one_setting_without_a_name(self):
        """A matrix with a single combination is the same as an experiment with these values."""
        assert [(one.name, one.set) for one in read.expand(written(), "x.yml")] == [("", {})]
        (one,) = expanded({"workload.scale": [7]})
        assert (one.name, one.asked.workload.scale) == ("", 7)

    def test_long_values_are_cut_and_told_apart(self):
        """Flags may be any text, and a name has no space but between its parts."""
        flags = [[], ["-a=1"], ["-search.maxQueryLen=10000 x"], ["-search.maxQueryLen=10000 y"]]
        long = "flags=-search.maxQueryLen=100…"
        assert names({"variants.candidate.flags": flags}) == ["flags=none", "flags=-a=1", f"{long} #1", f"{long} #2"]

    @pytest.mark.parametrize(
        ("swept", "sentence"),
        [
            ({"workload.scal": [1, 2]}, "x.yml: setting scal=1: workload.scal: unknown key; allowed here: batch_size"),
            (
                {"workload.scale": [1, 0]},
                "x.yml: setting scale=0: workload.scale: input should be greater than or equal",
            ),
            (
                {"workload.end": ["2025-06-11T00:00:00Z", "2025-06-10T00:30:00Z"]},
                "x.yml: setting end=2025-06-10T00:30:00Z: workload: the window 2025-06-10T00:00:00Z",
            ),
            ({"workload.scale": 5}, "matrix: workload.scale: a list of values is needed (it is 5)"),
            ({"workload.scale": []}, "a list of values is needed"),
            ({"workload.scale": [5, 5]}, "matrix: workload.scale: 5 is there twice"),
            (
                {"kind": ["tsbs", "gobench"]},
                "matrix: kind is the same for the whole study; any other field can be swept",
            ),
            (SCALES | {"exclude": [{"workload.batch_size": 1}]}, "matrix.exclude: workload.batch_size is not swept"),
            (SCALES | {"exclude": [{"workload.scale": 3}]}, "matrix.exclude: 3 is no value of workload.scale"),
            (SCALES | {"exclude": [{"workload.scale": n} for n in (2, 20, 200)]}, "exclude leaves no setting"),
            ({"variants.candidate.path.x": [1, 2]}, "matrix: variants.candidate.path.x: path holds no fields"),
            ([1], "matrix: keys with lists are needed"),
            (SCALES | {"exclude": 5}, "matrix.exclude: a list of combinations is needed"),
            (yaml.safe_load("2025-01-01: [1, 2]"), "2025-01-01: unknown key"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_setting(self, swept, sentence):
        """A key that does not exist, a value that fails for one setting, a list that is none."""
        with pytest.raises(UserError) as caught:
            expanded(swept)
        assert sentence in str(caught.value)

    def test_two_hundred_settings_are_many(self):
        """More take YES=1, since each has all blocks of the design."""
        many = {"workload.scale": list(range(1, 102)), "workload.batch_size": [1, 2]}
        with pytest.raises(UserError, match=r"more than 200 settings.*YES=1"):
            expanded(many)
        assert len(matrix.combinations(many, "", many=True)) == 202

    def test_any_field_may_be_swept(self):
        """Blocks, revisions, profiles, and fields of Go benchmarks: each setting is an experiment of its own."""
        assert [one.asked.design.blocks for one in expanded({"design.blocks": [6, 8]})] == [6, 8]
        paths = [str(FAKES / name) for name in ("database", "tsbs_load")]
        assert [one.asked.variants["candidate"].path for one in expanded({"variants.candidate.path": paths})] == paths
        go = {"name": "x", "kind": "gobench", "variants": {side: {"ref": "v1"} for side in ("baseline", "candidate")}}
        go["gobench"] = {"module": "e.org/m", "package": "./m"}
        found = read.expand(go | {"matrix": {"gobench.cpu": [1, 2, 4]}}, "x.yml")
        assert [one.name for one in found] == ["cpu=1", "cpu=2", "cpu=4"]

    def test_a_knob_for_what_is_swept_is_refused(self, tmp_path):
        """It would have no effect; SET sweeps over other values."""
        path = tmp_path / "x.yml"
        path.write_text(json.dumps({"name": "x", "matrix": {"workload.scale": [1, 2]}}))
        for knob in ({"TSBS_SCALE": "9"}, {"SET": "workload.scale=9"}):
            with pytest.raises(UserError, match=r"workload.scale is swept over 2 settings"):
                read.read({"EXPERIMENT": str(path), **knob})
        found = read.read({"EXPERIMENT": str(path), "SET": "matrix.workload.scale=[3,4,5]"})
        assert [one.name for one in found.settings] == ["scale=3", "scale=4", "scale=5"]


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Return a function that plans a study with such a matrix and knobs, and returns its directory."""
    monkeypatch.setenv("TSDUEL_CACHE", str(tmp_path / "cache"))

    port = free_port()

    def begun(swept, knobs=(), **parts):
        path = tmp_path / "x.yml"
        path.write_text(json.dumps(written(**{"host": {"port": port}} | parts) | {"matrix": swept}))
        directory = tmp_path / "results/s"
        studies.plan(directory, {"EXPERIMENT": str(path), "TSDUEL_CACHE": str(tmp_path / "cache"), **dict(knobs)})
        return directory

    return begun


class TestRuns:
    """From settings to runs."""

    def test_each_setting_is_a_run_that_its_own_command_would_make(self, begun, capsys):
        """All are planned at once; SET has what a setting sets, behind what the user gave."""
        swept = {"workload.scale": [2, 20], "variants.candidate.flags": [[], ["-x y"]]}
        directory = begun(swept, {"SET": "design.blocks=3"})
        plans = {step.name: run.plan for step, run in studies.runs(directory)}
        assert [plan.run for plan in plans.values()] == [f"s-0{number}" for number in (1, 2, 3, 4)]
        last = plans["scale=20 flags=-x_y"]
        assert (last.workload.scale, last.design.blocks, last.variants[1].server.flags) == (20, 3, ("-x y",))
        again = read.read({"EXPERIMENT": last.asked.experiment, "SET": last.asked.knobs["SET"]})
        assert (len(again.settings), again.asked.workload.scale) == (1, 20)
        said = capsys.readouterr().out.splitlines()
        assert said[0].startswith("study     4 settings (workload.scale, variants.candidate.flags), 12 blocks, about ")
        assert sum(line.startswith("setting   scale=") for line in said) == 4

    def test_a_branch_is_the_same_revision_in_all_runs(self, begun, tmp_path, monkeypatch):
        """It is resolved once, whatever moves meanwhile."""
        repository, found = Repository(tmp_path / "repository"), list[str]()
        repository.commit("a", "1\n")
        find = resolve.sources.FOUND["git"]

        def moving(*words):
            made = find(*words)
            repository.commit("b", f"{len(found)}\n")
            found.append(made["revision"])
            return made

        monkeypatch.setitem(resolve.sources.FOUND, "git", moving)
        side = {"source": "git", "repo": str(repository.path), "ref": "main"}
        directory = begun(SCALES, variants={"candidate": side})
        assert len(found) == 1
        assert {run.plan.variants[1].server.revision for _, run in studies.runs(directory)} == {found[0]}

    def test_the_order_is_drawn_and_the_plan_is_fixed(self, begun):
        """From design.seed; other knobs would be another study."""
        orders = set()
        for seed in range(8):
            directory = begun(SCALES, design={"seed": seed})
            orders.add(studies.Sweep.load(directory).order)
            for path in directory.parent.iterdir():
                path.rename(path.with_name(f"{path.name}-of-{seed}"))
        assert len(orders) > 2
        begun(SCALES)
        begun(SCALES)
        with pytest.raises(UserError, match="its plan was fixed before its first block, and BLOCKS would change it"):
            begun(SCALES, {"BLOCKS": "7"})

    def test_what_was_killed_goes_on_and_what_failed_keeps_nothing_from_running(self, begun):
        """By SIGTERM. A run that has ended is not made again; 3 is the code at the end, and 2 ends all at once."""
        directory, made, codes = begun(SCALES), list[str](), {"s-02": 143}

        def compare(environment):
            made.append(environment["RUN"])
            code = codes.get(made[-1], 0)
            if not code:
                (directory.with_name(made[-1]) / studies.REPORT).touch()
            return code

        order = [step.run for step in studies.Sweep.load(directory).in_order]
        assert drive(studies.rule(directory), compare) == 130
        assert made == order[: order.index("s-02") + 1]
        assert studies.now(directory).name == "s-02"
        # Somebody has looked at the blocks so far: its report is there, and it has not ended.
        looked = directory.with_name("s-02")
        (looked / studies.REPORT).touch()
        (looked / "tidy").mkdir()
        (looked / "tidy/blocks.csv").write_text("host,cause\nhost1,\nhost1,missing\n")
        assert studies.now(directory).name == "s-02"
        (looked / "tidy/blocks.csv").write_text("")  # a power cut
        assert studies.now(directory).name == "s-02"
        (looked / studies.REPORT).unlink()
        codes["s-02"] = 3
        made.clear()
        assert drive(studies.rule(directory), compare) == 3
        assert made == order[order.index("s-02") :]
        with runlock.holding(directory.with_name(order[-1]), "tsbs"):  # the others go on
            assert studies.now(directory).name == order[-1]
        codes["s-02"] = 2
        assert drive(studies.rule(directory), compare) == 2
        assert made[-1] == "s-02"

    def test_the_command_makes_all_runs_and_then_their_report(self, begun, monkeypatch):
        """FAIL_ON is of the study's verdicts; each run has the stages behind its plan."""
        directory, made = begun(SCALES), list[tuple[str, str]]()
        monkeypatch.setenv("TSDUEL_RESULTS", str(directory.parent))

        def call(command, environment, **_):
            stage, run = command[command.index("-m") + 2], environment["RUN"]
            made.append((stage, run))
            assert environment.get("FAIL_ON", "") == ("regression" if run == "s" else "")
            if stage == "report":
                (directory.with_name(run) / studies.REPORT).touch()
            return 6 if (stage, run) == ("report", "s") else 0

        monkeypatch.setattr(pipeline.children, "call", call)
        assert pipeline.compare({"KIND": "tsbs", "RUN": "s", "FAIL_ON": "regression"}) == 6
        stages = ("provision", "build", "run", "give-back", "tidy", "compare", "report")
        order = [step.run for step in studies.Sweep.load(directory).in_order]
        of_runs = [(stage, run) for run in order for stage in stages]
        assert made == [("look", "s"), ("plan", "s"), *of_runs, ("compare", "s"), ("report", "s")]
        assert (directory.parent / "latest").resolve() == directory

    def test_a_plan_that_was_killed_is_made_whole(self, begun):
        """Runs that were planned stay as they are."""
        directory = begun(SCALES)
        (directory / studies.Sweep.FILE).unlink()
        before = (directory.with_name("s-01") / "plan/experiment.json").stat().st_mtime_ns
        begun(SCALES)
        assert (directory.with_name("s-01") / "plan/experiment.json").stat().st_mtime_ns == before
        assert len(studies.runs(directory)) == 3

    def test_its_rented_machine_keeps_its_name_if_the_plan_was_killed(self, tmp_path):
        """A name is drawn; the runs that were planned before have it already."""
        plans.write(tmp_path / "s-01", place=named("first"))
        places = [named("second"), named("other"), named("second"), None]
        found = studies._as_planned(tmp_path / "s", ["s-01", "s-02", "s-03", "s-04"], places)
        assert [place and place.name for place in found] == ["first", "other", "first", None]

    def test_it_is_listed_with_its_runs(self, begun):
        """A line for the study, and one for each run."""
        directory = begun(SCALES)
        lines = {line.cells["run"]: line.cells for line in listing.lines({}, directory.parent)}
        assert set(lines) == {"s", "s-01", "s-02", "s-03"}
        assert (lines["s"]["kind"], lines["s"]["state"]) == ("study", "0 of 3 runs ended")


class TestExponents:
    """Power laws along a line of settings."""

    X = (1e3, 1e4, 1e5, 1e6)

    def law(self, beta, rounds=8, noise=0.02, drift=0.3, seed=1):
        """Return rounds that drift as a whole, with a power law in them."""
        draw = np.random.default_rng(seed)
        of_round = drift * draw.standard_normal((rounds, 1))
        return np.exp(of_round + beta * np.log(self.X) + noise * draw.standard_normal((rounds, len(self.X))))

    def test_a_known_exponent_is_found_through_drift(self):
        """A drift of whole rounds by a third is not growth; five rounds give an estimate without an interval."""
        found = growth.exponent(self.X, self.law(0.12))
        assert found["exponent"] == pytest.approx(0.12, abs=0.005)
        assert found["lo"] < 0.12 < found["hi"]
        assert found["hi"] - found["lo"] < 0.01
        assert (found["bent"], found["rounds"]) == (False, 8)
        assert found["off_pct"] < 5
        few = growth.exponent(self.X, self.law(1, rounds=5))
        assert (few["lo"], few["exponent"]) == (None, pytest.approx(1, abs=0.02))

    def test_the_interval_holds_the_truth_as_often_as_it_says(self):
        """At 96.1 % with eight rounds."""
        inside = 0
        for seed in range(400):
            found = growth.exponent(self.X, self.law(0.5, seed=seed, noise=0.05))
            inside += found["lo"] <= 0.5 <= found["hi"]
        assert 0.93 < inside / 400 < 0.99

    def test_what_is_no_power_law_says_so(self):
        """Flat, then linear: it has the exponents at both ends."""
        values = self.law(0.0) * np.array([1, 1, 1, 10])
        found = growth.exponent(self.X, values)
        assert found["bent"]
        assert (found["first"], found["last"]) == (pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02))

    def test_lines_are_settings_that_differ_in_one_number(self):
        """The volume is in samples if one key alone changes it; values that are no numbers make no line."""
        (line,) = lines({"workload.interval": ["1h", "30m", "2h"]})
        assert (line.name, line.settings) == ("samples", ("interval=2h", "interval=1h", "interval=30m"))
        assert line.at[2] == 2 * line.at[1]
        found = lines({"workload.scale": [2, 4], "workload.data_kind": ["regular", "irregular"]})
        assert [(one.name, one.beside, one.at) for one in found] == [
            ("scale", "data=regular", (2.0, 4.0)), ("scale", "data=irregular", (2.0, 4.0)),
        ]  # fmt: skip
        assert lines({"limits.cpus": [0.25, 0.5, None]}) == []
        (one, *_) = lines({"workload.interval": ["1h", "2h"], "workload.scale": [1, 2]})
        assert (one.name, one.at) == ("interval", (3600.0, 7200.0))


@pytest.mark.slow
def test_one_family_over_all_settings_keeps_its_error_rate():
    """Of 60 sweeps of a binary against itself hardly more than 5 % flag anything; what one alone has is seen."""
    assert simulate.false_alarms(simulate.QUIET, 8, 60, 7, settings=3)["primary"] <= 0.12
    assert simulate.detection(simulate.QUIET, 8, ("duel", 0.035), 20, 7, settings=3)["flagged"] >= 0.8


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Report a sweep over three scales: no difference at first, then 6 % slower; the load's CPU grows as scale^1.1."""
    settings = {}
    for times, worse in (
        (1, {}),
        (10, {"service": 1.06, "query_cpu": 1.06}),
        (100, {"service": 1.06, "query_cpu": 1.06}),
    ):
        grown = {"cpu": times**1.1}
        factors = {"baseline": grown, "candidate": worse | grown}
        settings[100 * times] = {"samples": 108_000 * times, "factors": factors}
    spec = replace(sweeps.SPEC, blocks=8, spare_blocks=2, noise=0.005, between=0.003)
    with drawing():
        return reported(sweeps.write(tmp_path_factory.mktemp("sweep"), settings, spec))


class TestReport:
    """What becomes of a study's runs."""

    def test_every_setting_has_its_rows_and_its_blocks(self, study):
        """In stats/comparison.json, in the order of the matrix."""
        rows = json.loads((study / "stats/comparison.json").read_text())["rows"]
        assert list(dict.fromkeys(row["setting"] for row in rows)) == ["scale=100", "scale=1000", "scale=10000"]
        typical = {
            row["setting"]: row for row in rows if (row["metric"], row["query_type"]) == ("duel_typical_ms", "geomean")
        }
        assert [row["verdict"] for row in typical.values()][1:] == [REGRESSION, REGRESSION]
        assert {row["blocks"] for row in typical.values()} == {8}
        assert IMPROVEMENT not in {row["verdict"] for row in rows}

    def test_p_is_adjusted_over_the_study(self, study):
        """It is larger than over the run alone, and the change is the same."""
        every = json.loads((study / "stats/comparison.json").read_text())["rows"]
        for step, run in studies.runs(study):
            mine = {(row["metric"], row["query_type"]): row for row in every if row["setting"] == step.name}
            for row in run.json("stats/comparison.json")["rows"]:
                over = mine[row["metric"], row["query_type"]]
                assert over["change_pct"] == row["change_pct"]
                assert row["p_adj"] is None or over["p_adj"] >= row["p_adj"] - 1e-9

    def test_where_the_difference_begins_is_named(self, study):
        """In stats/comparison.json, in the report's first sentence, in the comment and on the terminal."""
        begins = json.loads((study / "stats/comparison.json").read_text())["begins"]
        (one,) = [o for o in begins if (o["metric"], o["query_type"]) == ("duel_typical_ms", "geomean")]
        assert (one["setting"], one["verdict"]) == ("scale=1000", REGRESSION)
        for text in ((study / "report.md").read_text(), comment.main(study)):
            assert "**✗ worse** from scale=1000 on: Query time, all types (5." in text

    def test_growth_is_told_as_a_power(self, study):
        """Of each variant, per sample where that is what grows."""
        document = json.loads((study / "stats/comparison.json").read_text())
        fits = {(f["metric"], f["query_type"], f["variant"]): f for f in document["fits"]}
        cpu = fits["load_cpu_seconds", "", "baseline"]
        assert cpu["per"] == "sample"
        assert cpu["lo"] < 0.1 < cpu["hi"] or cpu["exponent"] == pytest.approx(0.1, abs=0.02)

    def test_the_report_has_powers_a_table_by_setting_and_a_picture(self, study):
        """And each setting's own answer, folded, with a link to the report of its run."""
        text = (study / "report.md").read_text()
        for part in (
            *("**CPU of ingestion a sample** ", "scale^", "## By setting", "## Each setting"),
            *("(plots/scaling.png)", "(plots/scaling-types.png)", f"(../{study.name}-02/report.md)"),
        ):
            assert part in text
        assert "What it costs" not in text  # no machine is rented
        assert (study / "plots/scaling.svg").stat().st_size > 5000
        assert text.count("| scale=1000 ") >= 2

    def test_what_got_worse_below_a_mean_is_in_the_answer(self, study, tmp_path):
        """FAIL_ON=regression sees it, too."""
        for path in study.parent.iterdir():
            shutil.copytree(path, tmp_path / path.name)
        own = tmp_path / study.name / "stats/comparison.json"
        document = json.loads(own.read_text())
        (row,) = (
            row for row in document["rows"]
            if (row["setting"], row["metric"], row["query_type"]) == ("scale=100", "duel_typical_ms", "cpu-max-all-1")
        )  # fmt: skip
        row.update(verdict=REGRESSION, change_pct=20.0)
        own.write_text(json.dumps(document))
        page.main(tmp_path / study.name)
        assert (
            "Below the means: scale=100: Query time, all types: 1 of 2 worse, largest cpu-max-all-1 (+20.0 %)."
        ) in (tmp_path / study.name / "report.md").read_text()

    def test_a_run_without_a_result_is_named(self, study, tmp_path):
        """The others are compared all the same."""
        for path in study.parent.iterdir():
            shutil.copytree(path, tmp_path / path.name)
        (tmp_path / f"{study.name}-01/stats/comparison.json").unlink()
        compare.main(tmp_path / study.name)
        page.main(tmp_path / study.name)
        assert "**No result of scale=100**: a run failed" in (tmp_path / study.name / "report.md").read_text()


@pytest.mark.parametrize("name", ["scaling", "volume", "batch-size", "data-kinds"])
def test_the_sweeps_that_we_ship_are_whole(name):
    """Each is a sweep that can be planned."""
    path = Path("experiments") / f"{name}.yml"
    found = read.expand(read.read_file(path), str(path))
    assert len(found) > 2
    assert found[0].asked.name == name


def test_changes_both_ways_have_their_signs():
    """Of settings with one verdict some can be faster and some slower, and no word is true of both."""
    row = {"threshold_pct": 2.0, "lo_pct": None, "hi_pct": None, "range_pct": None}
    rows = [row | {"change_pct": change} for change in (-1.0, 1.2)]
    assert page._sizes(rows, METRICS["duel_typical_ms"]) == " (-1.0 to +1.2 %)"
    assert page._sizes(rows[1:], METRICS["duel_typical_ms"]) == " (1.2 % slower)"
    apart = [row | {"change_pct": change, "threshold_pct": 0.0} for change in (338.0, 256.0, -50.0)]
    assert page._sizes(apart[:2], METRICS["duel_typical_ms"]) == " (3.56 to 4.38 times as slow)"
    assert page._sizes(apart, METRICS["duel_typical_ms"]) == " (2 times as fast to 4.38 times as slow)"
