"""The smallest plan there can be, for tests of what reads only a little of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsduel.core.place import K8sPlace, LocalPlace
from tsduel.core.plan import Asked, Component, Own, Plan, Variant
from tsduel.core.sections import Design, Host
from tsduel.core.tables import BLOCKS_TSV
from tsduel.core.target import Target
from tsduel.core.tsbs import DataFile, Workload

if TYPE_CHECKING:
    from pathlib import Path

COMPONENT = Component(program="database", source="module", label="v1", build_key="0" * 16)
VARIANTS = tuple(
    Variant(name=name, label="v1", target="victoriametrics", components=(COMPONENT,))
    for name in ("baseline", "candidate")
)

SMALL_WORKLOAD = Workload(
    interval_s=80, lines=10, samples=100, estimated_bytes=4000, data=(DataFile(format="influx", key="0" * 16),)
)
TARGET = Target(name="victoriametrics", data_format="influx", query_format="victoriametrics", answers="prometheus")


def plan(**changes: Any) -> Plan:
    """Return the plan of a run of this machine."""
    parts: dict[str, Any] = {
        "run": "r", "name": "small", "question": "", "kind": "tsbs", "smoke": False, "screen": True, "aa": False,
        "created": "2026-11-21T20:00:00Z", "own": Own(version="0", commit=""), "asked": Asked(experiment=""),
        "place": LocalPlace(), "variants": VARIANTS, "targets": {TARGET.name: TARGET},
        "design": Design(blocks=2, spare_blocks=0), "host": Host(),
    }  # fmt: skip
    return Plan(**parts | changes)


def on_a_pod(**changes: Any) -> K8sPlace:
    """Return the place of a run with one pod."""
    parts = {
        "hosts": {"host1": {}}, "context": "here", "namespace": "bench", "node_selector": {"disk": "ssd"},
        "storage_class": "", "image": "debian:12-slim", "directory": "/tsduel", "name": "tsduel-r-abc", "cpus": 2,
        "memory_gb": 4, "disk_gb": 5, "wait_s": 5, "estimate_s": 60, "lifetime_s": 7200,
    }  # fmt: skip
    return K8sPlace.model_validate(parts | changes)


def write(run_dir: Path, *, spares: int = 0, **changes: Any) -> Plan:
    """Write it with its blocks: a warm-up, two that are measured, and so many spare ones."""
    made = plan(**{"run": run_dir.name} | changes)
    (run_dir / "plan").mkdir(parents=True, exist_ok=True)
    made.write(run_dir)
    kinds = ["warmup", "measured", "measured", *["spare"] * spares]
    sides = ["" if kind == "spare" else "baseline,candidate" for kind in kinds]
    rows = [
        f"{n}\thost1\t{kind}\t{by}\t{by}\t{by}\t{by}\t" for n, (kind, by) in enumerate(zip(kinds, sides, strict=True))
    ]
    (run_dir / "plan" / "blocks.tsv").write_text("\n".join(["\t".join(BLOCKS_TSV), *rows]) + "\n")
    return made
