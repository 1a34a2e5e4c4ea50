"""run.log: one log a run, from every stage, in UTC with levels; it has the last words of programs that failed."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from asking import FAKES

from tsduel.core import runlog
from tsduel.core.errors import UserError

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (INFO   |WARNING|ERROR  ) [a-z-]+: \S.*")


def log(run_dir):
    """Return the lines, each of which has time, level and source."""
    lines = (run_dir / "run.log").read_text().splitlines()
    assert [line for line in lines if not LINE.fullmatch(line) or not line.isprintable()] == []
    return lines


def test_what_a_stage_prints_is_kept_and_how_it_failed(tmp_path, capsys):
    """Each stage appends; half a line waits for its other half; the terminal gets the same as without a log."""
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
    lines = [line[21:] for line in log(run_dir)]
    assert lines[:8] == [
        "INFO    plan: stage plan begins",
        "INFO    plan: one",
        "INFO    plan: two [2J",
        "INFO    plan: words",
        "ERROR   plan: no such thing: make one",
        "ERROR   plan: or another",
        "INFO    tidy: stage tidy begins",
        "ERROR   tidy: a defect of ours: ZeroDivisionError('integer division or modulo by zero')",
    ]
    assert lines[8].endswith("Traceback (most recent call last):")
    assert lines[-1].endswith("ZeroDivisionError: integer division or modulo by zero")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("one\ntwo\x1b[2J\n", "words\n")


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path):
    """A full disk, a directory that is not ours."""
    (tmp_path / "run.log").mkdir()
    runlog.write(tmp_path, "INFO", "x", "y")
    runlog.write(tmp_path / "absent", "INFO", "x", "y")
    with runlog.recording(tmp_path, "x"):
        sys.stdout.write("y\n")


def test_the_go_program_writes_the_same_lines_over_several_sessions(project):
    """A session that was refused, one that a power cut ended within a line, and the one that finished the run."""
    project.plan(duel={"enabled": False})
    built = project.run_dir / "build" / "candidate.json"
    built.rename(project.root / "candidate.json")
    project.run(expect=2)
    events = project.run_dir / "raw/host1/events.jsonl"
    with events.open("ab") as stream:
        stream.write(b'{"t":1,"event":"no')
    (project.root / "candidate.json").rename(built)
    project.run()
    lines = log(project.run_dir)
    assert "ERROR   tsduel-host: the run has stopped: candidate is not built: run 'make build RUN=r'" in lines[0]
    assert lines[-1].endswith("INFO    tsduel-host: all blocks are run")
    ends = [event for event in project.events() if event["event"] == "run-end"]
    assert [(event["status"], event["code"]) for event in ends] == [("failed", 2), ("ok", 0)]
    assert sum("tsduel-host: block 1 " in line for line in lines) >= 6


@pytest.mark.parametrize(
    ("mode", "sentences"),
    [
        ("die-in-load", ("the server (pid ", ") died: info: serving (its log: ")),
        ("503", ("the server answers HTTP status 503", "info: serving (its log: ")),
    ],
)
def test_a_failed_block_has_the_words_of_client_and_server(project, mode, sentences):
    """In one printable line."""
    side = {"source": "binary", "path": str(FAKES / "database"), "env": {"FAKE_MODE": mode}}
    project.plan(variants={"baseline": side, "candidate": side}, watchdog={"load_stall_s": 2}, duel={"enabled": False})
    project.run()
    message = project.block("001")["failures"][0]["message"]
    assert all(sentence in message for sentence in sentences), message
    assert message.isprintable()


def test_what_several_threads_print_is_kept_once(tmp_path):
    """Hosts that are made at once are told by a thread each."""

    def tell(host):
        for line in range(200):
            sys.stdout.write(f"host{host} line {line}\n")

    sys.setswitchinterval(1e-6)
    try:
        with runlog.recording(tmp_path, "provision"), ThreadPoolExecutor(8) as hosts:
            list(hosts.map(tell, range(8)))
    finally:
        sys.setswitchinterval(0.005)
    told = sorted(line.partition(": ")[2] for line in log(tmp_path) if "host" in line)
    assert told == sorted(f"host{host} line {line}" for host in range(8) for line in range(200))
