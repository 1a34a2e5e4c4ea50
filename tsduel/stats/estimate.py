"""Estimate and interval of a shift from paired differences. Pure numbers; what they mean is compare's business."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tsduel.stats.signedrank import Floats, critical_count

_DECIMALS = 12
"""Log ratios are rounded to this many decimals: below it is the error of the logarithm, which would break true ties."""
_MOST = 700.0
"""exp(700) is about the largest float."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval in the unit of the differences, and the level that it really has (0.9512, not 0.95)."""

    low: float
    high: float
    level: float


def walsh_averages(differences: Sequence[float]) -> Floats:
    """Return the n(n+1)/2 averages (d_i + d_j)/2, i <= j, sorted."""
    d = np.asarray(differences, dtype=float)
    i, j = np.triu_indices(len(d))
    averages: Floats = np.sort((d[i] + d[j]) / 2)
    return averages


def hodges_lehmann(differences: Sequence[float]) -> float:
    """Return the median of the Walsh averages of n >= 1 differences.

    Hodges and Lehmann, "Estimates of location based on rank tests", Ann. Math. Statist. 34 (1963).
    """
    return float(np.median(walsh_averages(differences)))


def interval(differences: Sequence[float], level: float) -> Interval | None:
    """Return the exact signed-rank interval [W_(k), W_(M-k+1)], or None where n is too small for the level.

    It holds the values that the signed-rank test would not reject: Hollander, Wolfe and Chicken, Nonparametric
    Statistical Methods (2014), 3.3. `level` is the least that is wanted; the attained one is in the result.
    """
    averages = walsh_averages(differences)
    k, missed = critical_count(len(differences), 1 - level)
    if k == 0:
        return None
    return Interval(float(averages[k - 1]), float(averages[len(averages) - k]), 1 - missed)


def log_ratios(baseline: Sequence[float], candidate: Sequence[float]) -> list[float] | None:
    """Return ln(candidate/baseline) for each block, or None where a value is not above zero: no ratio exists then."""
    if any(value <= 0 for value in (*baseline, *candidate)):
        return None
    return rounded(math.log(c) - math.log(b) for b, c in zip(baseline, candidate, strict=True))


def rounded(ratios: Iterable[float]) -> list[float]:
    """Return log ratios without the error of the logarithm; + 0.0 makes a zero of a minus zero."""
    return [round(ratio, _DECIMALS) + 0.0 for ratio in ratios]


def percent(log_ratio: float) -> float:
    """Turn a log ratio into a change in percent."""
    return 100 * math.expm1(min(log_ratio, _MOST))
