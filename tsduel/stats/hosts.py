"""Several hosts: blocks within hosts, the estimate over hosts, and how far they differ.

Blocks of one host are alike in what that host is, so over hosts it is the host that is a replicate (docs/method.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc, stdtr, stdtrit

from tsduel.stats.estimate import Interval
from tsduel.stats.power import MOST_NEEDED, blocks_needed, effect_seen, mde
from tsduel.stats.signedrank import Floats

FEWEST_HOSTS = 3
"""Of two there is one degree of freedom, with which an interval is 13 standard errors wide: it would say nothing."""
DISAGREE = 0.10
"""Level of the test whether hosts differ: few hosts see little, so it is not .05 (Cochrane Handbook 6.4, 10.10.2)."""
_CLOSE = 1e-12


@dataclass(frozen=True)
class OverHosts:
    """Estimate over hosts and its standard error, in the unit of the differences.

    `within` is the standard deviation of blocks on one host, `between` that of hosts beyond what blocks explain.
    `means` and `blocks` are by host. `p_differ` is that hosts differ no more than their blocks do.
    """

    estimate: float
    error: float
    within: float
    between: float
    means: Mapping[str, float]
    blocks: Mapping[str, int]
    p_differ: float

    @property
    def df(self) -> int:
        """Degrees of freedom: hosts less one."""
        return len(self.means) - 1

    @property
    def p(self) -> float:
        """The two-sided p of no difference over hosts."""
        return 2 * float(stdtr(self.df, -abs(self.estimate) / self.error))

    def interval(self, level: float) -> Interval:
        """Return the t interval over hosts."""
        reach = float(stdtrit(self.df, 0.5 + level / 2)) * self.error
        return Interval(self.estimate - reach, self.estimate + reach, level)

    @property
    def mde(self) -> float:
        """The difference that these hosts and blocks would have seen with 80 % power."""
        n = len(self.means)
        return mde(self.error * math.sqrt(n), n)

    def blocks_needed(self, effect: float) -> int | None:
        """Return how many blocks on as many hosts have 80 % power for `effect`; None where 9,999 are not enough."""
        n = len(self.means)
        rest = (effect / effect_seen(n)) ** 2 - self.between**2
        if rest <= 0 or n * self.within**2 > rest * MOST_NEEDED:
            return None  # only more hosts could
        return n * max(1, math.ceil(self.within**2 / rest))  # as many for each host

    def hosts_needed(self, effect: float) -> int | None:
        """Return how many hosts, each with as many blocks as these have on average, have 80 % power for `effect`."""
        each = sum(self.blocks.values()) / len(self.blocks)
        return blocks_needed(effect, math.hypot(self.between, self.within / math.sqrt(each)), fewest=FEWEST_HOSTS)


def over_hosts(differences: Sequence[float], hosts: Sequence[str]) -> OverHosts | None:
    """Estimate over hosts; None of one host, or where every host has one block, which then is the replicate anyhow.

    Random effects: d_hb = theta + u_h + e_hb. The variance of blocks is pooled over hosts, that of hosts is Paule and
    Mandel's (J. Res. Nat. Bur. Stand. 87 (1982)), and the interval is Hartung and Knapp's (Stat. Med. 20 (2001)): t
    with hosts - 1 degrees of freedom, never narrower than blocks alone would have it with these (Röver, Knapp and
    Friede, BMC Med. Res. Methodol. 15 (2015)). With as many blocks on each host, and hosts that differ, it is the t
    interval over the hosts' means. Whether hosts differ is the F test of one-way analysis of variance.
    """
    of = {host: np.array([d for d, where in zip(differences, hosts, strict=True) if where == host]) for host in hosts}
    n, groups = len(differences), list(of.values())
    if len(of) < 2 or n == len(of):  # noqa: PLR2004 - nothing to be over
        return None
    counts, means = np.array([len(one) for one in groups]), np.array([one.mean() for one in groups])
    left = sum(float(((one - one.mean()) ** 2).sum()) for one in groups) / (n - len(of))
    among = float((counts * (means - np.average(means, weights=counts)) ** 2).sum()) / (len(of) - 1)
    # Blocks that do not vary on their host leave nothing to hold hosts against.
    p_differ = float(fdtrc(len(of) - 1, n - len(of), among / left)) if left > 0 else float(among <= _CLOSE)
    own = left / counts
    between = _paule_mandel(means, own)
    weights = 1 / np.maximum(own + between, _CLOSE**2)
    estimate = float(np.average(means, weights=weights))
    scatter = float((weights * (means - estimate) ** 2).sum()) / (len(of) - 1)
    return OverHosts(
        estimate=estimate,
        error=math.sqrt(max(1.0, scatter) / float(weights.sum())),
        within=math.sqrt(left),
        between=math.sqrt(between),
        means=dict(zip(of, means.tolist(), strict=True)),
        blocks=dict(zip(of, counts.tolist(), strict=True)),
        p_differ=p_differ,
    )


def _paule_mandel(means: Floats, own: Floats) -> float:
    """Return the variance between hosts with which the weighted sum of squares is what it is expected to be."""

    def excess(variance: float) -> float:
        weights = 1 / (own + variance)
        return float((weights * (means - np.average(means, weights=weights)) ** 2).sum()) - (len(means) - 1)

    if float(own.min()) <= 0:
        return float(means.var(ddof=1))
    low, high = 0.0, float(((means - means.mean()) ** 2).sum())
    if excess(low) <= 0:
        return 0.0
    for _ in range(60):  # halves: to the last digit
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def apart(one: Interval, estimate: float, other: Interval, than: float) -> Interval:
    """Return the interval of the difference of two estimates from theirs, `estimate` less `than`.

    MOVER, the method of variance estimates recovery: Zou and Donner, Stat. Med. 27 (2008) 1693. It takes intervals of
    any shape, so that of blocks on one host and that over hosts are as good as each other.
    """
    below = math.hypot(estimate - one.low, other.high - than)
    above = math.hypot(one.high - estimate, than - other.low)
    return Interval(estimate - than - below, estimate - than + above, min(one.level, other.level))
