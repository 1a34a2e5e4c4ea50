"""`make reap TARGET=k8s` lists tsduel's Jobs that are over or past their deadline; with YES=1 it deletes them."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tsduel.places.k8s import cluster, manifests, place, pods


def main() -> int:
    """List, and with YES=1 delete; the exit code is 1 while some of it is left."""
    here = cluster.cluster_of(place.asked(os.environ))
    agreed, left = os.environ.get("YES", "").strip() == "1", 0
    for run, reason in overdue(here, datetime.now(UTC)).items():
        parts = pods.remains(here, manifests.OURS | {manifests.NAME: run})
        print(f"{run}: {reason}: {', '.join(parts)}")
        if agreed:
            pods.sweep(here, run)
            parts = pods.await_none(here, run)
        left += bool(parts)
    if not left:
        print(f"nothing of tsduel's is left over in {here.namespace} of {here.context}")
    elif not agreed:
        words = f"KUBE_CONTEXT={here.context} NAMESPACE={here.namespace}"
        print(f"to delete all of this: make reap TARGET=k8s {words} YES=1")
    return 1 if left else 0


def overdue(here: cluster.Cluster, now: datetime) -> dict[str, str]:
    """Return name and reason of each run of which all Jobs are over; the cluster deletes them a while later."""
    runs: dict[str, list[str]] = {}
    for job in here.all(cluster.JOBS, manifests.OURS):
        runs.setdefault(job["metadata"]["labels"].get(manifests.NAME, "?"), []).append(_why_over(job, now))
    return {run: reasons[0] for run, reasons in runs.items() if all(reasons)}


def _why_over(job: Mapping[str, Any], now: datetime) -> str:
    for condition in job.get("status", {}).get("conditions", []):
        if condition["type"] in {"Failed", "Complete"} and condition["status"] == "True":
            return f"its Job has ended ({condition.get('reason', condition['type'])})"
    age = (now - datetime.fromisoformat(job["metadata"]["creationTimestamp"])).total_seconds()
    return "past its deadline" if age > job["spec"].get("activeDeadlineSeconds", age) else ""
