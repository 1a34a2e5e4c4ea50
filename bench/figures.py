"""A figure and its target, and how a command's time is taken."""

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Figure:
    """One line of the result, made by `at_most` or `at_least`."""

    name: str
    value: float
    sign: str
    target: float
    unit: str
    detail: str

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.value <= self.target if self.sign == "<=" else self.value >= self.target

    def __str__(self) -> str:
        mark = "ok    " if self.met else "MISSED"
        value = f"{self.value:8.2f} {self.unit:<10}"
        return f"{mark} {self.name:<46} {value} target {self.sign} {self.target:g}   ({self.detail})"


def at_most(name: str, value: float, target: float, unit: str, detail: str) -> Figure:
    """Return a figure that has to be at most its target."""
    return Figure(name, value, "<=", target, unit, detail)


def at_least(name: str, value: float, target: float, unit: str, detail: str) -> Figure:
    """Return a figure that has to be at least its target."""
    return Figure(name, value, ">=", target, unit, detail)


def show(figures: Iterable[Figure]) -> int:
    """Print each figure as it comes, and how many targets are met; return 1 if one is missed, else 0."""
    met = []
    for figure in figures:
        sys.stdout.write(f"{figure}\n")
        sys.stdout.flush()
        met.append(figure.met)
    sys.stdout.write(f"\n{sum(met)} of {len(met)} targets met\n")
    return 0 if all(met) else 1


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds of a command with all its children, and its largest resident set."""

    wall_s: float
    cpu_s: float
    rss_bytes: int


def run(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end and return its cost. Its output is shown only if it fails."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command, cwd=cwd, env=os.environ | dict(env or {}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    # wait4 has the resources of this child and its children alone.
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if code := process.returncode:
        sys.exit(f"bench: {' '.join(map(str, command))[:200]} ended with exit code {code}:\n{output[-2000:]}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far, without its children: clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def compiled(package: str, work: Path) -> tuple[str, ...]:
    """Build the tests of a package of host/; return the command that runs none of them."""
    minimum = re.findall(r"^go (\S+)", (PROJECT / "host/go.mod").read_text(encoding="utf-8"), re.MULTILINE)[0]
    program = str(work / f"{package}.test")
    go = (str(PROJECT / "scripts/with-go"), minimum, "local", "go")
    run([*go, "test", "-c", "-o", program, f"./{package}"], cwd=PROJECT / "host")
    return (program, "-test.run=^$")


def alternate(times: int, first: Callable[[], Cost], second: Callable[[], Cost]) -> tuple[list[Cost], list[Cost]]:
    """Run both in turn, in alternating order, so that drift of the machine affects both alike."""
    ones, others = list[Cost](), list[Cost]()
    for i in range(times):
        for is_first in (i % 2 == 0, i % 2 == 1):
            (ones if is_first else others).append((first if is_first else second)())
    return ones, others


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the median of the ratios of neighbours."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))
