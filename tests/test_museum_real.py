"""Two exhibits with the real programs: the difference of profiles names the function that the commit touched."""

from __future__ import annotations

import re

import history
import pytest
from checkout import QUIET, Checkout
from fakeproject import free_port

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("databases")]


@history.needed
@pytest.mark.parametrize(
    ("exhibit", "knobs", "title", "wanted"),
    [
        ("vm-relabel-if", ("PROFILE=cpu", "matrix={} parameters.rules=300"), "CPU of ingestion in turn (vmagent)",
         ("lib/promrelabel.(*IfExpression).", "690f02f19c")),
        ("vm-10854", ("PROFILE=heap", ""), "Memory allocated of ingestion in turn (vmagent)",
         ("app/vmagent/remotewrite.(*remoteWriteCtx).TryPushTimeSeries.func2", "06bc808ddc")),
    ],
)  # fmt: skip
def test_profiles_name_the_function_and_the_commit(tmp_path, exhibit, knobs, title, wanted):
    """It is among the functions whose cost differs, and its commit among those that touched its package."""
    (profile, fields), (function, commit) = knobs, wanted
    checkout = Checkout(tmp_path / "checkout", ansible=False)
    checkout.environment |= history.rewritten()
    checkout.make(
        "tsbs", "RUN=one", f"EXPERIMENT=experiments/museum/{exhibit}.yml", profile,
        f"SET={fields} design.blocks=1 design.warmup_blocks=0 host.port={free_port()} {QUIET}",
    )  # fmt: skip
    report = (checkout.results("one") / "report.md").read_text().replace("\\*", "*")
    # The first table of the section: a row a function, those that differ most first.
    section = report.split(f"### {title}")[1].split("\n### ")[0]
    names = re.findall(r"^\| (\S+\(\S+|\S+\.\S+) +\| +[\d,.]+ \|", section, re.MULTILINE)
    # The compiler puts some functions into those that call them, so another method of the type may have the cost.
    assert any(name.lower().startswith(function.lower()) for name in names[:5]), names
    assert re.search(rf"^- `[0-9a-f]+` \S+ {commit} ", report, re.MULTILINE)
