"""The real InfluxDB: two releases, loaded and asked by the real TSBS, from plan to report; and what it refuses."""

from __future__ import annotations

import csv
import json
import re
import shlex

import pytest
from checkout import QUIET, Checkout
from fakeproject import free_port

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]
RUN = "influxdb"
EXPERIMENT = "EXPERIMENT=experiments/influxdb.yml"


def rows(path):
    """Read a CSV file as a list of mappings."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout in which both releases are built once."""
    return Checkout(tmp_path_factory.mktemp("influxdb") / "checkout")


def test_two_releases_from_an_experiment_to_a_report(checkout):
    """Loaded alone and in turn, asked by TSBS's client and in turn; every sample is stored, every answer the same."""
    run_dir = checkout.results(RUN)
    types = ["single-groupby-5-8-1", "double-groupby-1", "high-cpu-1", "lastpoint"]
    settings = f"SET=host.port={free_port()} {QUIET} design.blocks=1 queries.types=[{','.join(types)}] "
    settings += "queries.solo=true queries.count=20 duel.load=true"
    checkout.make("tsbs", f"RUN={RUN}", EXPERIMENT, settings)

    (block,) = (json.loads(path.read_text()) for path in sorted(run_dir.glob("raw/*/block.json")))
    assert block["status"] == "ok"
    assert sorted(of_type["query_type"] for of_type in block["duel"]["types"]) == sorted(types)
    for of_type in block["duel"]["types"]:
        assert of_type["exchanges"] == of_type["compared"] >= 8
        assert (of_type["differences"], of_type["errors"]) == (0, 0)
        # A host's CPU need not have been so high.
        assert of_type["empty"] == 0 or of_type["query_type"] == "high-cpu-1"
    samples = json.loads((run_dir / "plan/experiment.json").read_text())["workload"]["samples"]
    checks = rows(run_dir / "tidy/checks.csv")
    assert [check for check in checks if check["ok"] != "true"] == []
    # Of each variant alone, and once more in turn.
    stored = [check for check in checks if check["check"] == "samples_stored"]
    assert [float(check["actual"]) for check in stored] == [samples] * 4
    figures = {row["metric"]: row for row in rows(run_dir / "stats/comparison.csv") if row["query_type"] != "geomean"}
    for metric in ("duel_typical_ms", "duel_cpu_us", "load_rate", "load_cpu_seconds", "disk_bytes", "query_mean_ms"):
        assert float(figures[metric]["baseline_median"]) > 0, metric
        assert float(figures[metric]["candidate_median"]) > 0, metric

    report = (run_dir / "report.md").read_text()
    for expected in ("v1.8.3", "v1.8.10", f"Checked {len(checks)} of {len(checks)}, none"):
        assert expected in report
    # Nothing in it is of another database.
    assert not re.search(r"\bnan\b|\bNone\b|Not drawn|\bvm_|VictoriaMetrics", report)


@pytest.mark.parametrize(
    ("side", "sentence"),
    [
        ("flags: [-no-such-flag=1]", "flag provided but not defined: -no-such-flag"),
        ("env: {INFLUXDB_HTTP_BIND_ADDRESS: 0.0.0.0}", "INFLUXDB_HTTP_BIND_ADDRESS is ours"),
    ],
)
def test_what_it_does_not_know_is_said_in_its_own_words(checkout, side, sentence):
    """It ends at once, and the run with it."""
    name, _, value = side.partition(": ")
    settings = f"SET=host.port={free_port()} {QUIET} design.blocks=1 design.max_failed_blocks=0 "
    settings += shlex.quote(f"variants.candidate.{name}={value}")
    said = checkout.make("tsbs", f"RUN=refused-{sentence.split(' ')[0].lower()}", EXPERIMENT, settings, expect=2)
    assert sentence in " ".join(said.split())
