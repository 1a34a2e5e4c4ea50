"""Machines are priced, and nothing is rented that nobody agreed to: MAX_COST, YES, or an answer on the terminal."""

import hashlib
import math
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.core.plan import Estimate, GcpHost, GcpPlace
from tsduel.places import hosts
from tsduel.places.gcp import messages, prices
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError
from tsduel.places.gcp.settings import Gcp

LIFETIME_FACTOR = 2
LEAST_LIFETIME_S = 2 * 3600
# The system, Go, its modules and build cache, and the binaries; measured 6 GB, and a disk that is nearly full is slow.
SYSTEM_GB = 20
# The size of GKE's default disk: a persistent disk's speed goes with its size, so a smaller one is another machine.
LEAST_DISK_GB = 100


def complete(asked: Mapping[str, Any], cells: Sequence[Gcp], *, run: str, estimate: Estimate, seconds: int) -> GcpPlace:
    """Return the place with machines, name, lifetime and price.

    ``asked`` is what tsduel.places.gcp.place says, ``cells`` the settings of each cell, which differ in the machine at
    most; ``seconds``: the estimated time of the whole run.
    """
    settings, hosts = cells[0], planned_hosts(asked, cells)
    lifetime = (
        int(settings.lifetime_h * 3600) if settings.lifetime_h else max(LEAST_LIFETIME_S, LIFETIME_FACTOR * seconds)
    )
    # Twice the database, since a merge writes anew what it reads.
    needed = estimate.total + estimate.database_bytes
    parts = {
        **{name: value for name, value in asked.items() if name not in {"each", "spare"}},
        "hosts": hosts,
        "name": name_of(run),
        "zones": tuple(settings.zones),
        "spot": settings.spot,
        "image": settings.image,
        "os_login": settings.os_login,
        "disk_gb": settings.disk_gb or max(LEAST_DISK_GB, SYSTEM_GB + math.ceil(needed / 1e9)),
        "estimate_s": seconds,
        "lifetime_s": lifetime,
    }
    price = prices.price(parts, prices.region_of(settings.zones[0]), settings.price_h)
    return GcpPlace(**parts, price=price)


def planned_hosts(asked: Mapping[str, Any], cells: Sequence[Gcp]) -> dict[str, GcpHost]:
    """Return what is rented, by the hosts' names: as many of each kind as was asked for, the spare ones last."""
    kinds = dict.fromkeys(
        GcpHost(machine=one.machine, threads_per_core=one.threads_per_core, disk_type=one.disk) for one in cells
    )
    hosts = [kind for kind in kinds for _ in range(asked["each"])]
    hosts += [kind.model_copy(update={"spare": True}) for kind in kinds for _ in range(asked["spare"])]
    return {f"host{number}": host for number, host in enumerate(hosts, 1)}


def name_of(run: str) -> str:
    """Return a name for everything of this run, which no other run has: two people may give theirs the same name."""
    plain = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    if len(plain) > 38:  # noqa: PLR2004 - with what stands around it, and -ssh, -nat or -between behind it, 63 is the limit
        plain = f"{plain[:29].rstrip('-')}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"
    return f"tsduel-{plain}-{secrets.token_hex(3)}"


def offer(
    asked: Mapping[str, Any],
    cells: Sequence[Gcp],
    environment: Mapping[str, str],
    *,
    run: str,
    estimate: Estimate,
    seconds: int,
) -> GcpPlace:
    """Return the complete place, once the user has agreed to its price; see `complete`.

    Of a family of images it has the newest one by name: what is resolved in the plan is the same for all that follows.
    """
    exact = {"image": _newest(cells[0].image, asked["project"])}
    place = complete(
        asked, [one.model_copy(update=exact) for one in cells], run=run, estimate=estimate, seconds=seconds
    )
    ask(place, environment)
    return place


def _newest(image: str, project: str) -> str:
    if "/family/" not in image:
        return image
    owner, path = image.removeprefix("projects/").split("/", 1)
    try:
        return image.rpartition("family/")[0] + str(Compute(owner).get(path)["name"])
    except CloudError as error:
        raise messages.as_user_error(str(error), project) from None


def offer_again(run_dir: Path, place: GcpPlace, environment: Mapping[str, str]) -> None:
    """Have the user agree once more where a run that is gone on with would rent a machine again."""
    run = rundir.open_run(run_dir)
    if not hosts.provisioned(run_dir) and not run.json("host/fetched.json"):
        ask(place, environment)


def ask(place: GcpPlace, environment: Mapping[str, str]) -> None:
    """Print machines, hours and price of all, and return if the user agrees; else a UserError."""
    for line in prices.describe(place):
        print(line, flush=True)
    worst = place.price.worst
    limit = _limit(environment.get("MAX_COST", "").strip())
    if worst > limit:
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
        raise UserError("nobody is there to agree to this price (no terminal); add YES=1, and MAX_COST= for a limit")
    if input("Rent it? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise UserError("not rented; nothing was made")


def _limit(text: str) -> float:
    if not text:
        return math.inf
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise UserError(f"MAX_COST: {text!r} is no amount of USD; write it like MAX_COST=5")
    return limit
