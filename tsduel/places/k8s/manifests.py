"""What is made in the cluster for each host of a run: a Job with one pod, and a network policy."""

import platform
from typing import Any

from tsduel.core.place import K8sPlace

NAME, HOST, OURS = "tsduel/run", "tsduel/host", {"app.kubernetes.io/name": "tsduel"}
CONTAINER = "host"
# Who makes a cluster smaller moves no pod in the middle of a block.
STAYS = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
USER, TMP = 64000, "/tmp"  # noqa: S108 - the pod's own
# Of /tmp, logs, and what a container writes elsewhere.
TMP_GB = 1
# A finished Job, and with it all that it owns, is deleted by the cluster after this time, whatever becomes of us.
KEPT_S = 600
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# The first process waits for the ends of what others have left to it. The run is started beside it.
WAIT = "trap exit TERM; while :; do sleep 5 & wait $!; done"


def labels(place: K8sPlace, host: str = "") -> dict[str, str]:
    """Return the labels of all that a run has in the cluster, or of one host's."""
    return OURS | {NAME: place.name} | ({HOST: host} if host else {})


def job(place: K8sPlace, host: str) -> dict[str, Any]:
    """Return the Job of a host. Its pod is not started again: another would lack what we bring."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": place.job(host), "labels": labels(place, host)},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": place.lifetime_s,
            "ttlSecondsAfterFinished": KEPT_S,
            "template": {
                "metadata": {"labels": labels(place, host), "annotations": STAYS},
                "spec": _pod(place, host),
            },
        },
    }


def policy(place: K8sPlace, host: str, owner: dict[str, Any]) -> dict[str, Any]:
    """Return the policy of a host; it goes with its Job.

    What is measured there reaches nothing else, like the metadata service of its node; a client alone asks servers that
    run already.
    """
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner["name"], "uid": owner["uid"]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": place.job(host), "labels": labels(place, host), "ownerReferences": [reference]},
        "spec": {
            "podSelector": {"matchLabels": labels(place, host)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": [{}] if place.lets_out else [],
        },
    }


def _pod(place: K8sPlace, host: str) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # What is brought there was built for this machine.
        "nodeSelector": {
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": MACHINES.get(platform.machine(), platform.machine()),
        }
        | place.node_selector,
        # One run at a time measures on a machine, whoever's it is.
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": OURS},
                        "namespaceSelector": {},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        },
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(place)],
        "volumes": [{"name": "data", **_disk(place, host)}, {"name": "tmp", "emptyDir": {}}],
    }


def _container(place: K8sPlace) -> dict[str, Any]:
    # Whole CPUs and requests = limits: a node with a static CPU manager gives such a pod CPUs of its own.
    size = {"cpu": str(place.cpus), "memory": f"{place.memory_gb}Gi"}
    # Of the node's disk: what is estimated is asked for, and a version that fills it is evicted at twice of that.
    asked = 0 if place.storage_class else place.disk_gb
    disk, most = ({"ephemeral-storage": f"{size}G"} for size in (asked + TMP_GB, 2 * asked + TMP_GB))
    return {
        "name": CONTAINER,
        "image": place.image,
        "command": ["sh", "-c", WAIT],
        "resources": {"requests": size | disk, "limits": size | most},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "env": [
            {"name": "HOME", "value": TMP},
            # /run is read-only.
            {"name": "TSDUEL_LOCK", "value": f"{place.directory}/tsduel.lock"},
            {"name": "TSDUEL_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "volumeMounts": [{"name": "data", "mountPath": place.directory}, {"name": "tmp", "mountPath": TMP}],
    }


def _disk(place: K8sPlace, host: str) -> dict[str, Any]:
    if not place.storage_class:
        return {"emptyDir": {}}
    # Such a claim belongs to its pod, and goes with it.
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": place.storage_class,
        "resources": {"requests": {"storage": f"{place.disk_gb}G"}},
    }
    return {"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": labels(place, host)}, "spec": claim}}}
