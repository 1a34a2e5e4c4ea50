"""A fleet: which host ran what, and how far a change differs between types of machines."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tsduel.core.plan import GCP_SWEPT, Plan
from tsduel.core.rundir import Run
from tsduel.stats.estimate import Interval
from tsduel.stats.hosts import apart

MODEL = "cpu_model"


def hosts(run: Run, decided: pd.DataFrame) -> list[dict[str, Any]]:
    """Return each host with what it is, its cells and how many of its blocks count."""
    counting, place = decided[decided["counts"] == "true"], run.plan.place
    return [
        {
            "host": name,
            "spare": name in run.plan.spare_hosts,
            "machine": place.hosts[name].address if place.kind == "ssh" else run.plan.machine_of(name),
            MODEL: run.machines.get(name, {}).get(MODEL) or "",
            "cells": [cell.name for cell in run.plan.cells if name in run.plan.hosts_of(cell.name)],
            "blocks": len(set(counting[counting["host"] == name]["block"])),
        }
        for name in run.plan.every_host
    ]


def beside(run: Run, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the difference between the changes on each two types of machines, in points of percent, with its interval.

    Of cells that differ in the machine alone, and of rows that have a 95 % interval in both. A type that has one host
    cannot be told from that host (`one_host`). Intervals are not adjusted for their number.
    """
    by_cell: dict[str, dict[tuple[str, str, str], Mapping[str, Any]]] = {}
    for row in rows:
        if row["lo_pct"] is not None and row["family"] != "shown":
            by_cell.setdefault(row["cell"], {})[row["candidate"], row["metric"], row["query_type"]] = row
    found = []
    for cell, than in _pairs(run.plan):
        for key, one in by_cell.get(cell, {}).items():
            if other := by_cell.get(than, {}).get(key):
                (interval, points), (beyond, less) = _percents(one), _percents(other)
                of = apart(interval, points, beyond, less)
                found.append({
                    "cell": cell, "than": than, **dict(zip(("candidate", "metric", "query_type"), key, strict=True)),
                    "points": points - less, "lo": of.low, "hi": of.high, "level": of.level,
                    "one_host": min(one["hosts"], other["hosts"]) == 1,
                })  # fmt: skip
    return found


def _percents(row: Mapping[str, Any]) -> tuple[Interval, float]:
    return Interval(row["lo_pct"], row["hi_pct"], row["level"]), row["change_pct"]


def _pairs(plan: Plan) -> list[tuple[str, str]]:
    """Return each two cells of which only the machine differs, in the order of the plan."""
    alike: dict[str, list[str]] = {}
    for cell in plan.cells:
        beside = {key: value for key, value in cell.set.items() if key not in GCP_SWEPT}
        alike.setdefault(json.dumps(beside, sort_keys=True), []).append(cell.name)
    swept = any(key in GCP_SWEPT for cell in plan.cells for key in cell.set)
    return [pair for names in alike.values() for pair in itertools.combinations(names, 2)] if swept else []
