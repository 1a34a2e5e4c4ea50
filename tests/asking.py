"""Small experiments for tests: of a ready binary, so that nothing has to be resolved over a network or built."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from listening import free_port

from tsduel.plan import resolve
from tsduel.question import read

if TYPE_CHECKING:
    from tsduel.core.plan import Plan
    from tsduel.workloads.experiment import Experiment

FAKES = Path(__file__).resolve().parent / "fakes"
TYPES = ["single-groupby-1-1-1", "cpu-max-all-1"]
UNJUDGED = dict.fromkeys(
    ("steal_pct", "foreign_cpu_pct", "canary_pct", "clock_step_s", "canary_flag_pct", "canary_fsync_flag_pct")
)
"""Limits of noise where other tests run beside; and no canary, which takes seconds and says nothing then."""


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def written(binary: Path = FAKES / "database", **parts: Any) -> dict[str, Any]:
    """Return the mapping of an experiment of one tiny block; `parts` are laid over its sections."""
    variant = {"source": "binary", "path": str(binary)}
    base: dict[str, Any] = {
        "name": "fake",
        "variants": {"baseline": dict(variant), "candidate": dict(variant)},
        "workload": {"scale": 2, "interval": "1h", "workers": 1},
        "queries": {"types": TYPES[:1], "workers": 1, "max_count": 200},
        "duel": {"seconds": 0.1, "sittings": 2, "min_exchanges": 8, "floor_exchanges": 4, "idle_s": 0.1},
        "settle": {"timeout_s": 120, "polls": 1, "poll_s": 1},
        "design": {"blocks": 1, "warmup_blocks": 0, "max_failed_blocks": 99},
        "watchdog": {"health_s": 120, "load_stall_s": 120, "query_stall_s": 120, "stop_s": 120, "idle_timeout_s": 5},
        "noise": UNJUDGED,
        "host": {"port": free_port(), "pin": "off"},
    }
    for section, fields in parts.items():
        base[section] = base.get(section, {}) | fields if isinstance(fields, dict) else fields
    return base


def asked(**parts: Any) -> Experiment:
    """Return such an experiment, validated."""
    return read.validate(written(**parts), "test")


def planned(**parts: Any) -> Plan:
    """Return its plan."""
    return resolve.resolve(asked(**parts), run="r")
