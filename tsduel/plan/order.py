"""The order of blocks, drawn with the plan, so that no result can change it."""

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

from tsduel.core import tables
from tsduel.core.rundir import BlockRow
from tsduel.core.sections import Design

Coins = list[tuple[str, ...]]
PAIR = 2


def draw(
    variants: Sequence[str],
    query_types: Sequence[str],
    design: Design,
    hosts: Sequence[str],
    spare_hosts: Sequence[str] = (),
) -> list[BlockRow]:
    """Draw the order of all blocks: randomized complete blocks (Abedi & Brecht, ICPE 2017).

    The ``hosts`` share the blocks evenly, each with its own warm-up blocks, and take turns in a random order. A host's
    blocks are drawn in groups in which every variant stands equally often at every position of each coin. The order of
    query types is drawn for each block, the same for its variants. Spare blocks come next: each replaces a block that
    was spoilt from outside on the same host, and takes its coins. The blocks of ``spare_hosts`` come last, each with
    enough for the blocks of a lost host.
    """
    coin = random.Random(design.seed)  # noqa: S311 - a reproducible order, no secret
    # Turns have their own coin, so that the order on one host does not depend on the turns.
    turns = random.Random(f"turns of {design.seed}")  # noqa: S311 - a reproducible order, no secret
    names, left = list(variants), defaultdict[str, list[Coins]](list)
    rows = list[BlockRow]()

    def take_turns(kind: str, counts: Mapping[str, int]) -> None:
        for turn in range(max(counts.values(), default=0)):
            due = [host for host, count in counts.items() if turn < count]
            for host in turns.sample(due, len(due)):
                if kind == "measured" and not left[host]:
                    left[host] = _group(names, coin)
                # A warm-up block is discarded, so it is not part of the balance.
                free = [tuple(coin.sample(names, len(names)) if kind == "warmup" else ()) for _ in tables.COINS]
                order, start, read, ask = left[host].pop() if kind == "measured" else free
                types = coin.sample(list(query_types), len(query_types))
                block = len(rows) + 1 - design.warmup_blocks
                rows.append(BlockRow(block, host, kind, order, start, read, ask, tuple(types)))

    each, more = divmod(design.blocks, len(hosts))
    take_turns("warmup", dict.fromkeys(hosts, design.warmup_blocks))
    take_turns("measured", {host: each + (number < more) for number, host in enumerate(hosts)})
    take_turns("spare", dict.fromkeys(hosts, math.ceil(design.spare_blocks / len(hosts))))
    take_turns("warmup", dict.fromkeys(spare_hosts, design.warmup_blocks))
    take_turns("spare", dict.fromkeys(spare_hosts, math.ceil(design.blocks / len(hosts))))
    return rows


def _group(names: list[str], coin: random.Random) -> list[Coins]:
    """Draw the coins of a group of blocks; the last block runs first.

    Two variants: all eight blocks in which the last coin is the product of the others (a 2^(4-1) fraction,
    Box and Hunter 1961), so that no coin depends on another coin, or on two. Each block is beside its mirror
    image, so that every two blocks are balanced. More variants: as many blocks as variants, each coin by
    itself.
    """
    if len(names) == PAIR:
        first = coin.sample(names, PAIR)
        sides = {1: tuple(first), -1: tuple(reversed(first))}
        pairs = [[(1, b, c, b * c), (-1, -b, -c, -b * c)] for b in (1, -1) for c in (1, -1)]
        coin.shuffle(pairs)
        return [[sides[sign] for sign in signs] for pair in pairs for signs in coin.sample(pair, PAIR)]
    by_coin = []
    for _ in tables.COINS:
        first = coin.sample(names, len(names))
        turned = [tuple(first[shift:] + first[:shift]) for shift in range(len(names))]
        by_coin.append(coin.sample(turned, len(turned)))
    return [list(coins) for coins in zip(*by_coin, strict=True)]


def share_of_busiest(design: Design, hosts: int) -> float:
    """Return the share of all blocks, with spare blocks, that the busiest of so many hosts runs: 1 without a fleet."""
    each = sum(math.ceil(count / hosts) for count in (design.blocks, design.spare_blocks))
    return (design.warmup_blocks + each) / design.planned
