"""Several hosts: the estimate over hosts, and how far hosts differ.

Blocks of one host share that host, so over hosts the host is the replicate (docs/fleets.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc, stdtr, stdtrit

from tsduel.stats.estimate import Floats, Interval
from tsduel.stats.power import MOST_NEEDED, blocks_needed, effect_seen, mde

FEWEST_HOSTS = 3
"""With two there is one degree of freedom, and an interval of 13 standard errors says nothing."""
DISAGREE = 0.10
"""Level of the test whether hosts differ; not .05, since few hosts see little (Cochrane Handbook 6.4, 10.10.2)."""
_CLOSE = 1e-12


@dataclass(frozen=True)
class OverHosts:
    """Estimate over hosts and its standard error, in the unit of the differences.

    `within` is the standard deviation of blocks on one host, `between` that of hosts beyond what blocks explain.
    `means` and numbers of `blocks` are by host. `p_differ`: p of the hypothesis that hosts do not differ.
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
        """The difference that these hosts and blocks see with 80 % power."""
        n = len(self.means)
        return mde(self.error * math.sqrt(n), n)

    def blocks_needed(self, effect: float) -> int | None:
        """Return how many blocks on as many hosts have 80 % power for `effect`; None where 9,999 are not enough."""
        n = len(self.means)
        rest = (effect / effect_seen(n)) ** 2 - self.between**2
        if rest <= 0 or n * self.within**2 > rest * MOST_NEEDED:
            return None  # more hosts are needed, not more blocks
        return n * max(1, math.ceil(self.within**2 / rest))  # the same number for each host

    def hosts_needed(self, effect: float) -> int | None:
        """Return how many hosts, each with as many blocks as these have on average, have 80 % power for `effect`."""
        each = sum(self.blocks.values()) / len(self.blocks)
        return blocks_needed(effect, math.hypot(self.between, self.within / math.sqrt(each)), fewest=FEWEST_HOSTS)


def over_hosts(differences: Sequence[float], hosts: Sequence[str]) -> OverHosts | None:
    """Estimate over hosts; None for one host, or with one block a host, where the block is the replicate anyway.

    Random effects: d_hb = theta + u_h + e_hb. The variance of blocks is pooled over hosts, that of hosts is Paule and
    Mandel's (J. Res. Nat. Bur. Stand. 87 (1982)), and the interval is Hartung and Knapp's (Stat. Med. 20 (2001)): t
    with hosts - 1 degrees of freedom, and an error that is never below the one by blocks alone (Röver, Knapp and
    Friede, BMC Med. Res. Methodol. 15 (2015)). With equal numbers of blocks and hosts that differ, it is the t interval
    over the hosts' means. Whether hosts differ is the F test of one-way analysis of variance.
    """
    by_host = {host: np.array([d for d, on in zip(differences, hosts, strict=True) if on == host]) for host in hosts}
    n, groups, df = len(differences), list(by_host.values()), len(by_host) - 1
    if df < 1 or n == len(groups):
        return None
    counts, means = np.array([len(group) for group in groups]), np.array([group.mean() for group in groups])
    left = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / (n - len(groups))
    among = float((counts * (means - np.average(means, weights=counts)) ** 2).sum()) / df
    # Without variance of blocks there is no F test: hosts differ if their means do.
    p_differ = float(fdtrc(df, n - len(groups), among / left)) if left > 0 else float(among <= _CLOSE)
    own = left / counts
    between = _paule_mandel(means, own)
    weights = 1 / np.maximum(own + between, _CLOSE**2)
    estimate = float(np.average(means, weights=weights))
    scatter = float((weights * (means - estimate) ** 2).sum()) / df
    return OverHosts(
        estimate=estimate,
        error=math.sqrt(max(1.0, scatter) / float(weights.sum())),
        within=math.sqrt(left),
        between=math.sqrt(between),
        means=dict(zip(by_host, means.tolist(), strict=True)),
        blocks=dict(zip(by_host, counts.tolist(), strict=True)),
        p_differ=p_differ,
    )


def _paule_mandel(means: Floats, own: Floats) -> float:
    """Return the variance between hosts for which the weighted sum of squares is its expected value."""

    def excess(variance: float) -> float:
        weights = 1 / (own + variance)
        return float((weights * (means - np.average(means, weights=weights)) ** 2).sum()) - (len(means) - 1)

    if float(own.min()) <= 0:
        return float(means.var(ddof=1))
    low, high = 0.0, float(((means - means.mean()) ** 2).sum())
    if excess(low) <= 0:
        return 0.0
    for _ in range(60):  # to the last digit
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def interval_of_difference(one: Interval, estimate: float, other: Interval, than: float) -> Interval:
    """Return the interval of the difference of two estimates, `estimate` less `than`, from their intervals.

    MOVER, the method of variance estimates recovery: Zou and Donner, Stat. Med. 27 (2008) 1693. It takes intervals of
    any shape: over blocks of one host as well as over hosts.
    """
    below = math.hypot(estimate - one.low, other.high - than)
    above = math.hypot(one.high - estimate, than - other.low)
    return Interval(estimate - than - below, estimate - than + above, min(one.level, other.level))
