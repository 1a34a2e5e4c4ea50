"""The order of blocks: drawn with the plan, before anything starts, so that nothing that is seen can change it."""

import random
from collections.abc import Sequence

from tsduel.core.plan import Design
from tsduel.core.rundir import BlockRow


def draw(variants: Sequence[str], query_types: Sequence[str], design: Design, host: str, cell: str) -> list[BlockRow]:
    """Draw the order of all blocks: randomized complete blocks (Abedi & Brecht, ICPE 2017).

    Blocks are drawn in groups of as many as there are variants, in which every variant stands once at every
    position: with two, AB BA or BA AB. The order of query types is drawn for each block, the same for its variants.
    Last come the spare blocks, which are run only in place of those that outside causes spoil.
    """
    coin = random.Random(design.seed)  # noqa: S311 - a reproducible order, no secret
    names, orders = list(variants), list[list[str]]()
    rows = []
    for block in range(1 - design.warmup_blocks, design.blocks + design.spare_blocks + 1):
        if not orders:
            first = coin.sample(names, len(names))
            orders = [first[shift:] + first[:shift] for shift in range(len(names))]
            coin.shuffle(orders)
        # The warm-up block is discarded, so it takes no part in the balance.
        order = coin.sample(names, len(names)) if block == 0 else orders.pop()
        types = coin.sample(list(query_types), len(query_types))
        kind = "warmup" if block == 0 else "measured" if block <= design.blocks else "spare"
        rows.append(BlockRow(block, cell, host, kind, tuple(order), tuple(types)))
    return rows
