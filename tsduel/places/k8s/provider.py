"""Pods: their size, deadline and price, and how they come to be, are found gone, and go away."""

import math
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tsduel.core import caches
from tsduel.core.place import HourPrice, K8sPlace
from tsduel.core.wording import number_of
from tsduel.places.gcp.rent import LEAST_LIFETIME_S, LIFETIME_FACTOR, plain_name
from tsduel.places.k8s import bring, cluster, pods
from tsduel.places.k8s.settings import K8s
from tsduel.places.provider import Needs, Provider, Write
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import NoConnectionError

# Programs, their copies and the results.
PROGRAMS_GB = 2
# A Job's name is a label of its pods (63 letters), and a claim's begins with it.
LONGEST = 40


def complete(asked: Mapping[str, Any], settings: K8s, needs: Needs) -> K8sPlace:
    """Return the place with context, namespace, name, sizes, lifetime and price."""
    there = cluster.cluster_of(asked)
    needed = needs.estimate.total + needs.estimate.database_bytes
    hours = settings.lifetime_h
    price = HourPrice(hour=settings.price_h * len(asked["hosts"])) if settings.price_h else None
    return K8sPlace.model_validate({
        **asked,
        **settings.model_dump(include={"cpus", "memory_gb", "wait_s"}),
        "context": there.context,
        "namespace": there.namespace,
        "name": f"tsduel-{plain_name(needs.run, LONGEST - 14)}-{secrets.token_hex(3)}",
        "lets_out": needs.deployed,
        "disk_gb": settings.disk_gb or PROGRAMS_GB + math.ceil(needed / 1e9),
        "estimate_s": needs.seconds,
        "lifetime_s": int(hours * 3600) if hours else max(LEAST_LIFETIME_S, LIFETIME_FACTOR * needs.seconds),
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
        worst, usual = place.price.hour * place.lifetime_s / 3600, place.price.hour * place.estimate_s / 3600
        lines.append(f"price     about {usual:.2f} USD, {worst:.2f} at worst ({place.price.hour:.2f} an hour)")
    return lines


def _provide(run_dir: Path, place: K8sPlace, write: Write) -> None:
    with pods.on_failure(run_dir, place, os.environ):
        write(run_dir, pods.provide(run_dir, place), provisioned=True)


def _bring(run_dir: Path, names: Sequence[str]) -> None:
    sys.stderr.write("bringing it to the pods\n")
    bring.prepare(run_dir, caches.directory(os.environ))
    bring.main(run_dir, names)


def _replaced(link: Link, why: str) -> Link:
    try:
        pods.renew(link.run_dir, link.name, why)
    except cluster.ApiError as error:
        if error.passes:
            raise NoConnectionError(str(error)) from None
        raise
    return Link.all(link.run_dir)[link.name]


def _equip(link: Link) -> None:
    """Bring to a pod what it lacks, if it has taken another's place."""
    if link.host.run("test", "-e", f"{link.there}/{bring.BROUGHT}").returncode:
        bring.one(link.run_dir, link.name)


PROVIDER = Provider(
    complete=complete,
    described=described,
    memory_bytes=lambda place: place.memory_gb << 30,
    provide=_provide,
    bring=_bring,
    give_back=pods.give_back,
    why_gone=lambda _, place, wanted: pods.why_gone(place, wanted.values()),
    replaced=_replaced,
    equip=_equip,
)
