"""A table that somebody opens in a spreadsheet executes nothing."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pandas as pd
import pytest
from asking import asked

from tsduel.core import tables
from tsduel.core.errors import UserError
from tsduel.plan import sources

PROJECT = Path(__file__).resolve().parent.parent
FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1"]


def test_what_a_measured_program_says_is_text_in_a_table():
    """A formula begins with an apostrophe; numbers, and names that have such letters within, are as they were."""
    plain = ["-3.5", "+1e-05", "-inf", "cpu-max-all-8", "", "a=b", "two\nlines"]
    text = io.StringIO()
    tables.Writer(text).writerows([[*FORMULAS, "\r=1", "a\r=1", *plain, -3.5]])
    read = next(csv.reader(io.StringIO(text.getvalue(), newline="")))
    assert read == [*(f"'{formula}" for formula in FORMULAS), "' =1", "a =1", *plain, "-3.5"]
    frame = pd.DataFrame({"a": FORMULAS[:2], "b": [-0.5, None]})
    assert tables.csv_of(frame) == f"a,b\n'{FORMULAS[0]},-0.5\n'{FORMULAS[1]},\n"


def test_every_table_is_written_in_one_place():
    """No stage and no export has a way of its own to write one."""
    ways = re.compile(r"csv\.writer\(|csv\.DictWriter\(|\.to_csv\(")
    files = [path for room in ("tsduel", "plots") for path in (PROJECT / room).rglob("*.py")]
    found = [path.name for path in files if ways.search(path.read_text())]
    assert found == ["tables.py"]
    assert "class Writer" in (PROJECT / "tsduel/core/tables.py").read_text()


def test_names_that_begin_a_formula_are_refused():
    """Of a parameter, which names settings, and of a revision, which is a label."""
    with pytest.raises(UserError, match=r"parameters: '=1\+1' is no name of a parameter"):
        asked(parameters={"=1+1": 2})
    for ref in ("=1+1", "+x", "@x"):
        with pytest.raises(UserError, match="never begins with - = "):
            sources._check_ref(ref, "baseline")
