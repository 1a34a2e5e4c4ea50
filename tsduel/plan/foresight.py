"""What a design can show, before it runs, and what would help: plan/forecast.json, which the view reads, and words.

Everything here knows the spread of the log ratios and never a difference: docs/method.md says why that matters.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scipy.special import chdtri

from tsduel.core.metrics import Metric, threshold
from tsduel.core.plan import Plan
from tsduel.core.sections import MOST_BLOCKS
from tsduel.core.wording import lasting
from tsduel.stats.estimate import percent
from tsduel.stats.power import FEWEST_BLOCKS, blocks_needed, effect_seen, mde
from tsduel.workloads import primary

FROM_BLOCKS = 3
"""A standard deviation of fewer values says nothing at all."""
SURE = 0.9
"""How sure a forecast has to be, on one side, before it calls a design hopeless."""
MOST_TIMES = 10
"""Phases that are longer than ten times are no advice."""


def section(
    plan: Plan, spreads: Mapping[tuple[str, str], Mapping[str, Any]], source: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return plan/forecast.json: all that it takes to turn a spread into a forecast, and what is known before.

    ``spreads`` has ``s_d`` and, where known, ``within`` (standard deviations of log ratios) by metric and query type;
    ``source`` says of which run. ``mde_factor`` times a standard deviation is the log ratio that the planned blocks see
    with 80 % power; ``seen`` is [blocks, the same for just so many blocks by the noncentral t]; ``reach`` is
    [blocks, low, high], between which 80 % of true standard deviations lie, as multiples of one from so few blocks.
    """
    blocks, spares = plan.design.blocks, plan.design.spare_blocks
    return {
        "blocks": blocks,
        "spare_blocks": spares,
        "fewest_blocks": FEWEST_BLOCKS,
        "from_blocks": FROM_BLOCKS,
        "mde_factor": mde(1.0, blocks) if blocks > 1 else None,
        "seen": [[n, effect_seen(n)] for n in range(FEWEST_BLOCKS, MOST_BLOCKS + 1)],
        "reach": [[n, *_reach(n)] for n in range(FROM_BLOCKS, max(blocks + spares, FROM_BLOCKS) + 1)],
        "metrics": [
            {
                "metric": metric.name,
                "query_type": query_type,
                "title": spoken(metric),
                "threshold_pct": threshold(metric, plan.design.thresholds),
                "s_d": spreads.get((metric.name, query_type), {}).get("s_d"),
                "within": spreads.get((metric.name, query_type), {}).get("within"),
            }
            for metric, query_type in (() if plan.crosses else primary(plan))
        ],
        "aa": source,
    }


def _reach(blocks: int) -> tuple[float, float]:
    """Return the 80 % interval of a standard deviation from so many normal values, as multiples of the one seen."""
    df = blocks - 1
    return math.sqrt(df / float(chdtri(df, 1 - SURE))), math.sqrt(df / float(chdtri(df, SURE)))


def spoken(metric: Metric) -> str:
    """Return a metric's title as it stands within a sentence."""
    title = metric.title
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def described(plan: Plan, forecast: Mapping[str, Any], unknown: str, block_s: float) -> list[str]:
    """Return the lines of the plan that say what it can show; ``unknown`` says why there are no spreads to go by.

    The last ones warn where the design cannot answer what it asks, with what would help and what that takes.
    """
    if plan.smoke:
        return []
    blocks = plan.design.blocks
    if blocks < FEWEST_BLOCKS:
        return [f"can show  no verdict: it takes {FEWEST_BLOCKS} blocks at least, fewer ({blocks}) are a screen"]
    known = [metric for metric in forecast["metrics"] if metric["s_d"] is not None]
    if not known:
        return [f"can show  {unknown or 'not known yet: there is no A/A run on this kind of machine (make tsbs AA=1)'}"]
    parts = [
        f"{percent(forecast['mde_factor'] * of['s_d']):.1f} % in {of['title']} ({of['threshold_pct']:g} % asked)"
        for of in known
    ]
    source = forecast["aa"]
    other = "" if source["same_workload"] else ", with other data, so roughly"
    lines = [
        f"can show  changes of {', '.join(parts)}",
        f"          with 80 % power, as {source['run']} scattered: {source['what']} on this kind of machine{other}",
    ]
    phase_s = len(plan.query_types) * plan.duel.seconds if plan.duel and plan.duels else block_s
    advised = (
        (
            of,
            advise(
                of["threshold_pct"], of["s_d"], within=of["within"], blocks=blocks, block_s=block_s, phase_s=phase_s
            ),
        )
        for of in known
    )
    return lines + [
        f"warning   {blocks} blocks will probably not settle {of['threshold_pct']:g} % in {of['title']} on this "
        f"machine; {advice.words or 'a quieter machine'} could"
        for of, advice in advised
        if advice
    ]


@dataclass(frozen=True)
class Advice:
    """Blocks needed in all and phases how many times as long, either alone, None where it cannot do; in words, too."""

    blocks: int | None
    times: float | None
    words: str


def advise(
    threshold_pct: float,
    deviation: float,
    *,
    within: float | None,
    blocks: int,
    block_s: float,
    phase_s: float,
) -> Advice | None:
    """Return what would let `blocks` blocks see a change of the threshold with 80 % power; None if they do already.

    The variance of a block's log ratio is that between blocks and that within one, which falls with the length of a
    phase (Kalibera & Jones, ISMM 2013). ``deviation`` is that of a block's log ratio, ``within`` the part of it from
    within a block (None: not known, so only more blocks can be advised), ``phase_s`` the seconds of a block whose
    length could change. The words have the cheaper way first, and are empty where neither can do.
    """
    effect = math.log1p(threshold_pct / 100)
    needed = blocks_needed(effect, deviation)
    if needed is not None and needed <= blocks:
        return None
    enough = needed if needed is not None and needed <= MOST_BLOCKS else None
    times = math.inf
    if within and blocks >= FEWEST_BLOCKS:
        wanted, between = (effect / effect_seen(blocks)) ** 2, max(0.0, deviation**2 - within**2)
        times = within**2 / (wanted - between) if wanted > between else math.inf
    ways = []
    if enough is not None:
        cost_s = (enough - blocks) * block_s
        ways.append((cost_s, f"BLOCKS={enough} (about {lasting(cost_s)} more)"))
    if times <= MOST_TIMES:
        cost_s = (times - 1) * phase_s * blocks
        ways.append((cost_s, f"phases {times:.1f} times as long (about {lasting(cost_s)} more)"))
    return Advice(enough, times if times <= MOST_TIMES else None, " or ".join(words for _, words in sorted(ways)))
