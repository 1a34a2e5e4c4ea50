"""p-values that hold for a whole family of metrics: Westfall and Young's step-down max-|t| by joint sign flips."""

import numpy as np

from tsduel.stats.signedrank import Floats

EXACT_BLOCKS = 12
"""Up to this many blocks all 2^(n-1) sign vectors are used."""
SAMPLED = 9_999
_AT_ONCE = 4_000_000
"""Values that are worked on at once: a sweep of 200 cells has thousands of columns."""
_LEAST_VARIANCE = 1e-12
"""As a share of the mean square: caps |t| where flips make a metric's differences all alike."""
_EQUAL = 1e-9


def sign_vectors(blocks: int, seed: int) -> Floats:
    """Return sign vectors, one a row, the identity first; s and -s give the same |t|, so one of each is enough."""
    if blocks <= EXACT_BLOCKS:
        numbers = np.arange(2 ** max(blocks - 1, 0))[:, None]
        rest = 1 - 2 * ((numbers >> np.arange(max(blocks - 1, 0))) & 1)
        return np.hstack([np.ones((len(rest), min(blocks, 1))), rest]).astype(float)
    drawn = np.random.default_rng(seed).choice([-1.0, 1.0], size=(SAMPLED, blocks))
    return np.vstack([np.ones(blocks), drawn])


def westfall_young(differences: Floats, seed: int) -> list[float]:
    """Return the adjusted p of each metric: metrics are columns, blocks are rows, nan where a block lacks one.

    A block's sign is flipped for all metrics together, which keeps their correlation: Westfall and Young,
    Resampling-Based Multiple Testing (1993), algorithm 4.1. A metric that lacks a block uses the signs of those it
    has. Every column needs two values at least and differences that are not all alike. An exact test over n blocks
    cannot go below 2^-(n-1), so neither does the sampled one.
    """
    blocks, metrics = differences.shape
    if metrics == 0:
        return []
    there = ~np.isnan(differences)
    counts = there.sum(axis=0)
    filled = np.where(there, differences, 0.0)
    filled /= np.abs(filled).max(axis=0)
    squares = (filled**2).sum(axis=0)

    def statistics(signs: Floats) -> Floats:
        means = signs @ filled / counts
        variances = np.maximum(squares / counts - means**2, _LEAST_VARIANCE * squares / counts) * counts / (counts - 1)
        t: Floats = np.abs(means) / np.sqrt(variances / counts)
        return t

    vectors = sign_vectors(blocks, seed)
    seen = statistics(vectors[:1])[0]
    order = np.argsort(-seen, kind="stable")
    reached = np.zeros(metrics)
    for part in np.array_split(vectors, -(-len(vectors) * metrics // _AT_ONCE)):
        # Step down: the largest |t| is held against the maximum over all, the next against that over the rest, and so
        # on.
        maxima = np.maximum.accumulate(statistics(part)[:, order[::-1]], axis=1)[:, ::-1]
        reached += (maxima >= seen[order] * (1 - _EQUAL)).sum(axis=0)
    p = reached / len(vectors)
    p = np.maximum.accumulate(np.maximum(p, 0.5 ** (counts[order] - 1.0)))
    adjusted = np.empty(metrics)
    adjusted[order] = p
    return [float(value) for value in adjusted]
