"""The Kubernetes of the tests is a real one: pods run, answer and reach each other, and nothing of it is left."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from cluster import cluster

PATIENCE_S = 60.0
SPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "strict", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
}


def pod(name: str, node: str, *, script: str = "sleep 1000", **security: object) -> dict:
    """Return a pod of the restricted standard, with a whole CPU."""
    container = {
        "name": "main",
        "image": "debian:12-slim",
        "command": ["bash", "-c", script],
        "resources": {kind: {"cpu": "1", "memory": "100Mi"} for kind in ("requests", "limits")},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "strict"},
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "fsGroup": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            }
            | security,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }


def left(name: str) -> list[str]:
    """Return what this machine has of a cluster: mounts, links, cgroups, files and processes."""
    links = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in (links + Path("/proc/self/mounts").read_text()).splitlines() if name in line]
    found = [*Path("/sys/fs/cgroup").glob(f"*/{name}"), *(Path(__file__).parents[2] / ".cache/k8s").glob(name)]
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"/{name}" in command.read_text():
                found.append(command)
        except OSError:
            continue
    return [*lines, *map(str, found)]


@pytest.mark.slow
@pytest.mark.cluster
def test_restricted_pods_run_on_two_nodes_and_nothing_is_left():
    """Each has its CPU and its disk, says what it is asked, and reaches the other; the end of all is the end."""
    with cluster(cpus="exclusive") as here:
        here.apply(SPACE, pod("one", "node-1", script="echo begun; sleep 1000"), pod("two", "node-2"))
        here.kubectl("wait", "--for=condition=Ready", "--timeout=100s", "--namespace=strict", "pod/one", "pod/two")

        def inside(script: str) -> str:
            done = here.kubectl("exec", "--namespace=strict", "one", "--", "bash", "-c", script, check=False)
            return done.stdout + done.stderr

        assert inside("echo $UID; echo 5 >/data/x; cat /data/x; nproc; cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us") == (
            "1000\n5\n1\n100000\n"
        )
        assert "Read-only file system" in inside("touch /x")
        assert here.kubectl("logs", "--namespace=strict", "one").stdout == "begun\n"
        refused = here.kubectl(
            "apply", "--filename=-", given=json.dumps(pod("root", "node-1", runAsNonRoot=False)), check=False
        )
        assert 'violates PodSecurity "restricted' in refused.stderr
        address = here.get("pod/two", "--namespace=strict")["status"]["podIP"]
        # Nothing listens there, and that is what its node says.
        assert "refused" in inside(f"echo >/dev/tcp/{address}/9")
        assert here.kill("kubelet", "node-1") == 1
        here.kubectl("wait", "--for=condition=Ready", "--timeout=100s", "node/node-1")
        until = time.monotonic() + PATIENCE_S
        while inside("cat /data/x") != "5\n":
            assert time.monotonic() < until
            time.sleep(0.5)
        assert left(here.name)
    assert left(here.name) == []
