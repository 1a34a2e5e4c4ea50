"""A full disk, and files as a power cut leaves them: told as what they are, and the same command goes on."""

from __future__ import annotations

import contextlib
import json

import pytest
from fakeproject import replace, wait_for

from tsduel import __main__ as command_line
from tsduel.core import files

MIB = 1 << 20


def fill(directory):
    """Write until there is no room; return the file."""
    ballast = directory / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as stream:
        while stream.write(bytes(MIB)):
            pass
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as stream:
        while stream.write(bytes(512)):
            pass
    return ballast


def small_estimates(run_dir, mib=1):
    """Let the plan expect next to nothing of the disk."""
    plan = run_dir / "plan" / "experiment.json"
    resolved = json.loads(plan.read_text())
    resolved["estimate"] |= {"database_bytes": mib * MIB, "results_bytes": MIB}
    plan.write_text(json.dumps(resolved))


class TestFullDisk:
    """The sentence names the disk and the remedy, exit code 2, and no round is lost or counted as failed."""

    @pytest.mark.parametrize(("which", "phase"), [("results", "load"), ("results", "query"), ("scratch", "load")])
    def test_a_disk_that_fills_up_in_a_round(self, project, small_disk, which, phase):
        """The round is no failure of its variant; once there is room the same command does it again."""
        directory = project.root / "results" if which == "results" else project.cache / "scratch"
        small_disk(directory, 40)
        project.plan()
        small_estimates(project.run_dir)
        if which == "scratch":
            # As a database does that cannot write: it says so and is gone.
            replace(
                project.scripts / "targets" / "fake" / phase,
                "exec",
                f"sleep 1; head -c 99K /dev/zero >>{directory}/data/x || exit 1; exec",
            )
        process = project.start(FAKE_LOAD_S="3", FAKE_QUERY_S="2")
        events = project.run_dir / "raw" / "events.jsonl"
        wait_for(lambda: events.exists() and f'"phase":"{phase}"' in events.read_text())
        ballast = fill(directory)
        said = project.end(process)
        assert process.returncode == 2, said
        place = project.run_dir if which == "results" else directory
        assert f"the disk of {place} is full (0 MiB are free): free some" in said
        assert "no finished round is lost. To go on: make tsbs RUN=r" in said
        assert project.alive() == []
        assert project.rounds() == []
        ballast.unlink()
        project.run()
        assert project.rounds() == sorted(project.order())
        assert [project.round(name)["failure"] for name in project.rounds()] == [None, None]
        for line in events.read_text().splitlines():
            json.loads(line)

    def test_a_version_that_fills_the_disk_has_failed(self, project, small_disk):
        """Its files are more than was expected of them: a result, which is kept and never silently repeated."""
        scratch = small_disk(project.cache / "scratch", 40)
        project.plan()
        small_estimates(project.run_dir)
        filler = f"head -c 50M /dev/zero >{scratch}/data/x; exec"
        replace(project.scripts / "targets" / "fake" / "load", "exec", filler)
        project.run()
        message = project.round(project.order()[0])["failure"]["message"]
        assert f"; the disk of {scratch} is full: its files take " in message
        assert message.endswith(" MiB, and 1 were expected")

    def test_full_before_the_first_round(self, project, small_disk):
        """Nothing can be written at all, and that is still a sentence."""
        small_disk(project.root / "results", 40)
        project.plan()
        fill(project.root / "results")
        said = project.run(expect=2)
        assert f"the disk of {project.run_dir} is full (0 MiB are free): free some there; " in said

    def test_a_stage_in_python_says_it_as_well(self, small_disk, tmp_path, monkeypatch, capsys):
        """No stack trace, exit code 2; other mistakes of the machine, too."""
        disk = small_disk(tmp_path / "results", 1)
        fill(disk)

        def write(*_args):
            files.write(disk / "x", "y" * MIB)

        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(command_line.STAGES, "tidy", command_line.Stage("", write, makes_run=True))
        monkeypatch.setattr("sys.argv", ["tsduel", "tidy", "r"])
        assert command_line.main() == 2
        assert "its disk is full; free some, then type the same command again" in capsys.readouterr().err


class TestTorn:
    """Files that were cut short: dropped, made again, or refused with a sentence, and never read."""

    def test_whatever_a_power_cut_leaves_is_put_in_order(self, project):
        """Half an event, empty records, half a round with a name and one without."""
        project.plan(design={"blocks": 1, "warmup_blocks": 1}, queries={"count": None, "seconds": 0.2, "max_count": 40})
        project.run()
        raw, order = project.run_dir / "raw", project.order()
        counts = (raw / "calibration.json").read_text()
        events = raw / "events.jsonl"
        whole = events.read_text()
        events.write_text(whole + '{"t": 1, "event": "round-sta')
        for name in ("calibration.json", "workload.json", "noise.json", "host.json"):
            (raw / name).write_text("")
        (raw / order[-1] / "round.json").write_text('{"status": "o')
        (raw / f"{order[0]}.partial").mkdir()
        (raw / f"{order[0]}.partial" / "round.json").write_text("{")
        said = project.run()
        assert f"{events} was cut off in the middle of a line: 28 bytes of it are dropped" in said
        assert f"{raw}/calibration.json was cut short (a power cut?): it is made again" in said
        assert f"{order[-1]} has no record that can be read (a power cut?): it is run again" in said
        assert said.count(" begins (") == 1
        assert events.read_text().startswith(whole)
        assert [json.loads(line)["event"] for line in events.read_text().splitlines()][-1] == "run-end"
        assert (raw / "calibration.json").read_text() == counts
        for name in ("workload.json", "noise.json", "host.json"):
            assert json.loads((raw / name).read_text())
        assert not list(raw.glob("*.partial"))

    def test_a_signal_that_hits_a_step_before_us_is_no_failure_of_the_round(self, project):
        """A closed terminal ends our helpers and us in any order: the round is interrupted, and is run again."""
        project.plan()
        replace(project.scripts / "targets" / "fake" / "size", "exec", "kill -TERM $PPID; exit 143; exec")
        process = project.start()
        said = project.end(process)
        assert process.returncode == 130, said
        assert project.rounds() == []

    def test_a_step_that_fails_is_named(self, project):
        """Whoever reads the record can see where to look."""
        project.plan()
        replace(project.scripts / "targets" / "fake" / "size", "exec", "exit 7; exec")
        failure = project.round_alone()["failure"]
        assert failure["message"].startswith("a step of ours ended with exit code 7: ")
