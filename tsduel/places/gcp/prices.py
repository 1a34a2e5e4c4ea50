"""What the machines cost, by the dated list prices in terraform/prices.csv."""

import csv
from collections.abc import Mapping
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.place import GcpPlace, Price
from tsduel.core.project import PROJECT

TABLE = PROJECT / "terraform" / "prices.csv"
HOURS_A_MONTH = 730
# What a machine fetches (packages, Go, modules, sources; through the NAT, if it has no public address), and what comes
# home from it: more than has been seen, in GiB.
FETCHED_GIB, SENT_GIB = 6, 1


def region_of(zone: str) -> str:
    """Return us-central1 for us-central1-a."""
    return zone.rpartition("-")[0]


def look_up(item: str, region: str) -> tuple[float, str]:
    """Return the list price in USD of an hour (of a GB for a disk, of a GiB moved) and the month of its look-up."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["item"] == item and (row["regions"] == "*" or region in row["regions"].split()):
                hours = {"hour": 1, "GiB": 1, "GB-month": HOURS_A_MONTH}[row["unit"]]
                return float(row["usd"]) / hours, row["as_of"]
    raise UserError(
        f"terraform/prices.csv has no price of {item} in {region}, and nothing is rented without one: give the price "
        'of an hour of all of it with SET="gcp.price_h=0.42", or have the table made anew (docs/gcp.md says how)'
    )


def price(place: Mapping[str, Any], region: str, override_h: float | None) -> Price:
    """Return the price in USD of a place, whose other fields are given; ``hour`` is the sum over all hosts and parts.

    ``expected`` is for the estimated time, ``worst`` for the lifetime, after which Google deletes the machines. Spot
    machines count like standard ones, since their price changes daily. Spare hosts exist and cost from the beginning.
    Traffic is an estimate from above.
    """
    hosts = list(place["hosts"].values())
    if override_h is not None:
        parts, as_of = {"machine_h": override_h * len(hosts), "disk_h": 0.0, "network_h": 0.0}, "as given"
    else:
        prices, months = zip(*(look_up(host.machine, region) for host in hosts), strict=True)
        as_of = min(months)
        parts = {
            "machine_h": sum(prices),
            "disk_h": sum(look_up(host.disk_type, region)[0] * place["disk_gb"] for host in hosts),
            "network_h": look_up("nat" if place["ssh_via"] == "iap" else "address", region)[0] * len(hosts),
        }
    hour = sum(parts.values())
    gib = SENT_GIB * look_up("egress-gib", region)[0]
    if place["ssh_via"] == "iap":
        gib += (FETCHED_GIB + SENT_GIB) * look_up("nat-gib", region)[0]
    traffic = gib * len(hosts)
    return Price(
        **{name: round(value, 6) for name, value in parts.items()},
        hour=round(hour, 6),
        traffic=round(traffic, 2),
        expected=round(hour * place["estimate_s"] / 3600 + traffic, 2),
        worst=round(hour * place["lifetime_s"] / 3600 + traffic, 2),
        as_of=as_of,
    )


def describe(place: GcpPlace) -> list[str]:
    """Return the lines that the plan prints before money is spent."""
    cost = place.price
    first, *others = place.zones
    zones = first + (f" (else {', '.join(others)})" if others else "")
    spot = ", spot: Google may take it away at any time" if place.spot else ""
    spares = sum(host.spare for host in place.hosts.values())
    many = f"{len(place.hosts)} x " if len(place.hosts) > 1 else ""
    waiting = f" ({spares} of them spare)" if spares else ""
    cores = ", one thread a core" if place.first.threads_per_core == 1 else ""
    each = f"{len(place.hosts)} machines: " if len(place.hosts) > 1 else ""
    them = "them" if each else "it"
    parts = f"machine {cost.machine_h:.4f}, disk {cost.disk_h:.4f}, network {cost.network_h:.4f}"
    source = "as given" if cost.as_of == "as given" else f"list price of {cost.as_of}; check yours"
    hours, life = place.estimate_s / 3600, place.lifetime_s / 3600
    return [
        f"machine   {many}{place.machine}{waiting} in {zones}, {place.disk_gb} GB {place.first.disk_type}{cores}{spot}",
        f"image     {place.image}",
        f"project   {place.project}",
        f"time      about {hours:.1f} h; Google deletes {them} after {life:.1f} h, whatever becomes of you",
        f"price     {cost.hour:.4f} USD an hour ({each}{parts}; {source}), and {cost.traffic:.2f} for traffic",
        f"cost      about {cost.expected:.2f} USD, at worst {cost.worst:.2f} USD",
    ]
