"""Whether the project's quotas have room for the machines; checked before anything is made."""

from collections import Counter
from collections.abc import Iterator, Mapping

from tsduel.core.place import GcpPlace
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.prices import region_of


def used_up(compute: Compute, place: GcpPlace, cpus: Mapping[str, int]) -> str:
    """Return a sentence on the first quota without room for all hosts, else "". ``cpus``: number by machine type.

    The quotas of the newest series (CPUS_PER_VM_FAMILY) are not checked: Google's refusal names them.
    """
    region, hosts = region_of(place.zones[0]), place.hosts.values()
    in_project = {"CPUS_ALL_REGIONS": sum(cpus[host.machine] for host in hosts), "NETWORKS": 1, "FIREWALLS": 1}
    in_region = Counter({"INSTANCES": len(hosts)})
    for host in hosts:
        series = host.machine.partition("-")[0]
        in_region["CPUS" if series in {"e2", "n1"} else f"{series.upper()}_CPUS"] += cpus[host.machine]
        in_region["HDB_TOTAL_GB" if "hyperdisk" in host.disk_type else "SSD_TOTAL_GB"] += place.disk_gb
    if place.ssh_via == "iap":
        in_project["ROUTERS"] = 1
    else:
        in_region["IN_USE_ADDRESSES"] = len(hosts)
    for made in ("NETWORKS", "FIREWALLS", "ROUTERS") if not place.makes_network else ():
        in_project.pop(made, None)
    short = [*_short(compute, "", in_project, "the project"), *_short(compute, f"regions/{region}", in_region, region)]
    return next(iter(short), "")


def _short(compute: Compute, path: str, needs: Mapping[str, int], where: str) -> Iterator[str]:
    for quota in compute.get(path).get("quotas") or []:
        metric, limit, used = str(quota["metric"]), float(quota["limit"]), float(quota["usage"])
        if (need := needs.get(metric, 0)) and used + need > limit:
            yield f"{metric} of {where} is {limit:g}, of which {used:g} are in use, and this takes {need}"
