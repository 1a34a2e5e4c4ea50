"""make bisect from the first word to the report, over commits of a small module, really built."""

from __future__ import annotations

import json
import shutil

import pytest
from checkout import QUIET, Checkout
from gomodule import Module

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("blocks")]
BENCH = ("KIND=gobench", "PACKAGE=./work", "BENCH=^BenchmarkWork$/^alloc$", "METRIC=allocs", "VIEW=plain")
SETTINGS = f"SET=gobench.seconds=0.02 {QUIET}"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Make a checkout of these tests' own."""
    return Checkout(tmp_path_factory.mktemp("bisect") / "checkout", ansible=False)


@pytest.fixture(scope="module")
def commits(tmp_path_factory):
    """Return the module, and its commits: two plain ones, one that does not compile, the first slow one, one more."""
    module = Module(tmp_path_factory.mktemp("module") / "small")
    shas = [module.commit(loops=1000)["ref"], module.commit(loops=1001)["ref"]]
    module.repository.write("work/broken.go", "package work\n\nfunc broken( {\n")
    shas.append(module.repository.commit_all("does not compile"))
    module.repository.git("rm", "--quiet", "work/broken.go")
    shas += [module.commit(loops=1001 + more, allocs=11)["ref"] for more in range(3)]
    return module, shas


def test_the_first_bad_commit_is_found_around_one_that_does_not_build(checkout, commits):
    """Each step is a run with its report; what was killed goes on; the answer names what it cannot tell apart."""
    module, shas = commits
    ends = (f"GOOD=git:{module.path}@{shas[0]}", f"BAD={shas[-1]}")
    said = checkout.make("bisect", "RUN=s", *ends, *BENCH, SETTINGS)
    directory = checkout.results("bisect") / "s"
    kept = json.loads((directory / "bisect.json").read_text())
    assert list(kept["skipped"]) == [shas[2]]
    assert f"**First bad: one of `{shas[2][:12]}`, `{shas[3][:12]}`**" in said
    assert "+10 %" in said
    assert "it does not build: see results/s-" in said
    assert "constants" in said  # its log entry
    assert (directory / "course.svg").exists()
    measured = [step["run"] for step in kept["steps"] if kept["revisions"][step["at"]]["ref"] != shas[2]]
    assert len(measured) in {3, 4}
    worse = [step["run"] for step in kept["steps"] if kept["revisions"][step["at"]]["ref"] in shas[3:]]
    assert worse
    assert all("10.0 %" in (checkout.results(run) / "report.md").read_text() for run in worse)
    binaries = [line.split("`")[1] for line in said.splitlines() if line.startswith("- ") and "/variants/" in line]
    assert len(binaries) == 2

    # Killed before the last step was compared: the same step goes on, and repeats no block.
    last = checkout.results(measured[-1])
    blocks = sorted((path.name, path.stat().st_mtime_ns) for path in (last / "raw/host1").glob("0*/block.json"))
    shutil.rmtree(last / "stats")
    again = checkout.make("bisect", "RUN=s")
    assert said.partition("# Since when?")[2] == again.partition("# Since when?")[2]
    assert sorted((path.name, path.stat().st_mtime_ns) for path in (last / "raw/host1").glob("0*/block.json")) == blocks
    assert "bisect" not in {line.split()[0] for line in checkout.make("list").splitlines() if line.split()}
