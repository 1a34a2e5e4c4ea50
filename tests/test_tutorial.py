"""docs/tutorial.md, followed to the letter: one pull request, from a quick run to its comment."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from checkout import CACHE, QUIET, Checkout
from fakeproject import PROJECT, free_port

from tsduel.calibrate import planted

PAGE = (PROJECT / "docs/tutorial.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"^```shell\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
# Small data and few blocks: the commands are tested, not the verdicts.
SMALL = (
    "design.blocks=2 workload.scale=30 workload.solo_scale=null queries.types=[single-groupby-1-1-1] "
    "queries.max_count=2000 duel.seconds=0.2 duel.min_exchanges=16"
)


def test_the_tutorial_goes_from_quick_to_full_to_profile_to_comment():
    """It types nothing but make, and every page and experiment that it names exists."""
    assert {words[0] for words in COMMANDS} == {"make"}
    assert [words[1] for words in COMMANDS] == ["doctor", "tsbs", "tsbs", "tsbs", "comment"]
    for name in re.findall(r"experiments/[\w-]+\.yml", PAGE):
        assert (PROJECT / name).exists()


@pytest.mark.slow
@pytest.mark.xdist_group("real")
def test_every_command_of_the_tutorial_works(tmp_path):
    """The change is a handler of queries made 5 % slower, in a checkout beside ours that left the release.

    The run that is commented goes to its end; of the two others, which differ in what they ask, there is a plan.
    """
    checkout = Checkout(tmp_path / "tsduel", ansible=False)
    theirs = tmp_path / "VictoriaMetrics"
    planted_in = planted.repository(CACHE)
    clone = ["git", "clone", "--quiet", "--branch", "slow-5", planted_in, theirs]
    subprocess.run(clone, check=True)
    base = subprocess.run(
        ["git", "-C", theirs, "rev-parse", "origin/base"], check=True, stdout=subprocess.PIPE, text=True
    )
    settings = f"SET=host.port={free_port()} {QUIET} {SMALL}"
    said = {}
    for _, *words in COMMANDS:
        if words[0] == "tsbs":
            words = [words[0] if "RUN=my-full" in words else "plan", *words[1:], settings]  # noqa: PLW2901
        said[words[0]] = checkout.make(*words)

    report = (checkout.results("my-full") / "report.md").read_text()
    assert base.stdout[:12] in report
    assert "Compared" in report
    assert (checkout.results("my-full") / "comment.md").read_text() in said["comment"]
