"""A real Kubernetes for tests, which ends with them; where it cannot be, the tests are skipped with a sentence."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import parts
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
UNABLE = 3  # what `up` ends with then
MINUTES = 60


@dataclass(frozen=True)
class Cluster:
    """One that runs: ``kubeconfig`` is its admin's."""

    kubeconfig: Path
    name: str

    def kubectl(self, *words: str, given: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Kubernetes' own client as the admin."""
        command = [str(parts.programs() / "kubectl"), "--kubeconfig", str(self.kubeconfig), *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=300)
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done

    def get(self, *words: str) -> Any:
        """Return what kubectl gets."""
        return json.loads(self.kubectl("get", *words, "--output", "json").stdout)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Have these objects."""
        self.kubectl(
            "apply", "--filename", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        )

    def make_up_node(self, name: str, cpus: int) -> None:
        """Have a node that nobody runs pods on: where there are no nodes, the test says what becomes of its pods."""
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        }
        self.apply(node)
        room = {"cpu": str(cpus), "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        well = {"type": "Ready", "status": "True", "reason": "MadeUp"}
        self.say("node", name, {"capacity": room, "allocatable": room, "conditions": [well]})

    def say(self, kind: str, name: str, status: dict[str, Any], namespace: str = "default") -> None:
        """Set what a kubelet would say of a pod, or of its node."""
        patch = json.dumps({"status": status})
        self.kubectl(
            "patch", kind, name, "--namespace", namespace, "--subresource=status", "--type=merge", "--patch", patch
        )

    def make_volume(self, node: str, name: str) -> None:
        """Have a volume on a node's disk, for one claim of the storage class `disk`."""
        (self.kubeconfig.parents[1] / node / "lib/volumes" / name).mkdir(parents=True)
        on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        self.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "disk"},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": "100Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "disk",
                    "local": {"path": f"/var/lib/volumes/{name}"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
                },
            },
        )

    def processes(self, node: str = "") -> dict[int, list[str]]:
        """Return pid (of this machine's numbering) -> command line of all that runs in it, or on one node."""
        found = {}
        for file in (Path("/sys/fs/cgroup/cpu") / self.name / node).rglob("cgroup.procs"):
            for pid in file.read_text().split():
                with contextlib.suppress(OSError):
                    found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        return found

    def kill(self, program: str, node: str = "") -> int:
        """Kill a program of Kubernetes, which starts again in a second; return how many processes that were."""
        pids = [pid for pid, line in self.processes(node).items() if Path(line[0]).name == program]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)


@contextlib.contextmanager
def cluster(nodes: int = 2, cpus: str = "shared") -> Iterator[Cluster]:
    """Start a cluster, and take it down."""
    if not parts.built() and "TSDUEL_TEST_K8S" not in os.environ:
        pytest.skip("Kubernetes is not built yet, which takes many minutes: `make test-k8s` builds it")
    words = [HERE / "up", "--nodes", nodes, "--cpus", cpus, "--minutes", MINUTES, "--owner", os.getpid()]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode == UNABLE:
        pytest.skip(f"no Kubernetes can be here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    kubeconfig = Path(done.stdout.strip().partition("KUBECONFIG=")[2])
    name = kubeconfig.parents[1].name
    try:
        yield Cluster(kubeconfig, name)
    finally:
        subprocess.run([HERE / "down", name], check=True)
