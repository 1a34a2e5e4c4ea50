"""The ladder rung by rung, and every edge case of docs/statistics.md."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsduel.stats.findings import Sample, examine
from tsduel.stats.verdict import INCONCLUSIVE, VERDICTS, judge

# Log ratios of 10 blocks around zero, with a standard deviation of about 1 %.
NOISE = [0.011, -0.008, 0.004, -0.013, 0.009, -0.002, 0.006, -0.011, 0.013, -0.007]
SECOND = [True, False, False, True, True, False, False, True, True, False]
positive = st.floats(0.5, 2)
metrics = st.integers(6, 9).flatmap(
    lambda n: st.lists(
        st.lists(st.tuples(positive, positive), min_size=n, max_size=n), min_size=1, max_size=4
    )
)  # fmt: skip


def sample(shift=0.0, noise=NOISE, **changes):
    """Make a sample whose candidate is `shift` (log ratio) above a baseline of 100."""
    pairs = [(100.0, 100 * math.exp(shift + d)) for d in noise]
    second = (SECOND * 2)[: len(pairs)]
    given = {"pairs": pairs, "second": {"order": second}, "better": "lower", "family": "primary", "threshold": 5.0}
    return Sample(**(given | {"unit": "s"} | changes))


def alone(*args, **changes):
    """Judge one metric as its own family."""
    return judge([sample(*args, **changes)], seed=1)[0]


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
    ],
)
def test_the_ladder(shift, scale, better, verdict, clear):
    """From a clear regression to inconclusive."""
    judged = alone(shift, [d * scale for d in NOISE], better=better)
    assert (judged.verdict, judged.clear) == (verdict, clear)


def test_a_failed_check_comes_first_and_leaves_the_family():
    """However large the change; p of the others stays the same."""
    failed, good = judge([sample(0.2, failed="failed checks (1): answers"), sample(0.1)], seed=1)
    assert (failed.verdict, failed.p_adj) == ("failed", None)
    assert good.p_adj == alone(0.1).p_adj


def test_below_six_blocks_is_a_screen():
    """Estimate and range, no verdict, whatever the change is."""
    judged = alone(0.5, NOISE[:5])
    assert judged.verdict == "inconclusive (n < 6)"
    assert judged.findings.estimate == pytest.approx(0.5, abs=0.02)
    assert judged.p_adj is None
    assert "a first look: 5 of at least 6 blocks; they range from +62.7 to +66.7 %" in judged.notes


def test_six_blocks_can_decide():
    """The least p of six blocks, 1/32, is below 5 %."""
    judged = alone(0.2, NOISE[:6])
    assert (judged.verdict, judged.findings.p, judged.p_adj) == ("regression", 0.03125, 0.03125)


def test_identical_is_equivalent():
    """No difference in any block."""
    judged = alone(noise=[0.0] * 10)
    assert (judged.verdict, judged.findings.p) == ("equivalent", None)
    assert "identical in every block" in judged.notes


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.1, "regression"), (-0.1, "improvement"), (0.01, "negligible"), (-0.01, "negligible")]
)
def test_no_variance_is_judged_by_the_threshold(shift, verdict):
    """The same ratio in each block needs no test."""
    judged = alone(shift, [0.0] * 10)
    assert (judged.verdict, judged.findings.p, judged.p_adj) == (verdict, None, None)
    assert judged.clear == (verdict != "negligible")
    assert any("nothing to test" in note for note in judged.notes)


def test_zero_keeps_native_units():
    """No ratio, no epsilon: differences, tested as they are; the threshold is a share of the baseline's median."""
    zero = [(0.0, 3.0), *[(100.0, 110.0 + i) for i in range(9)]]
    judged = alone(pairs=zero)
    assert judged.findings.native
    assert judged.findings.estimate == pytest.approx(13.5)
    assert judged.verdict == "regression"
    assert any("no ratio; the difference is 13.5 (" in note for note in judged.notes)
    from_zero = alone(pairs=[(0.0, 5.0 + i) for i in range(10)])
    assert from_zero.verdict == "regression"
    assert any("no threshold in percent" in note for note in from_zero.notes)
    assert alone(pairs=[(0.0, 0.0)] * 10).verdict == "equivalent"
    assert alone(pairs=[(-5.0, 5.0), *[(1.0, 1.0)] * 9]).findings.native


def test_missing_blocks():
    """Up to a fifth of the blocks may lack a value."""
    whole = sample(0.1).pairs
    two = judge([sample(pairs=[(None, 1.0), (1.0, None), *whole[2:]])], seed=1)[0]
    assert (two.verdict, two.findings.n) == ("regression", 8)
    assert "2 of 10 blocks lack a value" in two.notes
    three = judge([sample(pairs=[(None, 1.0)] * 3 + list(whole[3:]))], seed=1)[0]
    assert (three.verdict, three.p_adj) == ("inconclusive", None)
    assert "3 of 10 blocks lack a value, too many for a verdict" in three.notes


def test_a_metric_of_one_side_is_not_comparable():
    """It is shown, with the side that lacks it."""
    judged = judge([sample(pairs=[(1.0, None)] * 10)], seed=1)[0]
    assert judged.verdict == "not comparable"
    assert judged.notes == ("not comparable: candidate never has it",)


def test_shown_metrics_have_an_interval_but_no_verdict():
    """A shown metric is in no family; neither is a metric without a direction."""
    shown, none = judge([sample(0.3, family="shown"), sample(0.3, better="none")], seed=1)
    assert (shown.verdict, shown.p_adj, none.verdict, none.p_adj) == ("shown", None, "shown", None)
    assert shown.findings.ci95 is not None


def test_no_block_at_all():
    """A run whose blocks have all failed has no verdict and no crash."""
    judged = judge([sample(pairs=[], second={})], seed=1)[0]
    assert (judged.verdict, judged.findings.n) == ("inconclusive (n < 6)", 0)


def test_negligible_says_when_more_is_possible():
    """The estimate is below the threshold, its interval is not."""
    judged = alone(0.045)
    assert judged.verdict == "negligible"
    assert "the interval does not rule out a change beyond the threshold" in judged.notes
    assert alone(0.02).notes == ()


def test_an_order_effect_is_a_warning():
    """5 % more whenever the candidate ran second, the opposite otherwise."""
    noise = [d + (0.05 if second else -0.05) for d, second in zip(NOISE, SECOND, strict=True)]
    note = next(note for note in alone(noise=noise).notes if "order effect" in note)
    assert note.startswith("order effect: +5.3 % where the candidate ran second, the opposite where first (p ")
    assert not any("order effect" in note for note in alone().notes)


def test_no_order_effect_where_there_is_nothing():
    """A baseline of zero has no limit, so only p can warn; an effect of zero never does."""
    rare = [(0.0, 0.0)] * 9 + [(0.0, 4.0)]
    assert not any("order effect" in note for note in alone(pairs=rare).notes)
    always = [(0.0, 5.0 + (4.0 if second else 0.1 * i)) for i, second in enumerate(SECOND)]
    assert any("order effect" in note for note in alone(pairs=always).notes)


def test_ratios_of_exchanges_and_their_errors():
    """Ratios come before values; the spread is split into within and between blocks."""
    ratios = [0.03 + d for d in NOISE]
    judged = alone(pairs=[(1.0, 1.0)] * 10, ratios=ratios, errors=[0.006] * 10, threshold=2.0)
    assert (judged.verdict, judged.findings.estimate) == ("regression", pytest.approx(0.03, abs=0.002))
    found = judged.findings
    assert found.within == pytest.approx(0.006)
    assert found.within**2 + found.between**2 == pytest.approx(found.deviation**2)
    noisy = alone(pairs=[(1.0, 1.0)] * 10, ratios=ratios, errors=[0.05] * 10).findings
    assert noisy.between == 0
    lacking = alone(pairs=[(1.0, 1.0)] * 10, ratios=[None, *ratios[1:]], errors=[None] * 10)
    assert (lacking.findings.n, lacking.findings.within) == (9, None)


def test_a_floor_in_the_metrics_own_unit():
    """A tenth of a tiny value does not matter: below the floor it is equivalent."""
    pairs = [(4.0 + d, 4.5 + 2 * d) for d in NOISE]
    assert alone(pairs=pairs, threshold=10.0, native=True).verdict == "regression"
    judged = alone(pairs=pairs, threshold=10.0, native=True, floor=1.0)
    assert judged.verdict in {"negligible", "equivalent"}
    assert any(note.startswith("compared in its own unit; the difference is 0.5") for note in judged.notes)


def test_one_in_twenty_does_not_get_through():
    """Westfall-Young holds the family: a p of .037 among many is no finding."""
    weak = [0.022, 0.001, 0.014, -0.003, 0.019, 0.008, 0.016, -0.001, 0.023, 0.003]
    family = [
        sample(0.0, weak, threshold=1.0),
        *(sample(noise=[NOISE[(i * k) % 10] for i in range(10)]) for k in (3, 7, 9)),
    ]
    judged = judge(family, seed=1)[0]
    assert judged.findings.p is not None
    assert judged.findings.p < 0.05
    assert judged.p_adj is not None
    assert judged.p_adj >= alone(0.0, weak, threshold=1.0).p_adj


def test_every_verdict_has_its_word():
    """The words of the ladder are these and no others."""
    assert set(VERDICTS) == {
        *("failed", "regression", "improvement", "worse", "better", "negligible", "equivalent"),
        *("inconclusive", "inconclusive (n < 6)", "inconclusive: environment", "not comparable", "shown"),
    }
    assert INCONCLUSIVE == "inconclusive"


def judged_of(values, *, mirror=False, factor=1.0):
    """Judge metrics of one family from their pairs."""
    samples = []
    for pairs in values:
        sides = [(c, b) if mirror else (b, c) for b, c in pairs]
        scaled = [(b * factor, c * factor) for b, c in sides]
        samples.append(Sample(scaled, {"order": (SECOND * 2)[: len(pairs)]}, "lower", "primary", 5.0))
    return judge(samples, seed=1)


@settings(max_examples=60, deadline=None)
@given(metrics)
def test_swapping_the_variants_mirrors_everything(values):
    """Estimates and intervals change sign, p does not, a regression is an improvement."""
    other = {"regression": "improvement", "improvement": "regression"}
    for there, back in zip(judged_of(values), judged_of(values, mirror=True), strict=True):
        assert back.verdict == other.get(there.verdict, there.verdict)
        assert back.clear == there.clear
        assert back.findings.p == there.findings.p
        assert back.p_adj == pytest.approx(there.p_adj)
        assert back.findings.estimate == pytest.approx(-there.findings.estimate, abs=1e-12)
        if there.findings.ci95:
            assert back.findings.ci95.low == pytest.approx(-there.findings.ci95.high, abs=1e-12)
        assert back.findings.blocks_needed == there.findings.blocks_needed


@settings(max_examples=60, deadline=None)
@given(metrics, st.sampled_from([1e-6, 0.1, 3.0, 1e9]))
def test_scaling_both_changes_nothing(values, factor):
    """Milliseconds or nanoseconds: the same verdicts and p."""
    for plain, scaled in zip(judged_of(values), judged_of(values, factor=factor), strict=True):
        assert scaled.verdict == plain.verdict
        assert scaled.findings.p == plain.findings.p
        assert scaled.p_adj == pytest.approx(plain.p_adj)
        assert scaled.findings.estimate == pytest.approx(plain.findings.estimate, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(metrics)
def test_a_verdict_is_what_its_numbers_say(values):
    """No regression without p, interval and size; no equivalence without the narrow interval."""
    for judged in judged_of(values):
        found = judged.findings
        if judged.verdict == "regression" and judged.p_adj is not None:
            assert judged.p_adj <= 0.05
            assert found.ci95.low > 0
            assert found.estimate >= found.limit
        if judged.verdict == "equivalent" and not found.identical:
            assert -found.limit < found.ci90.low <= found.ci90.high < found.limit


def test_the_limit_is_a_log_ratio():
    """T = 5 % is ln 1.05 either way, so that a halving mirrors a doubling."""
    assert examine(sample()).limit == pytest.approx(math.log(1.05))
