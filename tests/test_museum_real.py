"""An exhibit with the real programs: the difference of profiles names the function that the commit touched."""

from __future__ import annotations

import re

import history
import pytest
from checkout import QUIET, Checkout
from fakeproject import free_port

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("databases")]


@history.needed
def test_profiles_name_the_function_and_the_commit(tmp_path):
    """It is among the functions whose cost differs, and its commit among those that touched its package."""
    checkout = Checkout(tmp_path / "checkout", ansible=False)
    checkout.environment |= history.rewritten()
    checkout.make(
        "tsbs", "RUN=one", "EXPERIMENT=experiments/museum/vm-10854.yml", "PROFILE=heap",
        f"SET=design.blocks=1 design.warmup_blocks=0 host.port={free_port()} {QUIET}",
    )  # fmt: skip
    report = (checkout.results("one") / "report.md").read_text().replace("\\*", "*")
    # The first table of the section: a row a function, those that differ most first.
    section = report.split("### Memory allocated of ingestion in turn (vmagent)")[1].split("\n### ")[0]
    names = re.findall(r"^\| (\S+\(\S+|\S+\.\S+) +\| +[\d,.]+ \|", section, re.MULTILINE)
    # The compiler puts some functions into those that call them, so another method of the type may have the cost.
    function = "app/vmagent/remotewrite.(*remotewritectx).trypushtimeseries.func2"
    assert any(name.lower().startswith(function) for name in names[:5]), names
    assert re.search(r"^- `[0-9a-f]+` \S+ 06bc808ddc ", report, re.MULTILINE)
