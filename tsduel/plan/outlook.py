"""The estimate that a plan begins with: rounds, time, disk, memory, and what the design can show on this machine."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from tsduel.core.project import PROJECT
from tsduel.core.rundir import open_run
from tsduel.places import place
from tsduel.plan import earlier, foresight, needs
from tsduel.stats import aa

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATIENCE_S = 20
ELSEWHERE = "not known yet: what machine it is shows when it is reached (an A/A run there, AA=1, says what it can tell)"
GB = 1e9
# Measured on two quiet cores from an empty cache: 200 s; there is no machine to wait for, unlike a rented one.
PREPARE_S = 300
UNSEEN = "not known: this machine could not be described (scripts/describe-host); 'make doctor' says what is missing"


def foresee(plan: dict[str, Any], results: Path, cache: Path) -> None:
    """Lay the spreads of the last A/A run on this kind of machine over a new plan's ``forecast``, if there was one."""
    if (machine_kind := kind_here(plan, cache)) is not None:
        plan["forecast"] = foresight.section(plan, aa.calibration_of(results, machine_kind, plan["kind"]))


def kind_here(plan: Mapping[str, Any], cache: Path) -> str | None:
    """Return the kind of machine that the rounds will run on; None where that cannot be known yet."""
    if not place.is_local(plan):
        return None
    host = _host(existing(cache))
    return aa.kind_of(plan["host"]["machine"], host) if host else None


@functools.cache
def _host(directory: Path) -> dict[str, Any] | None:
    """Return what scripts/describe-host says; None where it cannot: a fresh machine has no jq before the build."""
    command = [PROJECT / "scripts" / "describe-host", directory]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return found


def existing(path: Path) -> Path:
    """Return the nearest directory above a path, or itself, that is there already."""
    return next(p for p in (path, *path.parents) if p.is_dir())


def lines(run_dir: Path, plan: Mapping[str, Any], cache: Path) -> list[str]:
    """Return what the plan says of itself before it starts, a line each."""
    run = open_run(run_dir)
    finished = {r.name for r in run.rounds}
    names = [(f"{int(r['block']):02d}-{r['position']}-{r['variant']}", r["kind"]) for r in run.planned]
    left = [kind for name, kind in names if kind != "spare" and name not in finished]
    machine_kind = kind_here(plan, cache)
    before = earlier.look(run_dir.resolve().parent, plan, machine_kind) if machine_kind else None
    found = [
        f"rounds    {len(left)}{f' to go, {len(finished)} finished' if finished else ''}",
    ]
    # The price of a rented machine was said with its hours, a moment ago.
    if place.place_of(plan)["kind"] != "gcp" or finished:
        found.append(f"time      {_time(plan, left, before, cache)}")
    found.append(f"disk      {_disk(plan, cache)}")
    if memory := _memory(plan, before):
        found.append(f"memory    {memory}")
    forecast = run.json("plan/forecast.json")
    unknown = "" if machine_kind else ELSEWHERE if not place.is_local(plan) else UNSEEN
    return found + (foresight.described(plan, forecast, unknown) if forecast else [])


def _time(plan: Mapping[str, Any], left: list[str], before: earlier.Earlier | None, cache: Path) -> str:
    warm = left.count("warmup")
    if before:
        seconds = warm * before.warmup_s + (len(left) - warm) * before.round_s
        runs = f"{before.runs} earlier run{'s' if before.runs > 1 else ''} here"
        return f"about {lasting(seconds)} (as in {runs}: {before.round_s:.0f} s a round), and what is still to be built"
    rough = plan["duration"]
    where = place.place_of(plan)["kind"]
    built = where == "local" and all((cache / "variants" / v["build_key"]).is_dir() for v in plan["variants"])
    prepare_s = 0 if built else rough["prepare_s"] if where == "gcp" else PREPARE_S
    seconds = prepare_s + rough["workload_s"] + len(left) * rough["round_s"]
    parts = f"{lasting(prepare_s)} to prepare, " if prepare_s else ""
    return (
        f"about {lasting(seconds)}, a rough guess ({parts}{rough['round_s']} s a round): "
        "no run of this kind on such a machine is stored here"
    )


def _disk(plan: Mapping[str, Any], cache: Path) -> str:
    needed = sum(plan["estimate"].values())
    said = f"up to {amount(needed)} for data, database and results"
    if not place.is_local(plan):
        return said
    free = shutil.disk_usage(existing(cache)).free
    short = "; that is TOO LITTLE: free some, or point TSDUEL_CACHE to a larger disk" if free < needed else ""
    return f"{said}; {amount(free)} are free in {cache}{short}"


def _memory(plan: Mapping[str, Any], before: earlier.Earlier | None) -> str:
    if before and before.rss_bytes:
        return f"about {amount(before.rss_bytes)} for the server (as in earlier runs here)"
    rough = needs.memory(plan.get("workload"))
    return f"about {amount(rough)} for the server, a rough guess" if rough else ""


def lasting(seconds: float) -> str:
    """Return a time in words, as scripts/lib/forecast.jq says it."""
    if seconds < 90:  # noqa: PLR2004 - a minute and a half
        return f"{seconds:.0f} s"
    if seconds < 5400:  # noqa: PLR2004 - an hour and a half
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


def amount(count: float) -> str:
    """Return bytes as MB or GB."""
    return f"{count / 1e6:,.0f} MB" if count < GB else f"{count / GB:,.1f} GB"
