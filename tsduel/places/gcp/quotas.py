"""Whether the project's quotas have room for the machines, asked before anything is made."""

from collections import Counter
from collections.abc import Iterator, Mapping

from tsduel.core.plan import GcpPlace
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.prices import region_of


def used_up(compute: Compute, place: GcpPlace, cpus: Mapping[str, int]) -> str:
    """Return the first quota that has no room for all hosts, in words; empty if all have. ``cpus``: of a machine type.

    The newest series have theirs per family, elsewhere (CPUS_PER_VM_FAMILY): of those Google's refusal tells.
    """
    region, hosts = region_of(place.zones[0]), place.hosts.values()
    whole = {"CPUS_ALL_REGIONS": sum(cpus[host.machine] for host in hosts), "NETWORKS": 1}
    whole["FIREWALLS"] = 2 if place.ports_between else 1
    here = Counter({"INSTANCES": len(hosts)})
    for host in hosts:
        here[_cpus_of(host.machine)] += cpus[host.machine]
        here["HDB_TOTAL_GB" if "hyperdisk" in host.disk_type else "SSD_TOTAL_GB"] += place.disk_gb
    if place.ssh_via == "iap":
        whole["ROUTERS"] = 1
    else:
        here["IN_USE_ADDRESSES"] = len(hosts)
    found = [*_short(compute, "", whole, "the project"), *_short(compute, f"regions/{region}", here, region)]
    return next(iter(found), "")


def _cpus_of(machine: str) -> str:
    series = machine.partition("-")[0]
    return "CPUS" if series in {"e2", "n1"} else f"{series.upper()}_CPUS"


def _short(compute: Compute, path: str, needs: Mapping[str, int], where: str) -> Iterator[str]:
    for quota in compute.get(path).get("quotas") or []:
        metric, limit, used = str(quota["metric"]), float(quota["limit"]), float(quota["usage"])
        if (need := needs.get(metric, 0)) and used + need > limit:
            yield f"{metric} of {where} is {limit:g}, of which {used:g} are in use, and this takes {need}"
