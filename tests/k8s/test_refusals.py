"""What a cluster refuses, each in a sentence with what to do: the API server, scheduler and controllers are real ones.

Nodes are made up, so what a kubelet says of a pod is said by the test.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time

import plans
import pytest
from cluster import cluster

from tsduel.core.errors import UserError
from tsduel.core.place import K8sPlace
from tsduel.places import hosts
from tsduel.places.k8s import manifests, pods
from tsduel.places.k8s.cluster import JOBS, PODS, Cluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("k8s")]
SPACE = "bench"
KUBECONFIG = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
# For a policy that nobody's CPU limits may pass.
POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "no-tsduel"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ruled"}},
        },
        "validations": [{"expression": "false", "message": "no benchmarks here"}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "no-tsduel"},
    "spec": {"policyName": "no-tsduel", "validationActions": ["Deny"]},
}


@pytest.fixture(scope="module")
def here():
    """Start a cluster with one node of two CPUs, which nobody runs pods on."""
    with cluster(nodes=0) as made:
        made.make_up_node("node-1", 2)
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        words = [f"{name}={value}" for name, value in labels.items()]
        made.kubectl("label", "node", "node-1", *words)
        for space in (SPACE, "small", "ruled"):
            made.kubectl("create", "namespace", space)
        yield made


@pytest.fixture(autouse=True)
def _kubeconfig(here, monkeypatch):
    monkeypatch.setattr(KUBECONFIG, str(here.kubeconfig))


@pytest.fixture
def asked(tmp_path):
    """Return a function that asks for the pods of a run, and returns the sentence that comes of it."""

    def ask(**changes):
        parts = {
            "hosts": {"host1": {}}, "context": "tsduel-test", "namespace": SPACE, "node_selector": {},
            "storage_class": "", "image": "debian:12-slim", "directory": "/tsduel",
            "name": f"tsduel-{abs(hash(tmp_path))}",
            "cpus": 1, "memory_gb": 1, "disk_gb": 2, "wait_s": 8, "estimate_s": 60, "lifetime_s": 7200,
        }  # fmt: skip
        place = K8sPlace.model_validate(parts | changes)
        plans.write(tmp_path / "r", place=place)
        with pytest.raises(UserError) as refused, pods.on_failure(tmp_path / "r", place, {}):
            pods.provide(tmp_path / "r", place)
        # Whatever it was, nothing of it is left.
        assert pods.remains(Cluster("tsduel-test", place.namespace), manifests.labels(place)) == []
        assert not hosts.provisioned(tmp_path / "r")
        return str(refused.value)

    return ask


@contextlib.contextmanager
def saying(here, status):
    """Say of the first pod that appears, once it is scheduled, what a kubelet would."""
    over = threading.Event()

    def say():
        while not over.wait(0.2):
            for pod in here.get("pods", "--namespace", SPACE)["items"]:
                if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                    with contextlib.suppress(AssertionError):
                        here.say("pod", pod["metadata"]["name"], status, SPACE)
                elif "deletionTimestamp" in pod["metadata"]:
                    name = pod["metadata"]["name"]
                    here.kubectl("delete", "pod", name, f"--namespace={SPACE}", "--force", check=False)

    thread = threading.Thread(target=say)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_no_such_namespace(asked):
    """The API server's own words."""
    assert 'namespaces "moon" not found' in asked(namespace="moon")


def test_no_node_with_so_many_cpus(asked):
    """The scheduler's words, and the knob."""
    said = asked(cpus=16)
    assert "1 Insufficient cpu" in said
    assert 'take fewer CPUs than 16, SET="k8s.cpus=..."' in said


def test_no_node_with_such_a_label(asked):
    """NODE_SELECTOR= is named."""
    assert "give another NODE_SELECTOR=" in asked(node_selector={"disktype": "ssd"})


def test_a_claim_that_stays_pending(asked):
    """With the reason, which is the claim's own."""
    said = asked(storage_class="nowhere")
    assert "its claim of 2 GB from STORAGE_CLASS=nowhere stays pending" in said
    assert 'storageclass.storage.k8s.io "nowhere" not found' in said


def test_a_namespace_with_a_quota(asked, here):
    """What is asked, and what is allowed, within seconds."""
    hard = {"hard": {"limits.cpu": "500m", "limits.memory": "10Gi"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "small"}, "spec": hard}
    here.apply(quota)
    begun = time.monotonic()
    said = asked(namespace="small", wait_s=60)
    assert time.monotonic() - begun < 40
    assert "the namespace small has a quota that forbids it" in said
    assert "limited: limits.cpu=500m" in said


def test_a_policy_that_forbids_the_pod(asked, here):
    """Its own message is in the sentence."""
    here.apply(POLICY, BINDING)
    time.sleep(2)  # it is read by the API server a moment later
    said = asked(namespace="ruled", wait_s=60)
    assert "a policy of the cluster forbids it" in said
    assert "no benchmarks here" in said


def test_an_image_that_cannot_be_pulled(asked, here):
    """What the kubelet says of it."""
    waiting = {"reason": "ErrImagePull", "message": "no such host"}
    container = {
        "name": "host",
        "image": "x",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": waiting},
    }
    with saying(here, {"phase": "Pending", "containerStatuses": [container]}):
        said = asked(image="example.test/x", wait_s=60)
    assert "the image example.test/x cannot be pulled (no such host)" in said


def test_no_rights_says_which(here, tmp_path, monkeypatch):
    """The verb and the resource; with the role in docs/ nothing is lacking."""
    here.kubectl("create", "serviceaccount", "me", f"--namespace={SPACE}")
    token = here.kubectl("create", "token", "me", f"--namespace={SPACE}").stdout.strip()
    config = json.loads(here.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setattr(KUBECONFIG, str(tmp_path / "config"))
    mine = Cluster("tsduel-test", SPACE)
    assert set(mine.lacking()) >= {"create jobs.batch", "get pods/exec", "list events"}
    with pytest.raises(UserError, match=f"you may not create jobs.batch in the namespace {SPACE}: ask who"):
        mine.ask("POST", JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}})
    role = str(plans.__file__).replace("tests/plans.py", "docs/kubernetes-rbac.yml")
    here.kubectl("apply", f"--namespace={SPACE}", "--filename", role)
    here.kubectl("create", "rolebinding", "me", f"--namespace={SPACE}", "--role=tsduel", f"--serviceaccount={SPACE}:me")
    assert list(Cluster("tsduel-test", SPACE).lacking()) == []
    # A token that is no more: its account is gone.
    here.kubectl("delete", "serviceaccount", "me", f"--namespace={SPACE}")
    until, said = time.monotonic() + 30, ""  # the API server remembers a token for 10 s
    while not said and time.monotonic() < until:
        time.sleep(1)
        try:
            Cluster("tsduel-test", SPACE).ask("GET", PODS)
        except UserError as refused:
            said = str(refused)
    assert "your credentials are not accepted" in said
