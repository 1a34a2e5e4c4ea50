"""Where the steps are: their posterior from the duels so far, the next revision to measure, and its blocks.

Probabilistic bisection: Horstein, "Sequential transmission using noiseless feedback", IEEE Trans. Inf. Theory 9 (1963);
Waeber, Frazier and Henderson, "Bisection search with noisy responses", SIAM J. Control Optim. 51 (2013). They ask at
the median of the posterior of one step. Here a range may have up to three steps (Fearnhead, "Exact and efficient
Bayesian inference for multiple changepoint problems", Stat. Comput. 16, 2006), and the revision is asked whose level is
least known; of one step that is the median. An answer is the log ratios of a few blocks. Levels and the spread of a
block are integrated out. One wrong answer moves the posterior by a bounded factor.

Pure numbers: revisions are 0 (good) to N, values are log ratios or in the metric's own unit, above zero is as N is.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

from tsduel.stats.estimate import Floats, hodges_lehmann

SURE = 0.95
OFFSET = 0.25
"""Standard deviation, in thresholds, of differences for other reasons: layout of code, other commits."""
WRONG = 0.003
"""Chance that a run says nothing of its revision; of several runs all of them must."""
STEPS = (0.83, 0.15, 0.02)
"""Chances of one, two and three steps in a range."""
LEAST = 0.75
"""Thresholds by which levels before and after a step differ at least."""
FEWEST, USUAL, MOST = 2, 12, 24
"""Blocks of a revision: at least both orders, so many at first at most, and so many in all: more do not help."""
KNOWN = 0.05
"""In thresholds: a revision whose level is uncertain by less is not measured again."""
_MISTAKEN = 2.05
"""Normal quantile: one answer in fifty is on the wrong side."""
_SPREADS, _MOST_LEVELS = 24, 401

Case = tuple[int, ...]
"""Gaps with a step. Gap i has the revisions after measured revision i - 1, up to measured revision i."""


@dataclass(frozen=True)
class Posterior:
    """`chance[k - 1]`: revision k is a step.

    `measured`: revisions from 0 on; `cases`: the chance of each case, and its levels before, between and after its
    steps; `change`: the least step of the likeliest case; `spread` of a block.
    """

    chance: Floats
    measured: tuple[int, ...]
    cases: Mapping[Case, tuple[float, tuple[float, ...]]]
    change: float
    spread: float
    limit: float


@dataclass(frozen=True)
class Answer:
    """Steps, each somewhere in the revisions `first` to `last`, and the chance that all of them are right.

    `levels`: before the first step (0), between steps, and after the last.
    """

    steps: tuple[tuple[int, int], ...]
    levels: tuple[float, ...]
    chance: float


def posterior(count: int, seen: Mapping[int, Sequence[float]], limit: float, runs: Mapping[int, int]) -> Posterior:
    """Return the posterior of `count` revisions after the good one, which are equally likely before.

    `seen`: values of the blocks of each measured revision, always with the last one; `limit`: the threshold, in the
    same unit; `runs`: how many each measured revision's values are of.
    """
    points = (0, *sorted(seen))
    sigma, likelihood = _spreads(list(seen.values()), limit)
    middles = {at: hodges_lehmann(values) for at, values in seen.items()}
    reach = 1.5 * max(map(abs, middles.values())) + 2 * limit
    grid = np.linspace(-reach, reach, min(_MOST_LEVELS, 2 * math.ceil(4 * reach / (OFFSET * limit)) + 1))
    steady, likely = np.zeros((len(points), len(sigma))), np.zeros((len(points), len(sigma), len(grid)))
    for i, at in enumerate(points[1:], 1):
        error = np.sqrt(sigma**2 / len(seen[at]) + (OFFSET * limit) ** 2 + (grid[1] - grid[0]) ** 2 / 3)
        nothing = WRONG ** runs[at] * _normal(np.asarray(middles[at]), max(reach, 10 * limit))
        steady[i] = np.log(_normal(middles[at] - np.zeros((1, 1)), error[:, None]) + nothing)[:, 0]
        likely[i] = np.log(_normal(middles[at] - grid[None, :], error[:, None]) + nothing)
    steady, likely = steady.cumsum(axis=0), likely.cumsum(axis=0)
    segments = dict[tuple[int, int], tuple[Floats, Floats, Floats]]()
    for begin, end in itertools.combinations(range(1, len(points) + 1), 2):
        inside = likely[end - 1] - likely[begin - 1]
        whole = logsumexp(inside, axis=1)
        share = np.exp(inside - whole[:, None])
        segments[begin, end] = whole - math.log(len(grid)), share @ grid, share @ grid**2 - (share @ grid) ** 2
    weights, levels = dict[Case, Floats](), dict[Case, list[Floats]]()
    for case, prior in _cases(points):
        parts = [segments[part] for part in itertools.pairwise((*case, len(points)))]
        weights[case] = math.log(prior) + likelihood + steady[case[0] - 1] + sum(weight for weight, _, _ in parts)
        levels[case] = [np.zeros(len(sigma)), *(level for _, level, _ in parts)]
        variances = [np.zeros(len(sigma)), *(variance for _, _, variance in parts)]
        for i in range(len(case)):
            weights[case] += _differ(levels[case][i : i + 2], variances[i : i + 2], LEAST * limit)
    scores: Floats = np.stack(list(weights.values()))
    share = np.exp(scores - logsumexp(scores))
    cases = {
        case: (float(own.sum()), tuple(float(own @ level / max(own.sum(), 1e-300)) for level in levels[case]))
        for case, own in zip(weights, share, strict=True)
    }
    chance = np.zeros(count)
    for case, (own, _) in cases.items():
        for gap in case:
            chance[points[gap - 1] : points[gap]] += own / (points[gap] - points[gap - 1])
    _, best = max(cases.values())
    change = min(abs(b - a) for a, b in itertools.pairwise(best))
    return Posterior(chance, points, cases, change, math.sqrt(float(share.sum(axis=0) @ sigma**2)), limit)


def _spreads(seen: list[Sequence[float]], limit: float) -> tuple[Floats, Floats]:
    """Return possible spreads of a block, and their log likelihoods, from differences between blocks of a revision."""
    sigma = np.geomspace(limit / 50, limit * 5, _SPREADS)
    likelihood = np.zeros(_SPREADS)
    for values in seen:
        left = sum((value - hodges_lehmann(values)) ** 2 for value in values)
        likelihood -= max(0, len(values) - 1) * np.log(sigma) + left / (2 * sigma**2)
    return sigma, likelihood


def _normal(distance: Floats, error: float | Floats) -> Floats:
    """Return the density of a normal distribution, but for a constant factor."""
    return np.asarray(np.exp(-0.5 * (distance / error) ** 2) / error)


def _differ(levels: Sequence[Floats], variances: Sequence[Floats], least: float) -> Floats:
    """Return the log of the chance that two levels are `least` apart."""
    difference, error = levels[1] - levels[0], np.sqrt(sum(variances) + (least / 50) ** 2)
    return np.asarray(np.log(1e-9 + ndtr((-least - difference) / error) + ndtr((difference - least) / error)))


def _cases(points: Sequence[int]) -> Iterator[tuple[Case, float]]:
    """Yield the cases with their chances before anything is measured: a gap may have several steps."""
    sizes = [after - before for before, after in itertools.pairwise(points)]
    for several in range(1, len(STEPS) + 1):
        for case in itertools.combinations(range(1, len(points)), several):
            prior = 0.0
            for counts in itertools.product(range(1, len(STEPS) + 1), repeat=several):
                if (total := sum(counts)) <= min(len(STEPS), points[-1]):
                    ways = math.prod(math.comb(sizes[gap - 1], n) for gap, n in zip(case, counts, strict=True))
                    prior += STEPS[total - 1] * ways / math.comb(points[-1], total)
            if prior:
                yield case, prior


def answer(belief: Posterior, skipped: Collection[int]) -> Answer:
    """Return the likeliest steps, each together with revisions in `skipped` directly before it."""
    case, (chance, levels) = max(belief.cases.items(), key=lambda item: item[1][0])
    steps = []
    for gap in case:
        groups, first = list[tuple[int, int]](), belief.measured[gap - 1] + 1
        for k in range(first, belief.measured[gap] + 1):
            if k not in skipped or k == belief.measured[gap]:
                groups.append((first, k))
                first = k + 1
        steps.append(max(groups, key=lambda group: group[1] - group[0]))
        first, last = steps[-1]
        chance *= (last - first + 1) / (belief.measured[gap] - belief.measured[gap - 1])
    return Answer(tuple(steps), levels, chance)


def following(belief: Posterior, skipped: Collection[int], blocks: Mapping[int, int]) -> int | None:
    """Return the revision to measure next, whose level is least known; None where no answer would help.

    `blocks`: how many each measured revision has; one with MOST is not measured again.
    """
    first, second = (np.zeros(belief.measured[-1] + 1) for _ in range(2))
    for case, (chance, levels) in belief.cases.items():
        at = [np.zeros(len(first)), np.zeros(len(first))]
        reached = 0
        for gap in range(1, len(belief.measured)):
            begin, end = belief.measured[gap - 1], belief.measured[gap]
            after = levels[reached + (gap in case)]
            share = np.arange(1, end - begin + 1) / (end - begin)
            for power, moment in enumerate(at, 1):
                moment[begin + 1 : end + 1] = (1 - share) * levels[reached] ** power + share * after**power
            reached += gap in case
        first, second = first + chance * at[0], second + chance * at[1]
    unknown = second - first**2
    at_all = [i for i in range(1, belief.measured[-1]) if i not in skipped and blocks.get(i, 0) < MOST]
    best = max(at_all, key=lambda i: (float(f"{unknown[i]:.2g}"), -blocks.get(i, 0)), default=None)
    return None if best is None or unknown[best] < (KNOWN * belief.limit) ** 2 else best


def blocks_for(belief: Posterior, measured: int) -> int:
    """Return the least even number of blocks that tells the change from none, or as many again as were `measured`."""
    room = (belief.change / 2 / _MISTAKEN) ** 2 - (OFFSET * belief.limit) ** 2
    wanted = belief.spread**2 / room if room > 0 else math.inf
    return 2 * math.ceil(min(max(FEWEST, measured, min(USUAL, wanted) - measured), MOST - measured) / 2)
