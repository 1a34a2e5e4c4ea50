"""What a design can show, before it runs: plan/forecast.json, which the host's forecast reads, and the plan's words.

Everything here knows the spread of the log ratios and never a difference: docs/method.md says why that matters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scipy.special import chdtri

from tsduel.core.metrics import GEOMEAN, METRICS, threshold
from tsduel.stats.estimate import percent
from tsduel.stats.power import FEWEST_BLOCKS, blocks_needed, effect_seen, mde
from tsduel.workloads.gobench import units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tsduel.core.metrics import Metric

MOST_BLOCKS = 99
"""As many as an experiment can ask for (tsduel.question.experiment.Design)."""
FROM_BLOCKS = 3
"""A standard deviation of fewer values says nothing at all."""
SURE = 0.9
"""How sure a forecast has to be, on one side, before it calls a design hopeless."""
WATCHED = {"tsbs": ("load_rate", "query_mean_ms"), "gobench": ("sec/op",)}
"""The primary metrics that the host can follow without Python."""


def primary(plan: Mapping[str, Any]) -> Iterator[tuple[Metric, str]]:
    """Yield the primary metrics of a kind of experiment, each with its query type: empty, or the geometric mean."""
    known = units.KNOWN if plan["kind"] == "gobench" else tuple(METRICS.values())
    for metric in known:
        if metric.family == "primary":
            yield metric, ""
        if metric.geomean == "primary":
            yield metric, GEOMEAN


def section(plan: Mapping[str, Any], calibration: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return plan/forecast.json: all that the host needs to turn a spread into a forecast, and what is known before.

    ``calibration`` is what the last A/A run here has left (tsduel.stats.aa), if any. ``mde_factor`` times
    a standard deviation of log ratios is the log ratio that the planned blocks see with 80 % power; ``seen`` is
    [blocks, the same for just so many blocks by the noncentral t], for how many would be needed; ``reach`` is
    [blocks, low, high], between which 80 % of true standard deviations lie, as multiples of one from so few blocks.
    """
    blocks = int(plan["design"]["blocks"])
    last = blocks + int((plan.get("noise") or {}).get("spare_blocks") or 0)
    spreads = {(s["metric"], s["query_type"]): s["s_d"] for s in (calibration or {}).get("spreads", [])}
    return {
        "blocks": blocks,
        "fewest_blocks": FEWEST_BLOCKS,
        "from_blocks": FROM_BLOCKS,
        "mde_factor": mde(1.0, blocks) if blocks > 1 else None,
        "seen": [[n, effect_seen(n)] for n in range(FEWEST_BLOCKS, MOST_BLOCKS + 1)],
        "reach": [[n, *_reach(n)] for n in range(FROM_BLOCKS, max(last, FROM_BLOCKS) + 1)],
        "metrics": [
            {
                "metric": metric.name,
                "query_type": query_type,
                "title": spoken(metric),
                "threshold_pct": _plain(threshold(metric, dict(plan["design"].get("thresholds") or {}))),
                "s_d": spreads.get((metric.name, query_type)),
                "watched": metric.name in WATCHED[plan["kind"]],
            }
            for metric, query_type in primary(plan)
        ],
        "aa": None if calibration is None else _of(calibration, plan),
    }


def _plain(number: float) -> float:
    """Return 5 for 5.0: newer versions of jq print a number as it was written."""
    return int(number) if number.is_integer() else number


def _reach(blocks: int) -> tuple[float, float]:
    """Return the 80 % interval of a standard deviation from so many normal values, as multiples of the one seen."""
    df = blocks - 1
    return math.sqrt(df / float(chdtri(df, 1 - SURE))), math.sqrt(df / float(chdtri(df, SURE)))


def _of(calibration: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    what = "gobench" if plan["kind"] == "gobench" else "workload"
    there = dict(calibration.get(what) or {})
    same = bool(there) and all(plan[what].get(name) == value for name, value in there.items())
    return {"run": calibration["run"], "passed": bool(calibration.get("passed")), "same_workload": same}


def spoken(metric: Metric) -> str:
    """Return a metric's title as it stands within a sentence."""
    title = metric.title
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def hopes(forecast: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for each metric with a spread what the planned blocks can show: percent, threshold, and blocks needed."""
    found = []
    for metric in forecast["metrics"]:
        deviation = metric["s_d"]
        if deviation is None or forecast["mde_factor"] is None:
            continue
        share = metric["threshold_pct"] / 100
        found.append(
            {
                **metric,
                "shows_pct": percent(forecast["mde_factor"] * deviation),
                "needed": blocks_needed(math.log1p(share), deviation),
            }
        )
    return found


def described(plan: Mapping[str, Any], forecast: Mapping[str, Any], unknown: str = "") -> list[str]:
    """Return the lines of the plan that say what it can show; ``unknown`` says why there are no spreads to go by.

    The last one warns where the design cannot answer what it asks.
    """
    if plan.get("smoke"):
        return []
    blocks = forecast["blocks"]
    if blocks < FEWEST_BLOCKS:
        return [f"can show  no verdict: it takes {FEWEST_BLOCKS} blocks at least, fewer ({blocks}) are a screen"]
    known = hopes(forecast)
    if not known:
        return [f"can show  {unknown or 'not known yet: there is no A/A run on this kind of machine (make tsbs AA=1)'}"]
    parts = [f"{h['shows_pct']:.1f} % in {h['title']} ({h['threshold_pct']:g} % asked)" for h in known]
    aa = forecast["aa"]
    other = "" if aa["same_workload"] else ", with other data, so roughly"
    lines = [
        f"can show  changes of {', '.join(parts)}",
        f"          with 80 % power, as {aa['run']} scattered: the last A/A run on this kind of machine{other}",
    ]
    return lines + _warning(plan, known)


def _warning(plan: Mapping[str, Any], known: list[dict[str, Any]]) -> list[str]:
    short = [h for h in known if h["needed"] is None or h["needed"] > plan["design"]["blocks"]]
    if not short:
        return []
    worst = max(short, key=lambda h: h["needed"] or math.inf)
    most = worst["needed"]
    what = ", ".join(f"{h['threshold_pct']:g} % in {h['title']}" for h in short)
    enough = most is not None and most <= MOST_BLOCKS
    remedy = f"BLOCKS={most}, longer phases or a quieter machine could"
    if not enough:
        remedy = f"longer phases or a quieter machine could (more than {MOST_BLOCKS} blocks would be needed)"
    return [f"warning   {plan['design']['blocks']} blocks will probably not settle {what} on this machine; {remedy}"]
