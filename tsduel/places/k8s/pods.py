"""The pods of a run: made, waited for, found gone, made again, and deleted."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tsduel.core import rundir
from tsduel.core.children import mind_signals
from tsduel.core.errors import UserError
from tsduel.core.place import K8sPlace
from tsduel.places import hosts
from tsduel.places.k8s import manifests
from tsduel.places.k8s.cluster import CLAIMS, JOBS, PODS, POLICIES, ApiError, Cluster

PAUSE_S = 1.0
GONE_S = 120.0
# Why a container does not start; what comes of itself, like ContainerCreating, is not here.
IMAGE_REASONS = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
START_REASONS = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
LATE = "DeadlineExceeded"
LATE_SENTENCE = 'has reached its deadline: a longer life of a new run is SET="k8s.lifetime_h=4"'
_renewing = threading.Lock()


def say(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(f"k8s: {text}\n")  # whole: pods are told of by a thread each
    sys.stderr.flush()


def cluster_of(place: K8sPlace) -> Cluster:
    """Return the cluster of a run."""
    return Cluster(place.context, place.namespace)


@contextmanager
def on_failure(run_dir: Path, place: K8sPlace, environment: Mapping[str, str]) -> Iterator[None]:
    """Give new pods back if the body fails or is interrupted, unless KEEP=1. Pods that may run blocks stay."""
    mind_signals()
    again = bool(hosts.known(run_dir)) or environment.get("KEEP", "").strip() == "1"
    try:
        yield
    except BaseException as error:
        if again:
            raise
        fate = ""
        try:
            give_back(run_dir, place)
        except (UserError, OSError) as left:
            fate = f"\n{left}"
        if isinstance(error, UserError | KeyboardInterrupt):
            raise UserError(f"{str(error) or 'k8s: interrupted'}{fate}") from None
        sys.stderr.write(fate and f"{fate.strip()}\n")
        raise


def provide(run_dir: Path, place: K8sPlace) -> dict[str, dict[str, Any]]:
    """Return ``hosts`` of host/outputs.json for pods that run; pods that the run has already stay.

    A run that goes on does so without a pod that cannot be had again.
    """
    cluster, recorded = cluster_of(place), hosts.known(run_dir)
    # Recorded before the first of them is there, so that a kill from now on leaves nothing unknown.
    hosts.write(run_dir, recorded, provisioned=True)
    made, refused = dict[str, dict[str, Any]](), dict[str, UserError]()
    leaving = threading.Event()
    with ThreadPoolExecutor(len(place.hosts)) as pool:
        try:
            waits = {name: pool.submit(_provided, cluster, place, name, leaving) for name in place.hosts}
            futures.wait(waits.values())  # an interruption comes here, and not where the pool joins its threads
        except BaseException:
            leaving.set()  # from now on no thread makes a Job
            raise
    for name, wait in waits.items():
        try:
            made[name] = wait.result()
        except UserError as error:
            refused[name] = error
    if refused and (not recorded or not made):
        raise UserError("\n".join(dict.fromkeys(map(str, refused.values()))))
    for name, why in refused.items():
        say(f"{why}; the others go on without {name}")
    if "@" not in place.image:
        images = ", ".join(dict.fromkeys(host["image"] for host in made.values()))
        say(f"{place.image} is {images} now, and may be another one later; to take the same again, name it with IMAGE=")
    return recorded | made


def _provided(cluster: Cluster, place: K8sPlace, name: str, leaving: threading.Event) -> dict[str, Any]:
    return _wait(cluster, place, name, _have(cluster, place, name), leaving)


def renew(run_dir: Path, name: str, why: str) -> None:
    """Have another pod in place of a host's that is gone, and record it."""
    place = rundir.open_run(run_dir).plan.place
    assert isinstance(place, K8sPlace)  # noqa: S101 - for mypy
    say(f"{name}: {why}; another pod takes its place")
    cluster = cluster_of(place)
    ended = (cluster.find(f"{JOBS}/{place.job(name)}") or {}).get("status", {}).get("conditions", [])
    if any(each.get("reason") == LATE for each in ended):  # whoever types the command again agrees to as long anew
        raise UserError(f"k8s: {name}: its pod {LATE_SENTENCE}")
    made = _provided(cluster, place, name, threading.Event())
    with _renewing:  # each host has a thread that attends it
        hosts.write(run_dir, hosts.known(run_dir) | {name: made}, provisioned=True)


def _have(cluster: Cluster, place: K8sPlace, name: str) -> str:
    """Have a Job of this host whose pod is not over, and the policy that belongs to it; return the Job's uid."""
    path = f"{JOBS}/{place.job(name)}"
    job = cluster.find(path)
    pods = _pods(cluster, place, name, job["metadata"]["uid"]) if job else []
    if job and (_is_over(job) or (pods and all(map(over, pods)))):
        cluster.delete(path)
        _await_gone(cluster, place, name)
        job = None
    if job is None:
        job = cluster.ask("POST", JOBS, manifests.job(place, name))
    policy = cluster.find(f"{POLICIES}/{place.job(name)}")
    if policy and not _is_of(policy, job["metadata"]["uid"]):
        # That of a Job before it, with which the cluster is about to delete it.
        cluster.delete(f"{POLICIES}/{place.job(name)}")
        policy = None
    if not policy:
        cluster.ask("POST", POLICIES, manifests.policy(place, name, job["metadata"]))
    return str(job["metadata"]["uid"])


def _is_over(job: Mapping[str, Any]) -> bool:
    ended = any(each["type"] in {"Failed", "Complete"} for each in job.get("status", {}).get("conditions", []))
    return ended or "deletionTimestamp" in job["metadata"]


def _pods(cluster: Cluster, place: K8sPlace, name: str, job: str) -> list[dict[str, Any]]:
    """Return the pods of a Job; those of one before it, on a node that does not answer, may still be there."""
    return [pod for pod in cluster.all(PODS, manifests.labels(place, name)) if _is_of(pod, job)]


def _is_of(owned: Mapping[str, Any], job: str) -> bool:
    return job in {owner["uid"] for owner in owned["metadata"].get("ownerReferences", [])}


def over(pod: Mapping[str, Any]) -> str:
    """Return why a pod runs no more, or ends; "" if it runs or will."""
    status, metadata = pod.get("status", {}), pod["metadata"]
    name, node = metadata["name"], pod["spec"].get("nodeName", "no node")
    states = [each.get("state", {}).get("terminated") or {} for each in status.get("containerStatuses", [])]
    reasons = {state.get("reason") for state in states} | {status.get("reason")}
    causes = {each.get("reason") for each in status.get("conditions", []) if each["type"] == "DisruptionTarget"}
    text = " ".join(str(status.get("message", "")).split())
    sentences = {
        "OOMKilled": 'was killed for its memory (OOMKilled): a new run with more has SET="k8s.memory_gb=8", or take a '
        "smaller workload.scale",
        "Evicted": f"was evicted from {node} ({text}): "
        + ('a new run with more has SET="k8s.disk_gb=20"' if "exceeds" in text else "the node lacks memory or disk"),
        "PreemptionByScheduler": f"was preempted on {node} by a pod of a higher priority",
        LATE: LATE_SENTENCE,
    }
    if why := next((why for reason, why in sentences.items() if reason in reasons | causes), ""):
        return f"the pod {name} {why}"
    if status.get("phase") in {"Failed", "Succeeded"}:
        return f"the pod {name} on {node} has ended ({', '.join(filter(None, map(str, reasons - {None}))) or 'killed'})"
    if "deletionTimestamp" in metadata:
        return f"the pod {name} on {node} is being deleted ({', '.join(causes - {None}) or 'by somebody'})"
    return ""


def _wait(cluster: Cluster, place: K8sPlace, name: str, job: str, leaving: threading.Event) -> dict[str, Any]:
    """Wait until the pod of a host's Job runs; a UserError says why it does not."""
    deadline, said = time.monotonic() + place.wait_s, ""
    while True:
        pods = _pods(cluster, place, name, job)
        if why := next(filter(None, map(over, pods)), ""):
            raise UserError(f"k8s: {name}: {why}")
        if not pods:
            job = _have(cluster, place, name)  # it may be one whose pod was lost a moment ago
        why = _why_waiting(cluster, place, name, pods[0]) if pods else _why_no_pod(cluster, place, name)
        if pods and not why:
            return _outputs(place, pods[0])
        if time.monotonic() > deadline:
            raise UserError(f"k8s: {name} has no pod that runs after {place.wait_s} s: {why}")
        if why != said:
            say(f"{name}: waiting: {why}")
            said = why
        if leaving.wait(PAUSE_S):
            raise UserError(f"k8s: {name}: interrupted")


def _why_no_pod(cluster: Cluster, place: K8sPlace, name: str) -> str:
    """Return why a Job has no pod yet; a UserError if it will not get one."""
    for text in reversed(cluster.events(place.job(name))):
        if "forbidden" in text or "denied the request" in text:  # by the API server, or by a webhook
            raise ApiError(cluster.refusal(403, text.removeprefix("Error creating: ")), 403)
    return "its Job has no pod yet"


def _why_waiting(cluster: Cluster, place: K8sPlace, name: str, pod: Mapping[str, Any]) -> str:
    """Return why a pod does not run yet, "" if it does; a UserError if it will not."""
    status = pod.get("status", {})
    for each in filter(_is_ours, status.get("containerStatuses", [])):
        waiting = each.get("state", {}).get("waiting") or {}
        reason, text = waiting.get("reason", ""), " ".join(str(waiting.get("message", "")).split())
        if reason in IMAGE_REASONS:
            raise UserError(
                f"k8s: the image {place.image} cannot be pulled ({text or reason}): name another with IMAGE=, one that "
                "the nodes can reach"
            )
        if reason in START_REASONS:
            raise UserError(f"k8s: the pod of {name} cannot start ({text or reason}): IMAGE= has sh, bash and tar?")
        if "running" in each.get("state", {}):
            return ""
    for each in status.get("conditions", []):
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return _why_no_node(cluster, place, pod, " ".join(str(each.get("message", "")).split()))
    return f"its pod is started on {pod['spec'].get('nodeName', 'a node')}"


def _why_no_node(cluster: Cluster, place: K8sPlace, pod: Mapping[str, Any], text: str) -> str:
    if place.storage_class and ("PersistentVolumeClaim" in text or "persistent volumes" in text or "claim" in text):
        claim = f"{pod['metadata']['name']}-data"
        last = (cluster.events(claim) or [""])[-1]
        return (
            f"its claim of {place.disk_gb} GB from STORAGE_CLASS={place.storage_class} stays pending "
            f"({last or text}): `kubectl get storageclass` shows the classes; without STORAGE_CLASS= it is the node's "
            "disk"
        )
    remedy = "give another NODE_SELECTOR="
    if "Insufficient cpu" in text:
        remedy = f'take fewer CPUs than {place.cpus}, SET="k8s.cpus=...", or larger nodes'
    elif "Insufficient memory" in text:
        remedy = f'take less memory than {place.memory_gb} GB, SET="k8s.memory_gb=...", or larger nodes'
    elif "anti-affinity" in text:
        remedy = f"a node runs one pod of tsduel: wait for other runs, or take fewer pods than {len(place.hosts)}"
    return f"no node takes its pod ({text}): {remedy}"


def _is_ours(status: Mapping[str, Any]) -> bool:
    """Return whether a status is of our container: a namespace may add others."""
    return status.get("name") == manifests.CONTAINER


def _outputs(place: K8sPlace, pod: Mapping[str, Any]) -> dict[str, Any]:
    name = pod["metadata"]["name"]
    # With its digest, whatever tag was asked for: docker.io/library/debian@sha256:...
    ours = next(filter(_is_ours, pod["status"]["containerStatuses"]))
    image = ours.get("imageID", "").removeprefix("docker-pullable://")
    through = ["-m", "tsduel.places.k8s.exec", place.context, place.namespace, name]
    login = ["kubectl", f"--context={place.context}", f"--namespace={place.namespace}", "exec", "-it", name, "--"]
    return {
        "address": name,
        "node": pod["spec"]["nodeName"],
        "image": image,
        "through": through,
        "login": [*login, "sh", "-c"],
    }


def why_gone(place: K8sPlace, pods: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence if all pods of these hosts are gone, else ""."""
    cluster, reasons = cluster_of(place), []
    for host in pods:
        pod = cluster.find(f"{PODS}/{host['address']}")
        gone = f"the pod {host['address']} on {host['node']} is gone (deleted, or its node is)"
        reasons.append(over(pod) if pod else gone)
    return "; ".join(dict.fromkeys(reasons)) if all(reasons) else ""


def give_back(run_dir: Path, place: K8sPlace) -> None:
    """Delete all that a run has in its cluster, and see that nothing is left; a UserError lists what is."""
    cluster = cluster_of(place)
    try:
        sweep(cluster, place.name)
        left = await_none(cluster, place.name)
    except (UserError, KeyboardInterrupt) as error:
        hours = place.lifetime_s / 3600
        raise UserError(
            f"{str(error) or 'k8s: interrupted'}\nk8s: it is not known whether all of {place.name} is gone. Then: make "
            f"destroy RUN={run_dir.name}; the cluster deletes it {hours:.1f} h after its start"
        ) from None
    if left:
        raise UserError(f"k8s: this is left of {place.name} in {place.namespace}: {', '.join(left)}")
    (run_dir / "host" / "inventory.json").unlink(missing_ok=True)
    hosts.write(run_dir, {}, provisioned=False)
    say(f"nothing of {place.name} is left in {place.namespace}")


def sweep(cluster: Cluster, run: str) -> None:
    """Delete the Jobs of a run, and what they own."""
    for job in cluster.all(JOBS, manifests.OURS | {manifests.NAME: run}):
        cluster.delete(f"{JOBS}/{job['metadata']['name']}")


def await_none(cluster: Cluster, run: str) -> list[str]:
    """Wait until nothing of a run is left; return what stays."""
    labels, deadline = manifests.OURS | {manifests.NAME: run}, time.monotonic() + GONE_S
    while left := remains(cluster, labels):
        if time.monotonic() > deadline:
            break
        time.sleep(PAUSE_S)
    return left


def remains(cluster: Cluster, labels: Mapping[str, str]) -> list[str]:
    """Return kind and name of all objects with these labels."""
    kinds = {"job": JOBS, "pod": PODS, "networkpolicy": POLICIES, "persistentvolumeclaim": CLAIMS}
    return [f"{kind}/{each['metadata']['name']}" for kind, path in kinds.items() for each in cluster.all(path, labels)]


def _await_gone(cluster: Cluster, place: K8sPlace, name: str) -> None:
    """Wait until a name is free again. The pod of it may stay, if its node does not answer."""
    deadline = time.monotonic() + GONE_S
    while left := [each for each in remains(cluster, manifests.labels(place, name)) if not each.startswith("pod/")]:
        if time.monotonic() > deadline:
            raise UserError(f"k8s: {', '.join(left)} of {name} cannot be deleted, so no other pod takes its place")
        time.sleep(PAUSE_S)
