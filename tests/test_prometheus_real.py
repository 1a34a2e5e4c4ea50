"""The real Prometheus: one version of it with and without a flag, since every build of it takes minutes."""

from __future__ import annotations

import csv
import json

import pytest
import yaml
from checkout import QUIET, Checkout
from fakeproject import free_port

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("databases")]
TYPES = ["single-groupby-1-1-1", "single-groupby-5-1-1", "double-groupby-5"]
VERSION = "v0.306.0"
ONE_BLOCK = {"blocks": 1, "warmup_blocks": 0, "max_failed_blocks": 0}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout of the module's own."""
    return Checkout(tmp_path_factory.mktemp("prometheus") / "checkout", ansible=False)


def ask(checkout, run, *flags, stages=("tsbs",), expect=0, **parts):
    """Type `make tsbs`, or some stages, for one version without and with flags."""
    data = yaml.safe_load((checkout.path / "experiments/prometheus.yml").read_text()) | parts
    side = {"target": "prometheus", "ref": VERSION}
    data |= {"name": "flags", "variants": {"baseline": side, "candidate": side | {"flags": list(flags)}}}
    (checkout.path / "flags.yml").write_text(yaml.safe_dump(data))
    setting = f"SET=host.port={free_port()} {QUIET}"
    return checkout.make(*stages, f"RUN={run}", "EXPERIMENT=flags.yml", setting, expect=expect)


def test_prometheus_goes_from_an_experiment_to_a_report(checkout):
    """It is loaded over remote write, all samples are found in it, and queries of one and of several metrics agree."""
    queries = {"types": TYPES, "max_count": 1000, "solo": True, "count": 50}
    said = ask(checkout, "prometheus", "--query.max-concurrency=4", queries=queries, design=ONE_BLOCK)
    run_dir = checkout.results("prometheus")
    samples = json.loads((run_dir / "plan/experiment.json").read_text())["workload"]["samples"]
    found = [json.loads(path.read_text()) for path in sorted(run_dir.glob("raw/*/*/block.json"))]
    assert [block["status"] for block in found] == ["ok"]
    for of_type in (of_type for block in found for of_type in block["duel"]["types"]):
        assert of_type["exchanges"] == of_type["compared"] >= 8
        assert (of_type["differences"], of_type["errors"], of_type["empty"]) == (0, 0, 0)
    with (run_dir / "tidy/checks.csv").open(encoding="utf-8", newline="") as stream:
        checks = list(csv.DictReader(stream))
    assert [check for check in checks if check["ok"] != "true"] == []
    stored = [float(check["actual"]) for check in checks if check["check"] == "samples_stored"]
    assert stored == [samples] * 2
    assert {check["check"] for check in checks} >= {"samples_sent", "samples_ignored", "rows_read", "queries_answered"}
    with (run_dir / "stats/comparison.csv").open(encoding="utf-8", newline="") as stream:
        figures = {row["metric"]: row for row in csv.DictReader(stream)}
    for metric in ("duel_typical_ms", "duel_cpu_us", "load_rate", "load_cpu_seconds", "query_mean_ms", "merges"):
        assert float(figures[metric]["baseline_median"]) > 0, metric
    report = (run_dir / "report.md").read_text()
    assert f"{samples:,} samples" in report
    assert "prometheus_tsdb_compactions_total" in report
    assert "vm_" not in report
    assert "VictoriaMetrics" not in report
    assert "Compared" in said


def test_a_flag_that_prometheus_does_not_know(checkout):
    """The block fails at once with Prometheus' own words."""
    stages = ("plan", "provision", "build", "run")
    ask(checkout, "unknown", "--no-such.flag", stages=stages, design=ONE_BLOCK, queries={"types": TYPES[:1]}, expect=2)
    block = json.loads((checkout.results("unknown") / "raw/host1/001/block.json").read_text())
    (failure,) = block["failures"]
    assert (failure["variant"], failure["phase"]) == ("candidate", "start")
    assert "unknown long flag '--no-such.flag'" in failure["message"]
