"""The command line: its stages, and its sentences for what was mistyped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import plans
import pytest
from gitrepo import Repository

from tsduel.bisect import steps
from tsduel.cli import app, home, pipeline, stage
from tsduel.cli.commands import COMMANDS, by_topic, refuse_unread
from tsduel.cli.knobs import KNOBS
from tsduel.core import results, runlock
from tsduel.core.errors import UserError
from tsduel.question import knobs

PROJECT = Path(__file__).resolve().parent.parent
STAGES = ["plan", "provision", "build", "run", "give-back", "tidy", "compare", "report"]


@pytest.fixture
def tsduel(capfd, monkeypatch):
    """Return a function that types `tsduel` in a directory, with a home of its own."""

    def type_(*words, cwd, **more):
        clean = {k: v for k, v in os.environ.items() if k not in KNOBS and not k.startswith(("XDG_", "TSDUEL_"))}
        monkeypatch.chdir(cwd)
        with (
            mock.patch.dict(os.environ, clean | {"HOME": str(cwd / "home")} | more, clear=True),
            mock.patch.multiple(sys, argv=["tsduel", *words], stdout=sys.stdout, stderr=sys.stderr),
        ):
            try:
                code = app.installed()
            except SystemExit as ended:
                code = ended.code or 0
        return subprocess.CompletedProcess(words, code, *capfd.readouterr())

    return type_


@pytest.fixture
def stages(monkeypatch, tmp_path):
    """Return the stages that are called, each with its further words, and a dict of the exit codes that they have."""
    made, codes = [], {}
    monkeypatch.setenv("TSDUEL_RESULTS", str(tmp_path))

    def call(command, environment, *, keep=()):
        run_dir, name = tmp_path / environment.get("RUN", ""), command[command.index("-m") + 2]
        if name == "plan":
            (run_dir / "plan").mkdir(parents=True)
            (run_dir / "plan/experiment.json").touch()
        # What is not asked for the run alone has the lock of the whole command.
        held = runlock.holder(run_dir)
        assert (held is not None) == bool(keep) == (name not in {"look", "plan", "history-of"})
        failed = environment.get("TSDUEL_FAILED")
        made.append((*command[command.index("-m") + 2 :], *filter(None, [failed])))
        return codes.get(made[-1][0], 0)

    monkeypatch.setattr(pipeline.children, "call", call)
    return made, codes


class TestStages:
    """The order of a comparison."""

    @pytest.mark.parametrize(
        ("given", "expected"),
        [({}, STAGES), ({"AA": "1"}, [*STAGES[:-1], "keep", "report"]), ({"AA": "0"}, STAGES)],
    )
    def test_all_in_order_after_a_look_at_the_machine(self, stages, given, expected):
        """Each runs once; after an A/A run `keep` follows."""
        assert pipeline.compare({"KIND": "tsbs", **given}) == 0
        assert [words[0] for words in stages[0]] == ["look", *expected]

    @pytest.mark.parametrize("failing", ["build", "run"])
    def test_a_failure_gives_rented_machines_back(self, stages, failing):
        """With the exit code of the stage, which says whether they are kept; no later stage runs."""
        stages[1].update({failing: 3, "give-back": 3})
        assert pipeline.compare({"KIND": "tsbs"}) == 3
        assert stages[0][-2:] == [(failing,), ("give-back", "3")]

    def test_another_failure_is_the_end(self, stages):
        """What came of the run is there already, or nothing was rented yet."""
        stages[1]["tidy"] = 2
        assert pipeline.compare({"KIND": "tsbs"}) == 2
        assert stages[0][-1] == ("tidy",)

    def test_a_metric_that_is_none_is_refused_before_the_first_block(self, stages, monkeypatch):
        """And not once the picture is drawn."""
        monkeypatch.setenv("METRIC", "cpuu")
        with pytest.raises(UserError, match="METRIC: 'cpuu' is nothing that gets better or worse"):
            pipeline.history()
        assert stages[0] == []

    def test_a_history_of_benchmarks_follows_their_metrics(self, stages, monkeypatch):
        """KIND says what METRIC may be."""
        for name, value in {"KIND": "gobench", "METRIC": "allocs", "VERSIONS": "v1 v2"}.items():
            monkeypatch.setenv(name, value)
        assert pipeline.history() == 0
        assert stages[0][-1] == ("history-of",)

    @pytest.mark.usefixtures("stages")
    def test_a_history_that_is_there_is_drawn_by_the_metrics_of_its_kind(self, monkeypatch):
        """KIND need not be said again."""
        plans.write(results.home() / "h", kind="gobench", gobench={"module": "m", "package": "./p", "bench": "."})
        monkeypatch.setattr(pipeline, "compare", lambda _: 2)
        for name, value in {"RUN": "h", "METRIC": "allocs"}.items():
            monkeypatch.setenv(name, value)
        assert pipeline.history() == 2
        monkeypatch.setenv("METRIC", "load")
        with pytest.raises(UserError, match="METRIC: 'load' is nothing that gets better or worse"):
            pipeline.history()

    def test_a_history_is_a_comparison_and_a_picture(self, stages, monkeypatch):
        """The picture is of the same run."""
        monkeypatch.setenv("VERSIONS", "v1 v2 v3")
        assert pipeline.history() == 0
        assert [words[0] for words in stages[0]] == ["look", *STAGES, "history-of"]
        for code in (4, 5, 6):
            stages[1]["report"] = code
            monkeypatch.setenv("RUN", f"r{code}")
            assert pipeline.history() == code
            assert stages[0][-1] == ("history-of",)
        stages[1]["report"] = 2
        monkeypatch.setenv("RUN", "r2")
        assert pipeline.history() == 2
        assert stages[0][-1] == ("report",)

    def test_a_search_that_was_killed_while_it_began_begins_again(self, tmp_path, monkeypatch):
        """Its directory is there, and not what is searched."""
        begun = []
        monkeypatch.setenv("RUN", "b")
        monkeypatch.setenv("TSDUEL_RESULTS", str(tmp_path))
        monkeypatch.setattr(steps, "opened", lambda *_: begun.append(runlock.holder(tmp_path / "bisect/b")))
        monkeypatch.setattr(steps, "following", lambda *_: {})
        monkeypatch.setattr(pipeline.children, "call", lambda *_, **__: 0)
        (tmp_path / "bisect/b").mkdir(parents=True)
        assert pipeline.bisect() == 0
        assert begun == [None]

    @pytest.mark.usefixtures("stages")
    def test_a_second_search_of_one_name_asks_for_no_step(self, tmp_path, monkeypatch):
        """A run that the first one holds would end with 2, and count as a revision without a figure."""
        monkeypatch.setenv("RUN", "b")
        monkeypatch.setattr(steps, "following", lambda *_: pytest.fail("a step was asked for"))
        (tmp_path / "bisect/b").mkdir(parents=True)
        said = r"bisect/b: `make bisect` \(pid \d+, since \S+\) writes this run now"
        with runlock.holding(tmp_path / "bisect/b", "bisect"), pytest.raises(UserError, match=said):
            pipeline.bisect()

    def test_a_run_is_named_after_what_is_asked(self):
        """The time, and the experiment's file; whatever is typed makes a name that is one."""
        assert pipeline.new_run({"EXPERIMENT": "experiments/quick.yml"}, "tsbs").endswith("Z-quick")
        assert pipeline.new_run({}, "tsbs").endswith("Z-local")
        assert pipeline.new_run({}, "gobench").endswith("Z-gobench")
        assert pipeline.new_run({"EXPERIMENT": "$(touch pwned)"}, "tsbs").endswith("Z---touch-pwned-")
        assert results.RUN_NAME.fullmatch(pipeline.new_run({"EXPERIMENT": f"{'long' * 60}.yml"}, "tsbs"))


def test_every_knob_that_is_read_is_in_the_table():
    """Make, options and help have it then."""
    assert set(knobs.NAMES) <= set(KNOBS)
    options = {name for command in COMMANDS.values() for name in command.knobs}
    assert set(KNOBS) - options == {"FAST", "JUDGE", "PYTHON", "TOPIC"}


TYPOS = {
    "raport": "report",
    "BLCKS=4": "BLOCKS",
    "sttus": "status",
    "wach": "watch",
    "lst": "list",
    "plan CANDIDTE=v1.134.0": "CANDIDATE",
    "plan BASLINE=v1.134.0": "BASELINE",
    "tsbs EXPERMENT=quick": "EXPERIMENT",
    "bisect GOD=v1.131.0": "GOOD",
    "plan --candidte v1.134.0": "--candidate",
    "report --jsn": "--json",
    "plan x EXPERIMENT=quik": "quick",
    "plan x EXPERIMENT=experiments/capcity.yml": "capacity",
    "plan x EXPERIMENT=quick CANDIDATE=1.132.0": "v1.132.0",
    "plan x EXPERIMENT=quick CANDIDATE=path:repositry": "repository",
    "plan x EXPERIMENT=quick CANDIDATE=git:repository@mein": "main",
    "plan x EXPERIMENT=quick TARGET=shh": "ssh",
    "plan x EXPERIMENT=quick SET=workload.scal=100": "scale",
    "plan x EXPERIMENT=quick SET=queries.types=[cpu-max-al-1]": "cpu-max-all-1",
    "plan x EXPERIMENT=quick SET=variants.baseline.target=victoriametric": "victoriametrics",
    "plan x EXPERIMENT=quick PROFILE=cpuu": "cpu",
    "run x VIEW=plian": "plain",
    "plan x FAIL_ON=regresion": "regression",
    "tidy lates": "latest",
    "completion bsh": "bash",
}


@pytest.mark.parametrize("typed", TYPOS)
def test_a_typo_is_a_sentence_with_the_right_word(tsduel, tmp_path, typed):
    """One line on stderr, exit code 2, and no run is made."""
    Repository(tmp_path / "repository").commit()
    done = tsduel(*typed.split(" "), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (said,) = done.stderr.splitlines()
    assert said.startswith("tsduel: ")
    assert TYPOS[typed] in said.partition("; ")[2] or said.endswith(f"'{TYPOS[typed]}'?") or f"'{TYPOS[typed]}'" in said
    assert not list((tmp_path / "home").glob("**/plan"))


def test_a_knob_that_a_command_does_not_read_is_refused():
    """With some of those that do; what is of make itself is taken everywhere."""
    for name, knob, readers in (
        ("plan", "QUERIES", "queries-check"), ("list", "RUN", "doctor, tsbs, "), ("comment", "CANDIDATE", "doctor, "),
        ("tidy", "FAIL_ON", "doctor, tsbs, "), ("tsbs", "METRIC", "bisect, worst, history, "),
    ):  # fmt: skip
        with pytest.raises(UserError, match=f"^{knob}: `{name}` does not read it; these read it: {readers}"):
            refuse_unread([name], ["PYTHON", knob])
    refuse_unread(["report"], ["RUN", "FAIL_ON", "TSDUEL_CACHE"])
    refuse_unread(["build", "plan"], ["RUN", "EXPERIMENT"])


def test_a_directory_that_is_missing_is_said_to_be(tsduel, tmp_path):
    """The sentence does not speak of git."""
    done = tsduel("plan", "x", "EXPERIMENT=quick", "CANDIDATE=path:nowhere", cwd=tmp_path)
    assert done.stderr.endswith("/nowhere: no such directory\n")


def test_help_is_by_topic_and_loads_nothing(tsduel, tmp_path):
    """Every command has its line; no library but click is imported for it."""
    said = tsduel("--help", cwd=tmp_path).stdout
    for topic, commands in by_topic():
        assert f"\n{topic}:\n" in said
        assert all(f"\n  {name} " in said for name, _ in commands)
    assert "130 interrupted" in said
    code = "import sys; from tsduel.cli import app; sys.argv[1:] = ['--help']; app.main(); print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert not any(f"'{name}'" in loaded.stdout for name in ("pandas", "numpy", "pydantic", "rich", "yaml"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_knobs_and_runs(tsduel, tmp_path, shell):
    """Each shell gets a script, and what is completed is the same for all."""
    assert "_TSDUEL_COMPLETE" in tsduel("completion", shell, cwd=tmp_path).stdout
    (tmp_path / "runs/r1/plan").mkdir(parents=True)
    for words, number, expected in (
        ("tsduel stat", 1, "status"), ("tsduel tsbs CAND", 2, "CANDIDATE="), ("tsduel report r", 2, "r1"),
    ):  # fmt: skip
        asked = {"_TSDUEL_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        if shell == "fish":
            asked["COMP_CWORD"] = words.split(" ")[-1]
        said = tsduel(cwd=tmp_path, TSDUEL_RESULTS=str(tmp_path / "runs"), **asked).stdout
        assert expected in said


class TestHome:
    """Where results and caches lie."""

    def test_outside_our_checkout_as_xdg_says(self, tmp_path, monkeypatch):
        """Its variables count where they are absolute; --results counts more."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        environment = {"XDG_CACHE_HOME": "/var/c", "XDG_DATA_HOME": "not/absolute"}
        home.settle(environment)
        assert environment["TSDUEL_CACHE"] == "/var/c/tsduel"
        assert environment["TSDUEL_RESULTS"] == f"{tmp_path}/.local/share/tsduel/results"
        home.settle(environment, results="mine")
        assert environment["TSDUEL_RESULTS"] == f"{tmp_path}/mine"

    def test_in_our_checkout_as_with_make(self, monkeypatch):
        """Results and caches are in it, from any of its directories."""
        environment = {}
        monkeypatch.chdir(PROJECT)
        home.settle(environment)
        assert environment == {}
        monkeypatch.chdir(PROJECT / "host")
        home.settle(environment)
        assert environment == {"TSDUEL_RESULTS": str(PROJECT / "results")}


QUICKLY = (f"BASELINE=binary:{sys.executable}", f"CANDIDATE=binary:{sys.executable}")
"""Sides that take no network."""


@pytest.mark.parametrize(("command", "tried"), [("destroy", ["a", "b", "c"]), ("report", ["a"])])
def test_one_run_of_a_study_that_cannot_be_given_back_does_not_keep_the_others(monkeypatch, command, tried):
    """Each other stage ends with the first that fails."""
    done = []

    def execute(_, __, run):
        done.append(run)
        if run == "a":
            raise UserError("a: a disk is left")

    monkeypatch.setattr(stage, "_execute", execute)
    with pytest.raises(UserError, match="a: a disk is left"):
        stage._of_each(COMMANDS[command], command, ["a", "b", "c"])
    assert done == tried


def test_programs_read_runs_and_their_state(tsduel, tmp_path):
    """`list` is a list of objects, `status` an object; stdout has nothing else."""
    results = ("--results", str(tmp_path / "runs"))
    done = tsduel("plan", "x", "EXPERIMENT=quick", *QUICKLY, *results, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(tsduel("list", "--json", *results, cwd=tmp_path).stdout)
    assert (run["run"], run["state"], run["kind"]) == ("x", "planned", "tsbs")
    state = json.loads(tsduel("status", "x", "--json", *results, cwd=tmp_path).stdout)
    assert state == {"run": "x", "state": "planned", "finished": 0, "planned": 9}
    assert "tsduel tsbs RUN=x" in done.stdout


def test_stages_are_about_the_newest_plan_and_latest_is_what_was_compared(tsduel, tmp_path):
    """After plans alone there is no latest: one sentence says so."""
    results = ("--results", str(tmp_path / "runs"))
    for name in ("one", "two"):
        assert tsduel("plan", name, "EXPERIMENT=quick", *QUICKLY, *results, cwd=tmp_path).returncode == 0
    assert tsduel("provision", *results, cwd=tmp_path).returncode == 0
    assert (tmp_path / "runs/two/host").exists()
    assert not (tmp_path / "runs/latest").exists()
    said = tsduel("comment", *results, cwd=tmp_path).stderr
    assert said.endswith("runs/latest: no run has come to its end here; there are: one, two\n")
    # After a stage that failed, its exit code is that of the whole.
    assert tsduel("give-back", *results, cwd=tmp_path, TSDUEL_FAILED="2").returncode == 2


def test_the_cache_has_a_name_for_every_program_that_is_called():
    """Also where nobody has set TSDUEL_CACHE, as in a fresh clone."""
    environment = {}
    home.keep_out_of_home(environment)
    assert environment["TSDUEL_CACHE"] == str(PROJECT / ".cache")


def test_the_gate_fails_on_a_regression_by_itself(monkeypatch):
    """And what is typed goes before what it sets."""
    monkeypatch.setattr(pipeline, "compare", lambda environment: [environment[n] for n in ("EXPERIMENT", "FAIL_ON")])
    for name in ("EXPERIMENT", "FAIL_ON"):
        monkeypatch.delenv(name, raising=False)
    assert pipeline.gate() == ["gate", "regression"]
    monkeypatch.setenv("EXPERIMENT", "mine")
    assert pipeline.gate() == ["mine", "regression"]
