"""The whole way with the real thing: both versions of VictoriaMetrics, the real TSBS, from plan to report."""

from __future__ import annotations

import csv
import json
import re
import subprocess

import pytest
from checkout import QUIET, Checkout
from fakeproject import free_port

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]
RUN = "end-to-end"


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout of the test's own."""
    return Checkout(tmp_path / "checkout")


def rows(path):
    """Read a CSV file as a list of mappings."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def blocks(run_dir):
    """Return the records of the finished blocks, in order."""
    return [json.loads(path.read_text()) for path in sorted(run_dir.glob("raw/*/*/block.json"))]


def headings(report):
    """Return the titles of a report's sections."""
    return re.findall(r"^## (.*)$", report, re.MULTILINE)


def test_make_tsbs_goes_from_an_experiment_to_a_report(checkout):
    """`make tsbs` of the smoke experiment: both versions are loaded, asked in turn, and all that it says is there."""
    run_dir = checkout.results(RUN)
    # With the closed loop, which the smoke experiment leaves out.
    settings = f"SET=host.port={free_port()} queries.solo=true queries.count=100 {QUIET}"
    said = checkout.make("tsbs", f"RUN={RUN}", "EXPERIMENT=experiments/smoke.yml", settings)

    found = blocks(run_dir)
    assert [(block["block"], block["status"]) for block in found] == [(1, "ok"), (2, "ok")]
    of_types = [of_type for block in found for of_type in block["duel"]["types"]]
    assert len(of_types) == 2 * 2 * 2  # of each block, type and sitting
    for of_type in of_types:
        assert of_type["exchanges"] == of_type["compared"] >= 8
        assert (of_type["differences"], of_type["errors"], of_type["empty"]) == (0, 0, 0)
    compared = sum(of_type["compared"] for of_type in of_types)
    for expected in (f"Compared {compared:,} of {compared:,} answers, all the same.", "? Ingestion"):
        assert expected in said

    checks = rows(run_dir / "tidy/checks.csv")
    assert {check["check"] for check in checks} >= {
        "samples_stored", "rows_read", "queries_answered", "exchanges_answered", "exchanges_same", "exchanges_empty",
        "equal_start", "same_process", "listens_on_loopback", "server_log",
    }  # fmt: skip
    assert [check for check in checks if check["ok"] != "true"] == []
    figures = {row["metric"]: row for row in rows(run_dir / "stats/comparison.csv") if row["query_type"] != "geomean"}
    for metric in (
        "duel_typical_ms",
        "duel_cpu_us",
        "load_rate",
        "load_cpu_seconds",
        "query_mean_ms",
        "rss_peak_bytes",
    ):
        assert float(figures[metric]["baseline_median"]) > 0, metric
        assert float(figures[metric]["candidate_median"]) > 0, metric

    for side, version in (("baseline", "v1.132.0"), ("candidate", "v1.133.0")):
        built = json.loads((run_dir / f"build/{side}.json").read_text())
        assert built["components"][0]["cgo_enabled"] is True
        printed = subprocess.run([built["binary"], "-version"], check=True, capture_output=True, text=True).stdout
        assert f"metrics-{version}" in printed

    report = (run_dir / "report.md").read_text()
    for expected in ("v1.132.0", "v1.133.0", "This is not a result", f"Checked {len(checks)} of {len(checks)}, none"):
        assert expected in report
    assert headings(report)[:3] == ["What differs", "Queries, asked in turn", "Load"]
    assert not re.search(r"\bnan\b|\bNone\b", report)
    for link in re.findall(r"\]\(([^)#:]+)\)", report):
        assert (run_dir / link).stat().st_size > 0, link
    pictures = {path.stem for path in run_dir.glob("plots/*.svg")}
    assert pictures >= {"change", "distributions"}
    page = (run_dir / "report.html").read_text()
    assert [name for name in pictures if f'<g id="{name}-figure_1">' not in page] == []
    assert f"Report: results/{RUN}/report.md" in said

    # A second time nothing is run again, and the tables are made anew from what is there.
    published = {path: path.stat().st_mtime_ns for path in run_dir.glob("raw/*/*/block.json")}
    checkout.make("tsbs", f"RUN={RUN}")
    assert {path: path.stat().st_mtime_ns for path in run_dir.glob("raw/*/*/block.json")} == published
    assert (run_dir / "report.md").read_text() == report


def test_make_gobench_goes_from_an_experiment_to_a_report(checkout):
    """`make gobench` of the smoke experiment runs VictoriaMetrics' search benchmarks of both versions."""
    run_dir = checkout.results(RUN)
    said = checkout.make("gobench", f"RUN={RUN}", "EXPERIMENT=experiments/search-smoke.yml", f"SET={QUIET}")

    assert [(block["status"], block["kind"]) for block in blocks(run_dir)] == [
        ("ok", "warmup"),
        ("ok", "measured"),
        ("ok", "measured"),
    ]
    calibration = json.loads((run_dir / "raw/host1/calibration.json").read_text())
    assert calibration["rows"][0]["names"] == {
        "baseline": "BenchmarkSearch/MetricNames/CurrOnly/VariableSeries/100",
        "candidate": "BenchmarkSearch/MetricNames/PtOnly/VariableSeries/100",
    }
    names = {"Search/MetricNames/VariableSeries/100", "Search/LabelNames/VariableSeries/100"}
    compared = rows(run_dir / "stats/comparison.csv")
    assert {(r["metric"], r["query_type"]) for r in compared} == {
        (unit, name) for unit in ("sec/op", "B/op", "allocs/op") for name in (*names, "geomean")
    }
    assert {r["verdict"] for r in compared} == {"inconclusive (n < 6)"}
    assert all(float(r["baseline_median"]) > 0 for r in compared)
    assert [c for c in rows(run_dir / "tidy/checks.csv") if c["ok"] != "true"] == []
    report = (run_dir / "report.md").read_text()
    for expected in (
        "v1.132.0",
        "v1.133.0",
        "This is not a result",
        "Search/LabelNames/VariableSeries/100-",
        "│   baseline",
    ):
        assert expected in report
    assert f"Report: results/{RUN}/report.md" in said
    assert f"Exports: results/{RUN}/exports (without those that feed alerts: a smoke run is no result)" in said
    assert {path.stem for path in run_dir.glob("plots/*.png")} >= {"change", "change-in-memory"}
    assert "\n**v1.133.0 against v1.132.0** (2 blocks): ? a first look" in checkout.make("comment", f"RUN={RUN}")
