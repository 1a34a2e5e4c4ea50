"""What our own process costs while a load is timed and in an exchange, and how much of a block is timed."""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import PROJECT, Figure, compiled

POLL_S = 0.25
# Shorter phases say little about one process that looks once a second.
LEAST_S = 4.0
TIMES = 5
OPERATIONS = 20_000
BARE = re.compile(r"/client=net-http\S*\s+\d+\s+([\d.]+) ns/op")
OURS = re.compile(r"/client=exchange\S*\s.*?([\d.]+) ns/operation")


def own_cost(run_dir: Path, cache: Path) -> Figure:
    """Run the blocks of the plan; return our CPU in the worst load as a share of one core.

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
    shares = list[tuple[float, str]]()
    for path in sorted(run_dir.glob("raw/*/block.json")):
        block = json.loads(path.read_text(encoding="utf-8"))
        if block["status"] != "ok":
            sys.exit(f"bench: block {block['block']} failed: {block['failures'][0]['message']}")
        for phase in block["phases"]:
            if phase["phase"] == "load" and phase["end"] - phase["begin"] >= LEAST_S:
                shares.append(
                    (share(polls, phase["begin"], phase["end"]), f"block {block['block']} {phase['variant']}")
                )
    if not shares:
        sys.exit(f"bench: no load of {run_dir} lasted {LEAST_S:g} s: make bench/bench.yml larger")
    worst, where = max(shares)
    mean = sum(value for value, _ in shares) / len(shares)
    return Figure("our process in a timed load: % of a core", 100 * worst, 0.5, at_most=True, unit="%",
                  detail=f"the worst of {len(shares)}: {where}; mean {100 * mean:.2f} %")  # fmt: skip


def duty_cycle(results: Path) -> list[Figure]:
    """Return how much of the blocks of local.yml's newest run is timed; none is made here, for it takes long."""
    for run_dir in sorted(results.glob("*-local"), reverse=True):
        blocks = [
            json.loads(path.read_text(encoding="utf-8")) for path in sorted(run_dir.glob("raw/[0-9]*/block.json"))
        ]
        timed = [
            block["timed_s"] / (block["ended"] - block["started"])
            for block in blocks
            if block["kind"] != "warmup" and block["status"] == "ok"
        ]
        if timed:
            return [
                Figure("of a block is timed: loads and exchanges", 100 * statistics.median(timed), 70, at_most=False,
                       unit="%", detail=f"the median of {len(timed)} blocks of {run_dir.name}")
            ]  # fmt: skip
    sys.stdout.write(f"       no block of local.yml is finished in {results}: how much of it is timed is not known\n")
    return []


def exchange_cost(work: Path) -> Figure:
    """Return what an operation takes in our driver beyond what it does in a bare net/http loop, of the same answers."""
    command = [*compiled("exchange", work), "-test.bench=^BenchmarkOperation$", f"-test.benchtime={OPERATIONS}x"]
    beyond = list[float]()
    for _ in range(TIMES):
        said = subprocess.run(command, cwd=PROJECT / "host/exchange", capture_output=True, text=True, check=True).stdout
        bare, ours = BARE.search(said), OURS.search(said)
        if not bare or not ours:
            sys.exit(f"bench: BenchmarkOperation said no times:\n{said}")
        beyond.append((float(ours[1]) - float(bare[1])) / 1000)
    each = ", ".join(f"{value:.1f}" for value in beyond)
    return Figure("an exchange: each operation, over bare net/http", statistics.median(beyond), 15, at_most=True,
                  unit="us", detail=f"the median of {each}; answers of 8 kB")  # fmt: skip


def share(polls: list[tuple[float, float]], begin: float, end: float) -> float:
    """Return CPU seconds a second between the first and the last poll of a phase."""
    inside = [poll for poll in polls if begin <= poll[0] <= end]
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) / (last - first)
