"""The changes that a design can show, from the spread of its blocks: with the plan, and after each block.

This module uses the spread of the log ratios and never a difference; docs/statistics.md has the reason.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from scipy.special import chdtri

from tsduel.core import files
from tsduel.core.metrics import Metric, threshold
from tsduel.core.plan import Plan
from tsduel.core.rundir import Run
from tsduel.core.sections import MOST_BLOCKS
from tsduel.core.wording import lasting
from tsduel.stats.estimate import percent
from tsduel.stats.power import FEWEST_BLOCKS, blocks_needed, effect_seen, mde
from tsduel.workloads import primary

FILE = "plan/forecast.json"
FROM_BLOCKS = 3  # a standard deviation of fewer values says nothing
SURE = 0.9  # one-sided confidence before a forecast calls a design hopeless
MOST_TIMES = 10  # the longest phases that we advise, in times of their length
NEWS = 1.25  # a spread is from few values: a forecast that moves by less than a quarter is the same
UNCALIBRATED = "not known yet: there is no A/A run on this kind of machine (make tsbs AA=1)"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A finished block. ``why``: it failed or does not count; ``ratios``: logs by candidate and metric.

    ``at``: epoch seconds of its end; ``load_rate``: mean of the variants in samples/s.
    """

    number: int
    kind: str
    at: float
    ok: bool
    seconds: float
    load_rate: float
    exchanges: float
    why: str
    causes: tuple[str, ...]
    ratios: Mapping[str, Mapping[str, float]]

    @property
    def spoilt(self) -> bool:
        """Whether we know already that the block does not count."""
        return self.kind != "warmup" and bool(self.causes)


@dataclass(frozen=True)
class Spread:
    """The spread of a metric: standard deviation of log ratios over blocks, and within a block in percent.

    With several candidates, ``candidate`` is the one with the largest spread. ``blocks``: number of ratios.
    """

    metric: Metric
    asked_pct: float
    s_d: float
    within_pct: float | None = None
    candidate: str = ""
    blocks: int = 0

    @property
    def title(self) -> str:
        """The metric's title in the middle of a sentence: an abbreviation keeps its capitals."""
        title = self.metric.title
        return title if title[1:2].isupper() else title[:1].lower() + title[1:]

    def shown_pct(self, planned: int) -> float:
        """Return the change in percent that this number of blocks shows with 80 % power."""
        return percent(mde(self.s_d, planned))

    @property
    def needed(self) -> int | None:
        """The fewest blocks that show the threshold; None if MOST_BLOCKS are too few."""
        return _enough(math.log1p(self.asked_pct / 100), self.s_d)

    def is_hopeless(self, planned: int) -> bool:
        """Whether the planned blocks are too few even with the smallest true spread that is plausible."""
        return mde(self.s_d, planned) * reach(self.blocks)[0] > math.log1p(self.asked_pct / 100)


def _enough(effect: float, deviation: float) -> int | None:
    blocks = blocks_needed(effect, deviation)
    return blocks if blocks is not None and blocks <= MOST_BLOCKS else None


def reach(blocks: int) -> tuple[float, float]:
    """Return the 80 % interval of a true standard deviation, in multiples of that of so many values."""
    df = blocks - 1
    return math.sqrt(df / float(chdtri(df, 1 - SURE))), math.sqrt(df / float(chdtri(df, SURE)))


@dataclass(frozen=True)
class Outlook:
    """What is foreseen after a block, as a sentence; `shown_pct`: the changes in percent that the run can show.

    ``words``: what makes another sentence of it, whatever the figures are.
    """

    text: str
    words: tuple[object, ...]
    shown_pct: tuple[float, ...]

    def is_news(self, said: "Outlook | None") -> bool:
        """Whether it says anything but what was said before."""
        if said is None or self.words != said.words:
            return True
        pairs = zip(self.shown_pct, said.shown_pct, strict=True)
        return any(max(pair) > NEWS * min(pair) for pair in pairs)


@dataclass(frozen=True)
class Forecast:
    """The spreads of an earlier run for a plan: ``known`` are its rows, ``source`` says which run it is."""

    plan: Plan
    known: Sequence[Mapping[str, Any]]
    source: Mapping[str, Any]

    @classmethod
    def read(cls, run: Run) -> Self | None:
        """Return the forecast that was stored with a run's plan; None if there is none."""
        kept = run.json(FILE)
        return cls(run.plan, kept.get("known", ()), kept.get("source", {})) if kept else None

    def write(self, run_dir: Path) -> None:
        """Write plan/forecast.json on one line, since people read experiment.json and not this file."""
        names = ("metric", "query_type", "s_d", "within_pct")
        wanted = {(metric.name, query_type) for metric, query_type in self.metrics}
        rows = [{n: row.get(n) for n in names} for row in self.known if (row["metric"], row["query_type"]) in wanted]
        files.write(run_dir / FILE, json.dumps({"known": rows, "source": self.source}) + "\n")

    @cached_property
    def metrics(self) -> list[tuple[Metric, str]]:
        """The primary metrics; none if databases differ, since there is no threshold then."""
        return [] if self.plan.crosses else list(primary(self.plan))

    @property
    def spreads(self) -> list[Spread]:
        """Their spreads in the earlier run."""
        rows = {(row["metric"], row["query_type"]): row for row in self.known if row.get("s_d") is not None}
        return [
            Spread(metric, self._asked(metric), row["s_d"], row.get("within_pct"))
            for metric, query_type in self.metrics
            if (row := rows.get((metric.name, query_type)))
        ]

    def _asked(self, metric: Metric) -> float:
        return threshold(metric, self.plan.design.thresholds)

    def before(self, unknown: str, block_s: float) -> list[str]:
        """Return the lines about the changes that a plan can show. ``unknown``: why there are no spreads.

        Warnings at the end name metrics whose threshold the design cannot show, with a remedy and its cost.
        """
        plan, blocks = self.plan, self.plan.design.blocks
        if plan.smoke:
            return []
        if blocks < FEWEST_BLOCKS:
            return [f"can show  no verdict: it takes {FEWEST_BLOCKS} blocks at least, {blocks} are a first look"]
        if not self.spreads:
            return [f"can show  {unknown or UNCALIBRATED}"]
        parts = [f"{s.shown_pct(blocks):.1f} % in {s.title} ({s.asked_pct:g} % asked)" for s in self.spreads]
        scattered = f"{self.source['run']} scattered: {self.source['what']} on this kind of machine"
        data = "" if self.source["same_workload"] else ", with other data, so roughly"
        lines = [f"can show  changes of {', '.join(parts)}", f"          with 80 % power, as {scattered}{data}"]
        phase_s = len(plan.query_types) * plan.duel.seconds if plan.duel and plan.duels else block_s
        for spread in self.spreads:
            asked_pct, within_pct = spread.asked_pct, spread.within_pct
            within = None if within_pct is None else math.log1p(within_pct / 100)
            remedy = advise(asked_pct, spread.s_d, within=within, blocks=blocks, block_s=block_s, phase_s=phase_s)
            if remedy is not None:
                lines.append(
                    f"warning   {blocks} blocks will probably not settle {asked_pct:g} % in {spread.title} on this "
                    f"machine; {remedy or 'a quieter machine'} could"
                )
        return lines

    def after_block(self, ended: Sequence[Ended], *, goes_on: bool) -> Outlook | None:
        """Return what is foreseen after the last block of ``ended``. `goes_on`: there are blocks to come.

        It is None for a smoke run, whose figures mean nothing, and for a fleet: ratios of different machines differ by
        more than noise.
        """
        if self.plan.smoke or len(self.plan.every_host) > 1:
            return None
        blocks, last, spreads = self.plan.design.blocks, ended[-1], self._spreads(counting(ended))
        n, scatter = min((spread.blocks for spread in spreads), default=0), spreads or self.spreads
        which = {"warmup": "the warm-up", "spare": f"spare block {last.number}"}.get(last.kind)
        when = f"after {which or f'block {last.number} of {blocks}'}"
        if spreads and n != last.number:
            when += f" ({n} blocks count)"
        is_rough, hopeless, shown_pct = n < FEWEST_BLOCKS, False, tuple[float, ...]()
        if blocks < FEWEST_BLOCKS:
            parts = [f"no verdict is possible with fewer than {FEWEST_BLOCKS} blocks: this is a first look"]
        elif not scatter:
            parts = [f"what {blocks} blocks can show is seen from {FROM_BLOCKS} blocks on"]
        else:
            noise = "at this noise"
            if not spreads:
                noise = f"if it scatters as {self.source['run']} did, {self.source['what']},"
            parts = [f"{noise} {blocks} blocks can show {self._can_show(scatter)}"]
            if spreads and is_rough:
                low, high = reach(n)
                parts.append(f"roughly, since it is from {n} blocks: {low:.1f} to {high:.1f} times that")
            hopeless = bool(spreads) and goes_on and all(spread.is_hopeless(blocks) for spread in spreads)
            parts.append(self._what_to_do(spreads) if hopeless else self._would_need(scatter))
            shown_pct = tuple(spread.shown_pct(blocks) for spread in scatter)
        spoilt = self._spoilt(ended)
        text = f"{when}: " + "; ".join(filter(None, [spoilt, *parts]))
        return Outlook(text, (spoilt, bool(spreads), is_rough, hopeless, len(shown_pct)), shown_pct)

    def _spreads(self, blocks: Sequence[Ended]) -> list[Spread]:
        """Return the spread of each metric over these blocks, of the candidate with the largest."""
        found = []
        candidates = dict.fromkeys(candidate for block in blocks for candidate in block.ratios)
        for metric, _ in self.metrics:
            spreads = []
            for candidate in candidates:
                of_candidate = (block.ratios.get(candidate, {}) for block in blocks)
                logs = [ratios[metric.name] for ratios in of_candidate if metric.name in ratios]
                if len(logs) >= FROM_BLOCKS:
                    name = candidate if len(candidates) > 1 else ""
                    spreads.append(Spread(metric, self._asked(metric), statistics.stdev(logs), None, name, len(logs)))
            if spreads:
                found.append(max(spreads, key=lambda spread: spread.s_d))
        return found

    def _can_show(self, spreads: Sequence[Spread]) -> str:
        parts = [
            f"{spread.shown_pct(self.plan.design.blocks):.1f} % in {spread.title}"
            f"{f' of {spread.candidate}' if spread.candidate else ''} (you asked for {spread.asked_pct:g} %)"
            for spread in spreads
        ]
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)

    def _would_need(self, spreads: Sequence[Spread]) -> str:
        return ", ".join(
            f"for {spread.asked_pct:g} % in {spread.title} {spread.needed or f'more than {MOST_BLOCKS}'} blocks would "
            "be needed"
            for spread in spreads
            if not spread.needed or spread.needed > self.plan.design.blocks
        )

    def _what_to_do(self, spreads: Sequence[Spread]) -> str:
        needed, remedy = [spread.needed for spread in spreads], "longer phases or a quieter machine could"
        if None not in needed:
            most = max(filter(None, needed))
            remedy = f"a new one could with BLOCKS={most}, with longer phases, or on a quieter machine"
        run = self.plan.run
        return f"this run cannot answer that: make stop RUN={run} finishes the block and ends it; {remedy}"

    def _spoilt(self, ended: Sequence[Ended]) -> str:
        """Say which blocks do not count. With too many, the run cannot have a verdict."""
        spoilt, spares = [block for block in ended if block.spoilt], self.plan.design.spare_blocks
        if not spoilt:
            return ""
        does, last = "block does" if len(spoilt) == 1 else "blocks do", spoilt[-1]
        sentence = f"{len(spoilt)} {does} not count so far ({last.causes[0]})"
        if len(spoilt) > spares:
            see = f"see what else runs (make doctor), or make stop RUN={self.plan.run}"
            sentence += f", and {spares} can be replaced: {see}"
        return sentence


def counting(ended: Sequence[Ended]) -> list[Ended]:
    """Return the blocks that count so far; a spare block counts only in place of a spoilt block."""
    good = [block for block in ended if not block.spoilt and block.ratios]
    spoilt = sum(block.kind == "measured" and block.spoilt for block in ended)
    spares = [block for block in good if block.kind == "spare"]
    return [block for block in good if block.kind == "measured"] + spares[:spoilt]


def advise(
    threshold_pct: float, deviation: float, *, within: float | None, blocks: int, block_s: float, phase_s: float
) -> str | None:
    """Return how a design could show the threshold with 80 % power; None if `blocks` blocks do already.

    The variance of a block's log ratio is the variance between blocks plus that within a block, which falls
    with the length of a phase (Kalibera & Jones, ISMM 2013). ``deviation``: the standard deviation of a
    block's log ratio; ``within``: its part within a block (None: unknown, so only more blocks can help);
    ``phase_s``: the seconds of a block whose length could change. The cheaper way comes first; "" if neither
    can help.
    """
    effect, times = math.log1p(threshold_pct / 100), math.inf
    needed = _enough(effect, deviation)
    if needed is not None and needed <= blocks:
        return None
    if within and blocks >= FEWEST_BLOCKS:
        wanted, between = (effect / effect_seen(blocks)) ** 2, max(0.0, deviation**2 - within**2)
        times = within**2 / (wanted - between) if wanted > between else times
    ways = []
    if needed is not None:
        cost_s = (needed - blocks) * block_s
        ways.append((cost_s, f"BLOCKS={needed} (about {lasting(cost_s)} more)"))
    if times <= MOST_TIMES:
        cost_s = (times - 1) * phase_s * blocks
        ways.append((cost_s, f"phases {math.ceil(10 * times) / 10:.1f} times as long (about {lasting(cost_s)} more)"))
    return " or ".join(words for _, words in sorted(ways))
