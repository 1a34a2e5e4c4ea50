"""What a session could have seen, and how many blocks would settle the question. Noncentral t, on log ratios."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import nctdtr, stdtr, stdtrit

POWER = 0.8
ALPHA = 0.05
FEWEST_BLOCKS = 6
MOST_NEEDED = 9_999
_CLOSE = 1e-9
_CERTAIN = 40.0
"""Noncentrality beyond which the power is 1 to the last digit, and scipy slow."""


def mde(deviation: float, blocks: int) -> float:
    """Return the log ratio that would be seen with 80 % power: (t_.975,n-1 + t_.80,n-1) s_d / sqrt(n)."""
    df = blocks - 1
    return float(stdtrit(df, 1 - ALPHA / 2) + stdtrit(df, POWER)) * deviation / math.sqrt(blocks)


def power(effect: float, deviation: float, blocks: int) -> float:
    """Return the power of the two-sided paired t test at 5 % for a log ratio of `effect`, 0 or more."""
    df, noncentrality = blocks - 1, effect / deviation * math.sqrt(blocks)
    if noncentrality > _CERTAIN:
        return 1.0
    critical = float(stdtrit(df, 1 - ALPHA / 2))
    # The far tail comes out as nan where it is nothing.
    wrong_side = float(np.nan_to_num(nctdtr(df, noncentrality, -critical)))
    return float(1 - nctdtr(df, noncentrality, critical)) + wrong_side


def blocks_needed(effect: float, deviation: float, *, fewest: int = FEWEST_BLOCKS) -> int | None:
    """Return the fewest blocks, `fewest` at least, with 80 % power for `effect`; None where 9,999 are not enough.

    The normal approximation is always too few, so the search begins there.
    """
    if deviation == 0:
        return fewest
    if effect == 0:
        return None
    ratio = 2.8 * deviation / effect  # z_.975 + z_.80, rounded down
    start = max(fewest, math.floor(ratio * ratio)) if ratio * ratio < MOST_NEEDED else MOST_NEEDED + 1
    return next((n for n in range(start, MOST_NEEDED + 1) if power(effect, deviation, n) >= POWER), None)


def effect_seen(blocks: int) -> float:
    """Return the log ratio, in standard deviations, that so many blocks see with 80 % power.

    `blocks_needed` the other way round: noncentral t, by bisection around the formula of `mde`, which is close.
    """
    low, high = 0.0, 2 * mde(1.0, blocks)
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, 1.0, blocks) >= POWER else (middle, high)
    return high


def between(deviation: float, within: float) -> float:
    """Return the standard deviation between blocks: what of the spread the blocks' own errors do not explain.

    Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013; floored at 0.
    """
    return math.sqrt(max(0.0, deviation**2 - within**2))


@dataclass(frozen=True)
class OrderEffect:
    """`delta` of d_i = theta + delta o_i with o = +1 where the candidate ran second, -1 where first."""

    delta: float
    p: float


def order_effect(differences: Sequence[float], second: Sequence[bool]) -> OrderEffect | None:
    """Estimate what running second does, by least squares; None where the order never changed or n < 4."""
    d, o = np.asarray(differences, dtype=float), np.where(np.asarray(second), 1.0, -1.0)
    n = len(d)
    if n < 4 or abs(o.sum()) == n:  # noqa: PLR2004 - two parameters and two degrees of freedom
        return None
    centred = o - o.mean()
    spread = float(centred @ centred)
    delta = float(centred @ d) / spread
    left = d - d.mean() - delta * centred
    variance = float(left @ left) / (n - 2)
    if variance <= 1e-24:  # noqa: PLR2004 - the rounding of log ratios, squared
        return OrderEffect(delta, 0.0 if abs(delta) > 1e-9 else 1.0)  # noqa: PLR2004 - the same, not squared
    return OrderEffect(delta, 2 * float(stdtr(n - 2, -abs(delta) / math.sqrt(variance / spread))))
