"""The forecast after each block: as compare will say it, blind to who is faster, told once, honest."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import gomodule
import pytest
import synthetic
from fakeproject import wait_for

from tsduel.plan import foresight
from tsduel.stats import compare
from tsduel.stats.estimate import percent
from tsduel.stats.power import blocks_needed, effect_seen, mde
from tsduel.tidy import tables as tidy

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
SPEC = synthetic.Spec(blocks=8, query_types=("cpu-max-all-1", "double-groupby-1"), load_s=6, query_s=60, noise=0.03)
AA = {
    "run": "20261101T000000Z-local", "passed": True, "workload": {"scale": 1000},
    "spreads": [
        {"metric": "load_rate", "query_type": "", "s_d": 0.05},
        {"metric": "query_mean_ms", "query_type": "geomean", "s_d": 0.01},
        {"metric": "cpu_seconds", "query_type": "", "s_d": 0.01},
    ],
}  # fmt: skip


class Made:
    """A synthetic run of which only some blocks are there."""

    def __init__(self, path, spec, calibration=None, **plan):
        self.path = synthetic.write_run(path, spec)
        self.change(calibration, **plan)

    def change(self, calibration=None, **changes):
        """Lay changes over the plan, and write the forecast's table anew."""
        file = self.path / "plan/experiment.json"
        plan = json.loads(file.read_text()) | changes
        file.write_text(json.dumps(plan))
        (self.path / "plan/forecast.json").write_text(json.dumps(foresight.section(plan, calibration)))

    def keep(self, last):
        """Throw the blocks behind this one away."""
        for path in self.path.glob("raw/[0-9]*"):
            if int(path.name[:2]) > last:
                shutil.rmtree(path)

    def round(self, name, **changes):
        """Change a round's record."""
        file = self.path / "raw" / name / "round.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    def say(self, block):
        """Return what is printed after a block."""
        done = subprocess.run([SCRIPTS / "forecast", self.path, str(block)], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        # Behind the time.
        return done.stdout.partition(" forecast ")[2].rstrip("\n")

    def events(self):
        """Return the events of the run."""
        file = self.path / "raw/events.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def compared(self, metric="load_rate"):
        """Return compare's primary row of a metric for each candidate."""
        if not (self.path / "raw/noise.json").exists():
            (self.path / "raw/noise.json").write_text(json.dumps({"schema": 1, "blocks": [], "signals": []}))
        tidy.main(self.path)
        compare.main(self.path)
        rows = json.loads((self.path / "stats/comparison.json").read_text())["rows"]
        return [row for row in rows if row["metric"] == metric and row["family"] == "primary"]


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a synthetic run."""
    return lambda spec=SPEC, calibration=None, **plan: Made(tmp_path / "run", spec, calibration, **plan)


def shown(message):
    """Return the percent that a message says can be shown, by metric."""
    return dict(reversed(pair) for pair in re.findall(r"([0-9.]+) % in ([\w ]+?)(?: of \S+)? \(you asked", message))


class TestAsCompare:
    """The digit that is shown is the one that the report will show for the same rounds."""

    def test_when_all_blocks_are_there_it_is_the_mde(self, make):
        """Of load rate and of the geometric mean over query types."""
        run = make()
        said = run.say(8)
        assert said.startswith("after block 8 of 8: at this noise 8 blocks can show ")
        for title, metric in (("load rate", "load_rate"), ("mean service time", "query_mean_ms")):
            assert shown(said)[title] == f"{run.compared(metric)[0]['mde_pct']:.1f}"

    @pytest.mark.parametrize("last", [3, 5, 7])
    def test_with_fewer_it_is_their_spread_and_the_planned_number(self, make, last):
        """The spread is compare's own of the same blocks."""
        run = make()
        run.keep(last)
        said = run.say(last)
        deviation = run.compared()[0]["s_d"]
        assert shown(said)["load rate"] == f"{percent(mde(deviation, 8)):.1f}"
        rough = re.search(r"roughly, since it is from 3 blocks: ([0-9.]+) to ([0-9.]+) times that", said)
        assert (rough is not None) == (last == 3)

    def test_of_several_candidates_the_one_that_scatters_most(self, make):
        """And it is named."""
        names = ("baseline", "candidate", "noisy")
        order = (names, names[::-1])
        run = make(synthetic.Spec(**(vars(SPEC) | {"order": order})))
        for block, seconds in enumerate((5, 7, 6, 5, 8, 6, 5, 7), start=1):
            name = next(p.name for p in run.path.glob(f"raw/{block:02}-*-noisy"))
            phases = json.loads((run.path / "raw" / name / "round.json").read_text())["phases"]
            for phase in phases:
                if phase["phase"] == "load":
                    phase["end"] = phase["begin"] + seconds
            run.round(name, phases=phases)
        said = run.say(8)
        assert " % in load rate of noisy (you asked for 5 %)" in said
        measured = [row["mde_pct"] for row in run.compared("query_mean_ms")]
        assert shown(said)["mean service time"] == f"{max(measured):.1f}"

    def test_blocks_that_do_not_count_are_left_out_and_spares_stand_in(self, make):
        """A spoilt block, a failed round, a spare in place of the spoilt one and one in place of none."""
        run = make()
        table = run.path / "plan/rounds.tsv"
        lines = [re.sub("measured", "spare", n) if n[0] in "78" else n for n in table.read_text().splitlines()]
        table.write_text("\n".join(lines) + "\n")
        failed = next(p.name for p in run.path.glob("raw/02-*-candidate"))
        run.round(failed, status="failed", failure={"phase": "load", "query_type": "", "message": "died"})
        signal = {"block": 4, "position": 1, "round": "04-1-baseline", "variant": "baseline", "phase": "load",
                  "query_type": "", "signal": "steal_pct", "value": 9, "unit": "%", "limit": 5, "effect": "invalid",
                  "message": "steal 9 %"}  # fmt: skip
        blocks = [{"block": b, "state": "valid", "causes": ["steal 9 %"] if b == 4 else []} for b in range(1, 9)]
        (run.path / "raw/noise.json").write_text(json.dumps({"schema": 1, "blocks": blocks, "signals": [signal]}))
        plan = json.loads((run.path / "plan/experiment.json").read_text())
        run.change(design=plan["design"] | {"blocks": 6}, noise={"spare_blocks": 2})
        said = run.say(8)
        (row,) = run.compared()
        assert row["blocks"] == 5
        assert said.startswith("after spare block 8 (5 blocks count): 1 block does not count so far (steal 9 %); at ")
        assert shown(said)["load rate"] == f"{percent(mde(row['s_d'], 6)):.1f}"

    def test_more_spoilt_blocks_than_spare_ones_are_a_warning(self, make):
        """There will be no verdict then, however long the run goes on."""
        run = make()
        blocks = [{"block": b, "state": "invalid", "causes": [f"foreign CPU {b}0 %"]} for b in range(1, 4)]
        (run.path / "raw/noise.json").write_text(json.dumps({"schema": 1, "blocks": blocks, "signals": []}))
        run.change(noise={"spare_blocks": 2})
        told = "3 blocks do not count so far (foreign CPU 30 %), and 2 can be replaced: see what else runs"
        assert f": {told} (make doctor), or make stop RUN=" in run.say(8)

    def test_how_many_blocks_would_be_needed_is_compare_s_number(self, make):
        """The host looks it up in a table that Python has made."""
        spec = synthetic.Spec(**(vars(SPEC) | {"noise": 0.09}))
        design = synthetic.plan("r", spec)["design"] | {"thresholds": {"query_mean_ms": 50.0}}
        run = make(spec, design=design)
        said = run.say(8)
        needed = run.compared()[0]["blocks_needed"]
        assert needed > 8
        assert said.endswith(f"; for 5 % in load rate {needed} blocks would be needed")

    @pytest.mark.parametrize("deviation", [0.01, 0.02, 0.033, 0.05, 0.1, 0.16])
    def test_the_table_is_the_search_the_other_way_round(self, deviation):
        """What so many blocks see, and how many see so much."""
        limit = math.log1p(0.05)
        found = next((n for n in range(6, 200) if effect_seen(n) * deviation <= limit), None)
        assert found == blocks_needed(limit, deviation)


class TestBlind:
    """It looks at the spread only: that is why it is no way of stopping when the answer pleases."""

    def test_it_says_the_same_whoever_is_faster_and_by_how_much(self, tmp_path):
        """Half as fast, equal, twice as fast: the same line to the letter."""
        said = set()
        for factor in (0.5, 1.0, 2.0):
            run = Made(tmp_path / str(factor), SPEC)
            for path in run.path.glob("raw/0*-candidate/round.json"):
                phases = json.loads(path.read_text())["phases"]
                for phase in phases:
                    phase["end"] = phase["begin"] + factor * (phase["end"] - phase["begin"])
                run.round(path.parent.name, phases=phases)
            said.add(run.say(8))
        assert len(said) == 1

    def test_nothing_of_the_direction_is_in_any_line(self, make):
        """No sign, and no word for better or worse."""
        run = make()
        for block in range(9):
            said = run.say(block)
            assert not re.search(r"[+-][0-9]|faster|slower|better|worse|regress|improv", said), said


class TestWords:
    """What is said when little is known, and when it is hopeless."""

    def test_before_three_blocks_it_is_the_time_and_what_is_not_known_yet(self, make):
        """The rounds that are left, at the median of those that were measured; the warm-up's before there are any."""
        run = make()
        run.keep(0)
        said = run.say(0)
        assert said.startswith("after the warm-up: what 8 blocks can show is seen from 3 blocks on; about ")
        assert said.endswith(" minutes to go at this pace")
        run = Made(run.path.parent / "other", SPEC)
        run.keep(2)
        rounds = [json.loads(p.read_text()) for p in run.path.glob("raw/0[12]*/round.json")]
        each = sorted(r["ended"] - r["started"] for r in rounds)
        minutes = round(sum(each[1:3]) / 2 * 12 / 60)
        assert run.say(2).endswith(f"from 3 blocks on; about {minutes} minutes to go at this pace")

    def test_an_a_a_run_of_this_kind_of_machine_is_what_is_known_before(self, make):
        """Its spreads, its name, and how many blocks they would take."""
        run = make(calibration=AA)
        run.keep(0)
        needed = blocks_needed(math.log1p(0.05), 0.05)
        assert run.say(0).startswith(
            f"after the warm-up: if it scatters as the A/A run {AA['run']} did, 8 blocks can show "
            f"{percent(mde(0.05, 8)):.1f} % in load rate (you asked for 5 %) and {percent(mde(0.01, 8)):.1f} % in "
            f"mean service time (you asked for 5 %); for 5 % in load rate {needed} blocks would be needed; about "
        )

    def test_a_hopeless_run_says_what_to_do(self, make):
        """Where not even the lower end of what the spread can be would do, for every metric: stop, and what then."""
        run = make(synthetic.Spec(**(vars(SPEC) | {"noise": 0.3})))
        run.keep(4)
        said = run.say(4)
        assert "; this run cannot answer that: make stop RUN=run finishes the round and ends it; " in said
        assert re.search(r"a new one could with BLOCKS=\d+, with longer|longer phases or a quieter machine could", said)

    def test_after_the_last_round_nobody_is_told_to_stop(self, make):
        """What it would have taken is left."""
        run = make(synthetic.Spec(**(vars(SPEC) | {"noise": 0.3})))
        said = run.say(8)
        assert "make stop" not in said
        assert "blocks would be needed" in said

    def test_one_hopeless_metric_is_no_reason_to_stop(self, make):
        """The other one is still worth its blocks; what the first would need is said."""
        thresholds = {"load_rate": 0.1, "query_mean_ms": 50.0}
        design = synthetic.plan("r", SPEC)["design"] | {"thresholds": thresholds}
        run = make(design=design)
        said = run.say(8)
        assert "make stop" not in said
        assert "for 0.1 % in load rate more than 99 blocks would be needed" in said

    def test_a_screen_never_promises_a_verdict(self, make):
        """Five blocks give none, whatever they show."""
        run = make(synthetic.Spec(**(vars(SPEC) | {"blocks": 5})))
        said = "no verdict is possible with fewer than 6 blocks, whatever they show: this is a screen"
        assert run.say(5) == f"after block 5 of 5: {said}"

    def test_a_smoke_run_says_nothing(self, make):
        """Its figures mean nothing."""
        run = make(smoke=True)
        assert run.say(8) == ""
        assert run.events() == []

    def test_a_plan_from_before_says_nothing(self, make):
        """It has no table to go by."""
        run = make()
        (run.path / "plan/forecast.json").unlink()
        assert run.say(8) == ""

    def test_values_that_never_vary(self, make):
        """No spread at all is a spread of nothing."""
        run = make(synthetic.Spec(**(vars(SPEC) | {"noise": 0.0})))
        assert shown(run.say(8)) == {"load rate": "0.0", "mean service time": "0.0"}


class TestTold:
    """Once a block, as an event and a line."""

    def test_an_event_and_never_twice(self, make):
        """The block as a string, as all fields of events are; a second call says nothing."""
        run = make()
        said = run.say(8)
        (event,) = run.events()
        assert (event["event"], event["block"], event["message"]) == ("forecast", "8", said)
        assert run.say(8) == ""
        assert len(run.events()) == 1

    def test_an_incomplete_block_is_not_told_of(self, make):
        """Half a block has no difference."""
        run = make()
        shutil.rmtree(next(run.path.glob("raw/08-2-*")))
        assert run.say(8) == ""

    def test_the_driver_tells_after_each_block_and_a_resumed_run_goes_on(self, project):
        """Killed in the second block: what was told of the first is not told again."""
        project.plan(design={"blocks": 6})
        process = project.start(FAKE_LOAD_S="0.3")
        wait_for((project.run_dir / "raw" / f"{project.order()[2]}.partial" / "load.stdout").exists)
        process.kill()
        project.end(process)
        assert project.alive(patience_s=15) == []
        first = project.said.read_text()
        assert first.count("forecast after block 1 of 6: ") == 1
        said = project.run(FAKE_LOAD_S="0.01")
        lines = [line[9:] for line in said.splitlines() if line[9:].startswith("forecast ")]
        assert [line.split(":")[0] for line in lines] == [f"forecast after block {n} of 6" for n in range(2, 7)]
        events = [json.loads(line) for line in (project.run_dir / "raw/events.jsonl").read_text().splitlines()]
        told = [event for event in events if event["event"] == "forecast"]
        assert [event["block"] for event in told] == list("123456")
        # It is told between rounds.
        for event in told:
            before = [e["event"] for e in events[: events.index(event)]]
            assert before[-1] == "round-end"

    def test_a_forecast_that_breaks_does_not_end_the_run(self, project):
        """It is for people; the rounds are what the run is for."""
        project.plan()
        (project.run_dir / "plan/forecast.json").write_text("{")
        said = project.run(FAKE_LOAD_S="0.01")
        assert "there is no forecast of block 1; the rounds go on" in said


@pytest.mark.slow
@pytest.mark.xdist_group("real")
@pytest.mark.parametrize("pivoted", [False, True])
def test_go_benchmarks_are_forecast_as_compare_says_it(tmp_path, pivoted):
    """Real benchmarks: the geometric mean of sec/op over the rows, also of columns."""
    run = gomodule.Run(tmp_path)
    module = gomodule.Module(tmp_path / "module")
    sides = {"baseline": module.commit()}
    go = {"package": "./work", "bench": "^BenchmarkWork$", "seconds": 0.02}
    if pivoted:
        go |= {"bench": "^BenchmarkKeys$", "pivot": {"column": "batch"}}
    else:
        sides["candidate"] = module.commit(loops=1100)
    run.plan(sides, gobench=go, design={"blocks": 6})
    run.build()
    said = run.rounds()
    rows = run.read()
    last = next(line[9:] for line in said.splitlines() if line[9:].startswith("forecast after block 6 of 6: "))
    assert shown(last)["time"] == f"{rows['sec/op', 'geomean']['mde_pct']:.1f}"
