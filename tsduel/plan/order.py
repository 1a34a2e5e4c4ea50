"""The order of rounds: drawn with the plan, before anything starts, so that nothing that is seen can change it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tsduel.question.experiment import Experiment

if TYPE_CHECKING:
    from tsduel.workloads.kinds import AnyExperiment


def rounds(names: list[str], asked: AnyExperiment) -> list[dict[str, Any]]:
    """Draw the order of all rounds: randomized complete blocks (Abedi & Brecht, ICPE 2017).

    Blocks are drawn in groups of as many as there are variants, in which every variant stands once at every
    position: with two, AB BA or BA AB. The order of query types is drawn for each block, the same for its rounds.
    Last come the spare blocks, which are run only in place of those that outside causes spoil.
    """
    all_types = asked.queries.types if isinstance(asked, Experiment) else []
    last = asked.design.blocks + asked.noise.spares(asked.design.blocks)
    draw = random.Random(asked.design.seed)  # noqa: S311 - a reproducible order, no secret
    orders: list[list[str]] = []
    drawn: list[dict[str, Any]] = []
    for block in range(1 - asked.design.warmup_blocks, last + 1):
        if not orders:
            first = draw.sample(names, len(names))
            orders = [first[shift:] + first[:shift] for shift in range(len(names))]
            draw.shuffle(orders)
        # The warm-up block is discarded, so it takes no part in the balance.
        order = draw.sample(names, len(names)) if block == 0 else orders.pop()
        types = draw.sample(all_types, len(all_types))
        drawn += [
            {
                "block": block,
                "position": position,
                "variant": name,
                "kind": "warmup" if block == 0 else "measured" if block <= asked.design.blocks else "spare",
                "query_types": ",".join(types),
            }
            for position, name in enumerate(order, start=1)
        ]
    return drawn
