"""What our own process costs while a load is timed, and how much of a block is timed: during a real run."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import PROJECT, Figure

POLL_S = 0.25
# Shorter phases say little about one process that looks once a second.
LEAST_S = 4.0


def own_cost(run_dir: Path, cache: Path) -> list[Figure]:
    """Run the blocks of the plan; return our CPU in the worst load as a share of one core, and the duty cycle.

    The exchanges are not among the phases: there our process is the client, whose CPU the report has.
    """
    agent = json.loads((run_dir / "build/agent.json").read_text(encoding="utf-8"))["binary"]
    environment = os.environ | {"TSDUEL_CACHE": str(cache), "TSDUEL_PROJECT": str(PROJECT)}
    polls = list[tuple[float, float]]()
    with subprocess.Popen(
        [agent, "run", run_dir], env=environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as host:
        # The CPU clock of another process, in ns: clock_getcpuclockid(3).
        clock = (~host.pid << 3) | 2
        while host.poll() is None:
            polls.append((time.time(), time.clock_gettime(clock)))
            time.sleep(POLL_S)
        said = host.stderr.read() if host.stderr else ""
    if host.returncode:
        sys.exit(f"bench: tsduel-host ended with exit code {host.returncode}:\n{said[-2000:]}")
    shares, timed = list[tuple[float, str]](), list[float]()
    for path in sorted(run_dir.glob("raw/*/block.json")):
        block = json.loads(path.read_text(encoding="utf-8"))
        if block["status"] != "ok":
            sys.exit(f"bench: block {block['block']} failed: {block['failures'][0]['message']}")
        timed.append(block["timed_s"] / (block["ended"] - block["started"]))
        for phase in block["phases"]:
            if phase["phase"] == "load" and phase["end"] - phase["begin"] >= LEAST_S:
                shares.append(
                    (share(polls, phase["begin"], phase["end"]), f"block {block['block']} {phase['variant']}")
                )
    if not shares:
        sys.exit(f"bench: no load of {run_dir} lasted {LEAST_S:g} s: make bench/bench.yml larger")
    worst, where = max(shares)
    mean = sum(value for value, _ in shares) / len(shares)
    return [
        Figure("our process in a timed load: % of a core", 100 * worst, 0.5, at_most=True, unit="%",
               detail=f"the worst of {len(shares)}: {where}; mean {100 * mean:.2f} %"),
        Figure("of a block is timed: load and exchanges", 100 * min(timed), 70, at_most=False, unit="%",
               detail=f"the least of {len(timed)} blocks of bench/bench.yml"),
    ]  # fmt: skip


def share(polls: list[tuple[float, float]], begin: float, end: float) -> float:
    """Return CPU seconds a second between the first and the last poll of a phase."""
    inside = [poll for poll in polls if begin <= poll[0] <= end]
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) / (last - first)
