"""The designs on a simulated machine: a small part of the tables of `python tests/simulate.py`."""

import numpy as np
import pytest
from simulate import Machine, detection, false_alarms, interleave, one_after_the_other, seconds, session

SESSIONS = 300


def test_solo_parts_go_where_they_belong():
    """Block by block, the candidate is first or second as drawn, and equally often."""
    baseline, candidate = interleave(np.arange(8.0)[:, None], [True, False, False, True])
    assert baseline[:, 0].tolist() == [0, 3, 5, 6]
    assert candidate[:, 0].tolist() == [1, 2, 4, 7]
    rng = np.random.default_rng(1)
    drawn = [seconds(rng, 10) for _ in range(20)]
    assert {sum(one) for one in drawn} == {5}
    assert len({tuple(one) for one in drawn}) > 5


def test_the_same_seed_is_the_same_session():
    """The tables of the documentation can be printed again; a duel's spread has its two parts."""
    one, other = (session(np.random.default_rng(7), Machine(), 8) for _ in range(2))
    assert [j.p_adj for j in one] == [j.p_adj for j in other]
    assert {j.findings.within is not None for j in one} == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [6, 8])
def test_nothing_is_found_where_nothing_is(blocks):
    """A/A sessions with drift, disturbances and 21 correlated metrics: 6 % a family and what 300 sessions scatter."""
    found = false_alarms(Machine(), blocks, SESSIONS, seed=11)
    scatter = 2 * (0.06 * 0.94 / SESSIONS) ** 0.5
    assert max(found["primary"], found["secondary"], found["verdict"]) <= 0.06 + scatter


@pytest.mark.slow
def test_what_is_there_is_found():
    """A duel of 8 blocks sees 3.5 %; runs one after the other see differences where there are none."""
    assert detection(Machine(), 8, ("duel", 0.035), 100, seed=11)["regression"] >= 0.9
    rng = np.random.default_rng(11)
    assert np.mean([one_after_the_other(rng, Machine(), 0.0) for _ in range(SESSIONS)]) > 0.15
