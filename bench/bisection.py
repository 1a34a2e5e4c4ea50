"""Bisection: how often it is right, and whether its chances are right (simulated, in `make bench`); one real search.

    .venv/bin/python -m bench.bisection [COMMIT]

plants a query handler that is 5 % slower as COMMIT (1 to 16) of sixteen small commits on VictoriaMetrics, and lets
`make bisect` find it: four minutes on two quiet cores, a quarter of an hour on busy ones. Its runs stay in results/.
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

from bench.figures import PROJECT, Figure, at_least, at_most, show
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
"""Spread of a block's log ratio of CPU in experiments/bisect.yml, on a quiet and on a shared machine."""
PLANTED = math.log1p(0.035)
"""The change in the CPU of the duel when the handler is 5 % slower."""
NINETY = (0.87, 0.93)
MINUTES = 25


@dataclass(frozen=True)
class Course:
    """A simulated range of revisions: `first` is the first bad one. `plain`: they differ in this one change alone."""

    rng: np.random.Generator
    first: int
    change: float
    spread: float
    plain: bool

    def true(self, at: int) -> float:
        """Draw the true difference of a revision."""
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
        return [*self.rng.normal(true, self.spread, count).tolist()]


def session(course: Course) -> Iterator[tuple[float, bool, int]]:
    """Search as `make bisect` does; yield after each step the chance of the answer, whether it is right, the blocks.

    Yield nothing if the last revision does not seem bad, since such a range is not searched.
    """
    true: dict[int, float] = {COMMITS: course.true(COMMITS)}
    seen = {COMMITS: course.blocks(FEWEST_BLOCKS, true[COMMITS])}
    again = course.blocks(FEWEST_BLOCKS, 0.0)
    ends = Known(seen, again, LIMIT, native=False, unit="", runs={})
    estimate, low, _ = ends.interval(seen[COMMITS])
    at = 0 if estimate >= LIMIT and low > 0 else None
    while at is not None:
        known = posterior.posterior(COMMITS, seen, again, LIMIT)
        answer = posterior.answer(known.chance, ())
        yield answer.chance, answer.last == course.first, sum(map(len, seen.values()))
        at = posterior.following(known.chance, (), {i: len(values) for i, values in seen.items()})
        if at is None or answer.chance >= posterior.SURE:
            return
        more = posterior.blocks_for(known, LIMIT, len(seen.get(at, [])))
        true.setdefault(at, course.true(at))
        seen.setdefault(at, []).extend(course.blocks(more, true[at]))


def found(seeds: int) -> tuple[float, float, float]:
    """Return the share of planted changes that is found, at measured spreads; mean steps and blocks of a session."""
    ends = []
    for seed in range(seeds):
        rng = np.random.default_rng([18, seed])
        first, spread = int(rng.integers(1, COMMITS + 1)), float(rng.uniform(*MEASURED))
        if steps := list(session(Course(rng, first, PLANTED, spread, plain=False))):
            ends.append((steps[-1][1], len(steps), steps[-1][2]))
    right, mean_steps, blocks = np.mean(ends, axis=0).tolist()
    return right, mean_steps, blocks


def right_of_ninety(seeds: int, *, plain: bool = False) -> tuple[float, int]:
    """Return the share of right answers among those with a chance of 87 to 93 %, and their number, after any step.

    Changes and spreads are over a wide range; `plain` as in `Course`.
    """
    right = []
    for seed in range(seeds):
        rng = np.random.default_rng([90, seed])
        first, change = int(rng.integers(1, COMMITS + 1)), float(np.exp(rng.uniform(*np.log([0.02, 0.08]))))
        spread = float(np.exp(rng.uniform(*np.log([0.003, 0.03]))))
        steps = session(Course(rng, first, change, spread, plain))
        right += [is_right for chance, is_right, _ in steps if NINETY[0] <= chance <= NINETY[1]]
    return float(np.mean(right)), len(right)


def simulated() -> list[Figure]:
    """Return the figures of simulated bisections."""
    share, steps, blocks = found(SESSIONS)
    ninety, answers = right_of_ninety(CALIBRATED)
    plain, _ = right_of_ninety(CALIBRATED // 4, plain=True)
    return [
        at_least("planted commit of 16 found, of all seeds", 100 * share, 90, "%",
                 f"{SESSIONS} seeds, {steps:.1f} steps and {blocks:.0f} blocks on average"),
        at_most("answers given with 90 %: right, off by", abs(100 * ninety - 90), 3, "points",
                f"{100 * ninety:.1f} % of {answers}; {100 * plain:.1f} % where nothing but the change differs"),
    ]  # fmt: skip


def real(commit: int) -> list[Figure]:
    """Let `make bisect` find the commit of a repository that is made for it."""
    repository, bad, wanted = planted.course(caches.directory(os.environ), commit, COMMITS)
    name = f"bench-bisect-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    words = ["make", "bisect", f"RUN={name}", f"GOOD=git:{repository}@base", f"BAD={bad}", "METRIC=cpu"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    begin = time.monotonic()
    if code := subprocess.run(words, cwd=PROJECT, env=clean, stdin=subprocess.DEVNULL, check=False).returncode:
        sys.exit(f"bench: {' '.join(words)} ended with exit code {code}")
    minutes = (time.monotonic() - begin) / 60
    directory = PROJECT / "results" / HOME / name
    steps = Bisection.load(directory).steps
    with (directory / "revisions.csv").open(encoding="utf-8", newline="") as stream:
        chances = {row["ref"]: float(row["chance"] or 0) for row in csv.DictReader(stream)}
    best = max(chances, key=lambda ref: chances[ref])
    return [
        at_most("bisection of 16 commits: minutes", minutes, MINUTES, "min",
                f"{len(steps)} runs, {sum(step.blocks for step in steps)} blocks"),
        at_least("the planted commit is the answer", best == wanted, 1, "(yes: 1)",
                 f"{wanted[:12]} was planted, {best[:12]} has {100 * chances[best]:.1f} %; {directory}"),
    ]  # fmt: skip


if __name__ == "__main__":
    made = show(real(int(sys.argv[1]) if len(sys.argv) > 1 else 11))
    sys.exit(0 if all(figure.met for figure in made) else 1)
