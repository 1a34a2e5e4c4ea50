"""A fleet: which host ran what, and how far a change differs between types of machines."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tsduel.core.place import GCP_SWEPT
from tsduel.core.plan import Plan
from tsduel.core.rundir import Run
from tsduel.stats.estimate import Interval
from tsduel.stats.hosts import interval_of_difference

MODEL = "cpu_model"


def hosts(run: Run, decided: pd.DataFrame) -> list[dict[str, Any]]:
    """Return each host with its machine, its cells and how many of its blocks count."""
    counting, place = decided[decided["counts"] == "true"], run.plan.place
    return [
        {
            "host": name,
            "spare": name in run.plan.spare_hosts,
            "machine": place.hosts[name].address
            if place.kind == "ssh"
            else run.node_of(name) or run.plan.machine_of(name),
            MODEL: run.machines.get(name, {}).get(MODEL) or "",
            "cells": [cell.name for cell in run.plan.cells if name in run.plan.hosts_of(cell.name)],
            "blocks": len(set(counting[counting["host"] == name]["block"])),
        }
        for name in run.plan.every_host
    ]


def beside(run: Run, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the difference between the changes on each two types of machines, in points of percent, with its interval.

    Cells are compared that differ in the machine alone, and rows that have a 95 % interval in both. `one_host`: a type
    has one host only, so type and host cannot be separated. Intervals are not adjusted for their number.
    """
    by_cell: dict[str, dict[tuple[str, str, str], Mapping[str, Any]]] = {}
    for row in rows:
        if row["lo_pct"] is not None and row["family"] != "shown":
            by_cell.setdefault(row["cell"], {})[row["candidate"], row["metric"], row["query_type"]] = row
    differences = []
    for cell, than in _pairs(run.plan):
        for key, one in by_cell.get(cell, {}).items():
            if other := by_cell.get(than, {}).get(key):
                mine, theirs = (Interval(row["lo_pct"], row["hi_pct"], row["level"]) for row in (one, other))
                difference = interval_of_difference(mine, one["change_pct"], theirs, other["change_pct"])
                differences.append({
                    "cell": cell, "than": than, **dict(zip(("candidate", "metric", "query_type"), key, strict=True)),
                    "points": one["change_pct"] - other["change_pct"], "lo": difference.low, "hi": difference.high,
                    "level": difference.level, "one_host": min(one["hosts"], other["hosts"]) == 1,
                })  # fmt: skip
    return differences


def _pairs(plan: Plan) -> list[tuple[str, str]]:
    """Return each two cells that differ in the machine alone, in the order of the plan."""
    if not any(key in GCP_SWEPT for cell in plan.cells for key in cell.set):
        return []
    alike: dict[str, list[str]] = {}
    for cell in plan.cells:
        rest = {key: value for key, value in cell.set.items() if key not in GCP_SWEPT}
        alike.setdefault(json.dumps(rest, sort_keys=True), []).append(cell.name)
    return [pair for names in alike.values() for pair in itertools.combinations(names, 2)]
