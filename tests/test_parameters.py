"""Dose and response: named values that the files and flags of variants take, and sweeps over them."""

from __future__ import annotations

from pathlib import Path

import pytest
from asking import FAKES, written

from tsduel.core import bounded
from tsduel.core.errors import UserError
from tsduel.core.rundir import Run
from tsduel.plan import resolve
from tsduel.question import read
from tsduel.studies import growth

FILE = "{% for number in range(rules) %}\n- drop: {{ number }}\n{% endfor %}\n"


def side(**fields):
    """Return a variant of the fake database, with fields of its component."""
    return {"source": "binary", "path": str(FAKES / "database")} | fields


def asked(**parts):
    """Return the settings of an experiment whose sides have a file with so many rules, and a flag."""
    one = side(files={"rules.yml": FILE}, flags=["-rules={{ rules }}"])
    return read.expand(written(variants={"baseline": one, "candidate": one}, **parts), "x.yml")


def test_a_file_has_as_many_lines_as_the_setting_says():
    """Each run starts its components with its own files and flags, and the settings are a line."""
    found = asked(parameters={"rules": 1}, matrix={"parameters.rules": [1, 3]})
    assert [setting.name for setting in found] == ["rules=1", "rules=3"]
    plans = {setting.name: resolve.resolve(setting.asked, run="r") for setting in found}
    of = {name: plan.variants[0].components[0] for name, plan in plans.items()}
    assert of["rules=1"].files["rules.yml"] == "- drop: 0\n"
    assert of["rules=3"].files["rules.yml"] == "- drop: 0\n- drop: 1\n- drop: 2\n"
    assert of["rules=3"].flags == ("-rules=3",)
    (line,) = growth.lines([growth.At(one.name, one.set, Run(Path("r"), plans[one.name]), []) for one in found])
    assert (line.name, line.at) == ("rules", (1.0, 3.0))


def test_one_dose_alone_and_texts_without_parameters():
    """Without a matrix the parameter's own value counts; without parameters braces are braces."""
    (one,) = asked(parameters={"rules": 2})
    assert one.asked.variants["candidate"].files["rules.yml"].count("drop") == 2
    (one,) = asked()
    assert one.asked.variants["candidate"].files["rules.yml"] == FILE


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{{ rulez }}", "'rulez' is undefined; parameters are rules"),
        ("{% for %}", r"variants\.baseline\.flags\.0: .*; parameters are rules"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ rules | dictsort }}", r"flags\.0: .*; parameters are rules"),
        ("{{ '%(x)s' % {} }}", r"flags\.0: 'x'; parameters are rules"),
        ("{{ 10 ** (10 ** 9) }}", "a power has too many digits"),
        ("{{ 'x' * 20000000000 }}", r"flags\.0: the template would take over 1 s or 1 GiB; write it simpler"),
        # A constant, which Jinja makes while it compiles, where each Exception only says that it is none.
        ("{{ ('x' * 200000000)" + " | upper | lower" * 40 + " | length }}", "would take over .* s or"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "would take over .* s or"),
    ],
)
def test_a_text_that_cannot_be_filled_is_refused(text, sentence, monkeypatch):
    """With its place in the experiment and the parameters that there are."""
    monkeypatch.setattr(bounded, "SECONDS", 1)
    one = side(flags=[text])
    with pytest.raises(UserError, match=sentence):
        read.expand(written(variants={"baseline": one, "candidate": one}, parameters={"rules": 1}), "x.yml")
