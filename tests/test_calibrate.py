"""The page of `make calibrate` on sittings: the arithmetic of levels and costs, and its sentence."""

from __future__ import annotations

import pytest
import synthetic

from tsduel.calibrate import page
from tsduel.core.files import read_json
from tsduel.core.rundir import open_run
from tsduel.stats import compare


@pytest.mark.parametrize(
    ("above", "cost", "variance", "variance_above", "best"),
    [(24.0, 0.6, 1.0, 1.0, 6), (24.0, 0.6, 1.0, 4.0, 3), (24.0, 0.6, 0.0, 1.0, 1), (24.0, 0.6, 1.0, 0.0, 64)],
)
def test_repeating_pays_where_it_is_cheap_and_scatters(above, cost, variance, variance_above, best):
    """No other number gives less variance in the same time."""
    assert page.repetitions(above, cost, variance, variance_above) == best

    def dear(n):
        return (variance_above + variance / n) * (above + n * cost)

    assert dear(best) <= min(dear(n) for n in range(1, 65)) * 1.01


def test_the_page_says_how_many_sittings_pay(tmp_path):
    """Of a run of one binary against itself; then come the old file and the planted slowness."""
    spec = {"query_types": synthetic.TWO_TYPES, "exchanges": 60, "load_s": 3, "sitting": 0.02}
    runs = []
    for name, own in (("same", {"factors": {}, "aa": True}), ("stale", {"factors": {}}), ("slow", {})):
        run = synthetic.write_run(tmp_path / name, synthetic.Spec(blocks=8, **spec, **own))
        synthetic.tidied(run)
        compare.main(run)
        runs.append(open_run(run))
    text = page.text(*runs)
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert ["an old file against a fresh copy" in head for head in heads] == [False, True, False]
    assert "% from exchanges, " in text
    assert " sittings would tell most in the same time (`duel.sittings`)." in text
    row = page.row_of(read_json(tmp_path / "same/stats/comparison.json"), ("duel_typical_ms", "geomean"))
    assert page.sittings_advice(runs[0], row) in text
    assert page.sittings_advice(runs[0], row | {"shares": {}}) == ""
