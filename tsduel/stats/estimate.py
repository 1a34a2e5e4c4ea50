"""Rank statistics: estimate, interval and p of paired differences, and benchstat's Mann-Whitney test.

The tests are exact. scipy uses the normal approximation where there are ties, even for few values.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DECIMALS = 12
"""Log ratios are rounded to this many decimals: the error of the logarithm would break true ties."""
_MOST = 700.0
"""exp(700) is about the largest float."""
TIE = 1e-9
"""Sizes closer than this share of the largest are ties: subtraction leaves rounding errors."""
_EXACT_WITH_TIES, _EXACT = 25, 50
"""Limits of github.com/aclements/go-moremath, so that our Mann-Whitney p is benchstat's."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval in the unit of the differences, and the level that it attains (0.9512, not 0.95)."""

    low: float
    high: float
    level: float


def walsh_averages(differences: Sequence[float]) -> Floats:
    """Return the n(n+1)/2 averages (d_i + d_j)/2, i <= j, sorted."""
    d = np.asarray(differences, dtype=float)
    i, j = np.triu_indices(len(d))
    return np.sort((d[i] + d[j]) / 2)


def hodges_lehmann(differences: Sequence[float]) -> float:
    """Return the median of the Walsh averages of n >= 1 differences.

    Hodges and Lehmann, "Estimates of location based on rank tests", Ann. Math. Statist. 34 (1963).
    """
    return float(np.median(walsh_averages(differences)))


def pseudomedian(values: Sequence[float]) -> float | None:
    """Return the Hodges-Lehmann estimate of one side's values over blocks, None without values.

    Of positive values it is the median of the geometric means of all pairs: then the quotient of both sides is close to
    the estimated change. The quotient of medians is not, if the machine's speed drifts: each side has another median
    block.
    """
    if not values:
        return None
    if min(values) <= 0:
        return hodges_lehmann(values)
    v = np.asarray(values, dtype=float)
    i, j = np.triu_indices(len(v))
    return float(np.median(np.sqrt(v[i] * v[j])))


def interval(differences: Sequence[float], level: float) -> Interval | None:
    """Return the exact signed-rank interval [W_(k), W_(M-k+1)], or None where n is too small for the level.

    It holds the values that the signed-rank test does not reject: Hollander, Wolfe and Chicken, Nonparametric
    Statistical Methods (2014), 3.3. It attains at least `level`.
    """
    averages = walsh_averages(differences)
    k, missed = critical_count(len(differences), 1 - level)
    if k == 0:
        return None
    return Interval(float(averages[k - 1]), float(averages[len(averages) - k]), 1 - missed)


def log_ratios(baseline: Sequence[float], candidate: Sequence[float]) -> list[float] | None:
    """Return ln(candidate/baseline) for each block, or None where a value is not above zero."""
    if any(value <= 0 for value in (*baseline, *candidate)):
        return None
    return rounded(math.log(c) - math.log(b) for b, c in zip(baseline, candidate, strict=True))


def rounded(ratios: Iterable[float]) -> list[float]:
    """Return log ratios without the error of the logarithm; + 0.0 makes a zero of a minus zero."""
    return [round(ratio, _DECIMALS) + 0.0 for ratio in ratios]


def percent(log_ratio: float) -> float:
    """Turn a log ratio into a change in percent."""
    return 100 * math.expm1(min(log_ratio, _MOST))


def doubled_midranks(values: Floats) -> NDArray[np.int64]:
    """Return twice the rank of each value, 1 for the smallest; ties share their mean rank, so twice it is whole."""
    ordered = np.sort(values)
    return np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right") + 1


def signed_rank_p(differences: Sequence[float]) -> float:
    """Return the exact two-sided p of Wilcoxon's signed-rank test; 1 where all differences are zero.

    Zeros keep their ranks and carry no sign: Pratt, "Remarks on zeros and ties in the Wilcoxon signed rank
    procedures", J. Amer. Statist. Assoc. 54 (1959). The null is that of the 2^k signs of the k others, by dynamic
    programming over sums of doubled midranks.
    """
    d = np.asarray(differences, dtype=float)
    size = np.abs(d)
    scale = float(size.max(initial=0.0))
    if scale == 0:
        return 1.0
    ranks = doubled_midranks(np.round(size / scale / TIE))
    ways = _subset_sums(tuple(sorted(ranks[d != 0].tolist())))
    positive = int(ranks[d > 0].sum())
    smaller = min(positive, len(ways) - 1 - positive)
    return min(1.0, 2 * sum(ways[: smaller + 1]) / sum(ways))


@cache
def _subset_sums(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many of the 2^k subsets of the ranks have each sum, 0 to their total; whole numbers, so exact."""
    ways = [1]
    for rank in ranks:
        longer = ways + [0] * rank
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    return tuple(ways)


@cache
def critical_count(n: int, gamma: float) -> tuple[int, float]:
    """Return how many s >= 0 have P(T+ <= s) <= gamma/2 without ties, and twice the largest such probability."""
    ways = _subset_sums(tuple(range(1, n + 1)))
    k, below, missed = 0, 0, 0.0
    for count in ways:
        below += count
        # gamma is 1 - level: 1 - 0.9 is a little less than 0.1.
        if 2 * below > (gamma + 1e-12) * 2**n:
            break
        k, missed = k + 1, 2 * below / 2**n
    return k, missed


def mann_whitney_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the two-sided p of the Mann-Whitney test as benchstat computes it; None where all values are equal.

    Exact up to 50 values a side, 25 with ties, then the normal approximation with continuity and tie correction.
    """
    n, m = len(first), len(second)
    if not n or not m:
        return None
    values = np.asarray([*first, *second], dtype=float)
    ranks = doubled_midranks(values)
    ties = np.unique(values, return_counts=True)[1]
    if len(ties) == 1:
        return None
    doubled_u = int(ranks[:n].sum()) - n * (n + 1)
    if max(n, m) > (_EXACT_WITH_TIES if ties.max() > 1 else _EXACT):
        total = n + m
        correction = float((ties.astype(float) ** 3 - ties).sum()) / (total * (total - 1))
        sigma = math.sqrt(n * m * (total + 1 - correction) / 12)
        off = max(abs(doubled_u / 2 - n * m / 2) - 0.5, 0.0)
        return math.erfc(off / sigma / math.sqrt(2))
    smaller = min(doubled_u, 2 * n * m - doubled_u)
    if smaller == n * m:
        return 1.0
    ways = _choices(tuple(sorted(ranks.tolist())), n)
    least = n * (n + 1)  # twice the least sum of n ranks
    # With sides of different size, ties make the null lopsided: count the tail that the data are in.
    sign = 1 if doubled_u == smaller else -1
    tail = sum(count for total, count in ways.items() if sign * (total - least) <= sign * doubled_u)
    return min(1.0, 2 * tail / math.comb(n + m, n))


@cache
def _choices(ranks: tuple[int, ...], n: int) -> dict[int, int]:
    """Return how many choices of n of the ranks have each sum."""
    by_size: list[dict[int, int]] = [{0: 1}, *({} for _ in range(n))]
    for rank in ranks:
        for size in range(n, 0, -1):
            for total, count in by_size[size - 1].items():
                by_size[size][total + rank] = by_size[size].get(total + rank, 0) + count
    return by_size[n]
