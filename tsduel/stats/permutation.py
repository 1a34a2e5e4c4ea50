"""p-values that hold for a whole family of metrics: Westfall and Young's step-down by joint sign flips of ranks."""

from collections.abc import Sequence

import numpy as np

from tsduel.stats.estimate import TIE, Floats, doubled_midranks

EXACT_BLOCKS = 12
"""Up to this many blocks all 2^(n-1) sign vectors are used."""
SAMPLED = 9_999
_AT_ONCE = 4_000_000
"""Values held in memory at once: a sweep of 200 cells has thousands of columns."""
_LEAST_VARIANCE = 1e-12
"""As a share of the mean square: caps |t| where flips make all differences of a metric equal."""
_EQUAL = 1e-9
"""Of the statistic, and as a share of itself: a mean that is 0 up to rounding ties with 0."""
_TIEBREAK = 1e-3
"""Less than a step of the signed-rank statistic up to 200 blocks."""


def sign_vectors(blocks: int, seed: int) -> Floats:
    """Return sign vectors, one a row, the identity first; of s and -s only one, since both give the same |t|."""
    if blocks <= EXACT_BLOCKS:
        numbers = np.arange(2 ** max(blocks - 1, 0))[:, None]
        rest = 1 - 2 * ((numbers >> np.arange(max(blocks - 1, 0))) & 1)
        return np.hstack([np.ones((len(rest), min(blocks, 1))), rest]).astype(float)
    drawn = np.random.default_rng(seed).choice([-1.0, 1.0], size=(SAMPLED, blocks))
    return np.vstack([np.ones(blocks), drawn])


def westfall_young(differences: Floats, seed: int, groups: Sequence[int] = ()) -> list[float]:
    """Return the adjusted p of each metric: metrics are columns, blocks are rows, nan where a block lacks one.

    A block's sign is flipped for all metrics together, which keeps their correlation: Westfall and Young,
    Resampling-Based Multiple Testing (1993), algorithm 4.1. ``groups`` names for each row the rows that are flipped
    together; without it each row is by itself. A metric that lacks a block uses the signs of its own blocks. Every
    column needs at least two values that differ. An exact test over n blocks cannot go below 2^-(n-1), so the sampled
    test does not either.

    The statistic is that of the estimate and the interval: the sum of signed ranks, as a share of its deviation without
    ties. So few blocks that jump do not hide what all others show. Few blocks give few different sums: |t| decides
    among equals.
    """
    metrics = differences.shape[1]
    if metrics == 0:
        return []
    counts = (~np.isnan(differences)).sum(axis=0)
    filled = np.nan_to_num(differences)
    tested = np.asarray(filled.any(axis=0))
    if not tested.all():  # all of the others was the order: nothing of them is left to test
        of_tested = iter(westfall_young(differences[:, tested], seed, groups))
        return [next(of_tested) if at else 1.0 for at in tested.tolist()]
    filled /= np.abs(filled).max(axis=0)
    ranks = np.column_stack([_signed_ranks(column) for column in differences.T])
    # Twice, as the ranks are. Not less where there are ties: these would win over all that has none.
    spread = 2 * np.sqrt(counts * (counts + 1) * (2 * counts + 1) / 6)
    squares = (filled**2).sum(axis=0)

    def statistics(signs: Floats) -> Floats:
        means = signs @ filled / counts
        variances = np.maximum(squares / counts - means**2, _LEAST_VARIANCE * squares / counts) * counts / (counts - 1)
        t = np.abs(means) / np.sqrt(variances / counts)
        return np.asarray(np.abs(signs @ ranks) / spread + _TIEBREAK * t / (1 + t))

    of_row = np.unique(groups, return_inverse=True)[1] if len(groups) else np.arange(len(differences))
    vectors = sign_vectors(int(of_row.max()) + 1, seed)
    seen = statistics(vectors[:1, of_row])[0]
    order = np.argsort(-seen, kind="stable")
    reached = np.zeros(metrics)
    for part in np.array_split(vectors, -(-len(vectors) * metrics // _AT_ONCE)):
        # Step down: compare the largest with the maximum over all, the next with that over the rest.
        maxima = np.maximum.accumulate(statistics(part[:, of_row])[:, order[::-1]], axis=1)[:, ::-1]
        reached += (maxima >= seen[order] * (1 - _EQUAL) - _EQUAL).sum(axis=0)
    p = np.maximum.accumulate(np.maximum(reached / len(vectors), 0.5 ** (counts[order] - 1.0)))
    return [*map(float, p[np.argsort(order)])]


def _signed_ranks(column: Floats) -> Floats:
    """Return the ranks of the sizes with their signs, midranks for ties; 0 for a zero and where there is none."""
    ranks, measured = np.zeros(len(column)), ~np.isnan(column)
    size = np.abs(column[measured])
    ranks[measured] = np.sign(column[measured]) * doubled_midranks(np.round(size / size.max() / TIE))
    return ranks
