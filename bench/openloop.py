"""The open-loop driver: whether operations start when they are meant to, and whether what it says of them is so."""

import re
import subprocess
import sys
from pathlib import Path

from bench.figures import PROJECT, Figure, compiled

TIMES = 3
METRIC = re.compile(r"([\d.]+) (%-in-time|us-p99\.9-late|%-cpu|%-off|%-of-pause)")


def driver(work: Path) -> list[Figure]:
    """Run the benchmarks of host/openloop against a stub that does nothing but answer; the worst of TIMES each."""
    words = [*compiled("openloop", work), "-test.bench=.", f"-test.benchtime={TIMES}x"]
    done = subprocess.run(words, cwd=PROJECT / "host/openloop", capture_output=True, text=True, check=False)
    found = {name: float(value) for value, name in METRIC.findall(done.stdout)}
    if done.returncode or len(found) != METRIC.pattern.count("|") + 1:
        sys.exit(f"bench: the open loop said no figures:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    beside = f"p99.9 {found['us-p99.9-late']:.0f} us late, {found['%-cpu']:.0f} % of a CPU; a stub on another CPU"
    return [
        Figure("10,000 operations/s on a core: started within 1 ms", found["%-in-time"], 99.9, at_most=False, unit="%",
               detail=f"the worst of {TIMES}; {beside}"),
        Figure("a percentile of its histograms off by", found["%-off"], 0.1, at_most=True, unit="%",
               detail="from a sorted list of 200,000 values, p1 to the largest"),
        Figure("SIGSTOP of 200 ms in p99.9 of response time", found["%-of-pause"], 99, at_most=False, unit="%",
               detail=f"of its length, the worst of {TIMES}; 1,000 queries/s for 1.5 s"),
    ]  # fmt: skip
