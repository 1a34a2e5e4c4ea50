"""What our own processes cost while a phase is timed: read from /proc during real rounds."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.figures import PROJECT, Figure

POLL_S = 0.25
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Shorter phases say nothing, with a clock of 10 ms.
LEAST_S = 5.0
# The scraper waits for a `grep` each second, and those are ours; the children of the others are the client itself.
WITH_CHILDREN = "scrape-metrics"
OURS = {"run-rounds", "round-tsbs", "run-client", "load", WITH_CHILDREN}


@dataclass(frozen=True)
class Poll:
    """CPU seconds so far of each of our processes, by pid, at a moment in epoch seconds."""

    at: float
    cpu_s: dict[int, float]


def own_cost(run_dir: Path) -> Figure:
    """Run the rounds of the plan and return the CPU of our processes as a share of one core, in the worst phase."""
    rounds = subprocess.Popen(
        [PROJECT / "scripts/run-rounds", run_dir], text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    polls = list[Poll]()
    while rounds.poll() is None:
        polls.append(poll(rounds.pid))
        time.sleep(POLL_S)
    said = rounds.stderr.read() if rounds.stderr else ""
    if rounds.returncode:
        sys.exit(f"bench: run-rounds ended with exit code {rounds.returncode}:\n{said[-2000:]}")
    shares = list[tuple[float, str]]()
    for path in sorted(run_dir.glob("raw/*/round.json")):
        done = json.loads(path.read_text(encoding="utf-8"))
        if done["status"] != "ok":
            sys.exit(f"bench: {path.parent.name} failed: {done['failure']['message']}")
        for phase in done["phases"]:
            if phase["phase"] in {"load", "query"} and phase["end"] - phase["begin"] >= LEAST_S:
                name = f"{phase['phase']} {phase['query_type']}".strip()
                shares.append((share(polls, phase["begin"], phase["end"]), f"{path.parent.name}, {name}"))
    if not shares:
        sys.exit(f"bench: no phase of {run_dir} lasted {LEAST_S:g} s: make bench/bench.yml larger")
    worst, where = max(shares)
    if worst == 0:
        sys.exit(
            "bench: none of our processes was seen using any CPU: are their names still those in bench/overhead.py?"
        )
    mean = sum(value for value, _ in shares) / len(shares)
    return Figure("our processes in a timed phase: % of a core", 100 * worst, 1, at_most=True, unit="%",
                  detail=f"the worst of {len(shares)} phases: {where}; mean {100 * mean:.2f} %")  # fmt: skip


def share(polls: list[Poll], begin: float, end: float) -> float:
    """Return our CPU seconds a second between the first and the last poll of a phase."""
    inside = [p for p in polls if begin <= p.at <= end]
    first, last = inside[0], inside[-1]
    # A process that had not been there at the first poll counts from its start.
    used = sum(cpu - first.cpu_s.get(pid, 0.0) for pid, cpu in last.cpu_s.items())
    return used / (last.at - first.at)


def poll(root: int) -> Poll:
    """Read the shells among the descendants of process `root`, itself included."""
    at = time.time()
    parents, found = dict[int, int](), dict[int, tuple[str, list[str]]]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text(encoding="utf-8", errors="replace")
            command = (process / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
        except OSError:
            continue
        # The command name in parentheses may hold spaces: count fields after it.
        fields = stat.rpartition(")")[2].split()
        # A script runs as `bash PATH ...`.
        name = Path(command[1]).name if len(command) > 1 else ""
        pid = int(process.name)
        parents[pid], found[pid] = int(fields[1]), (name, fields)
    cpu_s = dict[int, float]()
    for pid, (name, fields) in found.items():
        # A script is known by its own name; the server, TSBS and zstd are what is measured, not what measures.
        if not (is_below(pid, root, parents) and name in OURS):
            continue
        ticks = [int(field) for field in fields[11:15]]
        cpu_s[pid] = sum(ticks if name == WITH_CHILDREN else ticks[:2]) / TICKS_PER_S
    return Poll(at, cpu_s)


def is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    """Whether `root` is `pid` or one of its ancestors."""
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root
