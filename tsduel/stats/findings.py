"""Estimate, intervals, p and power of one metric. Its verdict needs the whole family: verdict.py."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tsduel.core.metrics import Family, Metric
from tsduel.stats.estimate import Interval, hodges_lehmann, interval, log_ratios, mann_whitney_p, rounded, signed_rank_p
from tsduel.stats.hosts import FEWEST_HOSTS, OverHosts, over_hosts
from tsduel.stats.power import OrderEffect, between_sittings, blocks_needed, mde, order_effect
from tsduel.workloads.measured import PairedRatio

Pair = tuple[float | None, float | None]
"""Values of baseline and candidate in one block; None where a side has none."""
LEVEL = 0.95
TOST_LEVEL = 0.90
FEWEST_PAIRS = 12
"""With fewer pairs of mirrored blocks, what an order does is not taken out: the estimates would cost too much."""
_ALIKE = 1e-9
"""Differences closer than this are equal: as log ratio, or in native units as a share of the largest."""


@dataclass(frozen=True)
class Sample:
    """One metric (and query type) of a candidate over the valid blocks, and how it is judged.

    `second`: by coin and block, whether the candidate came second. `threshold`: percent, 0 where none applies.
    `failed`: the failed checks that touch the metric. `note`: one more warning. `blocks`: numbers of the blocks, needed
    where samples of a family have different blocks (several candidates). `environment`: outside causes left too few
    blocks. `ratios`: those of the blocks from pairs of operations; without them the ratio is that of the pair of
    values. `hosts`: where each block ran; empty on one host. `mirrors`: the mirror image of each block, as places in
    `pairs`, None where it has none; empty where blocks come in no such pairs.
    """

    metric: Metric
    pairs: Sequence[Pair]
    second: Mapping[str, Sequence[bool | None]]
    family: Family
    threshold: float
    query_type: str = ""
    candidate: str = ""
    failed: str = ""
    note: str = ""
    blocks: Sequence[int] = ()
    environment: bool = False
    ratios: Sequence[PairedRatio | None] = ()
    hosts: Sequence[str] = ()
    mirrors: Sequence[int | None] = ()


@dataclass(frozen=True)
class Findings:
    """Everything in log ratios, or in the metric's unit where `native` (a value was not above zero).

    `limit` is the practical threshold in the same unit. `differences` has one entry a block, None where it is missing.
    `tested` are the same without what coming second did, which `coins` coins say: none where blocks are too few.
    `within` and `between` are the parts of `deviation` from exchanges and from between blocks. `sitting` is the
    standard deviation between the `sittings` of a block. `orders` are by coin. `hosts` is there where blocks ran on
    several; with `over`, estimate, intervals and p are over hosts.
    """

    differences: Sequence[float | None]
    tested: Sequence[float | None]
    native: bool
    limit: float
    baseline: Sequence[float]
    candidate: Sequence[float]
    coins: int = 0
    estimate: float | None = None
    ci95: Interval | None = None
    ci90: Interval | None = None
    p: float | None = None
    deviation: float | None = None
    within: float | None = None
    sitting: float | None = None
    sittings: int = 1
    second_effect: float | None = None
    between: float | None = None
    mde: float | None = None
    blocks_needed: int | None = None
    orders: Mapping[str, OrderEffect] = field(default_factory=dict)
    mann_whitney_p: float | None = None
    hosts: OverHosts | None = None

    @property
    def order(self) -> tuple[str, OrderEffect] | None:
        """The coin that shows most, and its effect, with its p for all coins."""
        if not self.orders:
            return None
        coin, effect = min(self.orders.items(), key=lambda item: item[1].p)
        return coin, replace(effect, p=min(1.0, effect.p * len(self.orders)))

    @property
    def shares(self) -> dict[str, float]:
        """The known parts of the variance of a block's ratio: exchange, sitting, block."""
        of_sittings = None if self.sitting is None else self.sitting**2 / self.sittings
        exchange, block = (deviation and deviation**2 for deviation in (self.within, self.between))
        parts = {"exchange": exchange, "sitting": of_sittings, "block": block}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def over(self) -> OverHosts | None:
        """The estimate over hosts, where there are enough of them."""
        return self.hosts if self.hosts and len(self.hosts.means) >= FEWEST_HOSTS else None

    @property
    def known(self) -> list[float]:
        """The differences of the blocks that have both values."""
        return [d for d in self.differences if d is not None]

    @property
    def n(self) -> int:
        """How many blocks have both values."""
        return len(self.known)

    @property
    def identical(self) -> bool:
        """Whether there is no difference in any block."""
        return self.n > 0 and not any(self.known)

    @property
    def alike(self) -> bool:
        """Whether the difference is the same in every block, so that nothing varies and no test is possible."""
        differences = self.known
        scale = max((abs(d) for d in differences), default=0.0) if self.native else 1.0
        return bool(differences) and max(differences) - min(differences) <= _ALIKE * scale


def examine(sample: Sample) -> Findings:
    """Return the findings of a metric. If no block has both values, they have only the values of each side."""
    # A block with a zero has no ratio, and counts.
    zero = any(
        ratio is None and b is not None and c is not None and min(b, c) <= 0
        for ratio, (b, c) in zip(sample.ratios, sample.pairs, strict=False)
    )
    of_blocks = () if sample.metric.native or zero else sample.ratios
    both = [
        (i, b, c)
        for i, (b, c) in enumerate(sample.pairs)
        if b is not None and c is not None and not (of_blocks and of_blocks[i] is None)
    ]
    if not both:
        sides = [[value for pair in sample.pairs if (value := pair[side]) is not None] for side in (0, 1)]
        none = [None] * len(sample.pairs)
        return Findings(none, none, native=False, limit=0.0, baseline=sides[0], candidate=sides[1])
    at, baseline, candidate = [i for i, _, _ in both], [b for _, b, _ in both], [c for _, _, c in both]
    ratios = [ratio for i in at if of_blocks and (ratio := of_blocks[i])]
    logs_of_ratios = rounded(ratio.log_ratio for ratio in ratios)
    logs = None if sample.metric.native else logs_of_ratios or log_ratios(baseline, candidate)
    native = logs is None
    changes = [c - b for _, b, c in both] if logs is None else logs
    by_block = dict(zip(at, changes, strict=True))
    share = sample.threshold / 100
    # Without a threshold there is no floor either.
    floor = sample.metric.floor if share else 0.0
    limit = max(share * abs(statistics.median(baseline)), floor) if native else math.log1p(share)
    errors = [ratio.se for ratio in ratios if ratio.se is not None]
    differences = [by_block.get(i) for i in range(len(sample.pairs))]
    tested, coins = _without_order(differences, sample)
    left = [d for d in tested if d is not None]
    estimate = hodges_lehmann(left)
    # As many effects were fitted to the same blocks, so what is left scatters too little.
    wider = math.sqrt((len(left) - 1) / (len(left) - 1 - coins)) if coins else 1.0
    spread = [estimate + wider * (d - estimate) for d in left] if coins else left
    plain = Findings(
        differences,
        tested,
        native=native,
        limit=limit,
        baseline=baseline,
        candidate=candidate,
        coins=coins,
        estimate=estimate,
        within=math.sqrt(statistics.fmean(e * e for e in errors)) if len(errors) == len(changes) else None,
        mann_whitney_p=mann_whitney_p(baseline, candidate),
    )
    if ratios:
        plain = _with_sittings(plain, ratios, errors)
    if plain.alike or plain.n < 2:  # noqa: PLR2004 - one difference has no spread
        return plain
    deviation = statistics.stdev(spread)
    whole = replace(
        plain,
        ci95=interval(spread, LEVEL),
        ci90=interval(spread, TOST_LEVEL),
        p=signed_rank_p(spread),
        deviation=deviation,
        between=_between(plain, deviation),
        mde=None if native else mde(deviation, plain.n),
        blocks_needed=blocks_needed(limit, deviation),
        orders={
            coin: effect
            for coin, second in sample.second.items()
            if (effect := _order(changes, [second[i] for i in at])) is not None
        },
        hosts=over_hosts(changes, [sample.hosts[i] for i in at]) if sample.hosts else None,
    )
    if (over := whole.over) is None:
        return whole
    # The host is the replicate; spreads are those of blocks on one host.
    return replace(
        whole,
        estimate=over.estimate,
        ci95=over.interval(LEVEL),
        ci90=over.interval(TOST_LEVEL),
        p=over.p,
        deviation=over.within,
        between=_between(whole, over.within),
        mde=None if native else over.mde,
        blocks_needed=over.blocks_needed(limit),
    )


def _without_order(differences: Sequence[float | None], sample: Sample) -> tuple[list[float | None], int]:
    """Return the differences without what coming second did by each coin, and the number of these coins.

    That is the Hodges-Lehmann estimate over pairs of mirrored blocks, which does not change if the sides of a pair
    change places: so the test by signs of pairs stays exact (docs/statistics.md).
    """
    pairs = [
        (first, d, other)
        for first, second in enumerate(sample.mirrors)
        if second is not None and first < second
        if (d := differences[first]) is not None and (other := differences[second]) is not None
    ]
    if len(pairs) < FEWEST_PAIRS:
        return list(differences), 0
    left = list(differences)
    for second in sample.second.values():
        signs = [1 if late else -1 for late in second]
        effect = hodges_lehmann([signs[first] * (d - other) / 2 for first, d, other in pairs])
        left = [d if d is None else d - sign * effect for d, sign in zip(left, signs, strict=True)]
    return left, len(sample.second)


def _with_sittings(findings: Findings, ratios: Sequence[PairedRatio], errors: Sequence[float]) -> Findings:
    """Add the spread between sittings; unchanged where blocks have different numbers of them."""
    count = ratios[0].sittings
    if any(ratio.sittings != count for ratio in ratios):
        return findings
    effects = [ratio.second_effect for ratio in ratios if ratio.second_effect is not None]
    deviations = [ratio.sitting_sd for ratio in ratios if ratio.sitting_sd is not None]
    complete = len(deviations) == len(ratios)
    return replace(
        findings,
        sittings=count,
        sitting=between_sittings(count, deviations, effects, errors) if complete else None,
        second_effect=statistics.median(effects) if effects else None,
    )


def _order(differences: Sequence[float], second: Sequence[bool | None]) -> OrderEffect | None:
    sides = [side for side in second if side is not None]
    return order_effect(differences, sides) if len(sides) == len(differences) else None


def _between(findings: Findings, deviation: float) -> float | None:
    """Return the standard deviation between blocks, without the parts of exchanges and sittings; None without these.

    Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013; floored at 0.
    """
    sitting = None if findings.sitting is None else findings.sitting / math.sqrt(findings.sittings)
    below = [error for error in (findings.within, sitting) if error is not None]
    return math.sqrt(max(0.0, deviation**2 - sum(error**2 for error in below))) if below else None
