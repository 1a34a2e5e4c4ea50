"""A field is typed once, where its file is written; its reader's types are generated: `python -m tests.contract`."""

import contract
from pydantic.fields import FieldInfo

from tsduel.core import sections


def test_what_the_host_reads_of_a_plan_is_what_python_writes():
    """To the letter."""
    assert contract.GO.read_text() == contract.go_types()


def test_a_new_field_of_the_plan_is_one_of_the_host(monkeypatch):
    """If the host's code reads it. Seconds are float64 there."""
    monkeypatch.setitem(sections.Settle.model_fields, "once_s", FieldInfo(annotation=int))
    monkeypatch.setitem(sections.Settle.__annotations__, "once_s", int)
    assert "once_s" not in contract.go_types()
    monkeypatch.setattr(contract, "HOST_CODE", contract.HOST_CODE + "wait(settle.OnceS)")
    assert '\tOnceS    float64 `json:"once_s"`\n' in contract.go_types()
