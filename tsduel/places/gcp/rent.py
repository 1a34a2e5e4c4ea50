"""Prices the machines and asks for agreement before renting: MAX_COST, YES, or an answer on the terminal."""

import hashlib
import math
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.core.place import GcpHost, GcpPlace
from tsduel.places import hosts
from tsduel.places.gcp import messages, prices
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError
from tsduel.places.gcp.settings import ORGANISATION, Gcp
from tsduel.places.provider import Needs

LIFETIME_FACTOR = 2
LEAST_LIFETIME_S = 2 * 3600
# System, Go, its modules and build cache, and binaries take 6 GB; a nearly full disk is slow.
SYSTEM_GB = 20
# The size of GKE's default disk. The speed of a persistent disk depends on its size.
LEAST_DISK_GB = 100


def complete(asked: Mapping[str, Any], settings: Gcp, needs: Needs) -> GcpPlace:
    """Return the place with machines, name, lifetime and price.

    ``asked`` comes from tsduel.places.gcp.place.asked. An image family is replaced by its newest image, so that all
    machines have the same image.
    """
    settings = settings.model_copy(update={"image": _newest(settings.image, asked["project"])})
    lifetime = int((settings.lifetime_h or 0) * 3600) or max(LEAST_LIFETIME_S, LIFETIME_FACTOR * needs.seconds)
    # Twice the database, since a merge writes a copy of what it reads.
    needed = needs.estimate.total + needs.estimate.database_bytes
    parts = {
        **{name: value for name, value in asked.items() if name not in {"each", "spare"}},
        **settings.model_dump(include={"spot", "image", "os_login", "guest_attributes", *ORGANISATION}),
        "hosts": planned_hosts(asked, settings),
        "name": name_of(needs.run),
        "zones": tuple(settings.zones),
        "disk_gb": settings.disk_gb or max(LEAST_DISK_GB, SYSTEM_GB + math.ceil(needed / 1e9)),
        "estimate_s": needs.seconds,
        "lifetime_s": lifetime,
    }
    price = prices.price(parts, prices.region_of(settings.zones[0]), settings.price_h)
    return GcpPlace(**parts, price=price)


def planned_hosts(asked: Mapping[str, Any], settings: Gcp) -> dict[str, GcpHost]:
    """Return the machines to rent by host name: so many as the knobs say, the spare ones last."""
    kind = GcpHost(machine=settings.machine, threads_per_core=settings.threads_per_core, disk_type=settings.disk)
    hosts = [kind] * asked["each"] + [kind.model_copy(update={"spare": True})] * asked["spare"]
    return {f"host{number}": host for number, host in enumerate(hosts, 1)}


def name_of(run: str) -> str:
    """Return a unique name for all resources of this run; two people may use the same run name."""
    # With the prefix, and -host12 behind it, Google allows 63 letters.
    return f"tsduel-{plain_name(run, 38)}-{secrets.token_hex(3)}"


def plain_name(run: str, longest: int) -> str:
    """Return the name of a run in lower-case letters, digits and dashes."""
    plain = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    if len(plain) > longest:
        plain = f"{plain[: longest - 9].rstrip('-')}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"
    return plain


def _newest(image: str, project: str) -> str:
    if "/family/" not in image:
        return image
    owner, path = image.removeprefix("projects/").split("/", 1)
    try:
        return image.rpartition("family/")[0] + str(Compute(owner).get(path)["name"])
    except CloudError as error:
        raise messages.as_user_error(str(error), project) from None


def offer_again(run_dir: Path, place: GcpPlace, environment: Mapping[str, str]) -> None:
    """Ask for agreement again if continuing a run would rent machines again."""
    run = rundir.open_run(run_dir)
    if not hosts.provisioned(run_dir) and not run.json("host/fetched.json"):
        ask([place], environment)


def ask(places: Sequence[GcpPlace], environment: Mapping[str, str]) -> None:
    """Print machines, hours and price, and return if the user agrees; else raise a UserError."""
    for place in places:
        print("\n".join(prices.describe(place)), flush=True)
    worst = sum(place.price.worst for place in places)
    if len(places) > 1:
        print(f"together  at worst {worst:.2f} USD; one after the other", flush=True)
    if worst > (limit := _limit(environment.get("MAX_COST", "").strip())):
        raise UserError(
            f"MAX_COST: it costs {worst:.2f} USD at worst, and MAX_COST allows {limit:.2f}; take fewer machines "
            "(HOSTS=) or a smaller one (gcp.machine), fewer blocks (BLOCKS=), or a shorter life (gcp.lifetime_h), or "
            "raise MAX_COST"
        )
    agreed = environment.get("YES", "").strip()
    if agreed not in {"", "0", "1"}:
        raise UserError(f"YES: {agreed!r} is neither 1 nor 0")
    if agreed == "1":
        return
    if not sys.stdin.isatty():
        raise UserError("there is no terminal on which to agree to this price; add YES=1, and MAX_COST= for a limit")
    if input("Rent it? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise UserError("not rented; nothing was made")


def _limit(text: str) -> float:
    if not text:
        return math.inf
    with suppress(ValueError):
        if 0 <= (limit := float(text)) < math.inf:
            return limit
    raise UserError(f"MAX_COST: {text!r} is no amount of USD; write it like MAX_COST=5")
