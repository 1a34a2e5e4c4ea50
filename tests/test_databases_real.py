"""The real InfluxDB and Prometheus, loaded and asked by the real TSBS, from plan to report.

One release of each with and without a setting, since every build takes minutes.
"""

from __future__ import annotations

import json
import re
import shlex

import pytest
from asking import rows
from checkout import QUIET, Checkout
from fakeproject import free_port

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("databases")]
FIGURES = ("duel_typical_ms", "duel_cpu_us", "load_rate", "load_cpu_seconds", "query_mean_ms")
# By database: the release, a setting of the candidate, further settings, how often all samples are stored, figures,
# what the report says, and what would be of another database.
REAL = {
    "influxdb": (
        *("v1.8.10", 'env={INFLUXDB_DATA_QUERY_LOG_ENABLED: "false"}'),
        "queries.types=[single-groupby-5-8-1,double-groupby-1,high-cpu-1,lastpoint] queries.count=20 duel.batches=true",
        # Of each variant alone, and twice in turn.
        *(6, (*FIGURES, "disk_bytes"), ("v1.8.10",), r"\bvm_|VictoriaMetrics"),
    ),
    "prometheus": (
        *("v0.306.0", "flags=[--query.max-concurrency=4]"),
        "queries.types=[single-groupby-1-1-1,single-groupby-5-1-1,double-groupby-5] queries.count=50",
        *(2, (*FIGURES, "merges"), ("prometheus_tsdb_compactions_total",), r"vm_|VictoriaMetrics"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout of the module's own."""
    return Checkout(tmp_path_factory.mktemp("databases") / "checkout", ansible=False)


def block_of(run_dir):
    """Return the only block of a run; every exchange was answered alike by both sides."""
    (block,) = (json.loads(path.read_text()) for path in run_dir.glob("raw/*/*/block.json"))
    assert block["status"] == "ok"
    for of_type in block["duel"]["types"]:
        assert of_type["exchanges"] == of_type["compared"] >= 4  # half of duel.floor_exchanges: one sitting
        assert (of_type["differences"], of_type["errors"]) == (0, 0)
        # A host's CPU need not have been so high.
        assert of_type["empty"] == 0 or of_type["query_type"] == "high-cpu-1"
    return block


@pytest.mark.parametrize("database", REAL)
def test_from_an_experiment_to_a_report(checkout, database):
    """Loaded and asked by TSBS's client and in turn; every sample is stored, every answer the same."""
    version, setting, more, times, metrics, expected, other = REAL[database]
    settings = f"SET=host.port={free_port()} {QUIET} design.blocks=1 design.max_failed_blocks=0 queries.solo=true "
    settings += f"queries.max_count=1000 {more} {shlex.quote(f'variants.candidate.{setting}')}"
    sides = (f"BASELINE={version}", f"CANDIDATE={version}")
    checkout.make("tsbs", f"RUN={database}", f"EXPERIMENT=experiments/{database}.yml", *sides, settings)
    run_dir = checkout.results(database)
    types = {of_type["query_type"] for of_type in block_of(run_dir)["duel"]["types"]}
    assert types == set(re.search(r"types=\[(.*?)\]", more)[1].split(","))
    samples = json.loads((run_dir / "plan/experiment.json").read_text())["workload"]["samples"]
    checks = rows(run_dir / "tidy/checks.csv")
    assert [check for check in checks if check["ok"] != "true"] == []
    assert [float(check["actual"]) for check in checks if check["check"] == "samples_stored"] == [samples] * times
    made = {check["check"] for check in checks}
    assert {"samples_sent", "samples_ignored", "queries_answered"} <= made
    assert ("rows_read" in made) == (database == "prometheus")  # InfluxDB does not count them
    figures = {row["metric"]: row for row in rows(run_dir / "stats/comparison.csv") if row["query_type"] != "geomean"}
    for metric in metrics:
        assert float(figures[metric]["baseline_median"]) > 0, metric
        assert float(figures[metric]["candidate_median"]) > 0, metric
    report = (run_dir / "report.md").read_text()
    for words in (*expected, f"{samples:,} samples", f"Checked {len(checks)} of {len(checks)}, none"):
        assert words in report
    assert not re.search(rf"\bnan\b|\bNone\b|{other}", report)


def test_victoriametrics_answers_the_same_questions_with_the_same_values(checkout):
    """Both take the same lines, alone and in turn; every type that both can be asked is compared by value."""
    settings = (
        f"SET=host.port={free_port()} design.blocks=1 design.warmup_blocks=0 workload.scale=20 duel.batches=true "
        f"duel.seconds=0.2 duel.min_exchanges=16 queries.max_count=1000 {QUIET}"
    )
    checkout.make("tsbs", "RUN=crossing", "EXPERIMENT=experiments/vm-influxdb.yml", settings)
    run_dir = checkout.results("crossing")
    types = block_of(run_dir)["duel"]["types"]
    assert len({of_type["query_type"] for of_type in types}) == 9
    plan = json.loads((run_dir / "plan/experiment.json").read_text())
    levels = [of_type["compared"]["influxdb"]["level"] for of_type in plan["queries"]["types"]]
    assert levels == ["values"] * 9
    made = {
        file["format"]: file["content_checksum"]
        for file in json.loads((run_dir / "raw/host1/workload.json").read_text())["data"]
    }
    assert made["influx"] == made["victoriametrics"]
    report = (run_dir / "report.md").read_text()
    assert "influxdb v1.8.10 against victoriametrics v1.133.0" in report
    assert "answers (values), all the same" in report
    assert not re.search(r"\bnan\b|\bNone\b", report)
