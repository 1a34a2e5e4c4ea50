"""The order of blocks: drawn with the plan, before anything starts, so that nothing that is seen can change it."""

import random
from collections.abc import Mapping, Sequence

from tsduel.core.plan import Design
from tsduel.core.rundir import BlockRow


def draw(variants: Sequence[str], cells: Mapping[str, Sequence[str]], design: Design, host: str) -> list[BlockRow]:
    """Draw the order of all blocks: randomized complete blocks (Abedi & Brecht, ICPE 2017).

    ``cells``: the query types of each setting. Every cell has the whole design. The cells take turns: each round is a
    random permutation of them, so that what drifts hits all alike. Within a cell, blocks are drawn in groups of as many
    as there are variants, in which every variant stands once at every position: with two, AB BA or BA AB. The order of
    query types is drawn for each block, the same for its variants. Last come the spare blocks, which are run only in
    place of those that outside causes spoil.
    """
    coin = random.Random(design.seed)  # noqa: S311 - a reproducible order, no secret
    # Turns have a coin of their own, so that the order of a run without a sweep does not depend on there being any.
    turns = random.Random(f"turns of {design.seed}")  # noqa: S311 - drawn to be repeated, no secret
    names, orders = list(variants), {cell: list[list[str]]() for cell in cells}
    rows = list[BlockRow]()
    for turn in range(1 - design.warmup_blocks, design.blocks + design.spare_blocks + 1):
        for cell in turns.sample(list(cells), len(cells)):
            if not orders[cell]:
                first = coin.sample(names, len(names))
                orders[cell] = [first[shift:] + first[:shift] for shift in range(len(names))]
                coin.shuffle(orders[cell])
            # The warm-up block is discarded, so it takes no part in the balance.
            order = coin.sample(names, len(names)) if turn == 0 else orders[cell].pop()
            types = coin.sample(list(cells[cell]), len(cells[cell]))
            kind = "warmup" if turn == 0 else "measured" if turn <= design.blocks else "spare"
            block = len(rows) + 1 - design.warmup_blocks
            rows.append(BlockRow(block, cell, host, kind, tuple(order), tuple(types)))
    return rows
