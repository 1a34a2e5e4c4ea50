"""The cost and the precision of our own process: in a timed load, an exchange and an open loop; how much is timed."""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.figures import PROJECT, Figure, at_least, at_most, compiled, cpu_s

POLL_S = 0.25
# Shorter phases say little of a process that works once a second.
LEAST_S = 4.0
TIMES = 5
OPERATIONS = 20_000
BARE = re.compile(r"/client=net-http\S*\s+\d+\s+([\d.]+) ns/op")
LATE = re.compile(r"([\d.]+) (%-in-time|us-p99\.9-late|%-cpu|%-off|%-of-pause)")
OPEN_LOOPS = 3
OURS = re.compile(r"/client=exchange\S*\s.*?([\d.]+) ns/operation")


def own_cost(run_dir: Path, cache: Path) -> Figure:
    """Run the blocks of the plan; return our CPU in the worst load as a share of one core.

    Exchanges are left out: there our process is the client, whose CPU is in the report.
    """
    agent = json.loads((run_dir / "build/agent.json").read_text(encoding="utf-8"))["binary"]
    environment = os.environ | {"TSDUEL_CACHE": str(cache), "TSDUEL_PROJECT": str(PROJECT)}
    polls = list[tuple[float, float]]()
    with subprocess.Popen(
        [agent, "run", run_dir], env=environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as host:
        while host.poll() is None:
            polls.append((time.time(), cpu_s(host.pid)))
            time.sleep(POLL_S)
        output = host.stderr.read() if host.stderr else ""
    if host.returncode:
        sys.exit(f"bench: tsduel-host ended with exit code {host.returncode}:\n{output[-2000:]}")
    shares = list[tuple[float, str]]()
    for block in _blocks(run_dir):
        if block["status"] != "ok":
            sys.exit(f"bench: block {block['block']} failed: {block['failures'][0]['message']}")
        for phase in block["phases"]:
            begin, end = phase["begin"], phase["end"]
            if phase["phase"] == "load" and end - begin >= LEAST_S:
                (first, before), *_, (last, after) = (poll for poll in polls if begin <= poll[0] <= end)
                shares.append(((after - before) / (last - first), f"block {block['block']} {phase['variant']}"))
    if not shares:
        sys.exit(f"bench: no load of {run_dir} lasted {LEAST_S:g} s: make bench/bench.yml larger")
    worst, where = max(shares)
    mean = statistics.fmean(share for share, _ in shares)
    detail = f"the worst of {len(shares)}: {where}; mean {100 * mean:.2f} %"
    return at_most("our process in a timed load: % of a core", 100 * worst, 0.5, "%", detail)


def _blocks(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(run_dir.glob("raw/*/[0-9]*/block.json"))]


def blocks_of_local(results: Path) -> Iterator[Figure]:
    """Yield how much of the blocks of local.yml's newest run is timed, and what its turns take.

    Such a run takes long, so none is made here.
    """
    for run_dir in sorted(results.glob("*-local"), reverse=True):
        blocks = [block for block in _blocks(run_dir) if block["kind"] != "warmup" and block["status"] == "ok"]
        if blocks:
            timed = [block["timed_s"] / (block["ended"] - block["started"]) for block in blocks]
            detail = f"the median of {len(timed)} blocks of {run_dir.name}"
            yield at_least("of a block is timed: loads and exchanges", 100 * statistics.median(timed), 70, "%", detail)
            phases = [phase for block in blocks for phase in (*block["duel"]["types"], *block["duel"]["load"])]
            turns, spent, whole = (sum(phase[name] for phase in phases) for name in ("turns", "turn_s", "seconds"))
            detail = f"{turns} turns, {100 * spent / whole:.1f} % of the phases; by {blocks[0]['duel']['held_by']}"
            yield at_most("a turn: one side stands still, the other goes on", 1e6 * spent / turns, 150, "us", detail)
            return
    sys.stdout.write(f"       no block of local.yml is finished in {results}: its times and turns are not known\n")


def exchange_cost(work: Path) -> Iterator[Figure]:
    """Yield the time of an operation in our driver beyond that in a bare net/http loop, with the same answers."""
    command = [*compiled("exchange", work), "-test.bench=^BenchmarkOperation$", f"-test.benchtime={OPERATIONS}x"]
    beyond = list[float]()
    for _ in range(TIMES):
        done = subprocess.run(command, cwd=PROJECT / "host/exchange", capture_output=True, text=True, check=True)
        bare, ours = BARE.search(done.stdout), OURS.search(done.stdout)
        if not bare or not ours:
            sys.exit(f"bench: BenchmarkOperation said no times:\n{done.stdout}")
        beyond.append((float(ours[1]) - float(bare[1])) / 1000)
    detail = f"the median of {', '.join(f'{value:.1f}' for value in beyond)}; answers of 8 kB"
    yield at_most("an exchange: each operation, over bare net/http", statistics.median(beyond), 15, "us", detail)


def open_loop(work: Path) -> list[Figure]:
    """Run the benchmarks of host/openloop against a stub that only answers; the worst of OPEN_LOOPS each."""
    words = [*compiled("openloop", work), "-test.bench=.", f"-test.benchtime={OPEN_LOOPS}x"]
    done = subprocess.run(words, cwd=PROJECT / "host/openloop", capture_output=True, text=True, check=False)
    values = {name: float(value) for value, name in LATE.findall(done.stdout)}
    if done.returncode or len(values) != LATE.pattern.count("|") + 1:
        sys.exit(f"bench: the open loop said no figures:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    load = f"p99.9 {values['us-p99.9-late']:.0f} us late, {values['%-cpu']:.0f} % of a CPU; a stub on another CPU"
    return [
        at_least("10,000 operations/s on a core: started within 1 ms", values["%-in-time"], 99.9, "%",
                 f"the worst of {OPEN_LOOPS}; {load}"),
        at_most("a percentile of its histograms off by", values["%-off"], 0.1, "%",
                "from a sorted list of 200,000 values, p1 to the largest"),
        at_least("SIGSTOP of 200 ms in p99.9 of response time", values["%-of-pause"], 99, "%",
                 f"of its length, the worst of {OPEN_LOOPS}; 1,000 queries/s for 1.5 s"),
    ]  # fmt: skip
