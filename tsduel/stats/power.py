"""Which change a run could have seen, and how many blocks a verdict needs. Noncentral t, on log ratios."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import nctdtr, stdtr, stdtrit

from tsduel.core import defaults

POWER = 0.8
ALPHA = 0.05
FEWEST_BLOCKS = defaults.FEWEST_BLOCKS
MOST_NEEDED = 9_999
_CLOSE = 1e-9
_CERTAIN = 40.0
"""Above this noncentrality the power is 1 to the last digit, and scipy is slow."""


def mde(deviation: float, blocks: int) -> float:
    """Return the log ratio that is seen with 80 % power: (t_.975,n-1 + t_.80,n-1) s_d / sqrt(n)."""
    df = blocks - 1
    return float(stdtrit(df, 1 - ALPHA / 2) + stdtrit(df, POWER)) * deviation / math.sqrt(blocks)


def power(effect: float, deviation: float, blocks: int) -> float:
    """Return the power of the two-sided paired t test at 5 % for a log ratio of `effect`, 0 or more."""
    df, noncentrality = blocks - 1, effect / deviation * math.sqrt(blocks)
    if noncentrality > _CERTAIN:
        return 1.0
    critical = float(stdtrit(df, 1 - ALPHA / 2))
    # scipy returns nan for a tail of nothing.
    wrong_side = float(np.nan_to_num(nctdtr(df, noncentrality, -critical)))
    return float(1 - nctdtr(df, noncentrality, critical)) + wrong_side


def blocks_needed(effect: float, deviation: float, *, fewest: int = FEWEST_BLOCKS) -> int | None:
    """Return the fewest blocks, `fewest` at least, with 80 % power for `effect`; None where 9,999 are not enough.

    The search begins at the normal approximation, which is always too few.
    """
    if deviation == 0:
        return fewest
    if effect == 0:
        return None
    ratio = 2.8 * deviation / effect  # z_.975 + z_.80, rounded down
    start = max(fewest, math.floor(ratio * ratio)) if ratio * ratio < MOST_NEEDED else MOST_NEEDED + 1
    return next((n for n in range(start, MOST_NEEDED + 1) if power(effect, deviation, n) >= POWER), None)


def effect_seen(blocks: int) -> float:
    """Return the log ratio, in standard deviations, that so many blocks see with 80 % power."""
    low, high = 0.0, 2 * mde(1.0, blocks)
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, 1.0, blocks) >= POWER else (middle, high)
    return high


def between_sittings(
    sittings: int, deviations: Sequence[float], effects: Sequence[float], errors: Sequence[float]
) -> float | None:
    """Return the standard deviation between sittings of a block; None where it has no degree of freedom.

    ``deviations`` are those of the sittings of each block. The mean of ``effects`` of being started second is taken
    out: it is no chance, and cancels in a block's mean. ``errors`` of blocks by exchanges are taken out, if given.
    """
    blocks, complete = len(deviations), len(effects) == len(deviations)
    free = blocks * (sittings - 1) - complete
    if free < 1:
        return None
    # With an odd number of sittings one order has one more.
    spread = sittings - sittings % 2 / sittings
    common = blocks * spread * (sum(effects) / blocks) ** 2 if complete else 0.0
    variance = ((sittings - 1) * sum(deviation**2 for deviation in deviations) - common) / free
    exchanges = sittings * sum(error**2 for error in errors) / blocks
    return math.sqrt(max(0.0, variance - exchanges))


AFTER = {"order": "ran second", "start": "was started second", "read": "was read second", "ask": "was asked second"}
"""In sentences, by coin: the candidate came after the baseline."""


@dataclass(frozen=True)
class OrderEffect:
    """`delta` of d_i = theta + delta o_i, where o = +1 if the candidate ran second and -1 if first."""

    delta: float
    p: float


def order_effect(differences: Sequence[float], second: Sequence[bool]) -> OrderEffect | None:
    """Estimate the effect of running second, by least squares; None where the order never changed or n < 4."""
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
