"""Bisection: how often it is right and as sure as it says (simulated, part of `make bench`); and once for real.

    .venv/bin/python -m bench.bisection [COMMIT]

plants a query handler that is 5 % slower as COMMIT (1 to 16) of sixteen small commits on VictoriaMetrics, and has `make
bisect` find it; four minutes on a quiet machine of two cores, a quarter of an hour on a busy one. Its runs stay in
results/.
"""

import csv
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.figures import PROJECT, Figure
from tsduel.bisect import posterior
from tsduel.bisect.bisection import HOME, Bisection
from tsduel.bisect.steps import Known
from tsduel.calibrate import planted
from tsduel.core import caches
from tsduel.stats.power import FEWEST_BLOCKS

COMMITS = 16
LIMIT = math.log1p(0.02)
SESSIONS, CALIBRATED = 200, 3000
MEASURED = (0.002, 0.010)
"""Spread of a block's log ratio of CPU in experiments/bisect.yml, from a quiet machine to one that others use."""
PLANTED = math.log1p(0.035)
"""What of 5 % in the handler is seen in the CPU of all."""
NINETY = (0.87, 0.93)
MINUTES = 25


@dataclass(frozen=True)
class Course:
    """An imagined range of revisions, of which `first` is the first bad one; what is not the change is as assumed."""

    rng: np.random.Generator
    first: int
    change: float
    spread: float
    plain: bool

    def true(self, at: int) -> float:
        """Draw what a revision really differs by."""
        rng, bad = self.rng, at >= self.first
        kind = 1.0 if self.plain else rng.random()
        far = max(2 * self.change, 2 * LIMIT)
        if kind < posterior.WRONG:
            return float(rng.normal(0, max(self.change, 10 * LIMIT)))
        if kind < posterior.WRONG + posterior.OTHER:
            return float(rng.uniform(LIMIT, far) if bad else rng.uniform(-far, LIMIT))
        return self.change * bad + float(rng.normal(0, posterior.OFFSET * LIMIT))

    def blocks(self, count: int, true: float) -> list[float]:
        """Draw the log ratios of blocks."""
        drawn: list[float] = self.rng.normal(true, self.spread, count).tolist()
        return drawn


def session(course: Course) -> Iterator[tuple[float, bool, int]]:
    """Search it as `make bisect` does; yield after every step how sure it is, whether it is right, and its blocks.

    Nothing of a range whose last revision is not seen to be bad, which is not searched.
    """
    true: dict[int, float] = {COMMITS: course.true(COMMITS)}
    seen = {COMMITS: course.blocks(FEWEST_BLOCKS, true[COMMITS])}
    again = course.blocks(FEWEST_BLOCKS, 0.0)
    ends = Known(seen, again, LIMIT, native=False, unit="", runs={})
    estimate, low, _ = ends.interval(seen[COMMITS])
    at = 0 if estimate >= LIMIT and low > 0 else None
    while at is not None:
        known = posterior.posterior(COMMITS, seen, again, LIMIT)
        found = posterior.answer(known.chance, ())
        yield found.chance, found.last == course.first, sum(map(len, seen.values()))
        at = posterior.following(known.chance, (), {i: len(values) for i, values in seen.items()})
        if at is None or found.chance >= posterior.SURE:
            return
        more = posterior.blocks_for(known, LIMIT, len(seen.get(at, [])))
        true.setdefault(at, course.true(at))
        seen.setdefault(at, []).extend(course.blocks(more, true[at]))


def found(seeds: int) -> tuple[float, float, float]:
    """Return, with measured spreads and the planted change, the share found, mean steps and blocks of a session."""
    ends = []
    for seed in range(seeds):
        rng = np.random.default_rng([18, seed])
        first, spread = int(rng.integers(1, COMMITS + 1)), float(rng.uniform(*MEASURED))
        searched = list(session(Course(rng, first, PLANTED, spread, plain=False)))
        if not searched:
            continue
        ends.append((searched[-1][1], len(searched), searched[-1][2]))
    right, steps, blocks = np.mean(ends, axis=0).tolist()
    return right, steps, blocks


def right_of_ninety(seeds: int, *, plain: bool = False) -> tuple[float, int]:
    """Return the share that is right of all answers given with 87 to 93 %, on the way too, and how many these are.

    Changes and spreads over a wide range; `plain`: revisions differ by the one change alone, as is not assumed.
    """
    right = []
    for seed in range(seeds):
        rng = np.random.default_rng([90, seed])
        first, change = int(rng.integers(1, COMMITS + 1)), float(np.exp(rng.uniform(*np.log([0.02, 0.08]))))
        spread = float(np.exp(rng.uniform(*np.log([0.003, 0.03]))))
        for chance, is_right, _ in session(Course(rng, first, change, spread, plain)):
            if NINETY[0] <= chance <= NINETY[1]:
                right.append(is_right)
    return float(np.mean(right)), len(right)


def simulated() -> list[Figure]:
    """Return the figures of imagined bisections."""
    share, steps, blocks = found(SESSIONS)
    ninety, answers = right_of_ninety(CALIBRATED)
    plain, _ = right_of_ninety(CALIBRATED // 4, plain=True)
    return [
        Figure("planted commit of 16 found, of all seeds", 100 * share, 90, at_most=False, unit="%",
               detail=f"{SESSIONS} seeds, {steps:.1f} steps and {blocks:.0f} blocks on average"),
        Figure("answers given with 90 %: right, off by", abs(100 * ninety - 90), 3, at_most=True, unit="points",
               detail=f"{100 * ninety:.1f} % of {answers}; {100 * plain:.1f} % where nothing but the change differs"),
    ]  # fmt: skip


def real(commit: int) -> list[Figure]:
    """Have `make bisect` find the commit of a repository that is made for it."""
    repository, bad, wanted = planted.course(caches.directory(os.environ), commit, COMMITS)
    name = f"bench-bisect-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    words = ["make", "bisect", f"RUN={name}", f"GOOD=git:{repository}@base", f"BAD={bad}", "METRIC=cpu"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    begin = time.monotonic()
    if code := subprocess.run(words, cwd=PROJECT, env=clean, stdin=subprocess.DEVNULL, check=False).returncode:
        sys.exit(f"bench: {' '.join(words)} ended with exit code {code}")
    minutes = (time.monotonic() - begin) / 60
    directory = PROJECT / "results" / HOME / name
    bisection = Bisection.load(directory)
    with (directory / "revisions.csv").open(encoding="utf-8", newline="") as stream:
        chances = {row["ref"]: float(row["chance"] or 0) for row in csv.DictReader(stream)}
    best = max(chances, key=lambda ref: chances[ref])
    return [
        Figure("bisection of 16 commits: minutes", minutes, MINUTES, at_most=True, unit="min",
               detail=f"{len(bisection.steps)} runs, {sum(step.blocks for step in bisection.steps)} blocks"),
        Figure("the planted commit is the answer", best == wanted, 1, at_most=False, unit="(yes: 1)",
               detail=f"{wanted[:12]} was planted, {best[:12]} has {100 * chances[best]:.1f} %; {directory}"),
    ]  # fmt: skip


def main() -> int:
    """Do it for real."""
    commit = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    figures = real(commit)
    sys.stdout.write("".join(f"{figure}\n" for figure in figures))
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
