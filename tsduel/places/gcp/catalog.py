"""Makes terraform/prices.csv of pages of the Cloud Billing Catalog's JSON; docs/gcp.md says how they are had.

`python -m tsduel.places.gcp.catalog 2026-11 PAGE.json... >prices.csv`
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tsduel.places.gcp.prices import TABLE

# How the catalogue names the CPUs and memory of a series, and so many GB for each CPU of its `standard` machines.
SERIES = {
    "c2": ("Compute optimized", 4), "c3": ("C3 Instance", 4), "c3d": ("C3D Instance", 4), "c4": ("C4 Instance", 3.75),
    "e2": ("E2 Instance", 4), "n2": ("N2 Instance", 4), "n2d": ("N2D AMD Instance", 4), "n4": ("N4 Instance", 4),
}  # fmt: skip
SIZES = (2, 4, 8, 16, 22)  # CPUs; a price of a type that does not exist is of no harm
DISKS = {
    "pd-balanced": "Balanced PD Capacity", "pd-ssd": "SSD backed PD Capacity",
    "hyperdisk-balanced": "Hyperdisk Balanced Capacity",
}  # fmt: skip
PLACE = re.compile(r" (running )?in [A-Z].*$")


def prices(pages: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield an item of the table, its unit, and its USD by region; what the catalogue does not have has no region."""
    found: dict[str, dict[str, float]] = {}
    for sku in (sku for page in pages for sku in page["skus"] if sku["category"]["usageType"] == "OnDemand"):
        rate = sku["pricingInfo"][-1]["pricingExpression"]["tieredRates"][-1]["unitPrice"]
        usd = int(rate.get("units") or 0) + rate.get("nanos", 0) / 1e9
        found.setdefault(PLACE.sub("", sku["description"]), {}).update(dict.fromkeys(sku["serviceRegions"], usd))
    for series, (words, gb) in SERIES.items():
        core, ram = found.get(f"{words} Core", {}), found.get(f"{words} Ram", {})
        for cpus in SIZES:
            both = {region: cpus * (core[region] + gb * ram[region]) for region in core.keys() & ram.keys()}
            yield f"{series}-standard-{cpus}", "hour", both
    for disk, words in DISKS.items():
        yield disk, "GB-month", found.get(words, {})


def table(pages: Iterable[Mapping[str, Any]], before: str, as_of: str) -> Iterator[str]:
    """Yield the lines of the table, a line for each price with its regions; what the catalogue lacks stays."""
    header, *old = before.splitlines()
    made = {}
    for item, unit, by_region in prices(pages):
        regions: dict[float, list[str]] = {}
        for region in sorted(by_region):
            regions.setdefault(round(by_region[region], 6), []).append(region)
        if regions:
            made[item] = [f"{item},{usd:g},{unit},{' '.join(names)},{as_of}" for usd, names in sorted(regions.items())]
    yield header
    yield from (line for lines in made.values() for line in lines)
    yield from (line for line in old if line.partition(",")[0] not in made)


if __name__ == "__main__":
    read = [json.loads(Path(file).read_text(encoding="utf-8")) for file in sys.argv[2:]]
    print("\n".join(table(read, TABLE.read_text(encoding="utf-8"), sys.argv[1])))
