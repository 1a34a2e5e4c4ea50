"""The whole way with the real thing: both versions of VictoriaMetrics, the real TSBS, from plan to report."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from fakeproject import free_port

PROJECT = Path(__file__).resolve().parent.parent
LATEST = PROJECT / "results" / "latest"
# Other tests run beside, and a block that they spoil has no figures.
UNJUDGED = "noise.steal_pct=null noise.foreign_cpu_pct=null noise.clock_step_s=null"
# One after the other, whatever runs beside them: they share the cache and load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]


@pytest.fixture
def run_dir():
    """Give a run of our own in results/, and leave results/ as it was."""
    before = LATEST.readlink() if LATEST.is_symlink() else None
    directory = PROJECT / "results" / f"end-to-end-{os.getpid()}"
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
    LATEST.unlink(missing_ok=True)
    if before is not None:
        LATEST.symlink_to(before)


def make(*words):
    """Type a make command in the project's directory; return what it printed."""
    done = subprocess.run(
        ["make", *words], cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(path):
    """Read a CSV file as a list of mappings."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_make_tsbs_goes_from_an_experiment_to_a_report(run_dir):
    """`make tsbs` of the smoke experiment loads and queries both versions, and every check holds."""
    knobs = [f"RUN={run_dir.name}", "EXPERIMENT=experiments/smoke.yml", f"SET=host.port={free_port()} {UNJUDGED}"]
    said = make("tsbs", *knobs)

    rounds = [json.loads(path.read_text()) for path in sorted(run_dir.glob("raw/*/round.json"))]
    assert [r["status"] for r in rounds] == ["ok"] * 4
    assert sorted((r["block"], r["variant"]) for r in rounds) == [
        (1, "baseline"), (1, "candidate"), (2, "baseline"), (2, "candidate"),
    ]  # fmt: skip
    checks = rows(run_dir / "tidy" / "checks.csv")
    assert len(checks) > 50
    assert [c for c in checks if c["ok"] != "true"] == []
    assert {r["metric"] for r in rows(run_dir / "stats" / "comparison.csv")} >= {
        "load_rate",
        "query_mean_ms",
        "cpu_seconds",
    }
    report = (run_dir / "report.md").read_text()
    for expected in ("v1.132.0", "v1.133.0", f"checked {len(checks)} of {len(checks)}", "This is not a result"):
        assert expected in report
    for picture in ("plots/load-rate.png", "plots/load-rate.svg", "plots/change.svg", "report.html"):
        assert (run_dir / picture).stat().st_size > 1000
    assert f"Report: results/{run_dir.name}/report.md" in said

    # A second time nothing is run again, and the tables are made anew from what is there.
    published = {path: path.stat().st_mtime_ns for path in run_dir.glob("raw/*/round.json")}
    make("tsbs", f"RUN={run_dir.name}")
    assert {path: path.stat().st_mtime_ns for path in run_dir.glob("raw/*/round.json")} == published
    assert (run_dir / "report.md").read_text() == report


def test_make_gobench_goes_from_an_experiment_to_a_report(run_dir):
    """`make gobench` of the smoke experiment runs VictoriaMetrics' search benchmarks of both versions."""
    said = make("gobench", f"RUN={run_dir.name}", "EXPERIMENT=experiments/search-smoke.yml")

    rounds = [json.loads(path.read_text()) for path in sorted(run_dir.glob("raw/*/round.json"))]
    assert [(r["status"], len(r["phases"])) for r in rounds] == [("ok", 1)] * 2 + [("ok", 2)] * 4
    calibration = json.loads((run_dir / "raw/calibration.json").read_text())
    assert calibration["rows"][0]["names"] == {
        "baseline": "BenchmarkSearch/MetricNames/CurrOnly/VariableSeries/100",
        "candidate": "BenchmarkSearch/MetricNames/PtOnly/VariableSeries/100",
    }
    names = {"Search/MetricNames/VariableSeries/100", "Search/LabelNames/VariableSeries/100"}
    compared = rows(run_dir / "stats" / "comparison.csv")
    assert {(r["metric"], r["query_type"]) for r in compared} == {
        (unit, name) for unit in ("sec/op", "B/op", "allocs/op") for name in (*names, "geomean")
    }
    assert {r["verdict"] for r in compared} == {"inconclusive (n < 6)"}
    assert all(float(r["baseline_median"]) > 0 for r in compared)
    assert [c for c in rows(run_dir / "tidy" / "checks.csv") if c["ok"] != "true"] == []
    report = (run_dir / "report.md").read_text()
    for expected in (
        "v1.132.0",
        "v1.133.0",
        "This is not a result",
        "Search/LabelNames/VariableSeries/100-",
        "│   baseline",
    ):
        assert expected in report
    assert f"Report: results/{run_dir.name}/report.md" in said
    assert f"Exports: results/{run_dir.name}/exports (without those that feed alerts: a smoke run is no result)" in said
    assert {path.stem for path in run_dir.glob("plots/*.png")} == {"change", "change-in-memory", "blocks"}
    assert make("comment", f"RUN={run_dir.name}").startswith("**v1.133.0 against v1.132.0** (2 blocks): ? a screen")
