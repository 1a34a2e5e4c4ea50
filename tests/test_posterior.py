"""Where the steps are: the posterior, the next revision, its blocks, and whether answers are right as often as said."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bench import bisection as simulation
from tsduel.bisect import posterior

LIMIT = math.log1p(0.02)
WORSE, SAME = [0.049, 0.051, 0.05, 0.052, 0.048, 0.05], [0.001, -0.001, 0.002, 0.0, -0.002, 0.001]


def known(count, seen):
    """Return what is known of these revisions."""
    return posterior.posterior(count, seen, LIMIT, dict.fromkeys(seen, 1))


def test_two_answers_beside_each_other_are_the_answer():
    """Good, then bad: the step is sure; before any answer all are equally likely."""
    alone = known(16, {16: WORSE})
    assert alone.chance == pytest.approx(np.full(16, 1 / 16))
    found = known(16, {16: WORSE, 8: SAME[:2], 9: WORSE[:2]})
    answer = posterior.answer(found, ())
    assert answer.steps == ((9, 9),)
    assert answer.chance == pytest.approx(0.97, abs=0.03)
    assert answer.levels == pytest.approx((0, 0.05), abs=0.002)
    assert found.change == pytest.approx(0.05, abs=0.002)
    assert 0.001 < found.spread < 0.004


def test_the_median_is_asked_and_then_the_open_half():
    """As in bisection; a revision whose answer is almost sure is not measured again."""
    assert posterior.following(known(16, {16: WORSE}), (), {16: 6}) == 8
    assert posterior.following(known(16, {16: WORSE, 8: WORSE[:2]}), (), {16: 6, 8: 2}) == 4
    assert posterior.following(known(2, {1: SAME, 2: WORSE}), (), {1: 6, 2: 6}) is None


def test_two_steps_are_named_together():
    """A revision between that is neither as GOOD nor as BAD, or beyond BAD: both steps, each with its levels."""
    between = known(9, {9: [0.08 + x for x in SAME], 3: [0.0, 0.001], 4: WORSE, 6: WORSE, 7: [0.08, 0.081]})
    answer = posterior.answer(between, ())
    assert answer.steps == ((4, 4), (7, 7))
    assert answer.levels == pytest.approx((0, 0.05, 0.08), abs=0.003)
    assert answer.chance > 0.8
    beyond = known(9, {9: WORSE, 3: SAME, 4: [0.15, 0.151, 0.149, 0.15], 5: WORSE})
    assert posterior.answer(beyond, ()).steps == ((4, 4), (5, 5))
    # As long as only one revision between is known, the search goes on.
    assert posterior.answer(known(9, {9: [0.08 + x for x in SAME], 4: WORSE}), ()).chance < 0.2


def test_an_answer_between_good_and_bad_leaves_it_open_and_is_asked_again():
    """Half the change, from noisy blocks: neither side is sure, and the same revision gets more blocks."""
    noisy = [0.03 + 0.02 * x for x in (-1, 1, -0.5, 0.5, -0.8, 0.8)]
    found = known(2, {2: noisy, 1: [0.015, 0.016]})
    assert 0.1 < found.chance[0] < 0.9
    assert posterior.following(found, (), {2: 6, 1: 2}) == 1
    assert posterior.blocks_for(found, 2) > posterior.FEWEST


def test_a_wrong_answer_moves_it_by_a_bounded_factor():
    """However far off a value is, that of the last revision is still a step's."""
    seen = {16: WORSE, 4: [0.5, 0.5], 3: SAME[:4], 5: SAME[:4], 8: SAME[:2], 10: SAME[:4], 11: SAME[:4], 12: WORSE[:4]}
    assert (12, 12) in posterior.answer(known(16, seen), ()).steps


def test_values_that_never_vary_are_no_trouble():
    """As of allocations: no division by zero, and the answer is what was measured."""
    found = posterior.posterior(4, {4: [0.1] * 6, 2: [0.0, 0.0]}, math.log1p(0.01), {4: 1, 2: 1})
    assert posterior.answer(found, ()).steps[0][1] in {3, 4}
    assert np.isfinite(found.chance).all()


def test_what_cannot_be_measured_is_stepped_around_and_named():
    """The neighbours of a revision without a figure are asked; the answer names all that cannot be told apart."""
    assert posterior.following(known(16, {16: WORSE}), {8}, {16: 6}) in {7, 9}
    found = known(6, {6: WORSE, 1: SAME, 4: WORSE})
    assert posterior.answer(found, {2, 3}).steps == ((2, 4),)
    assert posterior.answer(found, {2, 3}).chance > posterior.SURE
    assert posterior.following(found, {2, 3}, {1: 24, 4: 24, 6: 6}) in {5, None}


def test_few_blocks_where_little_scatters():
    """An even number, never fewer than both orders; measured again it gets as many as it had."""
    found = replace(known(2, {2: WORSE}), change=0.05, spread=0.003)
    assert posterior.blocks_for(found, 0) == 2
    assert posterior.blocks_for(replace(found, spread=0.02), 0) == 4
    assert posterior.blocks_for(replace(found, change=0.02), 0) == posterior.USUAL
    assert posterior.blocks_for(found, 4) == 4
    assert posterior.blocks_for(replace(found, change=0.02), posterior.MOST - 2) == 2


@pytest.mark.long
@pytest.mark.parametrize(("seeds", "steps", "least", "most"), [(20, 1, 0.9, 9), (10, 2, 0.8, 18)])
def test_nine_of_ten_simulated_searches_find_the_commits(seeds, steps, least, most):
    """Of one step and of two, with measured spreads; `make bench` has more, and tests whether the chances are right."""
    right, steps_taken, _ = simulation.found(seeds, steps)
    assert right >= least
    assert steps_taken < most


@pytest.mark.long
def test_an_answer_given_with_95_percent_is_right_about_as_often():
    """In simulated ranges, of which as many have several steps as the model assumes."""
    answers = simulation.calibrated(30)
    assert len(answers.ended) > 15
    assert np.mean([right for _, right in answers.ended]) >= 0.88
