"""The ladder rung by rung, and every edge case of docs/statistics.md."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsduel.core.metrics import METRICS
from tsduel.stats.findings import Sample
from tsduel.stats.verdict import judge
from tsduel.workloads.measured import PairedRatio

METRIC = METRICS["load_cpu_seconds"]
# Log ratios of 10 blocks around zero, with a standard deviation of about 1 %.
NOISE = [0.011, -0.008, 0.004, -0.013, 0.009, -0.002, 0.006, -0.011, 0.013, -0.007]
SECOND = [True, False, False, True, True, False, False, True, True, False]
LACKING = [(None, 1.0), (1.0, None), (None, 1.0)]
positive = st.floats(0.5, 2)
metrics = st.integers(6, 9).flatmap(
    lambda n: st.lists(
        st.lists(st.tuples(positive, positive), min_size=n, max_size=n), min_size=1, max_size=4
    )
)  # fmt: skip


def sample(shift=0.0, noise=NOISE, *, better="lower", native=False, floor=0.0, **changes):
    """Make a sample whose candidate is `shift` (log ratio) above a baseline of 100."""
    pairs = [(100.0, 100 * math.exp(shift + d)) for d in noise]
    metric = replace(METRIC, better=better, native=native, floor=floor)
    return replace(Sample(metric, pairs, {"order": SECOND[: len(pairs)]}, "primary", 5.0), **changes)


def alone(*args, **changes):
    """Judge one metric as its own family."""
    return judge([sample(*args, **changes)], seed=1)[0]


def paired(ratios, error):
    """Return ratios of exchanges, all with the same error within a block."""
    return [None if d is None else PairedRatio("candidate", "duel", "exchange", "", "", d, error, 9) for d in ratios]


@pytest.mark.parametrize(
    ("shift", "scale", "better", "verdict", "clear"),
    [
        (0.100, 1, "lower", "regression", True),
        (0.052, 1, "lower", "regression", False),
        (-0.100, 1, "lower", "improvement", True),
        (-0.100, 1, "higher", "regression", True),
        (0.100, 1, "higher", "improvement", True),
        (0.020, 1, "lower", "negligible", False),
        (-0.020, 1, "higher", "negligible", False),
        (0.000, 1, "lower", "equivalent", False),
        (0.000, 12, "lower", "inconclusive", False),
        (0.060, 12, "lower", "inconclusive", False),
        # Without variance there is nothing to test: the threshold decides.
        (0.1, 0, "lower", "regression", True),
        (-0.1, 0, "lower", "improvement", True),
        (0.01, 0, "lower", "negligible", False),
        (-0.01, 0, "lower", "negligible", False),
        (0.0, 0, "lower", "equivalent", False),
    ],
)
def test_the_ladder(shift, scale, better, verdict, clear):
    """From a clear regression to inconclusive."""
    judged = alone(shift, [d * scale for d in NOISE], better=better)
    assert (judged.verdict, judged.clear) == (verdict, clear)
    assert (judged.p_adj is None) == (judged.findings.p is None) == (scale == 0)
    assert any("nothing to test" in note for note in judged.notes) == (scale == 0 != shift)
    assert ("identical in every block" in judged.notes) == (scale == 0 == shift)


def test_a_failed_check_comes_first_and_leaves_the_family():
    """However large the change; p of the others stays the same."""
    failed, good = judge([sample(0.2, failed="failed checks (1): answers"), sample(0.1)], seed=1)
    assert (failed.verdict, failed.p_adj) == ("failed", None)
    assert good.p_adj == alone(0.1).p_adj


def test_six_blocks_can_decide_and_fewer_are_a_screen():
    """The least p of six blocks is 1/32; of five there are estimate and range, whatever the change is."""
    six, five = alone(0.2, NOISE[:6]), alone(0.5, NOISE[:5])
    assert (six.verdict, six.findings.p, six.p_adj) == ("regression", 0.03125, 0.03125)
    assert (five.verdict, five.p_adj) == ("inconclusive (n < 6)", None)
    assert five.findings.estimate == pytest.approx(0.5, abs=0.02)
    assert "a first look: 5 of at least 6 blocks; they range from +62.7 to +66.7 %" in five.notes


@pytest.mark.parametrize(
    ("pairs", "verdict", "note"),
    [
        ([(0.0, 3.0), *[(100.0, 110.0 + i) for i in range(9)]], "regression", "no ratio; the difference is 13.5 ("),
        ([(0.0, 5.0 + i) for i in range(10)], "regression", "no threshold in percent"),
        ([(0.0, 0.0)] * 10, "equivalent", "identical in every block"),
        ([(-5.0, 5.0), *[(1.0, 1.0)] * 9], "equivalent", "no ratio"),
        # An effect of zero of the order never warns, where there is no limit; p can.
        ([(0.0, 5.0 + (4.0 if second else 0.1 * i)) for i, second in enumerate(SECOND)], "regression", "order effect"),
    ],
)
def test_zero_keeps_native_units(pairs, verdict, note):
    """No ratio, no epsilon: differences, tested as they are; the threshold is a share of the baseline's median."""
    judged = alone(pairs=pairs)
    assert (judged.findings.native, judged.verdict) == (True, verdict)
    assert any(note in said for said in judged.notes)


def test_a_block_with_a_zero_counts():
    """It has both values, and no ratio of its exchanges."""
    pairs = [(100.0, 0.0 if block < 4 else 40.0 + block) for block in range(10)]
    ratios = [None if c == 0 else ratio for (_, c), ratio in zip(pairs, paired(NOISE, 0.01), strict=True)]
    judged = alone(pairs=pairs, ratios=ratios)
    assert (judged.findings.native, judged.findings.n, judged.verdict) == (True, 10, "improvement")


@pytest.mark.parametrize(
    ("pairs", "verdict", "n", "note"),
    [
        (LACKING[:2] + sample(0.1).pairs[2:], "regression", 8, "2 of 10 blocks lack a value"),
        (LACKING + sample(0.1).pairs[3:], "inconclusive", 7, "3 of 10 blocks lack a value, too many for a verdict"),
        ([(1.0, None)] * 10, "not comparable", 0, "not comparable: candidate never has it"),
        ([], "inconclusive (n < 6)", 0, None),
    ],
)
def test_missing_blocks(pairs, verdict, n, note):
    """Up to a fifth of the blocks may lack a value; one side alone is not comparable; no block is no crash."""
    judged = alone(pairs=pairs)
    assert (judged.verdict, judged.findings.n, judged.notes) == (verdict, n, (note,) if note else ())
    assert (judged.p_adj is None) == (verdict != "regression")


def test_shown_metrics_have_an_interval_but_no_verdict():
    """A shown metric is in no family; neither is a metric without a direction."""
    shown, none = judge([sample(0.3, family="shown"), sample(0.3, better="none")], seed=1)
    assert (shown.verdict, shown.p_adj, none.verdict, none.p_adj) == ("shown", None, "shown", None)
    assert shown.findings.ci95 is not None


def test_negligible_says_when_more_is_possible():
    """The estimate is below the threshold, its interval is not."""
    judged = alone(0.045)
    assert judged.verdict == "negligible"
    assert "the interval does not rule out a change beyond the threshold" in judged.notes
    assert alone(0.02).notes == ()


def test_an_order_effect_is_a_warning():
    """5 % more whenever the candidate ran second, the opposite otherwise; an effect of zero never warns."""
    noise = [d + (0.05 if second else -0.05) for d, second in zip(NOISE, SECOND, strict=True)]
    note = next(note for note in alone(noise=noise).notes if "order effect" in note)
    assert note.startswith("order effect: +5.3 % where the candidate ran second, the opposite where first (p ")
    for without in (alone(), alone(pairs=[(0.0, 0.0)] * 9 + [(0.0, 4.0)])):
        assert not any("order effect" in note for note in without.notes)


def test_what_an_order_does_is_in_no_interval_of_mirrored_blocks():
    """From 12 pairs on it is taken out, however large it is; a lone block stays. With 11 it widens the interval."""
    noise, second = np.random.default_rng(5).normal(0, 0.01, 24), np.array([False, True, True, False] * 6)
    mirrors = [at ^ 1 for at in range(24)]

    def judged(effect, blocks=24, lone=()):
        d = [*(noise + effect * np.where(second, 1, -1))[:blocks], *lone]
        images = [*mirrors[:blocks], *(None for _ in lone)]
        return alone(0.0, d, mirrors=images, second={"order": [*second[:blocks], *(True for _ in lone)]})

    for lone in ((), (0.01,)):
        plain, ordered = judged(0.0, lone=lone), judged(0.1, lone=tuple(d + 0.1 for d in lone))
        assert ordered.findings.estimate == pytest.approx(plain.findings.estimate)
        assert ordered.findings.ci95.low == pytest.approx(plain.findings.ci95.low)
        assert (ordered.findings.coins, ordered.p_adj) == (1, plain.p_adj)
    plain, ordered = judged(0.0, 22), judged(0.1, 22)
    assert ordered.findings.ci95.high > 5 * plain.findings.ci95.high


def test_ratios_of_exchanges_and_their_errors():
    """Ratios come before values; the spread is split into within and between blocks."""
    ratios = [0.03 + d for d in NOISE]
    given = {"pairs": [(1.0, 1.0)] * 10, "threshold": 2.0}
    judged = alone(**given, ratios=paired(ratios, 0.006))
    assert (judged.verdict, judged.findings.estimate) == ("regression", pytest.approx(0.03, abs=0.002))
    found = judged.findings
    assert found.within == pytest.approx(0.006)
    assert found.within**2 + found.between**2 == pytest.approx(found.deviation**2)
    assert alone(**given, ratios=paired(ratios, 0.05)).findings.between == 0
    lacking = alone(**given, ratios=paired([None, *ratios[1:]], None)).findings
    assert (lacking.n, lacking.within) == (9, None)


def test_a_floor_in_the_metrics_own_unit():
    """A tenth of a tiny value does not matter: below the floor it is equivalent."""
    given = {"pairs": [(4.0 + d, 4.5 + 2 * d) for d in NOISE], "threshold": 10.0, "native": True}
    assert alone(**given).verdict == "regression"
    judged = alone(**given, floor=1.0)
    assert judged.verdict in {"negligible", "equivalent"}
    assert any(note.startswith("compared in its own unit; the difference is 0.5") for note in judged.notes)


def test_one_in_twenty_does_not_get_through():
    """Westfall-Young holds the family: a p of .037 among many is no finding."""
    weak = sample(0.0, [0.022, 0.001, 0.014, -0.003, 0.019, 0.008, 0.016, -0.001, 0.023, 0.003], threshold=1.0)
    others = [sample(noise=[NOISE[(i * k) % 10] for i in range(10)]) for k in (3, 7, 9)]
    judged = judge([weak, *others], seed=1)[0]
    assert judged.findings.p < 0.05
    assert judged.p_adj >= judge([weak], seed=1)[0].p_adj


def judged_of(values, *, mirror=False, factor=1.0):
    """Judge metrics of one family from their pairs."""
    sides = [[(c, b) if mirror else (b, c) for b, c in pairs] for pairs in values]
    scaled = [[(b * factor, c * factor) for b, c in pairs] for pairs in sides]
    return judge([sample(noise=NOISE[: len(pairs)], pairs=pairs) for pairs in scaled], seed=1)


@settings(max_examples=60, deadline=None)
@given(metrics, st.sampled_from([1e-6, 0.1, 3.0, 1e9]))
def test_a_verdict_is_what_its_numbers_say_whichever_side_is_first_and_whatever_the_unit(values, factor):
    """Swapped, estimates and intervals change sign, p does not, a regression is an improvement; ns or ms: the same."""
    other = {"regression": "improvement", "improvement": "regression"}
    judged = (judged_of(values), judged_of(values, mirror=True), judged_of(values, factor=factor))
    for there, back, scaled in zip(*judged, strict=True):
        found = there.findings
        assert (back.verdict, scaled.verdict) == (other.get(there.verdict, there.verdict), there.verdict)
        assert back.clear == there.clear
        assert back.findings.p == scaled.findings.p == found.p
        assert (back.p_adj, scaled.p_adj) == (pytest.approx(there.p_adj), pytest.approx(there.p_adj))
        assert back.findings.estimate == pytest.approx(-found.estimate, abs=1e-12)
        assert scaled.findings.estimate == pytest.approx(found.estimate, abs=1e-9)
        if found.ci95:
            assert back.findings.ci95.low == pytest.approx(-found.ci95.high, abs=1e-12)
        assert back.findings.blocks_needed == found.blocks_needed
        # T = 5 % is ln 1.05 either way, so that a halving mirrors a doubling.
        assert found.limit == pytest.approx(math.log(1.05))
        if there.verdict == "regression" and there.p_adj is not None:
            assert there.p_adj <= 0.05
            assert found.ci95.low > 0
            assert found.estimate >= found.limit
        if there.verdict == "equivalent" and not found.identical:
            assert -found.limit < found.ci90.low <= found.ci90.high < found.limit
