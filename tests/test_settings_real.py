"""A study of settings the whole way, on VictoriaMetrics: killed between two runs, and gone on with."""

from __future__ import annotations

import json
import os
import signal

import pytest
from checkout import QUIET, Checkout
from fakeproject import free_port, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout of the test's own."""
    return Checkout(tmp_path / "checkout", ansible=False)


def test_a_study_that_is_killed_goes_on_with_the_runs_that_are_left(checkout, tmp_path):
    """Each setting is made once, with its own data and the same builds; one table, one report, and RUN= for all."""
    words = ("tsbs", "RUN=s", "EXPERIMENT=experiments/smoke.yml")
    swept = f"SET='matrix={{workload.scale: [10, 20]}}' host.port={free_port()} {QUIET}"
    order = []

    def ended():
        order[:] = [path.parent.name for path in checkout.path.glob("results/s-*/report.md")]
        return order

    with checkout.making(tmp_path / "log", *words, swept) as process:
        wait_for(lambda: ended() or process.poll() is not None)
        os.killpg(process.pid, signal.SIGKILL)
    assert len(order) == 1, (tmp_path / "log").read_text()
    first = checkout.results(order[0])
    before = (first / "report.md").stat().st_mtime_ns
    said = checkout.make(*words)
    assert "in 2 settings (scale 10, 20)" in said
    assert (first / "report.md").stat().st_mtime_ns == before
    document = json.loads((checkout.results("s") / "stats/comparison.json").read_text())
    assert [(each["name"], each["run"]) for each in document["settings"]] == [
        ("scale=10", "s-01"),
        ("scale=20", "s-02"),
    ]
    assert {row["setting"] for row in document["rows"]} == {"scale=10", "scale=20"}
    plans = [json.loads((checkout.results(run) / "plan/experiment.json").read_text()) for run in ("s-01", "s-02")]
    assert plans[1]["workload"]["samples"] == 2 * plans[0]["workload"]["samples"]
    assert plans[0]["variants"] == plans[1]["variants"]
    assert "## By setting" in (checkout.results("s") / "report.md").read_text()
    assert "2 of 2 runs ended" in checkout.make("list")
    assert checkout.make("comment").startswith("<!-- tsduel: smoke -->")
    # The order is drawn, and status is of the run that is going on or was the last.
    assert "on this machine: not running; 2 of 2 blocks are finished" in checkout.make("status", "RUN=s")
