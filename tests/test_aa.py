"""A/A: what passes, what does not and why, and what is kept for plans and reports on such a machine."""

import json
import shutil

import pytest
import synthetic

from tsduel.core.rundir import open_run
from tsduel.stats import aa, calibration, compare

SPEC = synthetic.Spec(blocks=8, query_types=("cpu-max-all-1",), load_s=6, noise=0.001, factors={}, aa=True)
ROW = {
    "metric": "load_rate", "query_type": "",
    "unit": "samples/s", "family": "primary", "p_adj": 0.7, "change_pct": 0.4,
    "threshold_pct": 5.0, "order_effect": "order",
    "order_effect_p": 0.6, "order_effect_pct": 0.2, "native": None, "verdict": "equivalent",
}  # fmt: skip


def document(*rows, blocks=8, failed=0):
    """Return what aa.verdict reads of a comparison."""
    valid = {"candidate": {"valid": list(range(blocks)), "dropped": []}}
    return {"rows": [ROW | row for row in rows], "blocks": valid, "checks": {"failed": failed}}


def made(path, **changes):
    """Write an A/A run and compare it."""
    run = synthetic.write_run(path, synthetic.Spec(**(vars(SPEC) | changes)))
    synthetic.tidied(run)
    compare.main(run)
    return run


def alike(path, compared, **changes):
    """Write an A/A run with the comparison of another one."""
    run = synthetic.write_run(path, synthetic.Spec(**(vars(SPEC) | changes)))
    shutil.copytree(compared / "stats", run / "stats")
    return run


def verdict(run):
    """Return whether a run has passed, and why not."""
    return json.loads((run / "stats/comparison.json").read_text())["aa"]


def kept(run):
    """Return what is known of the machine of a run."""
    of = open_run(run)
    return calibration.find(run.parent, of.plan, calibration.machine_kind(of))


NATIVE = {"metric": "duel_idle_cpu_ms", "unit": "ms/s", "change_pct": None, "order_effect_pct": None}
WIDE = {"family": "secondary", "change_pct": -4.0, "order_effect_pct": 4.0}
SHOWN = {"family": "shown", "p_adj": 0.001, "change_pct": 40.0}


@pytest.mark.parametrize(
    "rows",
    [
        [{}, {"metric": "cpu_seconds", "threshold_pct": 3.0}],
        [{}, WIDE],  # half of the threshold limits primary metrics only
        [{}, SHOWN, {"metric": "slow_inserts", "p_adj": None, "change_pct": 0.0}],  # equal values need no test
        # Of twenty tests of the order one has a p of .03 by chance.
        [{"metric": f"m{i}", "order_effect_p": 0.03 + 0.04 * i} for i in range(20)],
        [{"order_effect_pct": -2.7}],  # large, and with p .6 no effect that is known
    ],
)
def test_a_quiet_machine_passes(rows):
    """Nothing called different, estimates below half of what matters, no order effect."""
    assert aa.verdict(document(*rows)) == {"passed": True, "reasons": [], "notes": []}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"p_adj": 0.04}, "load_rate: called different (p 0.04, +0.4 %)"),
        (WIDE | {"p_adj": 0.01}, "load_rate: called different (p 0.01, -4 %)"),
        ({"change_pct": -2.6}, "load_rate: the estimate is -2.6 %, half of its threshold is 2.5 %"),
        (
            NATIVE | {"native": {"difference": 0.6, "limit": 1.0}},
            "duel_idle_cpu_ms: the estimate is +0.6 ms/s, half of its threshold is 0.5 ms/s",
        ),
        ({"p_adj": None, "verdict": "inconclusive: environment"}, "not tested: load_rate"),
        ({"p_adj": None, "change_pct": None, "verdict": "not comparable"}, "not tested: load_rate"),
    ],
)
def test_each_reason_is_a_sentence(row, reason):
    """With the figure and the limit; what has not been tested has not passed."""
    found = aa.verdict(document(row, {"metric": "disk_bytes"}))
    assert found == {"passed": False, "reasons": [reason], "notes": []}


def test_an_order_effect_fails_nothing_and_is_noted():
    """It is in no estimate, since the order is balanced."""
    found = aa.verdict(document({"order_effect_p": 0.004, "order_effect_pct": 1.0}, {"metric": "disk_bytes"}))
    note = "load_rate: order effect +1.0 % where it ran second (p 0.004, 0.008 for all)"
    assert found == {"passed": True, "reasons": [], "notes": [note]}


@pytest.mark.parametrize(
    ("compared", "expected", "reasons"),
    [
        (document(), (), ["nothing was tested"]),
        (document(SHOWN), (), ["nothing was tested"]),
        (document({}), [("load_rate", ""), ("duel_typical_ms", "geomean")], ["not tested: duel_typical_ms geomean"]),
        (
            document({}, blocks=5, failed=3),
            (),
            ["3 checks failed", "5 valid blocks, and 6 is the fewest that show anything"],
        ),
    ],
)
def test_what_shows_nothing_is_no_pass(compared, expected, reasons):
    """No row, only shown rows, a primary metric without a row, too few blocks, failed checks."""
    assert aa.verdict(compared, expected)["reasons"] == reasons


def test_a_biased_machine_fails(tmp_path):
    """One side is 8 % slower though both are the same."""
    run = made(tmp_path / "biased", factors={"candidate": {"service": 1.08}})
    assert not verdict(run)["passed"]
    assert any(reason.startswith("duel_typical_ms geomean: called different") for reason in verdict(run)["reasons"])


class TestKeeping:
    """results/aa: by machine kind, shape of the experiment and protocol; compare itself keeps nothing."""

    def test_only_the_step_keeps(self, tmp_path):
        """Compare writes inside its run; later runs find the calibration on the same kind of machine only."""
        run = made(tmp_path / "aa-run")
        assert not (tmp_path / "aa").exists()
        assert kept(run) is None
        assert aa.keep(run).startswith("calibration: kept in ")
        found = kept(run)
        assert (found["run"], found["passed"], found["same_workload"]) == ("aa-run", verdict(run)["passed"], True)
        spreads = {(one["metric"], one["query_type"]): one for one in found["spreads"]}
        assert spreads["duel_typical_ms", "geomean"]["within_pct"] > 0
        assert all(one["s_d"] > 0 for one in spreads.values())
        later = made(tmp_path / "later", aa=False)
        assert kept(later)["run"] == "aa-run"
        other = made(tmp_path / "other", aa=False, query_types=("double-groupby-1",))
        assert kept(other)["same_workload"] is False
        synthetic.edit(later / "raw/host1.json", cpu_model="another")
        assert kept(later) is None

    @pytest.mark.long
    def test_what_never_replaces_a_good_one(self, tmp_path):
        """A smoke run, a screen, an older run compared again, one that has failed, and one that was no A/A run."""
        good = made(tmp_path / "good", changes={"created": "2026-11-20T15:00:00Z"})
        synthetic.edit(good / "stats/comparison.json", aa={"passed": True, "reasons": []})
        aa.keep(good)
        for name, spec, why in (
            ("smoke", {"smoke": True}, "planned as a screen"),
            ("screen", {"blocks": 4}, "planned as a screen"),
            ("older", {}, "stays, which is newer"),
            ("bad", {"changes": {"created": "2026-11-21T00:00:00Z"}}, "stays, which has passed"),
            ("plain", {"aa": False}, "no A/A run"),
        ):
            run = alike(tmp_path / name, good, **spec)
            passed = {"passed": name != "bad", "reasons": []}
            synthetic.edit(run / "stats/comparison.json", aa=passed)
            assert why in aa.keep(run)
            assert kept(good)["run"] == "good"
        newer = alike(tmp_path / "newer", good, changes={"created": "2026-11-22T00:00:00Z"})
        aa.keep(newer)
        assert kept(good)["run"] == "newer"


def test_one_core_of_arm_in_two_clouds_is_two_kinds_of_machines():
    """MIDR names the core; who sells it is known by the firmware. Kinds of x86 keep their names."""
    host = {"architecture": "aarch64", "cpu_model": "Arm Neoverse-N1 r3p1", "cpus": 8, "memory_bytes": 32 << 30}
    kinds = {
        calibration.kind_of("cloud", {**host, "virtualization": name}) for name in ("none", "Amazon EC2", "Google")
    }
    assert len(kinds) == 3
    assert "cloud-arm-neoverse-n1-r3p1-8cpus-32gib" in kinds
    x86 = {"architecture": "x86_64", "cpu_model": "Xeon", "cpus": 8, "memory_bytes": 32 << 30, "virtualization": "kvm"}
    assert calibration.kind_of("cloud", x86) == "cloud-xeon-8cpus-32gib"


@pytest.mark.parametrize(("change", "passed"), [(0.5, True), (1.2, False)])
def test_work_is_different_by_its_threshold_or_more(change, passed):
    """Two loads lay data differently: a small difference of work is real."""
    row = {"metric": "duel_objects", "family": "work", "p_adj": 0.01, "change_pct": change, "threshold_pct": 1.0}
    assert aa.verdict(document({}, row))["passed"] is passed
