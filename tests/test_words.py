"""Verdicts as sentences: every rung of the ladder has one, and none says that nothing changed."""

import pytest

from plots.words import sentence
from tsduel.stats.verdict import VERDICTS

ROW = {
    "baseline_median": 100.0, "candidate_median": 96.0, "change_pct": -4.1, "lo_pct": -5.5, "hi_pct": -2.6,
    "p_adj": 0.002, "blocks": 10, "mde_pct": 3.2, "blocks_needed": 24, "verdict": "regression", "clear": False,
    "threshold_pct": 5.0, "warnings": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "4.1 % slower (95 % CI 2.6 to 5.5 %, p 0.002, 10 blocks): regression"),
        (
            {"verdict": "improvement", "clear": True, "change_pct": 9.0, "lo_pct": 6.0, "hi_pct": 12.0},
            "9.0 % faster (95 % CI 6.0 to 12.0 %, p 0.002, 10 blocks): clear improvement",
        ),
        (
            {"lo_pct": None, "hi_pct": None, "p_adj": None, "clear": True},
            "4.1 % slower (the same in each of 10 blocks): clear regression",
        ),
        (
            {"verdict": "negligible"},
            "4.1 % slower (95 % CI 2.6 to 5.5 %, p 0.002, 10 blocks): real, but below the 5 % that matter (negligible)",
        ),
        ({"verdict": "equivalent"}, "no difference larger than 5 % (equivalent)"),
        ({"verdict": "equivalent", "warnings": "identical in every block"}, "identical in every block (equivalent)"),
        (
            {"verdict": "inconclusive", "lo_pct": -2.0, "hi_pct": 9.0, "p_adj": 0.4},
            "inconclusive, could be -2.0 % to +9.0 %; 24 blocks would settle 5 %",
        ),
        (
            {"verdict": "inconclusive", "lo_pct": -2.0, "hi_pct": 9.0, "p_adj": 0.4, "blocks_needed": 9},
            "inconclusive, could be -2.0 % to +9.0 %; 10 blocks see changes of 3.2 % and more",
        ),
        (
            {
                "verdict": "inconclusive",
                "p_adj": None,
                "warnings": "3 of 10 blocks lack a value, too many for a verdict",
            },
            "inconclusive, 3 of 10 blocks lack a value, too many for a verdict",
        ),
        ({"verdict": "inconclusive (n < 6)", "blocks": 1}, "4.1 % slower, one round each: no verdict"),
        ({"verdict": "inconclusive (n < 6)", "blocks": 2}, "4.1 % slower in 2 blocks, a screen: inconclusive (n < 6)"),
        (
            {
                "verdict": "not comparable",
                "candidate_median": None,
                "warnings": "not comparable: candidate never has it",
            },
            "not comparable, candidate never has it",
        ),
        ({"verdict": "failed"}, "**failed**, see Checks"),
        ({"baseline_median": None, "candidate_median": None}, "not measured"),
    ],
)
def test_sentences(changes, said):
    """What a person would say, with the numbers that it stands on."""
    assert sentence(ROW | changes, "faster", "slower") == said


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("change", [-4.1, 0.0, 7.0, None])
def test_there_is_always_a_sentence(verdict, change):
    """And "no change" is in none of them."""
    said = sentence(ROW | {"verdict": verdict, "change_pct": change}, "faster", "slower")
    assert said
    assert "no change" not in said
