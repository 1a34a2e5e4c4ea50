"""Spare blocks in tables and verdicts: they count in place of spoilt blocks. host/run tests when they run."""

from __future__ import annotations

import csv
import json

import pytest
import reports

CAUSE = "foreign CPU 52 % of the machine during load, limit 5 %"


@pytest.fixture
def made(tmp_path):
    """Return a function that writes a run of eight blocks, all of whose two spare ones were run, and compares it."""

    def make(*spoilt, void=()):
        return reports.compared(
            tmp_path, blocks=8, spare_blocks=2, spares_run=2, query_types=("cpu-max-all-1",), exchanges=40, load_s=3,
            solo_s=0.0, spoilt=dict.fromkeys(spoilt, CAUSE), void=dict.fromkeys(void, "caches were left"),
        )  # fmt: skip

    return make


def counted(run):
    """Return the blocks that count, and why each other one does not."""
    with (run / "tidy/blocks.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["kind"] != "warmup"]
    return [int(r["block"]) for r in rows if not r["cause"]], {int(r["block"]): r["reason"] for r in rows if r["cause"]}


def verdicts(run):
    """Return the verdicts of a run's comparison."""
    return {row["verdict"] for row in json.loads((run / "stats/comparison.json").read_text())["rows"]}


SURPLUS = "a spare block, and no block was left for it to replace"


@pytest.mark.parametrize(
    ("spoilt", "void", "count", "surplus"),
    [
        ((3,), (), [1, 2, 4, 5, 6, 7, 8, 9], {10}),
        ((2, 9), (), [1, 3, 4, 5, 6, 7, 8, 10], set()),
        ((), (5,), [1, 2, 3, 4, 6, 7, 8, 9], {10}),
        ((), (), [1, 2, 3, 4, 5, 6, 7, 8], {9, 10}),
    ],
    ids=["one spoilt", "its spare, too", "void", "none"],
)
def test_a_spare_counts_in_place_of_what_was_spoilt(made, spoilt, void, count, surplus):
    """As many blocks count as were planned; each other block has a reason."""
    run = made(*spoilt, void=void)
    blocks, reasons = counted(run)
    assert blocks == count
    assert {block for block, why in reasons.items() if why == SURPLUS} == surplus
    assert all(reasons[block] == f"spoilt from outside: {CAUSE}" for block in spoilt)
    assert all(reasons[block] == "nothing in it may be compared: caches were left" for block in void)
    assert "inconclusive: environment" not in verdicts(run)


def test_fewer_blocks_than_planned_are_no_verdict(made):
    """Three spoilt blocks and two spares: the judged metrics say why they have no verdict."""
    assert verdicts(made(1, 2, 3)) == {"inconclusive: environment", "shown"}


def test_nothing_left(made):
    """All blocks spoilt: tables without figures, and no stack trace."""
    assert counted(made(*range(1, 11)))[0] == []
