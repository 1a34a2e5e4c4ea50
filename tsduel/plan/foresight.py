"""What a design can show, before it runs: plan/forecast.json, which the view's forecast reads, and the plan's words.

Everything here knows the spread of the log ratios and never a difference: docs/method.md says why that matters.
"""

import math
from collections.abc import Mapping
from typing import Any

from scipy.special import chdtri

from tsduel.core.metrics import Metric, threshold
from tsduel.core.plan import Plan
from tsduel.core.sections import MOST_BLOCKS
from tsduel.plan.advice import Advice, advise
from tsduel.stats.estimate import percent
from tsduel.stats.power import FEWEST_BLOCKS, effect_seen, mde
from tsduel.workloads import primary

FROM_BLOCKS = 3
"""A standard deviation of fewer values says nothing at all."""
SURE = 0.9
"""How sure a forecast has to be, on one side, before it calls a design hopeless."""


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
            for metric, query_type in primary(plan)
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
    advised = ((of, _advice(plan, of, block_s)) for of in known)
    return lines + [
        f"warning   {blocks} blocks will probably not settle {of['threshold_pct']:g} % in {of['title']} on this "
        f"machine; {advice.words or 'a quieter machine'} could"
        for of, advice in advised
        if advice
    ]


def _advice(plan: Plan, metric: Mapping[str, Any], block_s: float) -> Advice | None:
    phase_s = len(plan.query_types) * plan.duel.seconds if plan.duel and plan.duels else block_s
    return advise(
        metric["threshold_pct"],
        metric["s_d"],
        within=metric["within"],
        blocks=plan.design.blocks,
        block_s=block_s,
        phase_s=phase_s,
    )
