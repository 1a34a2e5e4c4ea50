"""run.log: one a run, from every stage, in UTC with levels; and the last words of what failed, which stand in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tsduel.core import runlog
from tsduel.core.errors import UserError

PROJECT = Path(__file__).resolve().parent.parent
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (INFO   |WARNING|ERROR  ) [a-z-]+: \S.*")


def log(run_dir):
    """Return the lines, each of which has time, level and source."""
    lines = (run_dir / "run.log").read_text().splitlines()
    assert [line for line in lines if not LINE.fullmatch(line) or not line.isprintable()] == []
    return lines


def test_what_a_stage_prints_is_kept_and_how_it_failed(tmp_path, capsys):
    """Appended by each stage; half a line waits for its other half; the terminal gets what it always got."""
    run_dir = tmp_path / "run"

    def stage():
        # The directory comes with the plan.
        run_dir.mkdir()
        sys.stdout.write("one\nt")
        sys.stdout.write("wo\x1b[2J\n")
        sys.stderr.write("words\n")
        raise UserError("no such thing: make one\nor another")

    with pytest.raises(UserError), runlog.recording(run_dir, "plan"):
        stage()
    with pytest.raises(ZeroDivisionError), runlog.recording(run_dir, "tidy"):
        _ = 1 // 0
    assert [line[21:] for line in log(run_dir)] == [
        "INFO    plan: stage plan begins",
        "INFO    plan: one",
        "INFO    plan: two [2J",
        "INFO    plan: words",
        "ERROR   plan: no such thing: make one",
        "ERROR   plan: or another",
        "INFO    tidy: stage tidy begins",
        "ERROR   tidy: a defect of ours: ZeroDivisionError('integer division or modulo by zero')",
    ]
    said = capsys.readouterr()
    assert (said.out, said.err) == ("one\ntwo\x1b[2J\n", "words\n")


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path):
    """A full disk, a directory that is not ours."""
    (tmp_path / "run.log").mkdir()
    runlog.write(tmp_path, "INFO", "x", "y")
    runlog.write(tmp_path / "absent", "INFO", "x", "y")
    with runlog.recording(tmp_path, "x"):
        sys.stdout.write("y\n")


def test_scripts_write_the_same_lines_over_several_sessions(project):
    """A run that was refused, one that failed, and the one that went on with it: all are there, in their order."""
    project.plan()
    (project.run_dir / "build" / "candidate.json").rename(project.root / "candidate.json")
    project.run(expect=2)
    (project.root / "candidate.json").rename(project.run_dir / "build" / "candidate.json")
    project.run()
    lines = log(project.run_dir)
    assert any("ERROR   run-rounds: candidate is not built: run 'make build RUN=r'" in line for line in lines)
    assert lines[-1].endswith("INFO    run-rounds: all rounds are run")
    events = (project.run_dir / "raw/events.jsonl").read_text()
    assert '"status":"failed","code":"2","message":"candidate is not built: run' in events
    assert sum("round-tsbs: 01-1-" in line for line in lines) >= 6


def test_a_line_that_the_power_cut_took_does_not_take_the_next(project):
    """Half a line in events.jsonl is dropped, and what follows is a line of its own."""
    project.plan()
    (project.run_dir / "raw").mkdir()
    events = project.run_dir / "raw/events.jsonl"
    events.write_bytes(b'{"t":1,"event":"no')
    project.run()
    assert [json.loads(line)["event"] for line in events.read_text().splitlines()][:2] == ["run-start", "round-start"]


WORDS = """set -Eeuo pipefail; cd "$1"; RUN_DIR=; TSDUEL_PROC=$1; DB_LOG=$1/x.partial/server.log
. "$2/scripts/lib/words.sh"; shift 2; "$@"
"""


class TestLastWords:
    """Of a log or a client's output, the line that says why."""

    @staticmethod
    def said(directory, *command):
        """Return what a function of lib/words.sh prints."""
        return subprocess.run(
            ["bash", "-c", WORDS, "bash", directory, PROJECT, *command], capture_output=True, text=True, check=True
        ).stdout

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("info: x\nflag provided but not defined: -no\nUsage:\n", "flag provided but not defined: -no"),
            ("T\tinfo\tup\nT\tfatal\tmain.go:7\tno space left\nT\tinfo\tbye\n", "T fatal main.go:7 no space left"),
            ("panic: index out of range\n\ngoroutine 7 [running]:\nmain.f()\n", "panic: index out of range"),
            ("T\twarn\told\nT\twarn\ttoo many series\nT\tinfo\tfine\n", "T warn too many series"),
            ("T\tinfo\tone\nT\tinfo\ttwo \x1b[31m\n", "T info two [31m"),
            ("", ""),
        ],
    )
    def test_of_a_server(self, tmp_path, text, words):
        """A crash before its stack, else the newest complaint, else the last line; and where its log will be."""
        (tmp_path / "x.partial").mkdir()
        (tmp_path / "x.partial/server.log").write_text(text)
        assert self.said(tmp_path, "last_words") == f"{words} (its log: {tmp_path}/x/server.log)"

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("panic: status 422\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:7\n", "panic: status 422"),
            (
                "2026/11/20 14:00:00 dial tcp: connection refused\n\n",
                "2026/11/20 14:00:00 dial tcp: connection refused",
            ),
            ("zstd: data.zst : Data corruption detected\nend\n", "zstd: data.zst : Data corruption detected"),
            ("", "it said nothing"),
        ],
    )
    def test_of_a_client(self, tmp_path, text, words):
        """What Go prints before its stack, or the last line that is not empty."""
        (tmp_path / "err").write_text(text)
        assert self.said(tmp_path, "client_words", "err", "absent").strip() == words

    def test_of_a_signal_and_of_the_memory(self, tmp_path):
        """Exit codes above 128 have a name; a process that the kernel has ended since the round began is told."""
        assert self.said(tmp_path, "exit_words", "137") == "exit code 137 (KILL)"
        assert self.said(tmp_path, "exit_words", "2") == "exit code 2"
        (tmp_path / "vmstat").write_text("pgfault 7\noom_kill 3\n")
        os.environ.pop("OOM_KILLS", None)
        assert self.said(tmp_path, "eval", "OOM_KILLS=3; want_of_memory") == ""
        assert "for want of memory in this round" in self.said(tmp_path, "eval", "OOM_KILLS=2; want_of_memory")


def test_a_step_of_ours_that_fails_is_named(project):
    """File, line and command, in place of a bare exit code."""
    project.plan()
    (project.scripts / "targets/fake/size").write_text("#!/bin/sh\nexit 7\n")
    message = project.round_alone()["failure"]["message"]
    assert re.fullmatch(r"a step of ours ended with exit code 7: \w+\.sh:\d+: .*", message), message


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("die-in-load", ["the server (pid ", ") died: info: serving (its log: "]),
        ("query-error", ["exit code 2: panic: http request did not return status 200", "; info: serving (its log: "]),
        ("503", ["the server answers HTTP status 503; info: serving (its log: "]),
    ],
)
def test_a_failed_round_carries_both_sides_words(project, name, sentences):
    """The client's and the server's, in one printable line."""
    binary = {"source": "binary", "path": str(PROJECT / "tests/fakes/database"), "env": {"FAKE_MODE": name}}
    project.plan(variants={"baseline": binary, "candidate": binary}, watchdog={"load_stall_s": 2})
    message = project.round_alone()["failure"]["message"]
    assert all(sentence in message for sentence in sentences), message
    assert message.isprintable()
