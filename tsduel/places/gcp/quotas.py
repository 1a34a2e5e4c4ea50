"""Whether the project's quotas have room for a machine, asked before anything is made."""

from collections.abc import Iterator

from tsduel.core.plan import GcpPlace
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.prices import region_of


def used_up(compute: Compute, place: GcpPlace, cpus: int) -> str:
    """Return the first quota that has no room for a machine of so many CPUs, in words; empty if all have.

    The newest series have theirs per family, elsewhere (CPUS_PER_VM_FAMILY): of those Google's refusal tells.
    """
    region = region_of(place.zones[0])
    whole = {"CPUS_ALL_REGIONS": cpus, "NETWORKS": 1, "FIREWALLS": 1}
    here = {_cpus_of(place): cpus, "HDB_TOTAL_GB" if "hyperdisk" in place.disk_type else "SSD_TOTAL_GB": place.disk_gb}
    if place.ssh_via == "iap":
        whole["ROUTERS"] = 1
    else:
        here["IN_USE_ADDRESSES"] = 1
    found = [*_short(compute, "", whole, "the project"), *_short(compute, f"regions/{region}", here, region)]
    return next(iter(found), "")


def _cpus_of(place: GcpPlace) -> str:
    series = place.machine.partition("-")[0]
    return "CPUS" if series in {"e2", "n1"} else f"{series.upper()}_CPUS"


def _short(compute: Compute, path: str, needs: dict[str, int], where: str) -> Iterator[str]:
    for quota in compute.get(path).get("quotas") or []:
        metric, limit, used = str(quota["metric"]), float(quota["limit"]), float(quota["usage"])
        if (need := needs.get(metric, 0)) and used + need > limit:
            yield f"{metric} of {where} is {limit:g}, of which {used:g} are in use, and this takes {need}"
