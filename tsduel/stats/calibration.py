"""Results of A/A runs, in results/aa/: one file a kind of machine, shape of experiment and protocol (see aa.py)."""

import glob
import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from tsduel.core.files import read_json
from tsduel.core.plan import Plan
from tsduel.core.rundir import Run
from tsduel.stats.power import ALPHA
from tsduel.workloads import workload_of

PROTOCOL = 3
"""Rises when blocks are measured in another way: older spreads then say nothing."""


def machine_kind(run: Run) -> str:
    """Return the kind of machine that a run was on; the kinds of a fleet are joined by +."""
    kinds = {kind_of(run.plan.machine_of(name), host) for name, host in run.machines.items()}
    return "+".join(sorted(kinds)) or kind_of(run.plan.host.machine, {})


def kind_of(machine: str, host: Mapping[str, Any]) -> str:
    """Return the kind of a machine as a file name: a spread is valid for all machines of a kind.

    ``host`` is the record of tsduel-host (raw/HOST.json), ``machine`` the experiment's ``host.machine``.
    """
    # One core of Arm is sold by several clouds: only the firmware tells them apart.
    virtual = str(host.get("virtualization") or "none") if host.get("architecture") == "aarch64" else "none"
    parts = [
        machine,
        *([] if virtual == "none" else [virtual]),
        host.get("cpu_model") or "unknown-cpu",
        f"{host.get('cpus') or 0}cpus",
        f"{round((host.get('memory_bytes') or 0) / 2**30)}GiB",
    ]
    return re.sub(r"[^a-z0-9.]+", "-", " ".join(str(part) for part in parts).lower()).strip("-")


def path_of(results: Path, plan: Plan, kind: str) -> Path:
    """Return the file for a plan on a kind of machine; ``results`` is the directory of all runs."""
    shape = json.dumps(workload_of(plan).alike(plan), sort_keys=True)
    return results / "aa" / f"{kind}.{plan.kind}.{hashlib.sha256(shape.encode()).hexdigest()[:8]}.v{PROTOCOL}.json"


def find(results: Path, plan: Plan, kind: str) -> dict[str, Any] | None:
    """Return the calibration of this shape of experiment (`same_workload`), else the newest of another shape."""
    of_run = path_of(results, plan, kind)
    if of_run.exists():
        return {**read_json(of_run), "same_workload": True}
    others = (
        read_json(path) for path in of_run.parent.glob(f"{glob.escape(f'{kind}.{plan.kind}')}.*.v{PROTOCOL}.json")
    )
    newest = max(others, key=lambda kept: str(kept.get("created")), default=None)
    return None if newest is None else {**newest, "same_workload": False}


def floor_pct(kept: Mapping[str, Any], metric: str, query_type: str, blocks: int) -> float | None:
    """Return the percent within which the change of a binary against itself stays in 95 of 100 runs.

    t_.975,n-1 s_d / sqrt(n) with the spread that `look` has found; None without a calibration of this workload.
    """
    spread = next((s["s_d"] for s in kept["spreads"] if (s["metric"], s["query_type"]) == (metric, query_type)), None)
    if spread is None or blocks < 2 or not kept["same_workload"]:  # noqa: PLR2004 - of one block there is no spread
        return None
    return 100 * math.expm1(float(stdtrit(blocks - 1, 1 - ALPHA / 2)) * spread / math.sqrt(blocks))
