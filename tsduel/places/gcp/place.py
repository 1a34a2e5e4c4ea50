"""``place`` of plan/experiment.json for TARGET=gcp: whose project, which machine, for how long, at what price."""

from __future__ import annotations

import hashlib
import ipaddress
import math
import re
import secrets
from typing import TYPE_CHECKING, Any

from tsduel.core.errors import UserError
from tsduel.places.gcp import prices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tsduel.places.gcp.settings import Gcp

KNOBS = ("GCP_PROJECT", "SSH_FROM")
PROJECT = re.compile(r"([a-z][a-z0-9.-]*:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
# As in terraform/host.tf.
USER = "tsduel"
DIRECTORY = f"/var/tmp/tsduel-{USER}"  # noqa: S108 - on a machine that has no other user
# The widest network that terraform/variables.tf lets in.
WIDEST_PREFIX = 8

LIFETIME_FACTOR = 2
LEAST_LIFETIME_S = 2 * 3600
# The system, Go, its modules and build cache, and the binaries; measured 6 GB, and a disk that is nearly full is slow.
SYSTEM_GB = 20
# The size of GKE's default disk: a persistent disk's speed goes with its size, so a smaller one is another machine.
LEAST_DISK_GB = 100


def asked(given: Mapping[str, str]) -> dict[str, Any]:
    """Return what the knobs say: ``kind``, ``project``, ``ssh_via`` (public or iap) and ``ssh_source_ranges``."""
    project = given.get("GCP_PROJECT", "")
    if not project:
        raise UserError("TARGET=gcp needs to know who pays: add GCP_PROJECT=your-project-id (`gcloud projects list`)")
    if not PROJECT.fullmatch(project):
        raise UserError(
            f"GCP_PROJECT: {project!r} is no ID of a project (6 to 30 lower-case letters, digits and dashes): "
            "see `gcloud projects list`"
        )
    via, ranges = _ssh_from(given.get("SSH_FROM", ""))
    return {
        "kind": "gcp",
        "project": project,
        "ssh_via": via,
        "ssh_source_ranges": ranges,
        "user": USER,
        "directory": DIRECTORY,
    }


def _ssh_from(text: str) -> tuple[str, list[str]]:
    if text == "iap":
        return "iap", []
    if not text:
        raise UserError(
            "TARGET=gcp needs to know from where SSH is let in: add SSH_FROM=203.0.113.7 (your own public address), "
            "or SSH_FROM=iap for a machine without a public address"
        )
    ranges = []
    for word in text.replace(",", " ").split():
        try:
            network = ipaddress.IPv4Network(word)
        except ValueError:
            raise UserError(
                f"SSH_FROM: {word!r} is no IPv4 address or network; write 203.0.113.7, 203.0.113.0/24 or iap"
            ) from None
        if network.prefixlen < WIDEST_PREFIX:
            raise UserError(
                f"SSH_FROM: {word} would open SSH to the whole internet, or a large part of it; give your own address, "
                "like 203.0.113.7, or iap"
            )
        ranges.append(str(network))
    return "public", ranges


def complete(
    where: Mapping[str, Any], settings: Gcp, *, run: str, disk: Mapping[str, int], seconds: int
) -> dict[str, Any]:
    """Return the place with machine, name, lifetime and price.

    ``disk``: bytes, the plan's ``estimate``; ``seconds``: the estimated time of the whole run.
    """
    lifetime = (
        int(settings.lifetime_h * 3600) if settings.lifetime_h else max(LEAST_LIFETIME_S, LIFETIME_FACTOR * seconds)
    )
    # Twice the database, since a merge writes anew what it reads.
    needed = sum(disk.values()) + disk["database_bytes"]
    place = {
        **where,
        "name": name_of(run),
        "machine": settings.machine,
        "zones": list(settings.zones),
        "spot": settings.spot,
        "image": settings.image,
        "disk_type": settings.disk_type,
        "disk_gb": settings.disk_gb or max(LEAST_DISK_GB, SYSTEM_GB + math.ceil(needed / 1e9)),
        "estimate_s": seconds,
        "lifetime_s": lifetime,
    }
    return {**place, "price": prices.price(place, prices.region_of(settings.zones[0]), settings.price_h)}


def name_of(run: str) -> str:
    """Return a name for everything of this run, which no other run has: two people may give theirs the same name."""
    plain = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    if len(plain) > 38:  # noqa: PLR2004 - with what stands around it, and -ssh or -nat behind it, 63 is the limit
        plain = f"{plain[:29].rstrip('-')}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"
    return f"tsduel-{plain}-{secrets.token_hex(3)}"


def terraform_variables(place: Mapping[str, Any]) -> dict[str, Any]:
    """Return plan/terraform.tfvars.json; what is known at the last moment only is in host/terraform.tfvars.json."""
    return {
        "boot_disk_gb": place["disk_gb"],
        "boot_disk_type": place["disk_type"],
        "image": place["image"],
        "lifetime_s": place["lifetime_s"],
        "machine_type": place["machine"],
        "name": place["name"],
        "project": place["project"],
        "spot": place["spot"],
        "ssh_source_ranges": place["ssh_source_ranges"],
        "ssh_via": place["ssh_via"],
    }
