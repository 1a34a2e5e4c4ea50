"""What the user's own queries and data cost, side by side with TSBS's queries and with zstd and wc."""

import random
import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.figures import PROJECT, Figure, at_least, at_most, compiled, run

LINES = 1_000_000  # of ten samples
TIMES = 5
BEYOND = re.compile(r"([-0-9.]+) us-beyond")


def figures(work: Path) -> Iterator[Figure]:
    """Yield the extra time of a user's request over a request of TSBS, and time and memory of reading a dump."""
    command = [*compiled("workload", work), "-test.run=^$", "-test.bench=OwnQueries", "-test.benchtime=9x"]
    done = subprocess.run(command, cwd=PROJECT / "host/workload", capture_output=True, text=True, check=True)
    beyond = max(float(value) for value in BEYOND.findall(done.stdout))
    yield at_most("an own query: each request, over one of TSBS's", beyond, 2, "us", "the median of 9 times 20,000")
    agent, plain, packed = work / "tsduel-host", work / "dump", work / "dump.zst"
    run(["go", "build", "-o", agent, "."], cwd=PROJECT / "host")
    _write(plain)
    run(["zstd", "-q", "-f", plain, "-o", packed], cwd=work)
    pairs = [
        (
            run(["bash", "-c", f"zstd -dc {packed} | wc -l"], cwd=work),
            run([agent, "dump", packed, work / "c"], cwd=work),
        )
        for _ in range(TIMES)
    ]
    shares = [counted.wall_s / read.wall_s for counted, read in pairs]
    detail = f"the median of {', '.join(f'{share:.2f}' for share in shares)}; {pairs[0][1].wall_s:.1f} s"
    yield at_least("a dump of 10 million samples: of zstd -d | wc -l", statistics.median(shares), 0.5, "times", detail)
    most = max(read.rss_bytes for _, read in pairs) / 1e6
    yield at_most("memory while it is read", most, 300, "MB", "the largest of all")
    yield at_most("time to read it", max(read.wall_s for _, read in pairs), 60, "s", "the longest of all")


def _write(path: Path) -> None:
    """Write lines of a hundred hosts with ten fields each, as TSBS writes them: with sixteen digits."""
    draw = random.Random(26)  # noqa: S311
    tags = "region=eu-west-1,datacenter=eu-west-1a,rack=1,os=Ubuntu16.10,arch=x64,team=SF,service=6,version=1"
    with path.open("w", encoding="utf-8") as stream:
        for n in range(LINES):
            fields = ",".join(f"usage_{field}={100 * draw.random():.16f}" for field in range(10))
            stream.write(f"cpu,hostname=host_{n % 100},{tags} {fields} {(1749513600 + n // 100) * 10**9}\n")
