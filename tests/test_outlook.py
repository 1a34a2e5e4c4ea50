"""What a plan says before it starts: time as earlier runs took, what it needs, and what it can show on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import synthetic
from fakeproject import FAKES, written

from tsduel.plan import earlier, foresight, outlook
from tsduel.plan import resolve as plan
from tsduel.question import experiment
from tsduel.stats import aa
from tsduel.stats.estimate import percent
from tsduel.stats.power import blocks_needed, mde

HOST = synthetic.HOST
KIND = aa.kind_of("local", HOST)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Return a directory of runs on a machine that is the one that synthetic runs were on."""
    monkeypatch.setattr(outlook, "kind_here", lambda plan, cache: KIND)  # noqa: ARG005 - as it is called
    return tmp_path / "results"


def stored(results, name, *, each=40.0, warm=60.0, host=None, **workload):
    """Write a run with two measured rounds and a warm-up round of so many seconds; return its plan."""
    spec = synthetic.Spec(blocks=2, query_types=("cpu-max-all-1",), load_s=6, query_s=6)
    run = synthetic.write_run(results / name, spec)
    for path in run.glob("raw/*/round.json"):
        record = json.loads(path.read_text())
        record["ended"] = record["started"] + (each if record["block"] else warm)
        path.write_text(json.dumps(record))
    if host:
        (run / "raw/host.json").write_text(json.dumps(HOST | host))
    file = run / "plan/experiment.json"
    made = json.loads(file.read_text())
    made["workload"] |= workload
    file.write_text(json.dumps(made))
    return made


class TestEarlier:
    """Runs of the same load and queries on the same kind of machine, and no others."""

    def test_medians_of_the_rounds_of_alike_runs(self, results):
        """Warm-up rounds by themselves; the run that asks is not its own past."""
        for name, each in (("20260101T000000Z-a", 30), ("20260102T000000Z-a", 40), ("20260103T000000Z-b", 50)):
            made = stored(results, name, each=each)
        found = earlier.look(results, made | {"run": "20260104T000000Z-c"}, KIND)
        assert (found.runs, found.round_s, found.warmup_s) == (3, 40, 60)
        assert earlier.look(results, made, KIND).runs == 2

    @pytest.mark.parametrize(
        "other",
        [
            {"scale": 999},
            {"batch_size": 1},
            {"host": {"cpus": 96}},
            {"host": {"cpu_model": "another"}},
        ],
    )
    def test_what_differs_in_load_or_machine_says_nothing(self, results, other):
        """Another version would; another machine or load does not."""
        stored(results, "20260101T000000Z-a", **other)
        made = stored(results, "20260102T000000Z-b")
        assert earlier.look(results, made, KIND) is None

    def test_the_newest_few_and_nothing_broken(self, results):
        """What somebody has half copied, or imported, or a link, is passed over."""
        for day in range(1, 9):
            made = stored(results, f"2026010{day}T000000Z-a", each=10.0 * day)
        (results / "latest").symlink_to("20260108T000000Z-a")
        (results / "20260107T000000Z-a/plan/experiment.json").write_text("{")
        (results / "20260106T000000Z-a/plan/experiment.json").write_text(
            json.dumps(made | {"imported": {}, "variants": 3})
        )
        (results / "20260105T000000Z-a/raw/01-1-candidate/round.json").write_text("{}")
        found = earlier.look(results, made | {"run": "x"}, KIND)
        # 8, 4, 3, 2 and 1 are left.
        assert (found.runs, found.round_s) == (5, 30)


def asked(**parts):
    """Return the plan of a small experiment, of six blocks unless said otherwise."""
    parts = {"design": {"blocks": 6, "warmup_blocks": 1}} | parts
    return plan.resolve(experiment.validate(written(FAKES / "database", **parts), "test"), run="r")


def lines(results, made, cache=None):
    """Write a plan as the stage does, and return its lines by their first word."""
    plan._write(results / "r", dict(made), {})
    found = outlook.lines(results / "r", json.loads((results / "r/plan/experiment.json").read_text()), cache or results)
    return {line[:9].strip() or "more": line[10:] for line in found}


def calibrated(results, *deviations, **changes):
    """Write what an A/A run with these spreads of load rate, queries and CPU has left."""
    names = (("load_rate", ""), ("query_mean_ms", "geomean"), ("cpu_seconds", ""))
    spreads = [{"metric": m, "query_type": q, "s_d": s} for (m, q), s in zip(names, deviations, strict=True)]
    (results / "aa").mkdir(parents=True)
    made = {"run": "20260101T000000Z-aa", "passed": True, "spreads": spreads, "workload": {"scale": 2}} | changes
    (results / "aa" / f"{KIND}.json").write_text(json.dumps(made))


class TestLines:
    """The words of `make plan`."""

    def test_time_from_earlier_runs_or_a_guess_and_which_it_is(self, results):
        """Of 14 rounds two are to warm up."""
        found = lines(results, asked())
        assert found["rounds"] == "14"
        assert found["time"].startswith(
            "about 15 minutes, a rough guess (5 minutes to prepare, 41 s a round): no run of"
        )
        made = asked()
        for number in range(3):
            old = stored(results, f"2026010{number}T000000Z-a")
            shape = {name: made[name] for name in ("workload", "queries", "settle")}
            (results / f"2026010{number}T000000Z-a/plan/experiment.json").write_text(json.dumps(old | shape))
        assert lines(results, made)["time"] == (
            "about 10 minutes (as in 3 earlier runs here: 40 s a round), and what is still to be built"
        )

    def test_what_is_built_is_not_reckoned_again(self, results, tmp_path):
        """With all variants in the cache only the rounds take their time."""
        made = asked()
        for variant in made["variants"]:
            (tmp_path / "variants" / variant["build_key"]).mkdir(parents=True, exist_ok=True)
        assert lines(results, made, tmp_path)["time"].startswith("about 10 minutes, a rough guess (41 s a round)")

    def test_a_resumed_run_counts_what_is_left(self, results):
        """Finished rounds are not run again."""
        made = asked()
        lines(results, made)
        for number, row in enumerate(made["rounds"][:3]):
            name = f"{row['block']:02}-{row['position']}-{row['variant']}"
            record = row | {"status": "ok", "started": number, "ended": number + 1}
            (results / "r/raw" / name).mkdir(parents=True)
            (results / "r/raw" / name / "round.json").write_text(json.dumps(record))
        assert lines(results, made)["rounds"] == "11 to go, 3 finished"

    def test_what_it_needs_and_what_is_there(self, results):
        """Disk by the estimate that the driver holds it to, and memory."""
        made = asked()
        found = lines(results, made)
        needed = outlook.amount(sum(made["estimate"].values()))
        assert found["disk"].startswith(f"up to {needed} for data, database and results; ")
        assert "are free in " in found["disk"]
        assert found["memory"].endswith(" for the server, a rough guess")
        made["estimate"]["data_bytes"] = 10**18
        assert "that is TOO LITTLE" in lines(results, made)["disk"]

    def test_what_can_be_shown_by_the_last_a_a_run(self, results):
        """For the three primary metrics, against their thresholds."""
        calibrated(results, 0.02, 0.01, 0.005)
        made = asked()
        outlook.foresee(made, results, results)
        found = lines(results, made)
        values = [f"{percent(mde(s, 6)):.1f} %" for s in (0.02, 0.01, 0.005)]
        assert found["can show"] == (
            f"changes of {values[0]} in load rate (5 % asked), {values[1]} in mean service time (5 % asked), "
            f"{values[2]} in CPU of the whole round (3 % asked)"
        )
        assert found["more"] == (
            "with 80 % power, as 20260101T000000Z-aa scattered: the last A/A run on this kind of machine"
        )
        assert "warning" not in found

    def test_a_design_that_cannot_answer_is_warned_of(self, results):
        """With the blocks that could, and without them where no experiment can ask for so many."""
        calibrated(results, 0.06, 0.01, 0.005, workload={"scale": 9})
        made = asked()
        outlook.foresee(made, results, results)
        found = lines(results, made)
        needed = blocks_needed(0.04879, 0.06)
        assert found["warning"] == (
            f"6 blocks will probably not settle 5 % in load rate on this machine; BLOCKS={needed}, "
            "longer phases or a quieter machine could"
        )
        assert found["more"].endswith("with other data, so roughly")
        made["forecast"]["metrics"][1]["s_d"] = 3.0
        assert "could (more than 99 blocks would be needed)" in lines(results, made)["warning"]

    def test_without_an_a_a_run_it_says_how_to_get_one(self, results):
        """Nothing is made up."""
        assert lines(results, asked())["can show"] == (
            "not known yet: there is no A/A run on this kind of machine (make tsbs AA=1)"
        )

    def test_elsewhere_nothing_is_known_yet(self, results, monkeypatch):
        """The machine has not been seen, and its disk is not this one's."""
        monkeypatch.undo()
        made = asked() | {"place": {"kind": "ssh", "address": "bench", "directory": "/x/y"}}
        outlook.foresee(made, results, results)
        found = lines(results, made)
        assert found["can show"] == outlook.ELSEWHERE
        assert "free" not in found["disk"]

    def test_screens_and_smoke_runs(self, results):
        """A screen has no verdict, and of a smoke run nobody asks."""
        calibrated(results, 0.02, 0.01, 0.005)
        assert lines(results, asked(design={"blocks": 2}))["can show"] == (
            "no verdict: it takes 6 blocks at least, fewer (2) are a screen"
        )
        assert "can show" not in lines(results, asked() | {"smoke": True})


def test_this_machine_has_a_kind(tmp_path):
    """It is described as the driver will describe it, also before there is a cache."""
    made = asked()
    assert outlook.kind_here(made, tmp_path / "no/such/cache").startswith("local-")


def test_the_forecast_s_table_is_not_in_the_plan_that_people_read(tmp_path):
    """It is a file of its own, of one line."""
    plan._write(tmp_path, asked(), {})
    assert "forecast" not in json.loads((tmp_path / "plan/experiment.json").read_text())
    text = (tmp_path / "plan/forecast.json").read_text()
    assert text.count("\n") == 1
    table = json.loads(text)
    assert (table["blocks"], table["mde_factor"]) == (6, mde(1.0, 6))
    assert [row[0] for row in table["seen"]] == list(range(6, 100))


@pytest.mark.parametrize("blocks", [3, 6, 10])
def test_the_reach_of_a_spread(blocks):
    """80 % of true deviations lie between: the factors of the chi-square distribution."""
    from scipy.stats import chi2  # noqa: PLC0415 - slow to load

    low, high = foresight._reach(blocks)
    df = blocks - 1
    assert low == pytest.approx((df / chi2.ppf(0.9, df)) ** 0.5)
    assert high == pytest.approx((df / chi2.ppf(0.1, df)) ** 0.5)
    assert low < 1 < high


def test_deadlines_and_prices_do_not_depend_on_earlier_runs():
    """tsduel.plan.duration knows nothing of results/."""
    text = (Path(plan.__file__).parent / "duration.py").read_text()
    assert "earlier" not in text
