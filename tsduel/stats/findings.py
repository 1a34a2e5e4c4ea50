"""What the blocks say of one metric alone: estimate, intervals, p, power. The verdict needs its family: verdict.py."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tsduel.core.metrics import Better, Family
from tsduel.stats.estimate import Interval, hodges_lehmann, interval, log_ratios, rounded
from tsduel.stats.hosts import FEWEST_HOSTS, OverHosts, over_hosts
from tsduel.stats.power import OrderEffect, between, blocks_needed, mde, order_effect
from tsduel.stats.signedrank import mann_whitney_p, signed_rank_p

Pair = tuple[float | None, float | None]
"""Values of baseline and candidate in one block; None where a round has none."""
LEVEL = 0.95
TOST_LEVEL = 0.90
_ALIKE = 1e-9
"""Differences within this (as log ratio, or as a share of the largest in native units) do not vary."""


@dataclass(frozen=True)
class Sample:
    """One metric (and query type) over the valid blocks, and how it is to be judged.

    `ratios` are the blocks' log ratios where pairs of operations gave them, `errors` their standard errors within the
    block; without them the ratio is that of the pair of values. `second` says for each block whether the candidate ran
    second; `threshold` is in percent, 0 where none applies, `floor` in the metric's unit; `native`: by differences,
    whatever the values. `failed` names the failed checks that touch the metric; `note` is one more warning. `blocks`
    are the numbers of the blocks, needed where the samples of a family are not over the same ones (several candidates).
    `environment`: outside causes left too few. `hosts` says of each block where it ran; without them, on one host.
    """

    pairs: Sequence[Pair]
    second: Sequence[bool]
    better: Better
    family: Family
    threshold: float
    unit: str = ""
    failed: str = ""
    note: str = ""
    blocks: Sequence[int] = ()
    environment: bool = False
    ratios: Sequence[float | None] = ()
    errors: Sequence[float | None] = ()
    native: bool = False
    floor: float = 0.0
    hosts: Sequence[str] = ()


@dataclass(frozen=True)
class Findings:
    """Everything in log ratios, or in the metric's unit where `native` (a value was not above zero).

    `limit` is the practical threshold in the same unit. `differences` has one entry a block, None where it is missing.
    `within` and `between` are the parts of `deviation` that come from within the blocks and from between them.
    `hosts` is there where blocks ran on several; `over` where estimate, intervals and p are over them.
    """

    differences: Sequence[float | None]
    native: bool
    limit: float
    baseline: Sequence[float]
    candidate: Sequence[float]
    estimate: float | None = None
    ci95: Interval | None = None
    ci90: Interval | None = None
    p: float | None = None
    deviation: float | None = None
    within: float | None = None
    between: float | None = None
    mde: float | None = None
    blocks_needed: int | None = None
    order: OrderEffect | None = None
    mann_whitney_p: float | None = None
    hosts: OverHosts | None = None

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
        known = self.known
        scale = max((abs(d) for d in known), default=0.0) if self.native else 1.0
        return bool(known) and max(known) - min(known) <= _ALIKE * scale


def examine(sample: Sample) -> Findings:
    """Make the findings of one metric. With no block there is nothing but the values of the side that has them."""
    ratios = sample.ratios or [0.0] * len(sample.pairs)
    both = [
        (i, b, c) for i, (b, c) in enumerate(sample.pairs) if b is not None and c is not None and ratios[i] is not None
    ]
    at, baseline, candidate = ([one[part] for one in both] for part in range(3))
    if not both:
        one_sided = [[pair[side] for pair in sample.pairs] for side in (0, 1)]
        sides = [[value for value in values if value is not None] for values in one_sided]
        return Findings([None] * len(sample.pairs), native=False, limit=0.0, baseline=sides[0], candidate=sides[1])
    given = [ratio for i, _, _ in both if (ratio := ratios[i]) is not None] if sample.ratios else None
    logs = None if sample.native else rounded(given) if given else log_ratios(baseline, candidate)
    native = logs is None
    known = [c - b for b, c in zip(baseline, candidate, strict=True)] if logs is None else logs
    differences: list[float | None] = [None] * len(sample.pairs)
    for i, d in zip(at, known, strict=True):
        differences[int(i)] = d
    share = sample.threshold / 100
    limit = max(share * abs(statistics.median(baseline)), sample.floor) if native else math.log1p(share)
    errors = [error for i in at if sample.errors and (error := sample.errors[int(i)]) is not None]
    plain = Findings(
        differences,
        native=native,
        limit=limit,
        baseline=baseline,
        candidate=candidate,
        estimate=hodges_lehmann(known),
        within=math.sqrt(statistics.fmean(e * e for e in errors)) if len(errors) == len(known) and not native else None,
        mann_whitney_p=mann_whitney_p(baseline, candidate),
    )
    if plain.alike or plain.n < 2:  # noqa: PLR2004 - one difference has no spread
        return plain
    deviation = statistics.stdev(known)
    found = replace(
        plain,
        ci95=interval(known, LEVEL),
        ci90=interval(known, TOST_LEVEL),
        p=signed_rank_p(known),
        deviation=deviation,
        between=None if plain.within is None else between(deviation, plain.within),
        mde=None if native else mde(deviation, plain.n),
        blocks_needed=blocks_needed(limit, deviation),
        order=order_effect(known, [sample.second[int(i)] for i in at]),
        hosts=over_hosts(known, [sample.hosts[int(i)] for i in at]) if sample.hosts else None,
    )
    return _over_hosts(found, found.over) if found.over else found


def _over_hosts(found: Findings, over: OverHosts) -> Findings:
    """Return the findings with the host as the replicate; spreads are those of blocks on one host."""
    return replace(
        found,
        estimate=over.estimate,
        ci95=over.interval(LEVEL),
        ci90=over.interval(TOST_LEVEL),
        p=over.p,
        deviation=over.within,
        between=None if found.within is None else between(over.within, found.within),
        mde=None if found.native else over.mde,
        blocks_needed=over.blocks_needed(found.limit),
    )
