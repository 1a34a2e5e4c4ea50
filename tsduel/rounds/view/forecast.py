"""What the planned blocks will be able to show, said once after each: from the spread so far, never a difference.

``section`` everywhere is plan/forecast.json, which tsduel.plan.foresight makes and describes. No numpy: beside a run
that is measured, every millisecond of ours is too many.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsduel.core import rundir
from tsduel.core.wording import lasting
from tsduel.rounds.view import model
from tsduel.rounds.view.model import Finished, State


@dataclass(frozen=True)
class Spread:
    """Of a metric, that of the candidate that scatters most: standard deviation of ``blocks`` log ratios."""

    metric: Mapping[str, Any]
    candidate: str
    blocks: int
    s_d: float


def section_of(run_dir: Path) -> dict[str, Any]:
    """Return a run's plan/forecast.json; empty of a smoke run, whose figures mean nothing, and of an older plan.

    Of a sweep or a fleet too: ratios of different settings and machines differ by more than noise.
    """
    run = rundir.open_run(run_dir)
    return {} if run.plan.smoke or run.plan.sweeps or run.plan.is_fleet else run.json("plan/forecast.json")


def counting(ended: Sequence[Finished]) -> list[Finished]:
    """Return the blocks that count by what is known so far; a spare one only in place of one that is spoilt."""
    good = [of for of in ended if of.kind != "warmup" and not of.void and not of.causes and of.ratios]
    open_places = sum(of.kind == "measured" and (of.void or bool(of.causes)) for of in ended)
    return [of for of in good if of.kind == "measured"] + [of for of in good if of.kind == "spare"][:open_places]


def after_block(state: State, section: Mapping[str, Any]) -> str:
    """Return the sentence after the block that has just ended; empty where there is nothing to forecast with."""
    if not section or not state.ended:
        return ""
    last, blocks = state.ended[-1], section["blocks"]
    found = _spreads(counting(state.ended), section)
    n = min((spread.blocks for spread in found), default=0)
    which = {"warmup": "the warm-up", "spare": f"spare block {last.number}"}.get(last.kind)
    said = f"after {which or f'block {last.number} of {blocks}'}"
    if found and n != last.number:
        said += f" ({n} blocks count)"
    seconds = model.remaining(state, last.at)
    to_go = [f"about {lasting(seconds)} to go at this pace"] if seconds else []
    if blocks < section["fewest_blocks"]:
        fewest = section["fewest_blocks"]
        parts = [f"no verdict is possible with fewer than {fewest} blocks, whatever they show: this is a screen"]
    elif found:
        parts = [f"at this noise {blocks} blocks can show {_can_show(found, section)}"]
        if n < section["fewest_blocks"]:
            low, high = next((low, high) for of, low, high in section["reach"] if of == n)
            parts.append(f"roughly, since it is from {n} blocks: {low:.1f} to {high:.1f} times that")
        hopeless = to_go and all(_is_hopeless(spread, section) for spread in found)
        parts.append(_what_to_do(found, section, state.run) if hopeless else _would_need(found, section))
    else:
        parts = _known_before(section)
    return f"{said}: " + "; ".join(part for part in [*_spoilt(state, section), *parts, *to_go] if part)


def _spreads(blocks: Sequence[Finished], section: Mapping[str, Any]) -> list[Spread]:
    found = []
    for metric in section["metrics"]:
        ratios: dict[str, list[float]] = {}
        for block in blocks:
            for candidate, of in block.ratios.items():
                if metric["metric"] in of:
                    ratios.setdefault(candidate, []).append(of[metric["metric"]])
        enough = [
            Spread(metric, candidate if len(ratios) > 1 else "", len(values), statistics.stdev(values))
            for candidate, values in ratios.items()
            if len(values) >= section["from_blocks"]
        ]
        if enough:
            found.append(max(enough, key=lambda spread: spread.s_d))
    return found


def _known_before(section: Mapping[str, Any]) -> list[str]:
    known = [Spread(of, "", 0, of["s_d"]) for of in section["metrics"] if of["s_d"] is not None]
    if not known:
        return [f"what {section['blocks']} blocks can show is seen from {section['from_blocks']} blocks on"]
    run = section["aa"]["run"]
    shown = f"if it scatters as the A/A run {run} did, {section['blocks']} blocks can show {_can_show(known, section)}"
    return [shown, _would_need(known, section)]


def _can_show(found: Sequence[Spread], section: Mapping[str, Any]) -> str:
    parts = []
    for spread in found:
        percent = 100 * math.expm1(section["mde_factor"] * spread.s_d)
        of = f" of {spread.candidate}" if spread.candidate else ""
        title, asked = spread.metric["title"], spread.metric["threshold_pct"]
        parts.append(f"{percent:.1f} % in {title}{of} (you asked for {asked:g} %)")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _needed(spread: Spread, section: Mapping[str, Any]) -> int | None:
    """Return the fewest blocks that see the metric's threshold; None where not even the most would."""
    limit = math.log1p(spread.metric["threshold_pct"] / 100)
    return next((n for n, factor in section["seen"] if factor * spread.s_d <= limit), None)


def _would_need(found: Sequence[Spread], section: Mapping[str, Any]) -> str:
    parts = []
    for spread in found:
        needed = _needed(spread, section)
        if needed is None or needed > section["blocks"]:
            count = needed or f"more than {section['seen'][-1][0]}"
            asked, title = spread.metric["threshold_pct"], spread.metric["title"]
            parts.append(f"for {asked:g} % in {title} {count} blocks would be needed")
    return ", ".join(parts)


def _is_hopeless(spread: Spread, section: Mapping[str, Any]) -> bool:
    """Whether not even the lower end of what the spread can truly be would do."""
    low = next(low for of, low, _ in section["reach"] if of == spread.blocks)
    return bool(section["mde_factor"] * spread.s_d * low > math.log1p(spread.metric["threshold_pct"] / 100))


def _what_to_do(found: Sequence[Spread], section: Mapping[str, Any], run: str) -> str:
    needed = [_needed(spread, section) for spread in found]
    remedy = "longer phases or a quieter machine could"
    if None not in needed:
        most = max(filter(None, needed))
        remedy = f"a new one could with BLOCKS={most}, with longer phases, or on a quieter machine"
    return f"this run cannot answer that: make stop RUN={run} finishes the block and ends it; {remedy}"


def _spoilt(state: State, section: Mapping[str, Any]) -> list[str]:
    """Too many, and there will be no verdict however long the run goes on."""
    spoilt = [of for of in state.ended if of.kind != "warmup" and (of.void or of.causes)]
    if not spoilt:
        return []
    n, spares = len(spoilt), section.get("spare_blocks", 0)
    does, last = "block does" if n == 1 else "blocks do", spoilt[-1]
    said = f"{n} {does} not count so far ({last.causes[0] if last.causes else last.said})"
    if n > spares:
        said += f", and {spares} can be replaced: see what else runs (make doctor), or make stop RUN={state.run}"
    return [said]
