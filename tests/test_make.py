"""The Makefile: its help, the order of its stages, and that it never executes the value of a knob."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from checkout import PROJECT, Checkout

from tsduel.cli.knobs import KNOBS


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a checkout with one run."""
    made = Checkout(tmp_path_factory.mktemp("make") / "checkout")
    made.results("there").mkdir(parents=True)
    return made.path


@pytest.fixture(autouse=True)
def _at_home(home, monkeypatch):
    monkeypatch.chdir(home)


def make(*arguments, **environment):
    """Run make in this directory with only the given knobs."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "TSBS_")) and k not in KNOBS}
    return subprocess.run(["make", *arguments], env=clean | environment, capture_output=True, text=True, check=False)


def refused(done):
    """Return what a refused make printed before its own last line; nothing was executed, and no run was made."""
    assert done.returncode == 2
    said, _, own = done.stderr.rpartition("make: *** ")
    assert re.search(r"Error \d\n$", own)
    assert not Path("pwned").exists()
    assert not Path("results/test-knobs").exists()
    assert "Traceback" not in done.stderr
    return said


# What people have in their environment, and what nothing of ours may take from it.
HOSTILE = {
    **dict.fromkeys(("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "BASH_ENV", "ENV"), "/nonexistent"),
    **dict.fromkeys(("GIT_DIR", "GIT_INDEX_FILE", "GOROOT", "GOENV", "ANSIBLE_CONFIG", "PIP_TARGET"), "/nonexistent"),
    "PIP_USER": "yes", "PIP_NO_BINARY": ":all:", "PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error", "GIT_PAGER": "false",
    "PYTHONIOENCODING": "latin-1", "LC_ALL": "C", "LANG": "xx_XX", "LANGUAGE": "de", "LC_NUMERIC": "de_DE.UTF-8",
    "CDPATH": "/usr:/", "SHELLOPTS": "noclobber:noglob", "BASHOPTS": "nocaseglob", "GLOBIGNORE": "*", "IFS": "/",
    "POSIXLY_CORRECT": "1", "BASH_FUNC_cd%%": "() { echo no; }", "BASH_FUNC_printf%%": "() { echo no; }",
    "GREP_OPTIONS": "-v", "TAR_OPTIONS": "--nonsense", "GIT_TRACE": "1", "GOFLAGS": "-mod=nonsense", "PS4": "x",
    "ANSIBLE_STDOUT_CALLBACK": "none", "TERM": "nonsense",
}  # fmt: skip


def test_the_first_commands_work_in_anybody_s_environment(tmp_path, monkeypatch):
    """Under forty variables that change shells, Python, pip, git, Go and Ansible: `make`, `make list`, and .venv."""
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    plain = make("help")
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "  make tsbs " in plain.stdout
    listed = make("list")
    assert listed.returncode == 0, listed.stderr
    # pip.conf as well: a fresh clone whose lock is empty, so that nothing is downloaded.
    shutil.copytree(PROJECT / "scripts", tmp_path / "scripts")
    (tmp_path / "requirements.lock").touch()
    (tmp_path / "pip.conf").write_text("[global]\nuser = true\ntarget = /nonexistent\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", f"{tmp_path}/pip.conf")
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(["scripts/bootstrap", "requirements.lock"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".venv/.ready/requirements.lock").exists()


STAGES = ["plan", "provision", "build", "run", "give-back", "tidy", "compare", "report"]


def test_make_alone_prints_help():
    """One screen of what to type first, and by topic a sentence for each command, knob and experiment."""
    first = make()
    assert first.returncode == 0, first.stderr
    assert len(first.stdout.splitlines()) <= 40
    topics = {
        "commands": ("make tsbs", "make plan", "make report", "make test", "make test-all", "make bench"),
        "knobs": KNOBS, "experiments": ("local", "quick", "gate"), "bisect": ("GOOD", "BAD", "METRIC"),
    }  # fmt: skip
    for topic, words in topics.items():
        said = make("help", f"TOPIC={topic}").stdout
        assert [word for word in words if f"  {word} " not in said] == []
    assert "did you mean bisect?" in refused(make("help", "TOPIC=bisec"))


@pytest.mark.parametrize("words", [("tsbs", "EXPERIMENT=smoke"), ("gobench", "BENCH=^B$/^x$")])
def test_make_n_explains_the_stages(words):
    """It prints them in their order, and does nothing."""
    done = make("-n", *words)
    assert done.returncode == 0, done.stderr
    explained = next(line for line in done.stdout.splitlines() if line.startswith("# all stages"))
    named = [word.strip("(),") for word in explained.partition(": ")[2].split()]
    assert [word for word in named if word in STAGES] == STAGES
    assert done.stdout.splitlines()[-1].strip() == f".venv/bin/python -m tsduel {words[0]}"


def test_a_variable_that_is_no_knob_is_refused():
    """The sentence has the nearest knob, and nothing is planned."""
    said = refused(make("plan", "CANDIDTE=v1.134.0", "RUN=test-knobs"))
    assert said == "tsduel: CANDIDTE is no knob; did you mean CANDIDATE?\n"


def test_a_target_that_is_none_is_refused():
    """The sentence has the nearest target, or says how to see all."""
    assert refused(make("tsbss")) == "tsduel: 'tsbss' is no target; did you mean tsbs?\n"
    assert (
        refused(make("xyzzy", "CANDIDATE=v1"))
        == "tsduel: 'xyzzy' is no target; `make help TOPIC=commands` lists them\n"
    )
    for typed in ("a;touch pwned", "`touch pwned`", "'; touch pwned; '"):
        assert "is no target" in refused(make(typed))


def test_a_stray_word_is_refused_before_anything_is_measured():
    """A side without its name, a knob with spaces, the name of a file."""
    for typed in (["v1.134.0"], ["candidate", "v1.134.0"], ["experiments/quick.yml"]):
        said = refused(make("tsbs", *typed))
        assert said.startswith(f"tsduel: {typed[0]!r} is no target, and no knob, which is NAME=VALUE"), said


def test_every_stage_is_a_target():
    """A stage alone reads the newest run."""
    targets = [*STAGES[1:], "status", "stop", "fetch", "ssh", "destroy"]
    explained = make("-n", *targets).stdout.splitlines()
    assert [target for target in targets if f".venv/bin/python -m tsduel {target}" not in explained] == []


EVIL = "$(touch pwned)$(shell touch pwned)'; touch pwned; '`touch${IFS}pwned`"
MISSING = f"tsduel: {EVIL}: No such file or directory"
LOGS = dict.fromkeys(("BASELINE_LOG", "CANDIDATE_LOG"), str(PROJECT / "tests/data/logs/baseline.log"))
FURTHER = {"gobench": {"BASELINE": "-v"}, "import": LOGS}


@pytest.mark.parametrize(
    ("target", "knob", "value", "sentence"),
    [
        ("plan", "BASELINE", "$(touch pwned)", "'$(touch pwned)' is no name of a revision"),
        ("plan", "BASELINE", "$(shell touch pwned)", "'$(shell touch pwned)' is no name of a revision"),
        ("plan", "CANDIDATE", "'; touch pwned; '", "is no name of a revision"),
        ("plan", "SET", '"; touch pwned; "', "SET: '; touch pwned; ' is not field=value"),
        ("plan", "SET", "workload.scale=`touch${IFS}pwned`", "workload.scale: '`touch${IFS}pwned`' is not a value"),
        ("plan", "SET", "name=$$(shell touch pwned)", "SET: 'touch' is not field=value"),
        ("plan", "EXPERIMENT", "$(touch pwned).yml", "$(touch pwned).yml: No such file or directory; those of ours "),
        ("plan", "RUN", "$(touch pwned)", "RUN: '$(touch pwned)' is no name of a run"),
        ("plan", "RUN", '"; touch pwned; "', "is no name of a run"),
        ("plan", "RUN", "#hash 'quotes'", "RUN: \"#hash 'quotes'\" is no name of a run"),
        *(
            ("gobench", knob, EVIL, f"tsduel: make gobench with BASELINE {knob}: ")
            for knob in ("MODULE", "PACKAGE", "BENCH", "PROFILE")
        ),
        *(("import", knob, EVIL, MISSING) for knob in LOGS),
        ("tsbs-plot-load", "TSBS_LOAD_RESULT_CSV_FILE", EVIL, MISSING),
    ],
)
def test_a_knob_is_text_and_nothing_else(target, knob, value, sentence):
    """Neither make nor a shell expands anything in an argument or a variable; the error has the value as typed."""
    given = {"RUN": "test-knobs"} | FURTHER.get(target, {}) | {knob: value}
    # Each takes a second, so half are arguments and half are variables.
    as_argument = len(knob + value) % 2
    arguments = [f"{knob}={given.pop(knob)}"] if as_argument else []
    assert sentence in refused(make(target, *arguments, **given))


def test_a_run_that_is_not_there():
    """A stage of a run that does not exist names the existing ones."""
    assert "results/no-such: no such run; there are: " in make("tidy", "RUN=no-such").stderr
