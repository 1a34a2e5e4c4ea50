"""The estimate that a plan begins with: blocks, time, disk, memory, and what the design can show on this machine."""

import functools
import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tsduel.core.plan import Plan
from tsduel.core.rundir import Run
from tsduel.core.wording import amount, lasting
from tsduel.plan import cells, earlier, foresight, order
from tsduel.stats import calibration

PATIENCE_S = 20
ELSEWHERE = "not known yet: what machine it is shows when it is reached (an A/A run there, AA=1, says what it can tell)"
UNSEEN = "not known yet: this machine has not been described, which its first run does"
# Measured on two quiet cores from an empty cache: 200 s; there is no machine to wait for, unlike a rented one.
PREPARE_S = 300
# A directory of a cgroup has no limit if it is larger than any machine.
NO_LIMIT = 1 << 60


def forecast(run_dir: Path, plan: Plan, cache: Path) -> dict[str, Any]:
    """Return plan/forecast.json, with the spreads of the last A/A run on this kind of machine, or of an earlier run."""
    kind, results = kind_here(plan, cache), run_dir.absolute().parent
    kept = calibration.look(results, plan, kind) if kind else None
    if kept is not None:
        source = {"what": "the last A/A run", **{key: kept[key] for key in ("run", "passed", "same_workload")}}
        return foresight.section(plan, _by_name(kept["spreads"]), source)
    before = earlier.look(results, plan, kind) if kind else None
    if before is None or not before.spreads:
        return foresight.section(plan, {}, None)
    source = {"run": before.newest, "what": "the last run of this kind", "passed": False, "same_workload": True}
    return foresight.section(plan, _by_name(before.spreads.values()), source)


def _by_name(rows: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """Return spreads as log ratios by metric and query type."""
    found = {}
    for row in rows:
        within = row.get("within_pct")
        spread = None if within is None else math.log1p(within / 100)
        found[row["metric"], row["query_type"]] = {"s_d": row.get("s_d"), "within": spread}
    return found


def kind_here(plan: Plan, cache: Path) -> str | None:
    """Return the kind of machine that the blocks will run on; None where that cannot be known yet."""
    if not plan.is_local:
        return None
    host = _host(cache)
    return calibration.kind_of(plan.host.machine, host) if host else None


@functools.cache
def _host(cache: Path) -> dict[str, Any] | None:
    """Return what tsduel-host says of this machine; None before it is built for the first time."""
    built = sorted(cache.glob("agent/*/tsduel-host"), key=lambda path: path.stat().st_mtime)
    try:
        words = [str(built[-1]), "describe", str(cache)]
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return found


def existing(path: Path) -> Path:
    """Return the nearest directory above a path, or itself, that is there already."""
    return next(p for p in (path, *path.parents) if p.is_dir())


def lines(run_dir: Path, plan: Plan, cache: Path) -> list[str]:
    """Return what the plan says of itself before it starts, a line each."""
    run = Run(run_dir, plan)
    finished = {block.name for block in run.blocks}
    left = [row for row in run.due if row.name not in finished]
    # Hosts work beside each other: what takes longest is what it takes.
    busiest = max(([row.kind for row in left if row.host == host] for host in plan.hosts), key=len)
    kind = kind_here(plan, cache)
    before = earlier.look(run_dir.absolute().parent, plan, kind) if kind else None
    each = f", {len(busiest)} at most on a host" if len(plan.hosts) > 1 else ""
    found = [f"blocks    {len(left)}{f' to go, {len(finished)} finished' if finished else ''}{each}"]
    # The price of a rented machine was said with its hours, a moment ago.
    if plan.place.kind != "gcp" or finished:
        found.append(f"time      {_time(plan, busiest, before, cache)}")
    found.append(f"disk      {_disk(plan, cache)}")
    found += _memory(plan, before)
    unknown = ELSEWHERE if not plan.is_local else "" if kind else UNSEEN
    block_s = before.block_s if before else plan.duration.block_s if plan.duration else 0.0
    table = run.json("plan/forecast.json")
    return found + (foresight.described(plan, table, unknown, block_s) if table else [])


def _time(plan: Plan, left: list[str], before: earlier.Earlier | None, cache: Path) -> str:
    warm = left.count("warmup")
    if before:
        seconds = warm * before.warmup_s + (len(left) - warm) * before.block_s
        runs = f"{before.runs} earlier run{'s' if before.runs > 1 else ''} here"
        return f"about {lasting(seconds)} (as in {runs}: {before.block_s:.0f} s a block), and what is still to be built"
    rough = plan.duration
    if rough is None:
        return "not known"
    keys = [part.build_key for variant in plan.variants for part in variant.components]
    built = plan.is_local and all((cache / "variants" / key).is_dir() for key in keys)
    prepare_s = 0 if built else rough.prepare_s if plan.place.kind == "gcp" else PREPARE_S
    share = order.share_of_busiest(plan.design, {cell.name: plan.hosts_of(cell.name) for cell in plan.cells})
    of_blocks = (rough.total_s - rough.prepare_s - rough.workload_s) / plan.design.planned / len(plan.cells) / share
    seconds = prepare_s + rough.workload_s + len(left) * of_blocks
    parts = f"{lasting(prepare_s)} to prepare, " if prepare_s else ""
    return (
        f"about {lasting(seconds)}, a rough guess ({parts}{rough.block_s} s a block): "
        "no run of this kind on such a machine is stored here"
    )


def _disk(plan: Plan, cache: Path) -> str:
    needed = plan.estimate.total
    said = f"up to {amount(needed)} for data, databases and results"
    if not plan.is_local:
        return said
    free = shutil.disk_usage(existing(cache)).free
    short = "; that is TOO LITTLE: free some, or point TSDUEL_CACHE to a larger disk" if free < needed else ""
    return f"{said}; {amount(free)} are free in {cache}{short}"


def _memory(plan: Plan, before: earlier.Earlier | None) -> list[str]:
    """Return what all that are resident at once need, and what to do where the machine has less."""
    each = before.rss_bytes if before and before.rss_bytes else cells.memory(plan)
    if not each:
        return []
    servers = len(plan.variants) if plan.duels else 1
    how = "as in earlier runs here" if before and before.rss_bytes else "a rough guess"
    said = (
        f"memory    about {amount(servers * each)} for {'the server' if servers == 1 else f'{servers} servers'} ({how})"
    )
    there = memory_here() if plan.is_local else None
    if there is None or servers * each <= there:
        return [said]
    remedy = 'SET="duel.enabled=false" has them alone, one after the other' if servers > 1 and each <= there else ""
    return [
        f"{said}; that is TOO LITTLE: this machine has {amount(there)}: {remedy or 'take a smaller workload.scale'}"
    ]


def memory_here() -> int | None:
    """Return bytes of memory that this machine, or the cgroup that we are in, can give."""
    total = next(
        (int(line.split()[1]) << 10 for line in _text("/proc/meminfo").splitlines() if line.startswith("MemTotal:")),
        None,
    )
    limits = [_text(f"/sys/fs/cgroup/{name}").strip() for name in ("memory.max", "memory/memory.limit_in_bytes")]
    known = [int(text) for text in limits if text.isdigit() and int(text) < NO_LIMIT]
    return min([*known, *([total] if total else [])], default=None)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
