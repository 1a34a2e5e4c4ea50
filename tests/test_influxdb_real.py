"""The real InfluxDB, loaded and asked by the real TSBS, from plan to report; and what it refuses.

One release with and without a flag, since every build of it takes a minute.
"""

from __future__ import annotations

import csv
import json
import re
import shlex

import pytest
from checkout import QUIET, Checkout
from fakeproject import free_port

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("databases")]
RUN = "influxdb"
EXPERIMENT = ("EXPERIMENT=experiments/influxdb.yml", "BASELINE=v1.8.10")


def rows(path):
    """Read a CSV file as a list of mappings."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout of the module's own."""
    return Checkout(tmp_path_factory.mktemp("influxdb") / "checkout", ansible=False)


def test_from_an_experiment_to_a_report(checkout):
    """Loaded alone and in turn, asked by TSBS's client and in turn; every sample is stored, every answer the same."""
    run_dir = checkout.results(RUN)
    types = ["single-groupby-5-8-1", "double-groupby-1", "high-cpu-1", "lastpoint"]
    settings = f"SET=host.port={free_port()} {QUIET} design.blocks=1 queries.types=[{','.join(types)}] "
    settings += "queries.solo=true queries.count=20 duel.load=true "
    settings += shlex.quote('variants.candidate.env={INFLUXDB_DATA_QUERY_LOG_ENABLED: "false"}')
    checkout.make("tsbs", f"RUN={RUN}", *EXPERIMENT, settings)

    (block,) = (json.loads(path.read_text()) for path in sorted(run_dir.glob("raw/*/*/block.json")))
    assert block["status"] == "ok"
    assert {of_type["query_type"] for of_type in block["duel"]["types"]} == set(types)
    for of_type in block["duel"]["types"]:
        assert of_type["exchanges"] == of_type["compared"] >= 4  # half of duel.fewest: one sitting
        assert (of_type["differences"], of_type["errors"]) == (0, 0)
        # A host's CPU need not have been so high.
        assert of_type["empty"] == 0 or of_type["query_type"] == "high-cpu-1"
    samples = json.loads((run_dir / "plan/experiment.json").read_text())["workload"]["samples"]
    checks = rows(run_dir / "tidy/checks.csv")
    assert [check for check in checks if check["ok"] != "true"] == []
    # Of each variant alone, and twice in turn.
    stored = [check for check in checks if check["check"] == "samples_stored"]
    assert [float(check["actual"]) for check in stored] == [samples] * 6
    figures = {row["metric"]: row for row in rows(run_dir / "stats/comparison.csv") if row["query_type"] != "geomean"}
    for metric in ("duel_typical_ms", "duel_cpu_us", "load_rate", "load_cpu_seconds", "disk_bytes", "query_mean_ms"):
        assert float(figures[metric]["baseline_median"]) > 0, metric
        assert float(figures[metric]["candidate_median"]) > 0, metric

    report = (run_dir / "report.md").read_text()
    for expected in ("v1.8.10", f"Checked {len(checks)} of {len(checks)}, none"):
        assert expected in report
    # Nothing in it is of another database.
    assert not re.search(r"\bnan\b|\bNone\b|\bvm_|VictoriaMetrics", report)


def test_victoriametrics_answers_the_same_questions_with_the_same_values(checkout):
    """Both take the same lines, alone and in turn; every type that both can be asked is compared by value."""
    settings = (
        f"SET=host.port={free_port()} design.blocks=1 design.warmup_blocks=0 workload.scale=20 duel.load=true "
        f"duel.seconds=0.2 duel.least=16 queries.max_count=1000 {QUIET}"
    )
    checkout.make("tsbs", "RUN=crossing", "EXPERIMENT=experiments/vm-influxdb.yml", settings)
    run_dir = checkout.results("crossing")
    (block,) = [json.loads(path.read_text()) for path in run_dir.glob("raw/*/*/block.json")]
    types = block["duel"]["types"]
    assert len({of_type["query_type"] for of_type in types}) == 9
    for of_type in types:
        assert of_type["exchanges"] == of_type["compared"] >= 4
        assert (of_type["differences"], of_type["errors"], of_type["empty"]) == (0, 0, 0)
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
    stages = ("plan", "provision", "build", "run")
    said = checkout.make(*stages, f"RUN=refused-{sentence.split(' ')[0].lower()}", *EXPERIMENT, settings, expect=2)
    assert sentence in " ".join(said.split())
