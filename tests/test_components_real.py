"""Real components: VictoriaMetrics behind vmauth and vmagent, and its cluster."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import time
import urllib.request
from pathlib import Path

import history
import pytest
import yaml
from asking import rows
from checkout import PROJECT, QUIET, Checkout
from fakeproject import free_port

from tsduel.targets import databases
from tsduel.targets.database import replicated

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("databases")]
SERVER = {"role": "server", "ref": "v1.133.0"}


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout of the test's own."""
    return Checkout(tmp_path / "checkout", ansible=False)


def make(checkout, variants, look=lambda: None, *, stored, **parts):
    """Run two small blocks of these variants to the report, and look at them meanwhile; return the run.

    All samples were found ``stored`` times of each variant.
    """
    asked = yaml.safe_load((checkout.path / "experiments/smoke.yml").read_text())
    asked |= {"name": "parts", "smoke": False, "variants": variants}
    asked["duel"]["batches"] = True
    for section, fields in ({"workload": {"batch_size": 500}} | parts).items():
        asked[section] |= fields
    (checkout.path / "experiments/parts.yml").write_text(yaml.safe_dump(asked))
    words = ("tsbs", "RUN=parts", "EXPERIMENT=experiments/parts.yml", f"SET=host.port={free_port()} {QUIET}")
    log = checkout.path / "log"
    with checkout.making(log, *words) as process:
        while process.poll() is None:
            look()
            time.sleep(0.5)
    assert process.returncode == 0, log.read_text()
    run_dir = checkout.results("parts")
    checks = rows(run_dir / "tidy/checks.csv")
    assert [check for check in checks if check["ok"] != "true"] == []
    found = [float(check["actual"]) for check in checks if check["check"] == "samples_stored"]
    assert len(found) == 2 * stored
    assert min(found) > 0
    return run_dir


def by_role(run_dir, metric):
    """Return role -> (baseline, candidate) of a metric, as text."""
    of = [row for row in rows(run_dir / "stats/comparison.csv") if row["metric"] == metric]
    return {row["query_type"]: (row["baseline_median"], row["candidate_median"]) for row in of}


def test_vmauth_in_front_and_vmagent_before_ingestion(checkout):
    """Directly against through both: every sample arrives, every answer is the same, each has its CPU."""
    files = {"relabel.yml": "- {action: replace, target_label: added, replacement: by-the-agent}\n"}
    agent = {"role": "vmagent", "ref": "v1.133.0", "flags": ["-remoteWrite.relabelConfig=relabel.yml"], "files": files}
    front = {"role": "vmauth", "ref": "v1.133.0"}
    variants = {"baseline": {"ref": "v1.133.0"}, "candidate": {"components": [SERVER, agent, front]}}
    run_dir = make(checkout, variants, stored=2 * 3)  # in two blocks: alone, and exchanged in two sittings
    for metric in ("duel_role_cpu_us", "duel_load_role_cpu_us", "load_role_cpu_us", "duel_role_rss_bytes"):
        found = by_role(run_dir, metric)
        assert float(found["server"][0]) > 0, metric
        # No query comes by the agent: it may have slept through all of them.
        busy = ("server", "vmauth") if metric == "duel_role_cpu_us" else ("server", "vmagent", "vmauth")
        assert all(float(found[role][1]) > 0 for role in busy), (metric, found)
        assert found["vmauth"][0] == found["vmagent"][0] == ""
    assert all(float(size) > 0 for size in by_role(run_dir, "disk_role_bytes")["server"])
    whole = float(by_role(run_dir, "duel_cpu_us")["all"][1])
    assert sum(float(of[1]) for of in by_role(run_dir, "duel_role_cpu_us").values()) == pytest.approx(whole)
    built = json.loads((run_dir / "build/candidate.json").read_text())["components"]
    assert [(part["role"], part["program"]) for part in built] == [
        ("vmauth", "vmauth"), ("vmagent", "vmagent"), ("server", "victoria-metrics"),
    ]  # fmt: skip
    log = (run_dir / "raw/host1/001/candidate/vmagent.log").read_text()
    assert "loaded relabel configs" in log or "relabel" in log
    report = (run_dir / "report.md").read_text()
    for expected in (
        "## By component", "vmauth: version", "v1.133.0 + vmagent + vmauth", "shift (95 % CI)", "stddev, ms",
        "vmagent: files", "vmagent acknowledges samples before",
    ):  # fmt: skip
        assert expected in report
    # Who tracks it gets both sides' percentiles, the shift and the change.
    exported = json.loads((run_dir / "exports/smaller-is-better.json").read_text())
    values = {entry["name"]: (entry["unit"], entry["value"]) for entry in exported}
    assert len(values) == len(exported)
    metric = "duel_p50_ms/single-groupby-1-1-1"
    baseline, candidate = (values[f"screen/parts/{side}/{metric}"] for side in ("baseline", "candidate"))
    assert baseline[0] == candidate[0] == "ms"
    assert values[f"screen/parts/candidate/{metric}/shift"][1] == pytest.approx(candidate[1] - baseline[1])
    assert values[f"screen/parts/candidate/{metric}/change"][0] == "%"


@history.needed
def test_the_real_cluster_with_replicas_and_tenants(checkout):
    """Of experiments/cluster.yml's newer version: counters by the names that we read, one against several of a role.

    Each of two tenants gets the same data on both sides, and all answers are the same.
    """
    checkout.environment |= history.rewritten()
    one = yaml.safe_load((PROJECT / "experiments/cluster.yml").read_text())["variants"]["candidate"]
    source = {name: value for name, value in one.items() if name != "target"}
    several = [
        {"role": role, "replicas": count, **source}
        for role, count in (("vmselect", 1), ("vminsert", 2), ("vmstorage", 2))
    ]
    many = {"target": "victoriametrics-cluster", "components": several}
    seen = set()
    run_dir = make(
        checkout,
        {"baseline": one, "candidate": many},
        lambda: seen.update(tenants(checkout.path)),
        stored=1 + 1 + 2,  # alone and exchanged in the warm-up block, exchanged in two sittings of the other one
        workload={"batch_size": 500, "tenants": 2, "solo_scale": 60},
        design={"load": "in_turn", "blocks": 1, "warmup_blocks": 1},
    )
    # On both sides, each of which has its own ports.
    assert {tenant for _, tenant in seen} == {"0:0", "1:0"}
    assert len(seen) >= 4
    used = by_role(run_dir, "duel_load_role_cpu_us")
    assert set(used) == {"vmselect", "vminsert", "vminsert-2", "vmstorage", "vmstorage-2"}
    # Batches go to both vminserts in turn, and each vmstorage has a part of the series.
    for role in ("vminsert", "vminsert-2", "vmstorage", "vmstorage-2"):
        assert float(used[role][1]) > 0.1, used
    block = json.loads((run_dir / "raw/host1/001/block.json").read_text())
    assert all(one["compared"] == one["exchanges"] > 0 for one in block["duel"]["types"])
    of, moved = counters(run_dir, "candidate"), block["duel"]["counters"]["candidate"]
    # A load has none of these two yet.
    assert {name for name, roles in of.items() if not roles} == {"rows_read", "rows_read_queries"}
    assert all(moved[name] > 0 for name in ("rows_read", "rows_read_queries", "index_searches", "cache_requests"))
    assert of["stored"] == of["rows_kept"] == of["pending"] == {"vmstorage"}
    assert of["inserted"] == {"vminsert"}
    assert of["requests"] == {"vmselect"}
    assert moved["requests"] == sum(one["exchanges"] for one in block["duel"]["types"])


def tenants(directory):
    """Yield (port, tenant) as each running vmselect of this checkout lists the tenants that have data."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError, ValueError):
            line = path.read_text()
            port = re.search(r"-httpListenAddr=127\.0\.0\.1:(\d+)", line)
            if port and str(directory) in line and "-storageNode" in line:
                with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/admin/tenants", timeout=1) as answer:
                    yield from ((port[1], tenant) for tenant in json.load(answer)["data"])


def counters(run_dir, variant):
    """Return name of a counter -> roles that have it in what was kept of their /metrics, whatever its value."""
    kept = (gzip.decompress(path.read_bytes()) for path in run_dir.glob(f"raw/*/*/{variant}/*metrics*.gz"))
    text = b"\n".join(kept).decode()
    found = {}
    for name, counter in databases()["victoriametrics-cluster"].target.counters.items():
        found[name] = set()
        for sample in re.finditer(rf"^(?:{'|'.join(counter.names)})(\{{.*\}}) ", text, re.MULTILINE):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', sample[1]))
            if all(re.fullmatch(value, labels.get(label, "")) for label, value in counter.labels.items()):
                found[name].add(replicated(labels["tsduel_role"]))
    return found
