"""Blocks in pods of a real Kubernetes: typed as a user does, killed, refused, and nothing is left in the cluster."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time

import pytest
from checkout import Checkout
from cluster import cluster

from tsduel.core.rundir import open_run

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
SPACE = "bench"
WORDS = ("tsbs", "EXPERIMENT=experiments/k8s-smoke.yml", "TARGET=k8s", f"NAMESPACE={SPACE}", "VIEW=plain")
PATIENCE_S = 120.0
KILLS = 10


@pytest.fixture(scope="module")
def here():
    """Start two nodes, and a namespace that takes restricted pods alone."""
    with cluster() as made:
        space = {"name": SPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": space})
        yield made


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, here):
    """Return a checkout for somebody who has a kubeconfig."""
    made = Checkout(tmp_path_factory.mktemp("pods") / "tsduel", ansible=False)
    made.environment["KUBECONFIG"] = str(here.kubeconfig)
    return made


def left(here):
    """Return what a run may have left in the namespace."""
    kinds = "jobs,pods,services,networkpolicies,persistentvolumeclaims,configmaps"
    items = here.get(kinds, "--namespace", SPACE)["items"]
    return [
        f"{item['kind']} {item['metadata']['name']}" for item in items if "kube-root" not in item["metadata"]["name"]
    ]


def blocks(run_dir):
    """Return the record of each block that is at home, by its name."""
    return {path.parent.name: path.read_text() for path in run_dir.glob("raw/*/[0-9]*/block.json")}


def wait_until(condition, what):
    """Return what the condition returns once it holds."""
    until = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < until, what
        time.sleep(0.1)
    return found


def pods(here):
    """Return the pods of tsduel that run."""
    items = here.get("pods", "--namespace", SPACE)["items"]
    return [
        item for item in items if item["status"]["phase"] == "Running" and "deletionTimestamp" not in item["metadata"]
    ]


def test_one_pod_runs_all_and_is_given_back(here, checkout):
    """The report names the node, what is measured comes home, and the doctor has looked before."""
    assert "you may do all that a run needs" in checkout.make("doctor", "TARGET=k8s", f"NAMESPACE={SPACE}")
    said = checkout.make(*WORDS, "RUN=one")
    assert "Blocks: 2 valid of 2" in said
    assert "nothing of tsduel-one-" in said
    assert left(here) == []
    run = open_run(checkout.results("one"))
    assert run.node_of("host1") in {"node-1", "node-2"}
    assert run.node_of("host1") in (checkout.results("one") / "report.md").read_text()
    assert "not seen from the pod" in (checkout.results("one") / "report.md").read_text()
    assert run.host["cpus"] == 1
    assert run.host["cpu_limit"] == 1
    # One CPU of two, for two servers and a client.
    assert sum(json.loads(text)["noise"]["throttled_s"] for text in blocks(run.path).values()) > 0
    # What is done is not done again.
    assert "all blocks are here already" in checkout.make(*WORDS, "RUN=one")


def test_ten_kills_lose_and_repeat_nothing(here, checkout):
    """Home, a pod, a kubelet or the driver in a pod: the same command ends with every block once."""
    chance = random.Random(int(os.environ.get("TSDUEL_TEST_SEEDS", "1").split()[0]))  # noqa: S311 - to be drawn again
    words = (*WORDS, "RUN=killed", "HOSTS=2", "BLOCKS=12")
    run_dir, seen, kills = checkout.results("killed"), {}, []
    kinds = ["home", "pod", "kubelet", "driver"] * 3
    chance.shuffle(kinds)
    begun = 0
    while True:
        begun += 1
        assert begun <= 2 * KILLS, "it does not end"
        log = checkout.path / f"killed.{begun}"
        with checkout.making(log, *words) as process:
            while process.poll() is None and len(kills) < KILLS:
                until = time.monotonic() + chance.uniform(4, 14)
                while process.poll() is None and time.monotonic() < until:
                    time.sleep(0.2)
                remember(seen, run_dir)
                if process.poll() is None and pods(here) and kill(here, process, kinds[len(kills)], chance):
                    kills.append(kinds[len(kills)])
            code = process.wait()
        remember(seen, run_dir)
        assert "Traceback" not in log.read_text(), log.read_text()
        # A driver that is killed ends its host's part: the others' blocks are a result, too.
        if code == 0 and "blocks were not run" not in log.read_text():
            break
    run = open_run(run_dir)
    assert len(kills) == KILLS, kills
    assert sorted(blocks(run_dir)) == sorted(row.name for row in run.due)
    assert {name: blocks(run_dir)[name] for name in seen} == seen
    assert "Checked" in log.read_text()
    assert left(here) == []


def remember(seen, run_dir):
    """Remember the blocks that have come home; none may ever be another."""
    for name, text in blocks(run_dir).items():
        assert seen.setdefault(name, text) == text, name


def kill(here, process, kind, chance):
    """Kill one of its kind; return whether there was one."""
    if kind == "home":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return True
    if kind == "pod":
        name = chance.choice(pods(here))["metadata"]["name"]
        here.kubectl("delete", "pod", name, "--namespace", SPACE, "--grace-period=0", "--force", "--wait=false")
        return True
    if kind == "kubelet":
        return here.kill("kubelet", chance.choice(["node-1", "node-2"])) > 0
    drivers = [
        pid for pid, line in here.processes().items() if line[0].endswith("tsduel-host") and line[1:2] == ["run"]
    ]
    if drivers:
        os.kill(chance.choice(drivers), signal.SIGKILL)
    return bool(drivers)


def test_status_stop_destroy_and_on(here, checkout):
    """What is typed while blocks run finds the pod; after all was deleted, the run goes on in another one."""
    log = checkout.path / "stopped.log"
    with checkout.making(log, *WORDS, "RUN=stopped", "BLOCKS=4") as process:
        wait_until(lambda: "block 1 ok" in log.read_text(), "no block")
        assert "running; " in checkout.make("status", "RUN=stopped")
        assert "stopped finishes block" in checkout.make("stop", "RUN=stopped")
        process.wait()
    before = blocks(checkout.results("stopped"))
    assert 1 < len(before) < 4
    assert len(pods(here)) == 1, "it is kept to go on with"
    assert "nothing of tsduel-stopped-" in checkout.make("destroy", "RUN=stopped")
    assert left(here) == []
    said = checkout.make(*WORDS, "RUN=stopped", "BLOCKS=4")
    assert f"brings {len(before)} finished blocks to" in said
    after = blocks(checkout.results("stopped"))
    assert len(after) == 4
    assert after.items() > before.items()
    assert left(here) == []


def test_a_token_that_expires_is_a_sentence_and_the_run_goes_on(here, checkout, tmp_path):
    """The pod works on; with a new login the same command comes back to it."""
    here.kubectl("create", "serviceaccount", "me", "--namespace", SPACE)
    here.kubectl(
        "create", "rolebinding", "me", "--namespace", SPACE, "--clusterrole=admin", f"--serviceaccount={SPACE}:me"
    )
    config = json.loads(here.kubeconfig.read_text())

    def login():
        token = here.kubectl("create", "token", "me", "--namespace", SPACE).stdout.strip()
        config["users"][0]["user"] = {"token": token}
        (tmp_path / "config").write_text(json.dumps(config))

    login()
    log = tmp_path / "log"
    with checkout.making(log, *WORDS, "RUN=expired", "BLOCKS=4", KUBECONFIG=str(tmp_path / "config")) as process:
        wait_until(lambda: "block 1 ok" in log.read_text(), "no block")
        # Its token dies with the account.
        here.kubectl("delete", "serviceaccount", "me", "--namespace", SPACE)
        for node in ("node-1", "node-2"):
            here.kill("kubelet", node)  # what was connected before is not asked for a token again
        wait_until(lambda: "your credentials are not accepted" in log.read_text(), "no sentence")
        here.kubectl("create", "serviceaccount", "me", "--namespace", SPACE)
        login()
        assert process.wait() == 0, log.read_text()
    assert len(blocks(checkout.results("expired"))) == 4
    assert left(here) == []


def test_an_image_that_is_nowhere(here, checkout):
    """The kubelet's own words, and what to do."""
    said = checkout.make(*WORDS, "RUN=image", "IMAGE=tsduel.test/none:1", expect=2)
    assert "k8s: the image tsduel.test/none:1 cannot be pulled" in said
    assert "IMAGE=" in said
    assert left(here) == []


def test_a_claim_holds_the_data_and_goes_with_the_pod(here, checkout):
    """STORAGE_CLASS= takes the volume of a node."""
    here.make_volume("node-1", "one")
    said = checkout.make(*WORDS, "RUN=claimed", "STORAGE_CLASS=disk", "BLOCKS=1")
    assert "a claim of disk" in said
    assert left(here) == []


def test_the_deadline_is_the_clusters(here, checkout):
    """Home is killed and does not come back: the pod is gone all the same, and reap finds the finished Job."""
    log = checkout.path / "dead.log"
    with checkout.making(log, *WORDS, "RUN=dead") as process:
        wait_until(lambda: pods(here), "no pod")
        os.killpg(process.pid, signal.SIGKILL)
    (job,) = here.get("jobs", "--namespace", SPACE)["items"]
    assert job["spec"]["activeDeadlineSeconds"] >= 7200
    name = job["metadata"]["name"]
    patch = json.dumps({"spec": {"activeDeadlineSeconds": 1}})
    here.kubectl("patch", "job", name, "--namespace", SPACE, "--type=merge", "--patch", patch)
    wait_until(lambda: not pods(here), "the pod lives on")
    reap = ("reap", "TARGET=k8s", f"NAMESPACE={SPACE}")
    assert "its Job has ended (DeadlineExceeded)" in checkout.make(*reap, expect=1)
    assert "nothing of tsduel's is left over" in checkout.make(*reap, "YES=1")
    assert left(here) == []


def test_two_runs_do_not_share_a_node(here, checkout):
    """The third pod waits for a node of its own, and says why."""
    log = checkout.path / "two.log"
    with checkout.making(log, *WORDS, "RUN=two", "HOSTS=2", "BLOCKS=4") as process:
        wait_until(lambda: len(pods(here)) == 2, "not two pods")
        said = checkout.make(*WORDS, "RUN=three", "SET=k8s.wait_s=5", expect=2)
        assert "a node runs one pod of tsduel: wait for other runs" in said
        assert process.wait() == 0, log.read_text()
    assert len(blocks(checkout.results("two"))) == 4
    assert left(here) == []
