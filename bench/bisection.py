"""Bisection: how often it is right, and whether its chances are right (simulated, in `make bench`); one real search.

    .venv/bin/python -m bench.bisection [COMMIT]

plants a query handler that is 5 % slower as COMMIT (1 to 16) of sixteen small commits on VictoriaMetrics, and lets
`make bisect` find it: four minutes on two quiet cores, a quarter of an hour on busy ones. Its runs stay in results/.
"""

import bisect
import csv
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bench.figures import PROJECT, Figure, at_least, at_most, show
from tsduel.bisect import posterior
from tsduel.bisect.bisection import HOME, Bisection
from tsduel.bisect.steps import Measured
from tsduel.calibrate import planted
from tsduel.core import caches
from tsduel.stats.power import FEWEST_BLOCKS

COMMITS = 16
LIMIT = math.log1p(0.02)
SESSIONS, CALIBRATED = 200, 1000
MEASURED = (0.002, 0.010)
"""Spread of a block's log ratio of CPU in experiments/bisect.yml, on a quiet and on a shared machine."""
PLANTED = math.log1p(0.035)
"""The change in the CPU of the duel when the handler is 5 % slower."""
NINETY = (0.87, 0.93)
MINUTES = 25


@dataclass(frozen=True)
class Course:
    """A simulated range of revisions: `levels` are the true differences from each step on, in order of `steps`."""

    rng: np.random.Generator
    steps: tuple[int, ...]
    levels: tuple[float, ...]
    spread: float

    def true(self, at: int) -> float:
        """Draw the true difference of a revision."""
        level = (0.0, *self.levels)[bisect.bisect_right(self.steps, at)]
        return level + float(self.rng.normal(0, posterior.OFFSET * LIMIT))

    def blocks(self, count: int, true: float) -> list[float]:
        """Draw the log ratios of a run's blocks, which may have nothing to do with their revision."""
        if self.rng.random() < posterior.WRONG:
            true = float(self.rng.normal(0, max(abs(self.levels[-1]), 10 * LIMIT)))
        return [*self.rng.normal(true, self.spread, count).tolist()]


def course(rng: np.random.Generator, changes: tuple[float, float], spread: float, steps: int = 1) -> Course:
    """Draw steps of at least the threshold; the whole range is worse by a change between the two `changes`."""
    at = sorted(rng.choice(COMMITS, steps, replace=False) + 1)
    whole = float(np.exp(rng.uniform(*np.log(changes))))
    while True:
        levels = [*rng.uniform(-1.5 * whole, 1.5 * whole, steps - 1).tolist(), whole]
        if np.abs(np.diff([0.0, *levels])).min() >= min(LIMIT, whole):
            return Course(rng, tuple(map(int, at)), tuple(levels), spread)


def session(planted_at: Course) -> Iterator[tuple[posterior.Answer, bool, int]]:
    """Search as `make bisect` does; yield after each step the answer, whether it is right, the blocks.

    Yield nothing if the last revision does not seem bad, since such a range is not searched.
    """
    true: dict[int, float] = {COMMITS: planted_at.true(COMMITS)}
    seen = {COMMITS: planted_at.blocks(FEWEST_BLOCKS, true[COMMITS])}
    runs = {COMMITS: 1}
    ends = Measured(seen, LIMIT)
    estimate, low, _ = ends.interval(seen[COMMITS])
    at = 0 if estimate >= LIMIT and low > 0 else None
    wanted = tuple((step, step) for step in planted_at.steps)
    while at is not None:
        belief = posterior.posterior(COMMITS, seen, LIMIT, runs)
        answer = posterior.answer(belief, ())
        yield answer, answer.steps == wanted, sum(map(len, seen.values()))
        at = posterior.following(belief, (), {i: len(values) for i, values in seen.items()})
        if at is None or answer.chance >= posterior.SURE:
            return
        more = posterior.blocks_for(belief, len(seen.get(at, [])))
        true.setdefault(at, planted_at.true(at))
        seen.setdefault(at, []).extend(planted_at.blocks(more, true[at]))
        runs[at] = runs.get(at, 0) + 1


def found(seeds: int, steps: int = 1) -> tuple[float, float, float]:
    """Return the share of planted changes that is found, at measured spreads; mean steps and blocks of a session."""
    ends = []
    for seed in range(seeds):
        rng = np.random.default_rng([18, steps, seed])
        planted_at = course(rng, (PLANTED, PLANTED), float(rng.uniform(*MEASURED)), steps)
        if courses := list(session(planted_at)):
            ends.append((courses[-1][1], len(courses), courses[-1][2]))
    # A search that refuses its BAD has not found it.
    mean_steps, blocks = np.mean(ends, axis=0).tolist()[1:]
    return sum(end[0] for end in ends) / seeds, mean_steps, blocks


@dataclass
class Answers:
    """Whether answers were right: those given with 87 to 93 % after any step, and those that searches end with.

    `ended`: the chance that an end was given with, and whether it was right, of answers of 95 % and more.
    """

    ninety: list[bool] = field(default_factory=list)
    ended: list[tuple[float, bool]] = field(default_factory=list)
    unsure: int = 0


def calibrated(seeds: int) -> Answers:
    """Return the answers of simulated searches: as many ranges have several steps as the model assumes.

    Changes and spreads are over a wide range.
    """
    answers = Answers()
    for seed in range(seeds):
        rng = np.random.default_rng([90, seed])
        steps = int(rng.choice(len(posterior.STEPS), p=posterior.STEPS)) + 1
        spread = float(np.exp(rng.uniform(*np.log([0.003, 0.03]))))
        guesses = [*session(course(rng, (0.02, 0.08), spread, steps))]
        answers.ninety += [is_right for answer, is_right, _ in guesses if NINETY[0] <= answer.chance <= NINETY[1]]
        if guesses and guesses[-1][0].chance >= posterior.SURE:
            answers.ended.append((guesses[-1][0].chance, guesses[-1][1]))
        answers.unsure += bool(guesses) and guesses[-1][0].chance < posterior.SURE
    return answers


def simulated() -> list[Figure]:
    """Return the figures of simulated bisections."""
    share, steps, blocks = found(SESSIONS)
    twice, more_steps, more_blocks = found(SESSIONS, steps=2)
    answers = calibrated(CALIBRATED)
    stated, right = (100 * float(np.mean(column)) for column in zip(*answers.ended, strict=True))
    return [
        at_least("planted commit of 16 found, of all seeds", 100 * share, 90, "%",
                 f"{SESSIONS} seeds, {steps:.1f} steps and {blocks:.0f} blocks on average"),
        at_least("two planted commits of 16, both found", 100 * twice, 90, "%",
                 f"{SESSIONS} seeds, {more_steps:.1f} steps and {more_blocks:.0f} blocks on average"),
        at_least("answers given with 90 %: right", 100 * float(np.mean(answers.ninety)), 87, "%",
                 f"of {len(answers.ninety)}"),
        at_most("answers of 95 % and more: right, off by", abs(right - stated), 3, "points",
                f"{right:.1f} % of {len(answers.ended)}, given with {stated:.1f} %; {answers.unsure} ended unsure"),
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
    sys.exit(show(real(int(sys.argv[1]) if len(sys.argv) > 1 else 11)))
