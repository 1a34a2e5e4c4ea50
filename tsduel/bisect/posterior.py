"""The first bad revision: its posterior from the duels so far, the next revision to measure, and its blocks.

Probabilistic bisection: Horstein, "Sequential transmission using noiseless feedback", IEEE Trans. Inf. Theory 9 (1963);
Waeber, Frazier and Henderson, "Bisection search with noisy responses", SIAM J. Control Optim. 51 (2013). They ask at
the median of the posterior and multiply it by a known chance of a right answer. Here an answer is the log ratios of a
few blocks, so the factor is their likelihood if the revision is good, and if it is bad. The spread of a block and the
size of the change are integrated out. One wrong answer moves the posterior by a bounded factor.

Pure numbers: revisions are 0 (good) to N (bad), values above zero are worse, in log ratios or in the metric's own unit.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

from tsduel.stats.estimate import Floats, hodges_lehmann

SURE = 0.95
OFFSET = 0.25
"""Standard deviation, in thresholds, of differences for other reasons: layout of code, other commits."""
WRONG = 0.01
"""Chance that the duels of a revision are useless."""
OTHER = 0.1
"""Chance of another change: a good revision is anywhere below the threshold, a bad one anywhere above."""
FEWEST, MOST = 2, 12
"""Blocks of a revision: at least both orders; more than MOST do not help."""
_MISTAKEN = 2.05
"""Normal quantile: one answer in fifty is on the wrong side."""
_SPREADS, _CHANGES = 24, 21


@dataclass(frozen=True)
class Posterior:
    """`chance[k - 1]`: revision k is the first bad one; `change` and `spread` of a block are posterior means."""

    chance: Floats
    change: float
    spread: float


@dataclass(frozen=True)
class Answer:
    """Revisions `first` to `last`, which no measurement tells apart, and their chance together."""

    first: int
    last: int
    chance: float


def posterior(count: int, seen: Mapping[int, Sequence[float]], again: Sequence[float], limit: float) -> Posterior:
    """Return the posterior of `count` revisions after the good one, which are equally likely before.

    `seen`: values of the blocks of each measured revision, always with the last one; `again`: values of the good one
    against itself; `limit`: the threshold, in the same unit.
    """
    tau, spreads = OFFSET * limit, np.geomspace(limit / 50, limit * 5, _SPREADS)
    last = seen[count]
    centre, spread = hodges_lehmann(last), float(np.std(last, ddof=1)) if len(last) > 1 else 0.0
    reach = 4 * math.hypot(tau, spread / math.sqrt(len(last)))
    changes = np.linspace(max(limit / 2, centre - reach), max(limit, centre + reach), _CHANGES)
    sigma, delta = spreads[:, None], changes[None, :]
    known = _log_normal(hodges_lehmann(again), 0.0, sigma / math.sqrt(len(again))) if again else np.zeros_like(sigma)
    for values in (again, *seen.values()):
        left = sum((value - hodges_lehmann(values)) ** 2 for value in values)
        known = known - max(0, len(values) - 1) * np.log(sigma) - left / (2 * sigma**2)
    good, bad = {}, {}
    for at, values in seen.items():
        error = np.sqrt(sigma**2 / len(values) + tau**2)
        good[at], bad[at] = _likely(hodges_lehmann(values), error, delta, limit)
    # For k = 1 all are bad; with a larger k the measured revisions before it are good.
    weight: Floats = known + sum(bad.values())
    scores: Floats = np.empty(count)
    parts, begin = [], 1
    for at in (*sorted(set(seen) - {count}), count):
        scores[begin - 1 : at] = logsumexp(weight)
        parts.append(weight + math.log(at - begin + 1))
        begin, weight = at + 1, weight + good[at] - bad[at]
    whole = np.exp(logsumexp(np.stack(parts), axis=0) - logsumexp(np.stack(parts)))
    chance: Floats = np.exp(scores - logsumexp(scores))
    return Posterior(chance, float((whole * delta).sum()), math.sqrt(float((whole * sigma**2).sum())))


def _likely(value: float, error: Floats, delta: Floats, limit: float) -> tuple[Floats, Floats]:
    """Return log likelihoods of a revision's value if it is good, and if it is bad."""
    far, wide = np.maximum(2 * delta, 2 * limit), np.maximum(delta, 10 * limit)
    value = float(np.clip(value, -8 * wide.min(), 8 * wide.min()))  # avoids log(0)
    nothing = WRONG * np.exp(_log_normal(value, 0.0, wide))
    below = (ndtr((value + far) / error) - ndtr((value - limit) / error)) / (far + limit)
    above = (ndtr((value - limit) / error) - ndtr((value - far) / error)) / (far - limit)
    same, changed = (np.exp(_log_normal(value, centre, error)) for centre in (0.0, delta))
    plain = 1 - WRONG - OTHER
    return np.log(plain * same + OTHER * below + nothing), np.log(plain * changed + OTHER * above + nothing)


def _log_normal(value: float, centre: float | Floats, error: Floats) -> Floats:
    return np.asarray(-0.5 * ((value - centre) / error) ** 2 - np.log(error * math.sqrt(2 * math.pi)))


def answer(chance: Floats, skipped: Collection[int]) -> Answer:
    """Return the likeliest revision, together with revisions in `skipped` directly before it."""
    answers, first = list[Answer](), 1
    for k in range(1, len(chance) + 1):
        if k not in skipped:
            answers.append(Answer(first, k, float(chance[first - 1 : k].sum())))
            first = k + 1
    return max(answers, key=lambda answer: answer.chance)


def following(chance: Floats, skipped: Collection[int], blocks: Mapping[int, int]) -> int | None:
    """Return the revision to measure next, at the median of the posterior; None where no answer would help.

    `blocks`: how many each measured revision has; one with MOST is not measured again.
    """
    below = np.cumsum(chance)
    at = [i for i in range(1, len(chance)) if i not in skipped and blocks.get(i, 0) < MOST]
    best = min(at, key=lambda i: (round(abs(float(below[i - 1]) - 0.5), 2), blocks.get(i, 0)), default=None)
    settled = best is None or min(below[best - 1], 1 - below[best - 1]) < (1 - SURE) / 4
    return None if settled else best


def blocks_for(known: Posterior, limit: float, measured: int) -> int:
    """Return the least even number of blocks that tells the change from none, beyond the `measured` ones."""
    room = (known.change / 2 / _MISTAKEN) ** 2 - (OFFSET * limit) ** 2
    wanted = known.spread**2 / room if room > 0 else math.inf
    more = max(FEWEST, min(MOST, wanted) - measured)
    return 2 * math.ceil(min(MOST, more) / 2)
