"""`make proof`: what it measures next, what its lines say, and the table that is made of them."""

import csv

import pytest

from bench import proof
from bench.proof import KINDS


def lines(kind, count, **more):
    """Return so many lines of a kind, each as expected."""
    row = dict.fromkeys(proof.COLUMNS, "") | {"kind": kind, "protocol": str(proof.PROTOCOL), "as_expected": "1"}
    row |= {"date": "2026-11-27", "machine": "AMD, 2 CPUs", "beside": "0.5", "time_pct": "1.5"} | more
    return [row | {"number": str(number)} for number in range(1, count + 1)]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Keep lines and page in a directory of the test."""
    monkeypatch.setattr(proof, "LINES", tmp_path / "proof/runs.csv")
    monkeypatch.setattr(proof, "PAGE", tmp_path / "validation.md")


def test_what_is_missing_is_measured_in_turns():
    """Number 1 of every kind comes before number 2 of any; what has a line is left out."""
    known = [*lines("slow-5", 2), *lines("same", 1)]
    order = list(proof.missing(known, ["slow-5", "same", "default-beside"]))
    assert order[:4] == [("default-beside", 1), ("same", 2), ("default-beside", 2), ("slow-5", 3)]
    assert len(order) == sum(KINDS[name].times for name in ("slow-5", "same", "default-beside")) - 3


@pytest.mark.usefixtures("kept")
def test_a_line_of_an_older_protocol_is_measured_again():
    """It is not among the lines, and goes when its run is there again."""
    proof.add(lines("same", 1)[0])
    text = proof.LINES.read_text().replace(f"same,1,{proof.PROTOCOL},", "same,1,0,")
    proof.LINES.write_text(text)
    assert proof.lines() == []
    assert ("same", 1) in list(proof.missing(proof.lines(), ["same"]))
    proof.add(lines("same", 2)[0])
    with proof.LINES.open(newline="") as file:
        assert [row["protocol"] for row in csv.DictReader(file)] == [str(proof.PROTOCOL)]


@pytest.mark.usefixtures("kept")
def test_the_table_says_what_was_missed_and_what_is_missing():
    """A figure that cannot be reached any more is missed; lines that are not there yet are counted."""
    for row in [*lines("slow-3", 9), *lines("slow-5", 2, as_expected="0")]:
        proof.add(row)
    proof.PAGE.write_text(f"before\n{proof.BEGIN}\nold\n{proof.END}\nafter\n")
    proof.page()
    text = proof.PAGE.read_text()
    rows = {cells[1].strip(): cells for line in text.splitlines() if len(cells := line.split("|")) > 5}
    assert [cell.strip() for cell in rows[KINDS["slow-3"].title][2:5]] == ["9 of 9", "9 of 10", "+1.50"]
    assert rows[KINDS["slow-3"].title][-2].strip() == "1"
    assert "MISSED" in rows[KINDS["slow-5"].title][2]
    assert "MISSED" not in rows[KINDS["same"].title][2]
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text


def test_a_run_is_as_expected_by_its_own_rule():
    """Found where something was planted; silent where nothing was."""
    rows = {proof.TIME: {"verdict": "regression"}, proof.CPU: {"verdict": "equivalent"}}
    assert KINDS["slow-5"].expected("", rows)
    assert not KINDS["same"].expected("", rows)
    assert not KINDS["burn-5"].expected("", rows)
    flagged = {proof.CPU: {"verdict": "negligible", "p_adj": 0.04, "change_pct": 1.0}}
    assert KINDS["burn-2"].expected("", flagged)
    assert not KINDS["burn-2"].expected("", {proof.CPU: {"verdict": "x", "p_adj": 0.04, "change_pct": -1.0}})
