"""From findings to verdicts: p adjusted for the family, and the ladder of which the first rung that holds counts.

"Not significant" never becomes "no change": that takes the 90 % interval within the threshold (two one-sided tests,
Schuirmann, J. Pharmacokin. Biopharm. 15 (1987)).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsduel.stats.estimate import Interval, percent
from tsduel.stats.findings import Findings, Sample, examine
from tsduel.stats.hosts import DISAGREE
from tsduel.stats.permutation import westfall_young
from tsduel.stats.power import ALPHA, FEWEST_BLOCKS
from tsduel.stats.signedrank import Floats

MOST_DROPPED = 0.2
"""A metric that lacks a value in a larger share of the valid blocks gets no verdict."""

FAILED = "failed"
REGRESSION = "regression"
IMPROVEMENT = "improvement"
WORSE = "worse"
BETTER = "better"
"""Of different databases, between which no threshold applies: neither is a version of the other that got worse."""
NEGLIGIBLE = "negligible"
EQUIVALENT = "equivalent"
INCONCLUSIVE = "inconclusive"
SCREEN = "inconclusive (n < 6)"
ENVIRONMENT = "inconclusive: environment"
NOT_COMPARABLE = "not comparable"
SHOWN = "shown"
VERDICTS = (
    *(FAILED, REGRESSION, IMPROVEMENT, WORSE, BETTER, NEGLIGIBLE, EQUIVALENT),
    *(INCONCLUSIVE, SCREEN, ENVIRONMENT, NOT_COMPARABLE, SHOWN),
)


@dataclass(frozen=True)
class Judged:
    """A verdict and what it stands on. `clear`: the whole interval is beyond the threshold. `notes` are sentences.

    `p_differ`: that hosts differ no more than their blocks do, adjusted for the family.
    """

    sample: Sample
    findings: Findings
    verdict: str
    p_adj: float | None = None
    clear: bool = False
    notes: tuple[str, ...] = ()
    p_differ: float | None = None


def judge(samples: Sequence[Sample], seed: int) -> list[Judged]:
    """Judge all metrics of a comparison. `seed` draws the sign vectors where there are more than 12 blocks.

    Over hosts p is no less than that of the metric over hosts: signs of blocks say only what is true of these hosts.
    """
    found = [examine(sample) for sample in samples]
    adjusted: dict[int, float] = {}
    differ: dict[int, float] = {}
    for family in ("primary", "secondary"):
        tested = [i for i, s in enumerate(samples) if s.family == family and _untestable(s, found[i]) is None]
        if tested:
            columns = _aligned([(samples[i], found[i]) for i in tested])
            for i, p in zip(tested, westfall_young(columns, seed), strict=True):
                over = found[i].over
                adjusted[i] = max(p, over.p) if over else p
        of_hosts = {i: hosts.p_differ for i in tested if (hosts := found[i].hosts)}
        differ |= dict(zip(of_hosts, holm(list(of_hosts.values())), strict=True))
    return [_judged(sample, found[i], adjusted.get(i), differ.get(i)) for i, sample in enumerate(samples)]


def holm(p: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number: Holm, Scand. J. Statist. 6 (1979)."""
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(np.maximum.accumulate(np.asarray(p)[order] * np.arange(len(p), 0, -1)), 1.0)
    adjusted = np.empty(len(p))
    adjusted[order] = stepped
    return [float(value) for value in adjusted]


def _aligned(tested: Sequence[tuple[Sample, Findings]]) -> Floats:
    """Return the differences with blocks as rows and samples as columns, nan where a sample lacks a block."""
    by_block = [
        dict(zip(sample.blocks or range(len(sample.pairs)), found.differences, strict=True)) for sample, found in tested
    ]
    blocks = sorted({block for column in by_block for block in column})
    return np.array([[column.get(block) for column in by_block] for block in blocks], dtype=float)


def _judged(sample: Sample, findings: Findings, p_adj: float | None, p_differ: float | None) -> Judged:
    verdict, clear = _untestable(sample, findings), False
    if verdict is None:
        verdict, clear = decide(findings, p_adj, sample.better)
    elif verdict in {REGRESSION, IMPROVEMENT}:
        clear = True
    if not sample.threshold:
        verdict, clear = {REGRESSION: WORSE, IMPROVEMENT: BETTER}.get(verdict, verdict), False
    judged = Judged(sample, findings, verdict, p_adj, clear, p_differ=p_differ)
    return replace(judged, notes=tuple(filter(None, _notes(judged))))


def _untestable(sample: Sample, findings: Findings) -> str | None:
    """Return the verdict of a metric that takes no test, else None. These are outside their family."""
    dropped = len(sample.pairs) - findings.n
    one_sided = findings.n == 0 and any(value is not None for pair in sample.pairs for value in pair)
    rungs = (
        (bool(sample.failed), FAILED),
        (one_sided, NOT_COMPARABLE),
        (sample.family == "shown" or sample.better == "none", SHOWN),
        (sample.environment, ENVIRONMENT),
        (findings.n < FEWEST_BLOCKS, SCREEN),
        (dropped > MOST_DROPPED * len(sample.pairs), INCONCLUSIVE),
        (findings.identical, EQUIVALENT),
        (findings.alike, _by_threshold(findings, sample.better)),
    )
    return next((verdict for holds, verdict in rungs if holds), None)


def _by_threshold(findings: Findings, better: str) -> str:
    worse = _oriented(findings.estimate or 0.0, better)
    return NEGLIGIBLE if abs(worse) < findings.limit else REGRESSION if worse > 0 else IMPROVEMENT


def decide(findings: Findings, p_adj: float | None, better: str) -> tuple[str, bool]:
    """Return the first rung that holds, and whether the whole 95 % interval is beyond the threshold."""
    limit, estimate, ci = findings.limit, findings.estimate, findings.ci95
    if estimate is None or ci is None or p_adj is None:
        return INCONCLUSIVE, False
    significant = p_adj <= ALPHA
    worse = _oriented(estimate, better)
    low, high = sorted(_oriented(edge, better) for edge in (ci.low, ci.high))
    if significant and low > 0 and worse >= limit:
        return REGRESSION, low >= limit
    if significant and high < 0 and worse <= -limit:
        return IMPROVEMENT, high <= -limit
    if significant and abs(worse) < limit:
        return NEGLIGIBLE, False
    if within(findings.ci90, limit):
        return EQUIVALENT, False
    return INCONCLUSIVE, False


def within(interval: Interval | None, limit: float) -> bool:
    """Say whether an interval lies within -limit and +limit."""
    return interval is not None and interval.low > -limit and interval.high < limit


def _oriented(difference: float, better: str) -> float:
    """Return e of MEASUREMENT.md 5.1: above zero is worse."""
    return -difference if better == "higher" else difference


def _notes(judged: Judged) -> list[str]:
    sample, found = judged.sample, judged.findings
    return [
        "outside causes spoilt more blocks than spare ones could replace" if judged.verdict == ENVIRONMENT else "",
        _missing(sample, found),
        _screen(found),
        sample.failed,
        sample.note,
        _native(sample, found),
        "identical in every block" if found.identical else "",
        "the same difference in every block, so there is nothing to test"
        if found.alike and found.n > 1 and not found.identical
        else "",
        _beyond(judged),
        _disagreeing(judged),
        _order(found),
    ]


def _missing(sample: Sample, found: Findings) -> str:
    blocks = len(sample.pairs)
    if found.n == blocks:
        return ""
    sides = zip(("baseline", "candidate"), zip(*sample.pairs, strict=True), strict=True)
    absent = [name for name, values in sides if all(value is None for value in values)]
    if absent:
        return f"not comparable: {' and '.join(absent)} never has it"
    text = f"{blocks - found.n} of {blocks} blocks lack{'s' if blocks - found.n == 1 else ''} a value"
    return f"{text}, too many for a verdict" if blocks - found.n > MOST_DROPPED * blocks else text


def _screen(found: Findings) -> str:
    if not 0 < found.n < FEWEST_BLOCKS:
        return ""
    low, high = min(found.known), max(found.known)
    reach = "" if found.native or found.n == 1 else f"; they range from {percent(low):+.1f} to {percent(high):+.1f} %"
    return f"a screen: {found.n} of at least {FEWEST_BLOCKS} blocks{reach}"


def _native(sample: Sample, found: Findings) -> str:
    if not found.native or found.estimate is None:
        return ""
    why = "compared in its own unit" if sample.native else "values of zero have no ratio"
    if found.identical:
        return why
    between = f" ({found.ci95.low:.4g} to {found.ci95.high:.4g})" if found.ci95 else ""
    text = f"{why}; the difference is {found.estimate:.4g}{between} {sample.unit}".rstrip()
    return text if found.limit else f"{text}, and no threshold in percent applies"


def _beyond(judged: Judged) -> str:
    ci, limit = judged.findings.ci95, judged.findings.limit
    if judged.verdict != NEGLIGIBLE or ci is None or within(ci, limit):
        return ""
    return "the interval does not rule out a change beyond the threshold"


def _disagreeing(judged: Judged) -> str:
    hosts, p = judged.findings.hosts, judged.p_differ
    if hosts is None or p is None or p > DISAGREE:
        return ""
    ends = sorted(hosts.means, key=lambda name: hosts.means[name])
    said = [
        f"{hosts.means[name]:+.3g}" if judged.findings.native else f"{percent(hosts.means[name]):+.1f} %"
        for name in (ends[0], ends[-1])
    ]
    return (
        f"the hosts disagree: {said[0]} on {ends[0]}, {said[1]} on {ends[-1]} (p {p:.2g}); more hosts narrow this, "
        "more blocks do not"
    )


def _order(found: Findings) -> str:
    if found.order is None or found.n < FEWEST_BLOCKS:
        return ""
    delta, p = found.order.delta, found.order.p
    # Where the baseline's median is 0 there is no limit that it could be beyond.
    if p >= ALPHA and not 0 < found.limit / 2 < abs(delta):
        return ""
    size = f"{delta:+.3g}" if found.native else f"{percent(delta):+.1f} %"
    return f"order effect: {size} where the candidate ran second, the opposite where first (p {p:.2g})"
