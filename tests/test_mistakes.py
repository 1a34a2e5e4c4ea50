"""What people mistype: each mistake is one sentence with what, where and what to do, and no run is made."""

import os
import re
import shutil
import subprocess

import pytest
from checkout import PROJECT, Checkout

from tsduel.cli.knobs import KNOBS

pytestmark = pytest.mark.slow
MISTAKES = {
    # Targets, commands and knobs.
    "make tsb": "'tsb' is no target; did you mean tsbs?",
    "make tsbs CANDIDAT=v1.134.0": "CANDIDAT is no knob; did you mean CANDIDATE?",
    "make plan SMOKE=maybe": "SMOKE is no knob; `make help TOPIC=knobs` lists them",
    "make plan HOST=me@there": "HOST is no knob; did you mean HOSTS?",
    "make help TOPIC=nothing": "TOPIC: 'nothing' is none; allowed: commands, knobs, experiments, or a command",
    "make plan QUERIES=nowhere.txt": "QUERIES: `plan` does not read it; these read it: queries-check",
    "make plan METRIC=cpu": "METRIC: `plan` does not read it; these read it: bisect, worst, history, trend",
    "make list RUN=example": "RUN: `list` does not read it",
    "make comment CANDIDATE=v1.133.0": "CANDIDATE: `comment` does not read it",
    "tsduel plann": "did you mean plan?",
    "tsduel tsbs --candidte v1": "No such option '--candidte'. Did you mean '--candidate'?",
    "tsduel --yes": "Option '--yes' requires an argument",
    # Versions.
    "make plan CANDIDATE=1.133.0": "did you mean v1.133.0?",
    "make plan BASELINE=v9.9.9": "variant baseline: 'v9.9.9' does not resolve for module",
    "make plan CANDIDATE=path:": "'path:' names nothing to build; write VERSION, module:VERSION",
    "make plan CANDIDATE=binary:": "'binary:' names nothing to build",
    "make plan CANDIDATE=git:": "'git:' names nothing to build",
    "make plan CANDIDATE=git:/x": "'git:/x' names no revision; write git:REPO@REF",
    "make plan CANDIDATE=git:/nowhere@main": "/nowhere is no git repository that can be read",
    "make plan CANDIDATE=patch:x": "'patch:x' names nothing to build; write VERSION, module:VERSION, git:REPO@REF",
    "make plan CANDIDATE=pth:../x": "did you mean path?",
    "make plan CANDIDATE=path:../nowhere": "nowhere: no such directory",
    "make plan CANDIDATE=path:README.md": "README.md: is no directory",
    "make plan CANDIDATE=binary:README.md": "'README.md' is no executable file",
    "make plan CANDIDATE=-x": "ref '-x' is no name of a revision",
    "tsduel v1.132.0": "is no git checkout: go into one of VictoriaMetrics",
    # Names and paths.
    "make plan EXPERIMENT=quik": "did you mean quick?",
    "make plan EXPERIMENT=experiments/quik.yml": "did you mean quick?",
    "make plan EXPERIMENT=experiments": "experiments: Is a directory; those of ours are in",
    "make plan EXPERIMENT=README.md": "README.md:3: not YAML",
    "make report RUN=exampl": "results/exampl: no such run; there are: example; did you mean example?",
    "make comment RUN=a/../b?": "is no name of a run",
    "make comment": "results/latest: no run has come to its end here; there are: example",
    "make stop RUN=nowhere": "results/nowhere: no such run",
    "make benchstat RUN=nowhere": "results/nowhere: no such run",
    "make compare-runs": "RUNS is not two runs or more",
    "make compare-runs RUNS='example nowhere'": "results/nowhere: no such run",
    "make museum EXHIBIT=vm-gog": "vm-gog: no exhibit of the museum; there are vm-10854",
    "make trend METRIC=foo": "METRIC: 'foo' is in no run; give cpu, time, load",
    "make gobench": "gobench: is needed: a package of the module, PACKAGE=./lib/storage",
    "make gobench PACKAGE=x": "gobench.package: 'x' is no package inside the module; write it like ./lib/storage",
    "make bisect": "GOOD is missing: make bisect GOOD=v1.131.0 BAD=v1.135.0",
    "make bisect GOOD=v1.132.0": "BAD is missing: make bisect GOOD=v1.131.0 BAD=v1.135.0",
    "make bisect GOOD=v1.132.0 BAD=v1.132.0 METRIC=cpu": "GOOD and BAD are the same revision",
    "make bisect GOOD=v1.132.0 BAD=v1.133.0 METRIC=no": "METRIC: 'no' is nothing that gets better or worse; give cpu",
    # Values of knobs.
    "make plan BLOCKS=ten": "BLOCKS: design.blocks: input should be a valid integer (it is 'ten')",
    "make plan BLOCKS=0": "BLOCKS: design.blocks: input should be greater than or equal to 1 (it is 0)",
    "make plan BLOCKS=010": "BLOCKS: YAML reads a number like this in base 8 or 60: write it without leading",
    "make plan SET=design.seed=9223372036854775808": "design.seed: input should be less than 9223372036854775808",
    "make plan SET=watchdog.block_s=9999999999": "watchdog.block_s: input should be less than or equal to 31622400",
    "make plan CANDIDATE=path:~Nobody": "~Nobody",
    "make plan SET=kind=[tsbs]": "kind: ['tsbs'] is not known; allowed: tsbs, gobench",
    f"make plan EXPERIMENT={'x' * 300}": "File name too long",
    "make plan BLOCKS=7.5": "BLOCKS: design.blocks: input should be a valid integer",
    "make plan TSBS_SCALE=0": "TSBS_SCALE: workload.scale: input should be greater than or equal to 1",
    "make plan TSBS_SCALE=many": "TSBS_SCALE: workload.scale: input should be a valid integer (it is 'many')",
    "make plan TSBS_START=2025-06-99": "TSBS_START: workload.start: not a time; write it like 2025-06-10T00:00:00Z",
    "make plan TSBS_START=yesterday": "TSBS_START: workload.start: not a time; write it like 2025-06-10T00:00:00Z",
    "make plan TSBS_END=2025-06-09T00:00:00Z": "is shorter than one interval of 80s",
    "make plan AA=yes": "AA: 'yes' is neither 1 nor 0",
    "make plan PROFILE=cpuu": "did you mean cpu?",
    "make plan TARGET=gpc": "TARGET: 'gpc' is no place for the blocks; allowed: local, ssh, gcp, k8s; did you",
    "make plan TARGET=gcp": "TARGET=gcp needs to know who pays: add GCP_PROJECT=your-project-id",
    "make plan TARGET=ssh": "TARGET=ssh needs to know the machine: add SSH_HOST=user@host",
    "make plan FAIL_ON=regresion": "did you mean regression?",
    # Keys, types and values of an experiment.
    "make plan SET=duel": "SET: 'duel' is not field=value; write SET=",
    "make plan SET=dule.seconds=3": "dule: unknown key; allowed here: capacity, design, duel",
    "make plan SET=duel.secnds=3": "duel.secnds: unknown key; allowed here:",
    "make plan SET=duel.seconds=abc": "duel.seconds: input should be a valid number (it is 'abc')",
    "make plan SET=duel.seconds=-1": "duel.seconds: input should be greater than 0 (it is -1)",
    "make plan SET=queries.types=[single-groupby-1-1-2]": "did you mean single-groupby-1-1-12?",
    "make plan SET=variants.candidate.target=victoriametric": "did you mean victoriametrics?",
    "make plan SET=variants.baseline.ref=1": "variants.baseline.ref: input should be a valid string (it is 1)",
    "make plan SET=host.port=99999": "host.port: input should be less than or equal to 65535",
    "make plan SET=workload.data_kind=irregula": "did you mean irregular?",
    "make plan SET=design.thresholds.duel_typcal_ms=2": "did you mean duel_typical_ms?",
    "make plan SET='design.load=in_turn design.loaded_by=baseline design.reload=once'": "leave out design.loaded_by",
    "make plan EXPERIMENT=twice.yml": "twice.yml:4: not YAML: the key duel is there twice, first in line 2",
}
INSTALLED = "import sys; from tsduel.cli.app import installed; sys.argv[0] = 'tsduel'; sys.exit(installed())"
"""As scripts/bootstrap installs it."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a checkout with the recorded run and an experiment whose key stands twice."""
    made = Checkout(tmp_path_factory.mktemp("mistakes") / "checkout")
    (made.path / "twice.yml").write_text("name: x\nduel: {seconds: 1}\nworkload: {scale: 4}\nduel: {seconds: 2}\n")
    program = made.path / ".venv/bin/tsduel"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={made.path} exec {made.path}/.venv/bin/python -c "{INSTALLED}" "$@"\n')
    program.chmod(0o755)
    shutil.copytree(PROJECT / "results/example", made.path / "results/example")
    return made.path


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_one_sentence_and_makes_no_run(home, typed):
    """Without a trace of ours, or of a library; make adds its own line."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "TSBS_")) and k not in KNOBS}
    clean["PATH"] = f"{home}/.venv/bin:{clean['PATH']}"
    before = set((home / "results").iterdir()) if (home / "results").exists() else set()
    done = subprocess.run(
        ["/bin/sh", "-c", typed],
        cwd=home,
        env=clean,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode in {1, 2}
    assert MISTAKES[typed] in done.stderr
    assert not re.search(r"Traceback|Pydantic|default factory|File \"", done.stdout + done.stderr)
    told = [line for line in done.stderr.splitlines() if line.startswith("tsduel:")]
    assert 1 <= len(told) <= 2
    assert set((home / "results").iterdir() if before else []) <= before
