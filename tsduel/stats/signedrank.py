"""Exact rank tests: the paired one of Wilcoxon, which decides, and that of Mann and Whitney, which benchstat makes.

No normal approximation anywhere up to the sizes that a session has; scipy switches to one with ties.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TIE = 1e-9
"""Sizes closer than this share of the largest are ties: what is left of them after a subtraction is rounding."""
_EXACT_WITH_TIES, _EXACT = 25, 50
"""Limits of github.com/aclements/go-moremath, so that our Mann-Whitney p is benchstat's."""


def doubled_midranks(values: Floats) -> Integers:
    """Return twice the rank of each value, 1 for the smallest; ties share their mean rank, so twice it is whole."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    upto = np.searchsorted(ordered, values, side="right")
    return (below + upto + 1).astype(np.int64)


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
    ranks = doubled_midranks(np.round(size / scale / _TIE))
    carrying = d != 0
    ways = _subset_sums(tuple(sorted(ranks[carrying].tolist())))
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
    if 2 * smaller == 2 * n * m:
        return 1.0
    ways = _choices(tuple(sorted(ranks.tolist())), n)
    least = n * (n + 1)  # twice the least sum of n ranks
    # Where the sides differ in size, ties make the null lopsided; the side that was seen counts.
    if doubled_u == smaller:
        below = sum(count for total, count in ways.items() if total - least <= doubled_u)
    else:
        below = sum(count for total, count in ways.items() if total - least >= doubled_u)
    return min(1.0, 2 * below / math.comb(n + m, n))


@cache
def _choices(ranks: tuple[int, ...], n: int) -> dict[int, int]:
    """Return how many choices of n of the ranks have each sum."""
    by_size: list[dict[int, int]] = [{0: 1}, *({} for _ in range(n))]
    for rank in ranks:
        for size in range(n, 0, -1):
            for total, count in by_size[size - 1].items():
                by_size[size][total + rank] = by_size[size].get(total + rank, 0) + count
    return by_size[n]
