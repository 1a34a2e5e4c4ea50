"""The estimate of a ratio from paired blocks. Pure numbers; what they mean is compare's business."""

import math
from collections.abc import Sequence

import numpy as np


def hodges_lehmann(differences: Sequence[float]) -> float:
    """Return the median of the n(n+1)/2 Walsh averages (d_i + d_j)/2, i <= j, of n >= 1 differences.

    Hodges and Lehmann, "Estimates of location based on rank tests", Ann. Math. Statist. 34 (1963).
    """
    d = np.asarray(differences, dtype=float)
    i, j = np.triu_indices(len(d))
    return float(np.median((d[i] + d[j]) / 2))


def log_ratios(baseline: Sequence[float], candidate: Sequence[float]) -> list[float] | None:
    """Return ln(candidate/baseline) for each block, or None where a value is not above zero: no ratio exists then."""
    if any(value <= 0 for value in (*baseline, *candidate)):
        return None
    return [math.log(c / b) for b, c in zip(baseline, candidate, strict=True)]


def percent(log_ratio: float) -> float:
    """Turn a log ratio into a change in percent."""
    return 100 * math.expm1(log_ratio)
