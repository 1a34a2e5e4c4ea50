"""Pods as a place, without a cluster: knobs, what is made, and what is brought."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import plans
import pytest
import yaml
from plans import on_a_pod as made

from tsduel.core.errors import UserError
from tsduel.core.plan import Estimate
from tsduel.places import directories, place
from tsduel.places.k8s import bring, cluster, manifests
from tsduel.places.k8s import exec as pod_exec
from tsduel.places.k8s.provider import complete, described
from tsduel.places.k8s.settings import K8s
from tsduel.places.provider import Needs
from tsduel.places.ssh.ssh import Host, NoConnectionError, RefusedError

PROJECT = Path(__file__).resolve().parent.parent
CONFIG = {
    "apiVersion": "v1", "kind": "Config", "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "bench"}},
                 {"name": "there", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}  # fmt: skip


@pytest.fixture
def kubeconfig(tmp_path, monkeypatch):
    """Have a kubeconfig of a cluster that does not answer."""
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(CONFIG))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


class TestKnobs:
    """TARGET=k8s and its knobs."""

    def test_all_have_defaults(self):
        """One pod of the image that is ours by default, wherever the kubeconfig points."""
        asked = place.asked({"TARGET": "k8s"})
        assert (asked["context"], asked["namespace"], asked["image"]) == ("", "", "debian:12-slim")
        assert list(asked["hosts"]) == ["host1"]

    def test_labels_and_numbers(self):
        """Labels have commas between them; a value may be empty."""
        asked = place.asked({"TARGET": "k8s", "HOSTS": "3", "NODE_SELECTOR": "disktype=ssd,example.org/x="})
        assert asked["node_selector"] == {"disktype": "ssd", "example.org/x": ""}
        assert list(asked["hosts"]) == ["host1", "host2", "host3"]

    @pytest.mark.parametrize(
        ("given", "sentence"),
        [
            ({"HOSTS": "none"}, "HOSTS: 'none' is no number of pods"),
            ({"HOSTS": "0"}, "HOSTS: '0' is no number of pods"),
            ({"NODE_SELECTOR": "ssd"}, "NODE_SELECTOR: 'ssd' is no label of nodes"),
            ({"NAMESPACE": "My Space"}, "NAMESPACE: 'My Space' is no name of a namespace"),
            ({"IMAGE": "-x"}, "IMAGE: '-x' is no name of an image"),
            ({"STORAGE_CLASS": "A B"}, "STORAGE_CLASS: 'A B' is no name of a storage class"),
            ({"SPARE_HOSTS": "1"}, "SPARE_HOSTS: a pod that is lost gets another one"),
            ({"SSH_HOST": "me@x"}, "SSH_HOST is for another machine"),
            ({"TARGET": "local", "STORAGE_CLASS": "fast"}, "STORAGE_CLASS is for pods; add TARGET=k8s"),
            ({"TARGET": "ssh", "SSH_HOST": "x", "NODE_SELECTOR": "a=b"}, "NODE_SELECTOR is for pods"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, given, sentence):
        """Each in a sentence that names the knob."""
        with pytest.raises(UserError, match=sentence):
            place.asked({"TARGET": "k8s", **given})


class TestOffer:
    """What the plan has of the pods."""

    def complete(self, settings=None, **given):
        """Return the complete place."""
        asked = place.asked({"TARGET": "k8s", **given})
        estimate = Estimate(database_bytes=3_000_000_000)
        needs = Needs(run="20261124T1-Quick", estimate=estimate, seconds=600)
        return complete(asked, settings or K8s(), needs)

    @pytest.mark.usefixtures("kubeconfig")
    def test_the_context_and_its_namespace_are_fixed(self):
        """A later `kubectl config use-context` does not move a run."""
        where = self.complete()
        assert (where.context, where.namespace) == ("here", "bench")
        assert self.complete(KUBE_CONTEXT="there").namespace == "default"
        assert where.name.startswith("tsduel-20261124t1-quick-")
        assert where.disk_gb == 2 + 6
        with pytest.raises(UserError, match="there is no context 'moon'; there are: here, there"):
            self.complete(KUBE_CONTEXT="moon")

    def test_a_token_of_a_file_has_no_end_of_line(self, kubeconfig, tmp_path):
        """As for kubectl; here the error about it would have had the token."""
        (tmp_path / "token").write_text("secret\n")
        users = [{"name": user["name"], "user": {"tokenFile": str(tmp_path / "token")}} for user in CONFIG["users"]]
        kubeconfig.write_text(json.dumps(CONFIG | {"users": users}))
        headers = cluster.Cluster("here", "bench").signed("GET", "/version", [])[2]
        assert headers["authorization"] == "Bearer secret"

    def test_who_is_nobody_there_has_a_plugin_that_failed(self):
        """The client goes on without what it could not get."""
        said = 'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group ""'
        assert "no credentials came of your kubeconfig" in cluster.Cluster("here", "bench").refusal(403, said)

    def test_of_several_kubeconfigs_the_first_that_names_a_context_counts(self, kubeconfig, tmp_path, monkeypatch):
        """As kubectl takes it."""
        first, last = tmp_path / "first", tmp_path / "last"
        first.write_text(json.dumps(CONFIG | {"current-context": ""}))
        last.write_text(json.dumps(CONFIG | {"current-context": "there"}))
        monkeypatch.setenv("KUBECONFIG", f"{first}:{kubeconfig}:{last}")
        assert self.complete().context == "here"

    @pytest.mark.usefixtures("kubeconfig")
    def test_names_fit_the_longest_label(self):
        """The pod of a Job gets its name as a label."""
        asked = place.asked({"TARGET": "k8s", "HOSTS": "100"})
        where = complete(asked, K8s(), Needs(run="x" * 90, seconds=1))
        assert len(where.job("host100") + "-data-xxxxx") <= 63

    @pytest.mark.usefixtures("kubeconfig")
    def test_a_price_is_shown_if_the_user_gives_one(self):
        """Of all pods together."""
        assert not any("USD" in line for line in described(self.complete()))
        (_, price) = described(self.complete(K8s(price_h=0.3), HOSTS="2"))
        assert price == "price     about 0.10 USD, 1.20 at worst (0.60 an hour)"

    def test_no_kubeconfig_is_a_sentence(self, kubeconfig):
        """As is one that is no YAML."""
        kubeconfig.unlink()
        with pytest.raises(UserError, match="no cluster is known here"):
            self.complete()


class TestManifests:
    """What is made in the cluster."""

    def test_the_pod_is_restricted_and_has_whole_cpus(self):
        """Requests = limits, so that a static CPU manager gives it CPUs; nothing is allowed that need not be."""
        job = manifests.job(made(), "host1")
        spec = job["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        assert [requests[what] for what in ("cpu", "memory")] == [limits[what] for what in ("cpu", "memory")]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["nodeSelector"]["disk"] == "ssd"
        assert not spec["automountServiceAccountToken"]

    def test_the_cluster_ends_it_by_itself(self):
        """The deadline of the plan, and everything else is owned by the Job, or by its pod."""
        where = made(storage_class="fast")
        job = manifests.job(where, "host1")
        assert job["spec"]["activeDeadlineSeconds"] == 7200
        assert job["spec"]["ttlSecondsAfterFinished"] > 0
        limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        assert limits["ephemeral-storage"] == "1G"  # its data are on the claim
        policy = manifests.policy(where, "host1", {"name": "j", "uid": "u"})
        assert policy["metadata"]["ownerReferences"][0]["uid"] == "u"
        volume = job["spec"]["template"]["spec"]["volumes"][0]
        assert volume["ephemeral"]["volumeClaimTemplate"]["spec"]["storageClassName"] == "fast"

    def test_what_is_measured_reaches_nothing_and_fills_no_node(self):
        """Not the metadata service of the node, nor more of its disk than twice what was estimated."""
        spec = manifests.policy(made(), "host1", {"name": "j", "uid": "u"})["spec"]
        assert (spec["policyTypes"], spec["ingress"], spec["egress"]) == (["Ingress", "Egress"], [], [])
        # Of servers that run already the client alone is in the pod.
        asking = manifests.policy(made(lets_out=True), "host1", {"name": "j", "uid": "u"})["spec"]
        assert (asking["ingress"], asking["egress"]) == ([], [{}])
        pod = manifests.job(made(), "host1")["spec"]["template"]["spec"]
        sizes = [pod["containers"][0]["resources"][what]["ephemeral-storage"] for what in ("requests", "limits")]
        assert sizes == ["6G", "11G"]

    def test_the_role_is_what_the_program_asks_for(self):
        """No right is missing in docs/kubernetes-rbac.yml, and none too many."""
        role = yaml.safe_load((PROJECT / cluster.RULES).read_text())
        rules = {
            (group, name, tuple(r["verbs"]))
            for r in role["rules"]
            for group in r["apiGroups"]
            for name in r["resources"]
        }
        assert rules == set(cluster.RIGHTS)


class TestRefusals:
    """What the API server says, in a sentence."""

    @pytest.mark.parametrize(
        ("status", "text", "sentence"),
        [
            (403, 'jobs.batch is forbidden: User "me" cannot create resource "jobs" in API group "batch" in the name',
             "k8s: here: you may not create jobs.batch in the namespace bench: ask who administers it for the role in"),
            (403, 'pods "x" is forbidden: exceeded quota: small, requested: cpu=2, used: cpu=0, limited: cpu=1',
             "has a quota that forbids it"),
            (403, 'pods "x" is forbidden: violates PodSecurity "restricted"', "a policy of the cluster forbids it"),
            (401, "Unauthorized", "your credentials are not accepted"),
            (0, "connection refused", "the API server does not answer"),
            (404, 'namespaces "bench" not found', 'k8s: here: namespaces "bench" not found'),
        ],
    )  # fmt: skip
    def test_answers(self, status, text, sentence):
        """Which right, which quota, which policy."""
        assert sentence in cluster.Cluster("here", "bench").refusal(status, text)

    @pytest.mark.usefixtures("kubeconfig")
    def test_a_server_that_does_not_answer(self):
        """It is no stack trace."""
        with pytest.raises(UserError, match="the API server does not answer"):
            cluster.Cluster("here", "bench").ask("GET", "/version")

    def test_a_handshake_that_is_refused(self):
        """The body of the answer is what is said."""
        body = {"message": 'pods "p" not found'}
        reason = f"Handshake status 404 Not Found -+-+- {{'a': 'b'}} -+-+- {json.dumps(body).encode()}"
        assert pod_exec._refusal(cluster.Cluster("here", "bench"), reason) == 'k8s: here: pods "p" not found'

    def test_no_connection_has_the_exit_code_of_ssh(self, kubeconfig):
        """So that all that runs commands there needs no second way."""
        host = Host("p", through=("-m", "tsduel.places.k8s.exec", "here", "bench", "p"))
        done = subprocess.run(
            host.command("true"), env={"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(PROJECT)}, cwd="/",
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 255, done.stderr
        assert isinstance(host.failure(done.stderr), NoConnectionError)
        assert isinstance(host.failure("refused: k8s: here: log in again"), RefusedError)
        assert "Traceback" not in done.stderr
        assert host.command("a", "b c")[0] == sys.executable


class TestBring:
    """What goes to a pod."""

    @pytest.mark.parametrize("name", ["cache", "Übung", 'a "b" \\ c', "日本"])
    def test_paths_of_records_are_those_of_the_pod(self, tmp_path, name):
        """What was built into the cache here lies in the cache there, and its record says so, whatever its name."""
        run_dir, cache = tmp_path / "r", tmp_path / name
        plan = plans.write(run_dir, place=made())
        program = cache / "variants/0123/binary"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh")
        (program.parent / "build.json").write_text("{}")
        (run_dir / "build").mkdir()
        (run_dir / "host").mkdir()
        record = {"components": [{"role": "server", "binary": str(program)}]}
        (run_dir / "build/baseline.json").write_text(json.dumps(record))
        bring.prepare(run_dir, cache)
        with tarfile.open(run_dir / bring.PROGRAMS) as archive:
            names = archive.getnames()
        assert {"cache/variants/0123/binary", "cache/variants/0123/build.json"} < set(names)
        # A pod that has it has all.
        assert names[-1] == "runs/r/brought"
        there = json.loads((run_dir / "host/host1/build/baseline.json").read_text())
        assert there["components"][0]["binary"] == "/tsduel/cache/variants/0123/binary"
        assert directories.on_host(plan, "host1")["cache_dir"] == "/tsduel/cache"

    def test_blocks_that_are_home_go_back(self, tmp_path):
        """A new pod does not run them again; what was cut short is not brought."""
        for name in ("host1/001/block.json", "host1/002.partial/x", "host1.json", "host1/events.jsonl", "host2/001/x"):
            (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "raw" / name).write_text(name)
        (tmp_path / "host/host1").mkdir(parents=True)
        with bring._of_home(tmp_path, "host1") as packed, tarfile.open(fileobj=packed) as archive:
            files = {entry.name for entry in archive if entry.isfile()}
        assert files == {"host1/001/block.json", "host1.json", "host1/events.jsonl"}
