"""Longer phases or more blocks: which of them lets a design see what it asks for, and what each costs.

The variance of a block's log ratio is that between blocks and that within one, which falls with the length of a phase
(Kalibera & Jones, ISMM 2013). Spreads are standard deviations of log ratios.
"""

import math
from dataclasses import dataclass

from tsduel.core.sections import MOST_BLOCKS
from tsduel.core.wording import lasting
from tsduel.stats.power import FEWEST_BLOCKS, blocks_needed, effect_seen

MOST_TIMES = 10
"""Phases that are longer than ten times are no advice."""


@dataclass(frozen=True)
class Advice:
    """Blocks needed in all and phases how many times as long, either alone; None where it cannot do."""

    blocks: int | None
    times: float | None
    blocks_cost_s: float | None
    times_cost_s: float | None

    @property
    def words(self) -> str:
        """What would help, the cheaper first."""
        ways = []
        if self.blocks is not None and self.blocks_cost_s is not None:
            ways.append((self.blocks_cost_s, f"BLOCKS={self.blocks} (about {lasting(self.blocks_cost_s)} more)"))
        if self.times is not None and self.times_cost_s is not None:
            longer = f"phases {self.times:.1f} times as long (about {lasting(self.times_cost_s)} more)"
            ways.append((self.times_cost_s, longer))
        return " or ".join(words for _, words in sorted(ways))


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

    ``deviation`` is that of a block's log ratio, ``within`` the part of it from within a block (None: not known, so
    only more blocks can be advised), ``phase_s`` the seconds of a block whose length could change.
    """
    effect = math.log1p(threshold_pct / 100)
    needed = blocks_needed(effect, deviation)
    if needed is not None and needed <= blocks:
        return None
    enough = needed if needed is not None and needed <= MOST_BLOCKS else None
    times = None
    if within and blocks >= FEWEST_BLOCKS:
        wanted, between = (effect / effect_seen(blocks)) ** 2, max(0.0, deviation**2 - within**2)
        times = within**2 / (wanted - between) if wanted > between else math.inf
    possible = times if times is not None and times <= MOST_TIMES else None
    return Advice(
        blocks=enough,
        times=possible,
        blocks_cost_s=None if enough is None else (enough - blocks) * block_s,
        times_cost_s=None if possible is None else (possible - 1) * phase_s * blocks,
    )
