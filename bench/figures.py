"""A figure and its target, and how a command's time is taken."""

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Figure:
    """One line of the result: `value` has to be at most, or at least, `target`."""

    name: str
    value: float
    target: float
    at_most: bool
    unit: str
    detail: str

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.value <= self.target if self.at_most else self.value >= self.target

    def __str__(self) -> str:
        sign = "<=" if self.at_most else ">="
        mark = "ok    " if self.met else "MISSED"
        return (
            f"{mark} {self.name:<46} {self.value:8.2f} {self.unit:<10} target {sign} {self.target:g}   ({self.detail})"
        )


@dataclass(frozen=True)
class Cost:
    """What one command took: wall and CPU seconds with all its children, and its largest resident set."""

    wall_s: float
    cpu_s: float
    rss_bytes: int


def run(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end and return its cost. What it says is shown only if it fails."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command, cwd=cwd, env=os.environ | dict(env or {}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    # wait4 has the resources of this child and of those it waited for, and of no other.
    said = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(
            f"bench: {' '.join(map(str, command))[:200]} ended with exit code {process.returncode}:\n{said[-2000:]}"
        )
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def compiled(package: str, work: Path) -> tuple[str, ...]:
    """Build the tests of a package of host/; return the words that run no test of it."""
    minimum = re.findall(r"^go (\S+)", (PROJECT / "host/go.mod").read_text(encoding="utf-8"), re.MULTILINE)[0]
    program = str(work / f"{package}.test")
    go = (str(PROJECT / "scripts/with-go"), minimum, "local", "go")
    run([*go, "test", "-c", "-o", program, f"./{package}"], cwd=PROJECT / "host")
    return (program, "-test.run=^$")


def alternate(times: int, one: Callable[[], Cost], other: Callable[[], Cost]) -> tuple[list[Cost], list[Cost]]:
    """Run both by turns, the order changing each time, so that the drift of the machine meets both alike."""
    ones, others = list[Cost](), list[Cost]()
    for i in range(times):
        for mine in (i % 2 == 0, i % 2 == 1):
            (ones if mine else others).append((one if mine else other)())
    return ones, others


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the median of the ratios of neighbours."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))
