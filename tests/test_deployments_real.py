"""Two VictoriaMetrics that the test has started itself are compared, loaded once, and left as they are."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request

import pytest
import yaml
from asking import rows
from checkout import QUIET, Checkout
from fakeproject import free_port

# ruff: noqa: S310 - URLs of our own servers
# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("databases")]


def counter(url, name):
    """Return the sum of a counter of a server."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        return sum(float(value) for value in re.findall(rf"(?m)^{name}(?:{{.*}})? (\S+)$", answer.read().decode()))


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout of the test's own."""
    return Checkout(tmp_path / "checkout", ansible=False)


@pytest.fixture
def servers(checkout, tmp_path):
    """Start two servers of one version; return their URLs."""
    checkout.make("plan", "RUN=built", "EXPERIMENT=smoke")
    checkout.make("provision", "RUN=built")
    checkout.make("build", "RUN=built")
    binary = json.loads((checkout.results("built") / "build/baseline.json").read_text())["binary"]
    running, urls = [], []
    for name in ("old", "new"):
        urls.append(f"http://127.0.0.1:{free_port()}")
        words = [f"-httpListenAddr={urls[-1][7:]}", f"-storageDataPath={tmp_path / name}", "-retentionPeriod=100y"]
        running.append(subprocess.Popen([binary, *words], stderr=subprocess.DEVNULL))
    until = time.monotonic() + 60
    for url in urls:
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=5).close()
            except OSError:
                time.sleep(0.1)
            else:
                break
    yield urls
    assert [server.poll() for server in running] == [None, None], "a server was ended"
    for server in running:
        server.kill()
        server.wait()


def test_deployments_are_loaded_once_asked_and_left_alone(checkout, servers):
    """The second run finds the data, compares all answers, and writes nothing."""
    asked = yaml.safe_load((checkout.path / "experiments/smoke.yml").read_text())
    sides = {name: {"url": url} for name, url in zip(("baseline", "candidate"), servers, strict=True)}
    asked |= {"name": "ours", "variants": sides, "design": {"blocks": 1, "warmup_blocks": 1, "load": "in_turn"}}
    asked["workload"]["batch_size"] = 500
    (checkout.path / "ours.yml").write_text(yaml.safe_dump(asked))
    said = checkout.make("tsbs", "RUN=loads", "EXPERIMENT=ours.yml", f"SET={QUIET}")
    assert "Blocks: 1 valid of 1" in said
    checks = rows(checkout.results("loads") / "tidy/checks.csv")
    assert [check for check in checks if check["ok"] != "true"] == []
    assert len([check for check in checks if check["check"] == "samples_stored"]) == 2  # once, in the first block
    rows_there = [counter(url, "vm_rows_added_to_storage_total") for url in servers]
    assert rows_there[0] == rows_there[1] > 0

    said = checkout.make("tsbs", "RUN=asks", "EXPERIMENT=ours.yml", f"SET=design.load=solo {QUIET}")
    run = checkout.results("asks")
    assert "These are deployments that ran already" in said
    assert "all the same" in said
    metrics = {row["metric"] for row in rows(run / "stats/comparison.csv")}
    assert {"duel_typical_ms", "duel_cpu_us", "duel_rss_bytes"} <= metrics
    assert not {"disk_bytes", "rss_peak_bytes", "duel_instructions"} & metrics
    assert [counter(url, "vm_rows_added_to_storage_total") for url in servers] == rows_there

    said = checkout.make("tsbs", "RUN=again", "EXPERIMENT=ours.yml", f"SET={QUIET}", expect=2)
    assert "rows already, and nothing is written to a server that has data" in said
