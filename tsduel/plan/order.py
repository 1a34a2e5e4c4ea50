"""The order of blocks: drawn with the plan, before anything starts, so that nothing that is seen can change it."""

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

from tsduel.core.plan import Design
from tsduel.core.rundir import BlockRow


def draw(
    variants: Sequence[str],
    cells: Mapping[str, Sequence[str]],
    design: Design,
    hosts: Mapping[str, Sequence[str]],
    spare_hosts: Mapping[str, Sequence[str]] | None = None,
) -> list[BlockRow]:
    """Draw the order of all blocks: randomized complete blocks (Abedi & Brecht, ICPE 2017).

    ``cells``: the query types of each setting. Every cell has the whole design, whose blocks its ``hosts`` share
    evenly, each with warm-up blocks of its own. The cells take turns: each round is a random permutation of them, so
    that what drifts hits all alike. Within a cell, a host's blocks are drawn in groups of as many as there are
    variants, in which every variant stands once at every position: with two, AB BA or BA AB. The order of query types
    is drawn for each block, the same for its variants. Then come the spare blocks, which are run only in place of those
    that outside causes spoil on the same host; and last those of ``spare_hosts``, each with enough for the blocks of a
    host that is lost.
    """
    coin = random.Random(design.seed)  # noqa: S311 - a reproducible order, no secret
    # Turns have a coin of their own, so that the order of a run without a sweep does not depend on there being any.
    turns = random.Random(f"turns of {design.seed}")  # noqa: S311 - drawn to be repeated, no secret
    names, orders = list(variants), defaultdict[tuple[str, str], list[list[str]]](list)
    rows = list[BlockRow]()

    def take_turns(kind: str, counts: Mapping[tuple[str, str], int]) -> None:
        for turn in range(max(counts.values(), default=0)):
            left = [of for of, count in counts.items() if turn < count]
            for cell, host in turns.sample(left, len(left)):
                if not orders[cell, host]:
                    first = coin.sample(names, len(names))
                    orders[cell, host] = [first[shift:] + first[:shift] for shift in range(len(names))]
                    coin.shuffle(orders[cell, host])
                # The warm-up block is discarded, so it takes no part in the balance.
                order = coin.sample(names, len(names)) if kind == "warmup" else orders[cell, host].pop()
                types = coin.sample(list(cells[cell]), len(cells[cell]))
                block = len(rows) + 1 - design.warmup_blocks
                rows.append(BlockRow(block, cell, host, kind, tuple(order), tuple(types)))

    sharing = {(cell, host): len(hosts[cell]) for cell in cells for host in hosts[cell]}
    # Where they do not come out even, no host has more than one block more in a cell, and others in the next.
    numbers = {cell: number for number, cell in enumerate(cells)}
    places = {(cell, host): hosts[cell].index(host) - numbers[cell] for cell, host in sharing}
    take_turns("warmup", dict.fromkeys(sharing, design.warmup_blocks))
    take_turns("measured", {of: design.blocks // n + (places[of] % n < design.blocks % n) for of, n in sharing.items()})
    take_turns("spare", {of: math.ceil(design.spare_blocks / n) for of, n in sharing.items()})
    most = {
        (cell, host): math.ceil(design.blocks / len(hosts[cell]))
        for cell in cells
        for host in (spare_hosts or {}).get(cell, ())
    }
    take_turns("warmup", dict.fromkeys(most, design.warmup_blocks))
    take_turns("spare", most)
    return rows


def share_of_busiest(design: Design, hosts: Mapping[str, Sequence[str]]) -> float:
    """Return the part of all blocks of all cells that the busiest host runs, spare ones included: 1 without a fleet."""
    of = defaultdict[str, int](int)
    for names in hosts.values():
        each = sum(math.ceil(count / len(names)) for count in (design.blocks, design.spare_blocks))
        for name in names:
            of[name] += design.warmup_blocks + each
    return max(of.values()) / (len(hosts) * (design.warmup_blocks + design.blocks + design.spare_blocks))
