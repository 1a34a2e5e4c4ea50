"""From findings to verdicts: p adjusted for the family, and a ladder whose first rung that holds is the verdict.

"Not significant" never becomes "no change": that needs the 90 % interval within the threshold (two one-sided tests,
Schuirmann, J. Pharmacokin. Biopharm. 15 (1987)).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tsduel.core.metrics import Family
from tsduel.stats.estimate import Floats, Interval, percent
from tsduel.stats.findings import Findings, Sample, examine
from tsduel.stats.hosts import DISAGREE
from tsduel.stats.permutation import westfall_young
from tsduel.stats.power import AFTER, ALPHA, FEWEST_BLOCKS

MOST_DROPPED = 0.2
"""A metric gets no verdict if a larger share of the valid blocks lacks a value."""

FAMILIES: tuple[Family, ...] = ("primary", "secondary", "work")
FAILED = "failed"
REGRESSION = "regression"
IMPROVEMENT = "improvement"
WORSE = "worse"
BETTER = "better"
"""WORSE and BETTER: between different databases, where no threshold applies."""
NEGLIGIBLE = "negligible"
EQUIVALENT = "equivalent"
INCONCLUSIVE = "inconclusive"
SCREEN = "inconclusive (n < 6)"
ENVIRONMENT = "inconclusive: environment"
NOT_COMPARABLE = "not comparable"
SHOWN = "shown"
WIDE = "the interval does not rule out a change beyond the threshold"
VERDICTS = (
    *(FAILED, REGRESSION, IMPROVEMENT, WORSE, BETTER, NEGLIGIBLE, EQUIVALENT),
    *(INCONCLUSIVE, SCREEN, ENVIRONMENT, NOT_COMPARABLE, SHOWN),
)


@dataclass(frozen=True)
class Judged:
    """A verdict and its reasons. `clear`: the whole interval is beyond the threshold. `notes` are sentences.

    `p_differ`: p of the hypothesis that hosts do not differ, adjusted for the family.
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

    Over hosts, p is at least that of the metric over hosts, adjusted by Holm: signs of blocks say nothing of other
    hosts.
    """
    findings = [examine(sample) for sample in samples]
    adjusted: dict[int, float] = {}
    differ: dict[int, float] = {}
    for family in FAMILIES:
        tested = [i for i, s in enumerate(samples) if s.family == family and _untestable(s, findings[i]) is None]
        if tested:
            columns, groups = _aligned([(samples[i], findings[i]) for i in tested])
            over = {i: over.p for i in tested if (over := findings[i].over)}
            of_all_hosts = dict(zip(over, holm(list(over.values())), strict=True))
            for i, p in zip(tested, westfall_young(columns, seed, groups), strict=True):
                adjusted[i] = max(p, of_all_hosts.get(i, 0.0))
        of_hosts = {i: hosts.p_differ for i in tested if (hosts := findings[i].hosts)}
        differ |= dict(zip(of_hosts, holm(list(of_hosts.values())), strict=True))
    return [_judged(sample, findings[i], adjusted.get(i), differ.get(i)) for i, sample in enumerate(samples)]


def holm(p: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number: Holm, Scand. J. Statist. 6 (1979)."""
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(np.maximum.accumulate(np.asarray(p)[order] * np.arange(len(p), 0, -1)), 1.0)
    return [*map(float, stepped[np.argsort(order)])]


def _aligned(tested: Sequence[tuple[Sample, Findings]]) -> tuple[Floats, list[int]]:
    """Return what is tested with blocks as rows and samples as columns, nan where a sample lacks a block.

    With it for each row the first block of its pair, or its own block: the signs of a pair are flipped together.
    """
    by_block, first = [], dict[int, int]()
    for sample, findings in tested:
        numbers = sample.blocks or range(len(sample.pairs))
        by_block.append(dict(zip(numbers, findings.tested, strict=True)))
        if findings.coins:
            mirrored = zip(numbers, sample.mirrors, strict=True)
            first |= {number: numbers[at] for number, at in mirrored if at is not None and numbers[at] < number}
    blocks = sorted({block for column in by_block for block in column})
    columns = np.array([[column.get(block) for column in by_block] for block in blocks], dtype=float)
    return columns, [first.get(block, block) for block in blocks]


def _judged(sample: Sample, findings: Findings, p_adj: float | None, p_differ: float | None) -> Judged:
    verdict = _untestable(sample, findings)
    clear = verdict in {REGRESSION, IMPROVEMENT}
    if verdict is None:
        verdict, clear = decide(findings, p_adj, sample.metric.better)
    if not sample.threshold:
        verdict, clear = {REGRESSION: WORSE, IMPROVEMENT: BETTER}.get(verdict, verdict), False
    judged = Judged(sample, findings, verdict, p_adj, clear, p_differ=p_differ)
    return replace(judged, notes=tuple(filter(None, _notes(judged))))


def _untestable(sample: Sample, findings: Findings) -> str | None:
    """Return the verdict of a metric that is not tested, and so is outside its family; else None."""
    dropped = len(sample.pairs) - findings.n
    one_sided = findings.n == 0 and any(value is not None for pair in sample.pairs for value in pair)
    worse = _oriented(findings.estimate or 0.0, sample.metric.better)
    rungs = (
        (bool(sample.failed), FAILED),
        (one_sided, NOT_COMPARABLE),
        (sample.family == "shown" or sample.metric.better == "none", SHOWN),
        (sample.environment, ENVIRONMENT),
        (findings.n < FEWEST_BLOCKS, SCREEN),
        (dropped > MOST_DROPPED * len(sample.pairs), INCONCLUSIVE),
        (findings.identical, EQUIVALENT),
        (findings.alike and abs(worse) < findings.limit, NEGLIGIBLE),
        (findings.alike, REGRESSION if worse > 0 else IMPROVEMENT),
    )
    return next((verdict for holds, verdict in rungs if holds), None)


def decide(findings: Findings, p_adj: float | None, better: str) -> tuple[str, bool]:
    """Return the verdict of a tested metric, and whether the whole 95 % interval is beyond the threshold."""
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
    return EQUIVALENT if within(findings.ci90, limit) else INCONCLUSIVE, False


def within(interval: Interval | None, limit: float) -> bool:
    """Say whether an interval lies within -limit and +limit."""
    return interval is not None and interval.low > -limit and interval.high < limit


def _oriented(difference: float, better: str) -> float:
    """Return e of docs/statistics.md: above zero is worse."""
    return -difference if better == "higher" else difference


def _notes(judged: Judged) -> list[str]:
    sample, findings = judged.sample, judged.findings
    constant = findings.alike and findings.n > 1 and not findings.identical
    return [
        "outside causes spoilt more blocks than spare ones could replace" if judged.verdict == ENVIRONMENT else "",
        _missing(sample, findings),
        _screen(findings),
        sample.failed,
        sample.note,
        _native(sample, findings),
        "identical in every block" if findings.identical else "",
        "the same difference in every block, so there is nothing to test" if constant else "",
        WIDE if judged.verdict == NEGLIGIBLE and findings.ci95 and not within(findings.ci95, findings.limit) else "",
        _disagreeing(judged),
        _order(findings),
    ]


def _missing(sample: Sample, findings: Findings) -> str:
    blocks = len(sample.pairs)
    lacking = blocks - findings.n
    if not lacking:
        return ""
    sides = dict(zip(("baseline", "candidate"), zip(*sample.pairs, strict=True), strict=True))
    absent = [name for name, values in sides.items() if all(value is None for value in values)]
    if len(absent) == len(sides):  # a mean over no type, which says so
        return ""
    if absent:
        return f"not comparable: {absent[0]} never has it"
    too_many = ", too many for a verdict" if lacking > MOST_DROPPED * blocks else ""
    return f"{lacking} of {blocks} blocks lack{'s' if lacking == 1 else ''} a value{too_many}"


def _screen(findings: Findings) -> str:
    if not 0 < findings.n < FEWEST_BLOCKS:
        return ""
    low, high = percent(min(findings.known)), percent(max(findings.known))
    reach = "" if findings.native or findings.n == 1 else f"; they range from {low:+.1f} to {high:+.1f} %"
    return f"a first look: {findings.n} of at least {FEWEST_BLOCKS} blocks{reach}"


def _native(sample: Sample, findings: Findings) -> str:
    if not findings.native or findings.estimate is None:
        return ""
    why = "compared in its own unit" if sample.metric.native else "values of zero have no ratio"
    if findings.identical:
        return why
    interval = f" ({findings.ci95.low:.4g} to {findings.ci95.high:.4g})" if findings.ci95 else ""
    text = f"{why}; the difference is {findings.estimate:.4g}{interval} {sample.metric.unit}".rstrip()
    return text if findings.limit else f"{text}, and no threshold in percent applies"


def _shown(findings: Findings, difference: float) -> str:
    return f"{difference:+.3g}" if findings.native else f"{percent(difference):+.1f} %"


def _disagreeing(judged: Judged) -> str:
    hosts, p = judged.findings.hosts, judged.p_differ
    if hosts is None or p is None or p > DISAGREE:
        return ""
    means = sorted(hosts.means.items(), key=lambda item: item[1])
    ends = ", ".join(f"{_shown(judged.findings, mean)} on {host}" for host, mean in (means[0], means[-1]))
    remedy = "more hosts narrow this, more blocks do not" if judged.findings.over else "the interval is of these alone"
    return f"the hosts disagree: {ends} (p {p:.2g}); {remedy}"


def _order(findings: Findings) -> str:
    if findings.order is None or findings.n < FEWEST_BLOCKS:
        return ""
    coin, effect = findings.order
    # There is no limit where the baseline's median is 0.
    if effect.p >= ALPHA and not 0 < findings.limit / 2 < abs(effect.delta):
        return ""
    size = _shown(findings, effect.delta)
    return f"order effect: {size} where the candidate {AFTER[coin]}, the opposite where first (p {effect.p:.2g})"
