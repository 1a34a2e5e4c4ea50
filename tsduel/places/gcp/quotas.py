"""Whether the project's quotas have room for the machines; checked before anything is made."""

from collections.abc import Iterator, Mapping
from typing import Any

from tsduel.core.place import GcpPlace
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.prices import region_of


def used_up(compute: Compute, place: GcpPlace, cpus: int) -> str:
    """Return a sentence on the first quota without room for all hosts, else "". ``cpus``: of each.

    The quotas of the newest series (CPUS_PER_VM_FAMILY) are not checked: Google's refusal names them.
    """
    region, hosts = region_of(place.zones[0]), len(place.hosts)
    in_project = {"CPUS_ALL_REGIONS": cpus * hosts, "NETWORKS": 1, "FIREWALLS": 1}
    series = place.machine.partition("-")[0]
    disks = "HDB_TOTAL_GB" if "hyperdisk" in place.first.disk_type else "SSD_TOTAL_GB"
    of_series = "CPUS" if series in {"e2", "n1"} else f"{series.upper()}_CPUS"
    in_region = {"INSTANCES": hosts, of_series: cpus * hosts, disks: place.disk_gb * hosts}
    preemptible = "PREEMPTIBLE_CPUS"
    if place.spot and any(
        quota["metric"] == preemptible and quota["limit"] for quota in _quotas(compute, f"regions/{region}")
    ):
        # Where a project has such a quota, spot machines take from it alone.
        in_region[preemptible] = in_region.pop(of_series)
    if place.ssh_via == "iap":
        in_project["ROUTERS"] = 1
    else:
        in_region["IN_USE_ADDRESSES"] = hosts
    for made in ("NETWORKS", "FIREWALLS", "ROUTERS") if not place.makes_network else ():
        in_project.pop(made, None)
    short = [*_short(compute, "", in_project, "the project"), *_short(compute, f"regions/{region}", in_region, region)]
    return next(iter(short), "")


def _quotas(compute: Compute, path: str) -> list[dict[str, Any]]:
    return compute.get(path).get("quotas") or []


def _short(compute: Compute, path: str, needs: Mapping[str, int], where: str) -> Iterator[str]:
    for quota in _quotas(compute, path):
        metric, limit, used = str(quota["metric"]), float(quota["limit"]), float(quota["usage"])
        if (need := needs.get(metric, 0)) and used + need > limit:
            yield f"{metric} of {where} is {limit:g}, of which {used:g} are in use, and this takes {need}"
