"""The statistics against their definitions: by brute force, by properties, and against independent figures."""

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from tsduel.stats.estimate import (
    critical_count,
    hodges_lehmann,
    interval,
    log_ratios,
    mann_whitney_p,
    percent,
    pseudomedian,
    signed_rank_p,
)
from tsduel.stats.permutation import sign_vectors, westfall_young
from tsduel.stats.power import blocks_needed, mde, order_effect, power

BASELINE = [100, 102, 98.5, 101, 97, 103, 99.5, 100.5]
CANDIDATE = [104, 105.5, 103, 103.5, 101.5, 106, 104.5, 102]
# Small whole numbers are full of ties and zeros.
tied = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=10)
few = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=5)
untied = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.permutations(range(1, n + 1)), st.lists(st.booleans(), min_size=n, max_size=n), st.floats(0.01, 3)
    ).map(lambda drawn: [(rank**1.3 * drawn[2]) * (1 if up else -1) for rank, up in zip(*drawn[:2], strict=True)])
)
matrices = st.tuples(st.integers(2, 7), st.integers(1, 5), st.integers(0, 2**32 - 1)).map(
    lambda drawn: np.random.default_rng(drawn[2]).normal(0.3, 1, size=drawn[:2]).round(2)
)


def test_pseudomedians_show_the_change_also_where_the_machine_drifts():
    """Each side slows down from block to block; a candidate that is 5 % slower in every block is printed so."""
    baseline = [4.0, 4.1, 5.0, 6.2, 6.9, 8.5]
    candidate = [value * 1.05 for value in baseline]
    assert pseudomedian(candidate) / pseudomedian(baseline) == pytest.approx(1.05)
    assert pseudomedian([3.0, 3.0, 3.0]) == 3.0
    assert pseudomedian([0.0, 1.0, 5.0]) == hodges_lehmann([0.0, 1.0, 5.0])
    assert pseudomedian([]) is None


def test_the_vector_of_the_specification():
    """Figures that were computed independently of this code."""
    d = log_ratios(BASELINE, CANDIDATE)
    assert d is not None
    assert percent(hodges_lehmann(d)) == pytest.approx(3.6334, abs=5e-5)
    wide, narrow = interval(d, 0.95), interval(d, 0.90)
    assert wide is not None
    assert narrow is not None
    assert [percent(wide.low), percent(wide.high)] == pytest.approx([2.4574, 4.6392], abs=5e-5)
    assert wide.level == pytest.approx(0.9609, abs=5e-5)
    assert [percent(narrow.low), percent(narrow.high)] == pytest.approx([2.6937, 4.5685], abs=5e-5)
    assert signed_rank_p(d) == pytest.approx(0.00781, abs=5e-6)
    assert statistics.stdev(d) == pytest.approx(0.01180, abs=5e-6)
    assert stats.ttest_1samp(d, 0).pvalue == pytest.approx(0.000067, abs=5e-7)
    assert mann_whitney_p(BASELINE, CANDIDATE) == pytest.approx(0.001865, abs=5e-7)


@pytest.mark.parametrize(
    ("n", "level"), [(5, None), (6, 0.96875), (8, 0.9609375), (10, 0.951171875), (12, 0.95751953125)]
)
def test_attained_levels(n, level):
    """95 % needs 6 blocks, 90 % needs 5; with 10 it is 95.1 %."""
    found = interval([float(i) for i in range(n)], 0.95)
    assert (found and found.level) == level
    assert interval([float(i) for i in range(n)], 0.90) is not None
    # Hollander, Wolfe and Chicken: P(T+ <= 8) = .0244.
    assert n != 10 or critical_count(10, 0.05) == (9, pytest.approx(2 * 0.0244, abs=1e-4))


def brute_force_p(differences):
    """Enumerate all 2^k signs of Pratt's test."""
    sizes = [abs(d) for d in differences]
    ranks = stats.rankdata(sizes)
    carrying = [rank for rank, d in zip(ranks, differences, strict=True) if d]
    seen = sum(rank for rank, d in zip(ranks, differences, strict=True) if d > 0)
    sums = [sum(itertools.compress(carrying, signs)) for signs in itertools.product([0, 1], repeat=len(carrying))]
    low = sum(s <= seen for s in sums) / len(sums)
    high = sum(s >= seen for s in sums) / len(sums)
    return min(1.0, 2 * min(low, high))


@settings(max_examples=60, deadline=None)
@given(tied, st.floats(1e-6, 1e6))
def test_signed_rank_is_the_enumeration_whatever_the_unit_and_the_side(differences, factor):
    """With ties and zeros, over all signs; ties stay ties when all are multiplied or mirrored."""
    p = signed_rank_p(differences)
    assert p == pytest.approx(brute_force_p(differences), abs=1e-12)
    assert signed_rank_p([-d * factor for d in differences]) == p


@pytest.mark.parametrize("n", range(1, 16))
def test_signed_rank_is_scipys_where_that_is_exact(n):
    """Without ties and zeros, scipy's exact method agrees."""
    d = np.random.default_rng(n).normal(0.5, 1, size=n)
    assert signed_rank_p(d.tolist()) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue, abs=1e-12)


@settings(deadline=None)
@given(untied)
def test_intervals_are_the_test_turned_around_and_nest(differences):
    """95 % excludes zero exactly where p is 5 % (without ties); 90 % lies within it, and the estimate within both."""
    narrow, wide, p = interval(differences, 0.90), interval(differences, 0.95), signed_rank_p(differences)
    if wide is None:
        assert p > 0.05
        return
    assert (wide.low > 0 or wide.high < 0) == (p <= 0.05)
    assert wide.low <= narrow.low <= hodges_lehmann(differences) <= narrow.high <= wide.high
    assert wide.level >= 0.95
    back = interval([-d for d in differences], 0.95)
    assert (back.low, back.high) == (-wide.high, -wide.low)


def test_rounding_does_not_break_ties():
    """4/2, 6/3 and 1.4/0.7 are one ratio."""
    d = log_ratios([2, 3, 0.7, 7, 9], [4, 6, 1.4, 3.5, 4.5])
    assert len({abs(one) for one in d}) == 1


@settings(max_examples=60, deadline=None)
@given(few, few)
def test_mann_whitney_is_the_enumeration(first, second):
    """Over all choices of ranks, with ties; None where all is equal."""
    both = first + second
    found = mann_whitney_p(first, second)
    if len(set(both)) == 1:
        assert found is None
        return
    ranks = stats.rankdata(both)
    n, m = len(first), len(second)
    seen = sum(ranks[:n])
    sums = [sum(choice) for choice in itertools.combinations(ranks, n)]
    middle = n * (n + m + 1) / 2
    tail = sum(s <= seen for s in sums) if seen < middle else sum(s >= seen for s in sums)
    assert found == pytest.approx(1.0 if seen == middle else min(1.0, 2 * tail / len(sums)), abs=1e-12)


@pytest.mark.parametrize(("size", "decimals"), [(30, 1), (60, 9)])
def test_mann_whitney_of_many_is_the_normal_approximation(size, decimals):
    """Beyond benchstat's limits it is scipy's asymptotic one."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=size).round(decimals), rng.normal(0.4, size=size).round(decimals)
    expected = stats.mannwhitneyu(first, second, method="asymptotic").pvalue
    assert mann_whitney_p(first.tolist(), second.tolist()) == pytest.approx(expected, rel=1e-9)


def t_value(column):
    """Return |t| by its textbook formula."""
    spread = statistics.stdev(column)
    return abs(statistics.fmean(column)) / (spread / math.sqrt(len(column))) if spread > 1e-9 else math.inf


def rank_value(column):
    """Return the sum of signed ranks as a share of its deviation without ties; |t| decides among equals."""
    ranks = np.sign(column) * stats.rankdata([round(abs(d) / max(abs(column)), 9) for d in column])
    t, n = t_value(column), len(column)
    untied = math.sqrt(n * (n + 1) * (2 * n + 1) / 6)
    return abs(sum(ranks)) / untied + 1e-3 * (t / (1 + t) if t < math.inf else 1.0)


def brute_force_step_down(matrix, groups):
    """Westfall and Young's algorithm as it is written down, over all signs and plain lists."""
    m = matrix.shape[1]
    seen = [rank_value(matrix[:, j]) for j in range(m)]
    order = sorted(range(m), key=lambda j: -seen[j])
    counts, vectors = [0] * m, [*itertools.product([1, -1], repeat=max(groups) + 1)]
    for signs in vectors:
        flipped = [rank_value(matrix[:, j] * np.take(signs, groups)) for j in range(m)]
        for at, j in enumerate(order):
            counts[at] += max(flipped[k] for k in order[at:]) >= seen[j] * (1 - 1e-9) - 1e-9
    adjusted, most = [0.0] * m, 0.0
    for at, j in enumerate(order):
        most = max(most, counts[at] / len(vectors))
        adjusted[j] = most
    return adjusted


@settings(max_examples=60, deadline=None)
@given(matrices)
def test_step_down_is_the_enumeration(matrix):
    """Over all signs and all metrics.

    A larger statistic has no larger p; 2^-(n-1) is the least; a family costs, so one alone has no larger p.
    """
    assume(all(np.ptp(column) > 0.05 for column in matrix.T))
    found = westfall_young(matrix, 1)
    assert found == pytest.approx(brute_force_step_down(matrix, range(len(matrix))), abs=1e-12)
    order = sorted(range(len(found)), key=lambda j: -rank_value(matrix[:, j]))
    assert [found[j] for j in order] == sorted(found)
    assert min(found) >= 0.5 ** (len(matrix) - 1)
    for j, p in enumerate(found):
        assert westfall_young(matrix[:, [j]], 1)[0] <= p + 1e-12
    assert westfall_young(-matrix, 1) == pytest.approx(found)
    assert westfall_young(matrix * 1e9, 1) == pytest.approx(found)
    # A metric that is nothing but the order of its blocks is left with zeros, and takes no other with it.
    assert westfall_young(np.column_stack([matrix, np.zeros(len(matrix))]), 1) == [*found, 1.0]


def test_blocks_of_a_pair_are_flipped_together():
    """Then there are as many signs as pairs."""
    matrix = np.random.default_rng(2).normal(0.5, 1, size=(8, 3))
    groups = [0, 0, 1, 1, 2, 3, 2, 3]
    found = westfall_young(matrix, 1, groups)
    assert found == pytest.approx([max(p, 2**-7) for p in brute_force_step_down(matrix, groups)], abs=1e-12)


def test_a_few_blocks_that_jump_do_not_hide_what_all_others_show():
    """Peak memory in the recorded example: 0.7 % more in each block, five jumped by 5 % to either side."""
    rng = np.random.default_rng(4)
    shifted = rng.normal(0.007, 0.002, size=32)
    shifted[:5] += [0.05, -0.055, 0.06, -0.05, 0.055]
    family = np.column_stack([shifted, rng.normal(size=(32, 9))])
    assert westfall_young(family, 1)[0] <= 0.01


def test_a_mean_that_is_zero_up_to_rounding_is_no_evidence():
    """Every choice of signs reaches it."""
    differences = np.array([[0.1], [0.2], [-0.3]])
    assert 0 < abs(differences.mean()) < 1e-16
    assert westfall_young(differences, 1) == [1.0]


@pytest.mark.parametrize(("blocks", "vectors"), [(6, 32), (12, 2048), (13, 10_000), (20, 10_000)])
def test_sign_vectors(blocks, vectors):
    """All up to 12 blocks, sampled beyond; the identity first; no vector beside its mirror."""
    found = sign_vectors(blocks, 1)
    assert found.shape == (vectors, blocks)
    assert (found[0] == 1).all()
    if blocks <= 12:
        assert len({tuple(row) for row in found} | {tuple(-row) for row in found}) == 2 * vectors
    assert (found == sign_vectors(blocks, 1)).all()
    assert blocks <= 12 or not (found == sign_vectors(blocks, 2)).all()


def test_sampled_signs_do_not_go_below_the_exact_floor():
    """10,000 vectors of 13 blocks need not hold the mirror of the identity; the exact test would."""
    matrix = np.random.default_rng(1).normal(10, 1, size=(13, 2))
    assert min(westfall_young(matrix, 1)) >= 2**-12


def test_a_metric_that_lacks_blocks_uses_its_own():
    """Alone, with two of eight blocks missing, it is the metric of six blocks; its floor is that of six.

    A family of no metric has no p.
    """
    assert westfall_young(np.empty((6, 0)), 1) == []
    rng = np.random.default_rng(3)
    six = rng.normal(2, 1, size=6)
    lacking = np.array([six[0], np.nan, *six[1:4], np.nan, *six[4:]])
    alone = westfall_young(six[:, None], 1)[0]
    assert westfall_young(lacking[:, None], 1)[0] == pytest.approx(alone)
    other = rng.normal(size=8)
    assert westfall_young(np.column_stack([lacking, other]), 1)[0] >= 2**-5


def test_the_effect_that_could_be_seen():
    """(t_.975,7 + t_.80,7) s / sqrt(8) for the vector: 1.37 %."""
    expected = (stats.t.ppf(0.975, 7) + stats.t.ppf(0.8, 7)) * 0.0118 / math.sqrt(8)
    assert mde(0.0118, 8) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("effect", "deviation"), [(0.03, 0.04), (0.05, 0.04), (0.01, 0.05), (0.05, 0.2), (0.05, 0.03)])
def test_blocks_needed_is_the_smallest_with_power(effect, deviation):
    """One block fewer is not enough; never fewer than 6."""

    def by_scipy(n):
        df, off = n - 1, effect / deviation * math.sqrt(n)
        critical = stats.t.ppf(0.975, df)
        return stats.nct.sf(critical, df, off) + stats.nct.cdf(-critical, df, off)

    n = blocks_needed(effect, deviation)
    assert by_scipy(n) >= 0.8
    assert n == 6 or by_scipy(n - 1) < 0.8
    assert power(effect, deviation, n) == pytest.approx(by_scipy(n), abs=1e-6)


@settings(deadline=None)
@given(st.floats(1e-6, 10), st.floats(1e-9, 10))
def test_blocks_needed_is_always_an_answer(effect, deviation):
    """Tiny or huge: 6 or more, or None if no number of blocks is enough."""
    n = blocks_needed(effect, deviation)
    assert n is None or 6 <= n < 10_000
    assert blocks_needed(effect, 0.0) == 6
    assert blocks_needed(0.0, deviation) is None


def test_order_effect_is_the_regression():
    """Slope and p of d on o, by scipy."""
    rng = np.random.default_rng(5)
    second = [True, False, False, True, True, False, False, True, True, False]
    d = rng.normal(0.02, 0.01, size=10) + 0.015 * np.where(second, 1, -1)
    expected = stats.linregress(np.where(second, 1, -1), d)
    found = order_effect(d.tolist(), second)
    assert found is not None
    assert (found.delta, found.p) == (pytest.approx(expected.slope), pytest.approx(expected.pvalue))


def test_order_effect_needs_both_orders():
    """No effect can be told where the order never changed, or from three blocks."""
    assert order_effect([0.1, 0.2, 0.3, 0.1], [True] * 4) is None
    assert order_effect([0.1, 0.2, 0.3], [True, False, True]) is None
    assert order_effect([0.1, -0.1, 0.1, -0.1], [True, False, True, False]).p == 0
