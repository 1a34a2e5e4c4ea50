"""What a cluster refuses, each in a sentence with what to do: the API server, scheduler and controllers are real ones.

The node is made up; what kubelets say of a pod is in test_place.py.
"""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        ({"namespace": "moon"}, ['namespaces "moon" not found']),
        ({"cpus": 16}, ["1 Insufficient cpu", 'take fewer CPUs than 16, SET="k8s.cpus=...", or larger nodes']),
        ({"node_selector": {"disktype": "ssd"}}, ["give another NODE_SELECTOR="]),
        (
            {"storage_class": "nowhere"},
            [
                "its claim of 2 GB from STORAGE_CLASS=nowhere stays pending",
                'storageclass.storage.k8s.io "nowhere" not found',
            ],
        ),
    ],
)
def test_what_the_cluster_has_not(asked, changes, sentences):
    """The words of API server, scheduler and claim, and the knob."""
    said = asked(**changes)
    assert [sentence for sentence in sentences if sentence not in said] == []


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
