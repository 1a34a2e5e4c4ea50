"""The estimate of a plan: time as in earlier runs, disk, memory, and the changes that it can show on this machine."""

from __future__ import annotations

import json
import math
import re
import shutil

import pytest
import synthetic
from asking import planned

from tsduel.core.place import SshHost, SshPlace
from tsduel.core.plan import Plan
from tsduel.core.rundir import open_run
from tsduel.core.wording import amount
from tsduel.places import own
from tsduel.places.provider import UNSEEN
from tsduel.plan import resolve
from tsduel.plan.forecast import earlier, estimate
from tsduel.plan.forecast.spread import Forecast, advise, reach
from tsduel.stats import calibration
from tsduel.stats.estimate import percent
from tsduel.stats.power import blocks_needed, effect_seen, mde

HOST = synthetic.HOST
KIND = calibration.kind_of("local", HOST)
SPREADS = (0.004, 0.003, 0.01, 0.012)
"""Standard deviations of the primary metrics in an A/A run."""
PRIMARY = (("duel_typical_ms", "geomean"), ("duel_cpu_us", "all"), ("load_rate", ""), ("load_cpu_seconds", ""))


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Return an empty results/; this machine is of the kind of synthetic runs."""
    monkeypatch.setattr(estimate, "kind_here", lambda plan, cache: KIND)  # noqa: ARG005 - as it is called
    return tmp_path / "results"


def stored(results, name, *, each=40.0, warm=60.0, host=None, peak=None, **workload):
    """Write a run with two measured blocks and a warm-up of so many seconds; return its plan."""
    spec = synthetic.Spec(blocks=2, query_types=("cpu-max-all-1",), exchanges=8)
    run = synthetic.write_run(results / name, spec)
    for path in run.glob("raw/*/*/block.json"):
        record = json.loads(path.read_text())
        record["ended"] = record["started"] + (each if record["block"] else warm)
        path.write_text(json.dumps(record))
    if host:
        (run / "raw/host1.json").write_text(json.dumps(HOST | host))
    made = json.loads((run / "plan/experiment.json").read_text())
    made["workload"] |= workload
    (run / "plan/experiment.json").write_text(json.dumps(made))
    if peak:
        (run / "stats").mkdir()
        row = {"metric": "rss_peak_bytes", "query_type": "", "baseline_median": peak, "candidate_median": peak / 2}
        (run / "stats/comparison.json").write_text(json.dumps({"rows": [row]}))
    return Plan.load(run)


def as_run(plan, run):
    """Return the same plan for another run."""
    return plan.model_copy(update={"run": run})


class TestEarlier:
    """Runs of the same load and queries on the same kind of machine, and no others."""

    def test_medians_of_the_blocks_of_alike_runs(self, results):
        """Warm-up blocks count by themselves; the planned run itself does not count."""
        for name, each in (("20260101T000000Z-a", 30), ("20260102T000000Z-a", 40), ("20260103T000000Z-b", 50)):
            made = stored(results, name, each=each, peak=3e8)
        found = earlier.find(results, as_run(made, "20260104T000000Z-c"), KIND)
        assert (found.runs, found.block_s, found.warmup_s, found.rss_bytes) == (3, 40, 60, 3e8)
        assert earlier.find(results, made, KIND).runs == 2

    @pytest.mark.parametrize(
        "other", [{"scale": 999}, {"batch_size": 1}, {"host": {"cpus": 96}}, {"host": {"cpu_model": "another"}}]
    )
    def test_a_run_with_another_load_or_machine_does_not_count(self, results, other):
        """Its scale, batches, CPUs or CPU model differ."""
        stored(results, "20260101T000000Z-a", **other)
        assert earlier.find(results, stored(results, "20260102T000000Z-b"), KIND) is None

    def test_other_runs_here_say_how_much_longer_than_planned_blocks_take(self, results):
        """The median over runs of any load on this kind of machine; synthetic runs plan 60 s a block."""
        assert earlier.pace(results, KIND, "x") is None
        for day, each in enumerate((30.0, 90.0, 120.0), 1):
            stored(results, f"2026010{day}T000000Z-a", each=each, scale=day)
        stored(results, "20260104T000000Z-a", each=600.0, host={"cpus": 96})
        assert earlier.pace(results, KIND, "x") == 1.5
        assert earlier.pace(results, KIND, "20260103T000000Z-a") == 1.0

    def test_the_newest_few_and_nothing_broken(self, results):
        """Half-copied runs, runs of an older tsduel, and links are left out."""
        made = stored(results, "20260101T000000Z-a", each=10.0)
        for day in range(2, 9):
            shutil.copytree(results / "20260101T000000Z-a", results / f"2026010{day}T000000Z-a")
        (results / "latest").symlink_to("20260108T000000Z-a")
        (results / "20260107T000000Z-a/plan/experiment.json").write_text("{")
        (results / "20260106T000000Z-a/plan/experiment.json").write_text(json.dumps({"schema": 1}))
        (results / "20260105T000000Z-a/raw/host1/001/block.json").write_text("{}")
        found = earlier.find(results, as_run(made, "x"), KIND)
        # 8, 4, 3, 2 and 1 are left.
        assert (found.runs, found.newest) == (5, "20260108T000000Z-a")


def made(**parts):
    """Return the plan of a small experiment, of six blocks unless said otherwise."""
    return planned(**{"design": {"blocks": 6, "warmup_blocks": 1}} | parts)


def lines(results, plan, cache=None):
    """Write a plan as the stage does, and return its lines by their first word."""
    cache = cache or results
    resolve.write(results / "r", plan, cache=cache)
    found = estimate.lines(results / "r", plan, cache)
    return {line[:9].strip() or "more": line[10:] for line in found}


def calibrated(results, plan, deviations=SPREADS, *, within=None):
    """Write what an A/A run with these spreads of the primary metrics has left."""
    spreads = [
        {"metric": m, "query_type": q, "s_d": s, "within_pct": within}
        for (m, q), s in zip(PRIMARY, deviations, strict=True)
    ]
    path = calibration.path_of(results, plan, KIND)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"run": "20260101T000000Z-aa", "passed": True, "spreads": spreads}))


class TestLines:
    """The words of `make plan`."""

    def test_time_from_earlier_runs_or_a_guess_and_which_it_is(self, results):
        """Of seven blocks one is to warm up."""
        found = lines(results, made())
        assert found["blocks"] == "7"
        assert "minutes, a rough guess (2 minutes to prepare, " in found["time"]
        assert found["time"].endswith("s a block): no run of this kind on such a machine is stored here")
        plan = made()
        for day in range(3):
            old = stored(results, f"2026010{day}T000000Z-a")
            alike = {name: getattr(plan, name) for name in ("workload", "queries", "settle", "duel")}
            old.model_copy(update=alike).write(results / f"2026010{day}T000000Z-a")
        assert lines(results, plan)["time"] == (
            "about 5 minutes (as in 3 earlier runs here: 40 s a block), and what is still to be built"
        )

    def test_a_fast_machine_does_not_shorten_what_goes_by_the_clock(self, results):
        """Blocks of other runs took a tenth of the planned 60 s; two sides of an hour at fixed rates take two hours."""
        stored(results, "20260101T000000Z-a", each=6.0)
        rates = {"seconds": 3600, "ingest": 100, "queries": 1}
        plan = made(mixed=rates, design={"blocks": 1, "warmup_blocks": 0})
        found = lines(results, plan)["time"]
        assert found.startswith("about 2.0 hours"), found
        assert 7200 <= int(re.search(r"(\d+) s a block: as much longer or shorter than planned", found)[1]) < 7260
        soak = stored(results, "20260102T000000Z-b", each=7300.0)
        soak.model_copy(update={"mixed": plan.mixed}).write(results / "20260102T000000Z-b")
        assert earlier.pace(results, KIND, "r") == 0.1

    def test_what_is_built_is_not_reckoned_again(self, results, tmp_path):
        """With all programs in the cache only the blocks take their time."""
        plan = made()
        variants = (f"variants/{variant.server.build_key}" for variant in plan.variants)
        for name in ("tsbs/key", "agent/key", *variants):
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
        assert " to prepare" not in lines(results, plan, tmp_path)["time"]

    def test_a_resumed_run_counts_what_is_left(self, results):
        """Finished blocks are not run again."""
        plan = made()
        lines(results, plan)
        spec = synthetic.Spec(blocks=2, query_types=("cpu-max-all-1",), exchanges=8)
        source = synthetic.write_run(results / "s", spec)
        shutil.copytree(source / "raw", results / "r/raw")
        assert lines(results, plan)["blocks"] == "4 to go, 3 finished"

    def test_what_it_needs_and_what_is_there(self, results):
        """Disk by the estimate that the driver holds it to."""
        plan = made()
        found = lines(results, plan)["disk"]
        assert found.startswith(f"up to {amount(plan.estimate.total)} for data, databases and results; ")
        assert "are free in " in found
        short = plan.model_copy(update={"estimate": plan.estimate.model_copy(update={"data_bytes": 10**18})})
        assert "that is TOO LITTLE" in lines(results, short)["disk"]

    def test_memory_is_that_of_all_who_are_resident(self, results, monkeypatch):
        """And where they do not fit beside each other, it says how they fit."""
        plan, alone = made(), made(duel={"enabled": False})
        assert "for 2 servers (a rough guess)" in lines(results, plan)["memory"]
        assert "for the server (a rough guess)" in lines(results, alone)["memory"]
        monkeypatch.setattr(own, "memory_here", lambda: 600 << 20)
        assert lines(results, plan)["memory"].endswith(
            'that is TOO LITTLE: this machine has 629 MB: SET="duel.enabled=false" has them alone, one after the other'
        )
        assert "TOO LITTLE" not in lines(results, alone)["memory"]
        monkeypatch.setattr(own, "memory_here", lambda: 100 << 20)
        assert lines(results, plan)["memory"].endswith("this machine has 105 MB: take a smaller workload.scale")

    def test_what_can_be_shown_by_the_last_a_a_run(self, results):
        """For the four primary metrics, against their thresholds."""
        plan = made()
        calibrated(results, plan)
        found = lines(results, plan)
        values = [f"{percent(mde(s, 6)):.1f} %" for s in SPREADS]
        assert found["can show"] == (
            f"changes of {values[0]} in query time (2 % asked), "
            f"{values[1]} in CPU of a query (2 % asked), "
            f"{values[2]} in ingestion rate (3 % asked), {values[3]} in CPU of ingestion (3 % asked)"
        )
        assert found["more"] == (
            "with 80 % power, as 20260101T000000Z-aa scattered: the last A/A run on this kind of machine"
        )
        assert "warning" not in found

    def test_a_design_that_cannot_answer_is_warned_of(self, results):
        """With the blocks or the longer phases that could, the cheaper first, and what each costs."""
        plan = made(duel={"seconds": 2.0})
        calibrated(results, plan, (0.03, *SPREADS[1:]), within=percent(0.0299))
        warning = lines(results, plan)["warning"]
        assert warning.startswith("6 blocks will probably not settle 2 % in query time on this machine; phases ")
        needed = blocks_needed(math.log1p(0.02), 0.03)
        assert f" or BLOCKS={needed} (about " in warning

    def test_spreads_of_an_earlier_run_stand_in_for_an_a_a_run(self, results):
        """It says so; and of another workload, that it is rough; without a spread it says how to get one."""
        unknown = "not known yet: there is no A/A run on this kind of machine (make tsbs AA=1)"
        assert lines(results, made())["can show"] == unknown
        calibrated(results, made(workload={"scale": 9}))
        assert lines(results, made())["more"].endswith("with other data, so roughly")

    def test_elsewhere_nothing_is_known_yet(self, results, monkeypatch):
        """The machine has not been seen, and its disk is not this one's."""
        monkeypatch.undo()
        host = SshHost(user=None, address="bench", port=None, directory="/x/y")
        where = SshPlace(config_file=None, hosts={"host1": host})
        found = lines(results, made().model_copy(update={"place": where}))
        assert found["can show"] == UNSEEN
        assert "free" not in found["disk"]

    def test_screens_and_smoke_runs(self, results):
        """A screen has no verdict, and of a smoke run nobody asks."""
        assert lines(results, made(design={"blocks": 2}))["can show"] == (
            "no verdict: it takes 6 blocks at least, 2 are a first look"
        )
        assert "can show" not in lines(results, made(smoke=True))


class TestForecast:
    """What a forecast goes by."""

    def test_it_has_the_primary_metrics_of_the_design(self):
        """Without a duel those of the solo part; with one load for all blocks, those of the duel."""

        def names(**parts):
            return [(metric.name, query_type) for metric, query_type in Forecast(made(**parts), (), {}).metrics]

        assert names() == list(PRIMARY)
        assert names(duel={"enabled": False}) == list(PRIMARY[2:])
        assert names(design={"reload": "once", "blocks": 6}) == list(PRIMARY[:2])
        assert names(design={"judged": "duel"}) == list(PRIMARY[:2])
        both = names(design={"judged": "duel"}, duel={"batches": True})
        assert both == [*PRIMARY[:2], ("duel_load_typical_ms", ""), ("duel_load_cpu_us", "")]

    def test_it_is_a_line_of_its_own_file(self, results):
        """People read plan/experiment.json, and not this; it has what was known of the primary metrics."""
        plan = made()
        calibrated(results, plan, within=0.5)
        lines(results, plan)
        assert (results / "r/plan/forecast.json").read_text().count("\n") == 1
        kept = Forecast.read(open_run(results / "r"))
        assert [(of.metric.name, of.s_d, of.within_pct) for of in kept.spreads] == [
            (metric, s_d, 0.5) for (metric, _), s_d in zip(PRIMARY, SPREADS, strict=True)
        ]
        assert kept.source["run"] == "20260101T000000Z-aa"

    @pytest.mark.parametrize("blocks", [3, 6, 10])
    def test_the_reach_of_a_spread(self, blocks):
        """80 % of true deviations lie between: the factors of the chi-square distribution."""
        from scipy.stats import chi2  # noqa: PLC0415 - slow to load

        low, high = reach(blocks)
        df = blocks - 1
        assert low == pytest.approx((df / chi2.ppf(0.9, df)) ** 0.5)
        assert high == pytest.approx((df / chi2.ppf(0.1, df)) ** 0.5)
        assert low < 1 < high


class TestAdvice:
    """Longer phases if the noise is within a block, more blocks if it is between blocks."""

    @staticmethod
    def of(deviation, within, blocks=8):
        """Return the advice for 2 %."""
        return advise(2.0, deviation, within=within, blocks=blocks, block_s=60, phase_s=18)

    def test_blocks_help_against_noise_between_them(self):
        """None if the blocks are enough; "" if not even the most blocks, or phases ten times as long, would be."""
        needed = blocks_needed(0.0198, 0.03)
        assert self.of(0.01, 0.009) is None
        assert self.of(0.03, 0.001) == f"BLOCKS={needed} (about {needed - 8} minutes more)"
        assert self.of(0.5, 0.5) == ""

    def test_phases_help_as_far_as_the_noise_is_within(self):
        """As much longer as makes the spread just small enough: with that, no advice is left."""
        found = self.of(0.03, 0.0295)
        times = float(re.match(r"phases ([\d.]+) times as long ", found)[1])
        between = 0.03**2 - 0.0295**2
        longer = (between + 0.0295**2 / times) ** 0.5
        assert longer * effect_seen(8) == pytest.approx(0.0198, rel=0.02)  # times are rounded up
        assert f" (about {(times - 1) * 18 * 8 / 60:.0f} minutes more)" in found


def test_this_machine_has_a_kind_once_it_is_known(tmp_path):
    """tsduel-host describes it; before that is built nothing is known."""
    assert estimate.kind_here(made(), tmp_path / "no/such/cache") is None
    agent = tmp_path / "agent/0/tsduel-host"
    agent.parent.mkdir(parents=True)
    agent.write_text(f"#!/bin/sh\n[ \"$1\" = describe ] && echo '{json.dumps(HOST)}'\n")
    agent.chmod(0o755)
    assert estimate.kind_here(made(), tmp_path) == KIND
