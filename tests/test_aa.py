"""A/A: what passes, what does not and why, and what later reports say of the machine."""

import json

import pytest
import synthetic

from plots import report
from tsduel.core.rundir import open_run
from tsduel.stats import aa, compare
from tsduel.tidy import tables as tidy

SPEC = synthetic.Spec(
    blocks=8, query_types=("cpu-max-all-1",), load_s=8, query_s=6, noise=0.004, factors={"rate": 1.0, "cpu": 1.0}
)
ROW = {
    "metric": "load_rate", "query_type": "", "family": "primary", "p_adj": 0.7, "change_pct": 0.4,
    "threshold_pct": 5.0, "order_effect_p": 0.6, "order_effect_pct": 0.2, "s_d": 0.01, "mde_pct": 1.2,
}  # fmt: skip


def document(*rows, blocks=8, failed=0):
    """Return what aa.verdict reads of a comparison."""
    valid = {"candidate": {"valid": list(range(blocks)), "dropped": []}}
    return {"rows": [ROW | row for row in rows], "blocks": valid, "checks": {"failed": failed}}


def made(path, spec=SPEC, **changes):
    """Write an A/A run and compare it."""
    run = synthetic.write_run(path, spec)
    plan = json.loads((run / "plan/experiment.json").read_text())
    (run / "plan/experiment.json").write_text(json.dumps(plan | {"aa": True} | changes))
    tidy.main(run)
    compare.main(run)
    return run


def test_a_quiet_machine_passes():
    """Nothing called different, estimates below half of what matters, no order effect."""
    assert aa.verdict(document({}, {"metric": "cpu_seconds", "threshold_pct": 3.0})) == {"passed": True, "reasons": []}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"p_adj": 0.04}, "load_rate: called different (p 0.04, +0.4 %)"),
        ({"change_pct": -2.6}, "load_rate: the estimate is -2.60 %, half of its threshold is 2.5 %"),
        (
            {"order_effect_p": 0.004, "order_effect_pct": 1.0},
            "load_rate: order effect +1.0 % where it ran second (p 0.004, 0.008 for all)",
        ),
        (
            {"order_effect_pct": -2.7},
            "load_rate: order effect -2.7 % where it ran second (p 0.6, 1 for all)",
        ),
    ],
)
def test_each_reason_is_a_sentence(row, reason):
    """With the figure and the limit."""
    assert aa.verdict(document(row, {"metric": "disk_bytes"})) == {"passed": False, "reasons": [reason]}


def test_what_is_only_shown_does_not_count():
    """Metrics for information are in no family, and have no threshold to keep."""
    assert aa.verdict(document({}, {"family": "shown", "p_adj": 0.001, "change_pct": 40.0}))["passed"]


def test_twenty_order_effects_at_five_percent_are_chance():
    """One p of .03 among twenty is what twenty tests give."""
    rows = [{"metric": f"m{i}", "order_effect_p": 0.03 + 0.04 * i} for i in range(20)]
    assert aa.verdict(document(*rows))["passed"]


def test_too_few_blocks_or_failed_checks_show_nothing():
    """That is no pass."""
    found = aa.verdict(document({}, blocks=5, failed=3))["reasons"]
    assert found == ["3 checks failed", "5 valid blocks, and 6 is the fewest that show anything"]


def test_spreads_are_kept_for_later_runs_on_that_kind_of_machine(tmp_path, capsys):
    """A later report names the calibration; on another kind of machine it says uncalibrated."""
    run = made(tmp_path / "aa-run")
    kept = json.loads((tmp_path / f"aa/{aa.machine_kind(open_run(run))}.json").read_text())
    assert kept["run"] == "aa-run"
    assert kept["passed"] == json.loads((run / "stats/comparison.json").read_text())["aa"]["passed"]
    assert {"load_rate", "cpu_seconds"} <= {spread["metric"] for spread in kept["spreads"]}
    assert all(spread["s_d"] > 0 for spread in kept["spreads"])
    report.main(run)
    report.print_summary(run)
    verdict = "A/A: passed." if kept["passed"] else "A/A: failed."
    assert verdict in (run / "report.md").read_text()
    assert verdict in capsys.readouterr().out

    later = synthetic.write_run(tmp_path / "later", SPEC)
    tidy.main(later)
    compare.main(later)
    report.main(later)
    assert "Calibrated by the A/A run aa-run" in (later / "report.md").read_text()
    host = later / "raw/host.json"
    host.write_text(json.dumps(json.loads(host.read_text()) | {"cpu_model": "another"}))
    report.main(later)
    assert "Uncalibrated" in (later / "report.md").read_text()
    assert json.loads((tmp_path / f"aa/{aa.machine_kind(open_run(run))}.json").read_text()) == kept


def test_a_biased_machine_fails(tmp_path):
    """One side 8 % slower though both are the same: called different, over half the threshold, and told."""
    run = made(tmp_path / "run", synthetic.Spec(**(vars(SPEC) | {"factors": {"rate": 0.92}})))
    found = json.loads((run / "stats/comparison.json").read_text())["aa"]
    assert not found["passed"]
    assert any(reason.startswith("load_rate: called different") for reason in found["reasons"])
    report.main(run)
    assert "**A/A: failed.** load_rate: called different" in (run / "report.md").read_text()
