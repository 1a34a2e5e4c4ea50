"""The designs on an imagined machine: a small part of what `python -m tsduel.stats.simulate` prints."""

import numpy as np
import pytest

from tsduel.stats.simulate import Machine, detection, false_alarms, interleave, one_after_the_other, seconds, session

SESSIONS = 400


def test_rounds_go_where_they_belong():
    """Block by block, the candidate first or second as drawn."""
    values = np.arange(8.0)[:, None]
    baseline, candidate = interleave(values, [True, False, False, True])
    assert baseline[:, 0].tolist() == [0, 3, 5, 6]
    assert candidate[:, 0].tolist() == [1, 2, 4, 7]


def test_the_order_is_balanced():
    """Second as often as first, as the plan draws it."""
    rng = np.random.default_rng(1)
    drawn = [seconds(rng, 10) for _ in range(20)]
    assert {sum(one) for one in drawn} == {5}
    assert len({tuple(one) for one in drawn}) > 5


def test_the_same_seed_is_the_same_session():
    """What is in the documentation can be printed again."""
    one, other = (session(np.random.default_rng(7), Machine(), 8) for _ in range(2))
    assert [j.p_adj for j in one] == [j.p_adj for j in other]


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [6, 10])
def test_nothing_is_found_where_nothing_is(blocks):
    """A/A sessions with drift, disturbances and 20 correlated metrics: 6 % a family and what 400 sessions scatter."""
    found = false_alarms(Machine(), blocks, SESSIONS, seed=11)
    scatter = 2 * (0.06 * 0.94 / SESSIONS) ** 0.5
    assert found["primary"] <= 0.06 + scatter
    assert found["secondary"] <= 0.06 + scatter
    assert found["verdict"] <= 0.06 + scatter


@pytest.mark.slow
def test_what_is_there_is_found():
    """10 % is seen by 10 blocks nearly always; rounds one after the other see differences where there are none."""
    found = detection(Machine(), 10, 0.10, 100, seed=11)
    assert found["flagged"] >= 0.85
    assert found["regression"] >= 0.8
    rng = np.random.default_rng(11)
    assert np.mean([one_after_the_other(rng, Machine(), 0.0, 10) for _ in range(SESSIONS)]) > 0.15
