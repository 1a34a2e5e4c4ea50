"""Completes the plan's place: the cluster that a context names, size, deadline and price of the pods."""

import math
import secrets
from collections.abc import Mapping
from typing import Any

from tsduel.core.place import HourPrice, K8sPlace
from tsduel.core.plan import Estimate
from tsduel.core.wording import number_of
from tsduel.places.gcp.rent import LEAST_LIFETIME_S, LIFETIME_FACTOR, plain_name
from tsduel.places.k8s import cluster
from tsduel.places.k8s.settings import K8s

# Programs, their copies and the results.
PROGRAMS_GB = 2
# A Job's name is a label of its pods (63 letters), and a claim's begins with it.
LONGEST = 40


def complete(asked: Mapping[str, Any], settings: K8s, *, run: str, estimate: Estimate, seconds: int) -> K8sPlace:
    """Return the place with context, namespace, name, sizes, lifetime and price; ``seconds``: of the whole run."""
    there = cluster.cluster_of(asked)
    needed = estimate.total + estimate.database_bytes
    hours = settings.lifetime_h
    price = HourPrice(hour=settings.price_h * len(asked["hosts"])) if settings.price_h else None
    return K8sPlace.model_validate({
        **asked,
        **settings.model_dump(include={"cpus", "memory_gb", "wait_s"}),
        "context": there.context,
        "namespace": there.namespace,
        "name": f"tsduel-{plain_name(run, LONGEST - 14)}-{secrets.token_hex(3)}",
        "disk_gb": settings.disk_gb or PROGRAMS_GB + math.ceil(needed / 1e9),
        "estimate_s": seconds,
        "lifetime_s": int(hours * 3600) if hours else max(LEAST_LIFETIME_S, LIFETIME_FACTOR * seconds),
        "price": price,
    })  # fmt: skip


def described(place: K8sPlace) -> list[str]:
    """Return the lines of the plan about the pods."""
    many = f"{len(place.hosts)} pods of " if len(place.hosts) > 1 else "a pod of "
    disk = f"a claim of {place.storage_class}" if place.storage_class else "the node's disk"
    until = f"gone after {place.lifetime_s / 3600:.1f} h at the latest"
    each = f"{number_of(place.cpus, 'CPU')} and {place.memory_gb} GB, {place.disk_gb} GB of {disk}, {place.image}"
    lines = [f"pods      {many}{each}; {place.context}, namespace {place.namespace}; {until}"]
    if place.price:
        worst = place.price.hour * place.lifetime_s / 3600
        expected = place.price.hour * place.estimate_s / 3600
        lines.append(f"price     about {expected:.2f} USD, {worst:.2f} at worst ({place.price.hour:.2f} an hour)")
    return lines
