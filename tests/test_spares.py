"""Spare blocks: drawn with the plan, run once in place of what outside causes spoilt, and counted in its place."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import pytest
import synthetic
from fakeproject import PATIENCE_S, wait_for

from plots import report
from tsduel.stats import compare
from tsduel.tidy import tables as tidy

CANARY = """#!/usr/bin/env bash
read -r calls <"{calls}" || calls=0
echo $((calls + 1)) >"{calls}"
cpu=1
[[ " {slow} " != *" $calls "* ]] || cpu=2
echo "{{\\"cpu_s\\": $cpu, \\"memory_s\\": 1, \\"fsync_s\\": 1}}"
"""
BURNER = "import time; end = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def slow_canary(project, *rounds):
    """Make the canary take twice as long before these rounds, counted from 0 over all rounds that are begun."""
    calls = project.root / "canaries"
    calls.write_text("0\n")
    (project.scripts / "canary").write_text(CANARY.format(calls=calls, slow=" ".join(map(str, rounds))))


def plan_with_spare(project, blocks, **noise):
    """Plan so many blocks of which the last is a spare, in less time than a run of four and their spare takes."""
    resolved = project.plan(design={"blocks": blocks}, noise=noise)
    table = project.run_dir / "plan/rounds.tsv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines[:-2], *(line.replace("measured", "spare") for line in lines[-2:])]) + "\n")
    return resolved


def judgement(project):
    """Return the state of each block."""
    noise = json.loads((project.run_dir / "raw/noise.json").read_text())
    return {block["block"]: block["state"] for block in noise["blocks"]}


def kinds(project):
    """Return the kind of each planned block."""
    rows = [row.split("\t") for row in (project.run_dir / "plan/rounds.tsv").read_text().splitlines()[1:]]
    return {int(row[0]): row[3] for row in rows}


class TestRun:
    """scripts/run-rounds with a fake database."""

    def test_a_spoilt_block_is_replaced_once(self, project):
        """The terminal names cause and spare; a second call runs nothing."""
        plan_with_spare(project, 3, canary_pct=10)
        assert kinds(project) == {1: "measured", 2: "measured", 3: "spare"}
        slow_canary(project, 2)
        said = project.run(FAKE_LOAD_S="0.01")
        spoilt = "the canary before 02-1-"
        assert said.count(f"block 2 does not count, spare block 3 is run instead: {spoilt}") == 1
        assert "took 100 % more than the run's median for its CPU spin, limit 10 %" in said
        assert judgement(project) == {1: "valid", 2: "invalid", 3: "valid"}
        assert project.rounds() == sorted(project.order())
        assert project.round(project.order()[-1])["kind"] == "spare"
        events = [json.loads(line) for line in (project.run_dir / "raw/events.jsonl").read_text().splitlines()]
        (replaced,) = (e for e in events if e["event"] == "block-replaced")
        assert (replaced["block"], replaced["spare"]) == ("2", "3")
        assert spoilt in replaced["message"]
        before = project.calls()
        assert "begins" not in project.run()
        assert project.calls() == before

    def test_a_quiet_run_needs_no_spare(self, project):
        """The spare block stays in the plan, and a failed round is no reason to run it."""
        variants = {"candidate": {"source": "binary", "path": "/bin/false"}}
        plan_with_spare(project, 3, canary_pct=10)
        record = project.run_dir / "build/candidate.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | variants["candidate"] | {"binary": "/bin/false"}))
        slow_canary(project, 0)
        said = project.run(FAKE_LOAD_S="0.01")
        assert set(judgement(project).values()) == {"failed"}
        assert "spare" not in said
        assert len(project.rounds()) == 4

    def test_when_no_spare_is_left_the_run_ends_and_says_so(self, project):
        """A spare that is spoilt too is replaced by the next, if there is one."""
        plan_with_spare(project, 3, canary_pct=10)
        slow_canary(project, 0, 5)
        said = project.run(FAKE_LOAD_S="0.01")
        assert "block 1 does not count, spare block 3 is run instead: " in said
        assert "block 3 does not count, and no spare block is left: the canary before 03-2-" in said
        assert judgement(project) == {1: "invalid", 2: "valid", 3: "invalid"}

    def test_an_interrupted_spare_is_finished_and_nothing_is_repeated(self, project):
        """Killed within the second round of the spare block, the run goes on with that round alone."""
        plan_with_spare(project, 3, canary_pct=10)
        slow_canary(project, 0)
        process = project.start(FAKE_LOAD_S="0.5")
        last = project.order()[-1]
        wait_for((project.run_dir / "raw" / f"{last}.partial" / "load.stdout").exists)
        process.kill()
        project.end(process)
        assert project.alive(patience_s=15) == []
        assert len(project.rounds()) == 5
        kept = {name: (project.run_dir / "raw" / name / "round.json").read_text() for name in project.rounds()}
        said = project.run()
        assert said.count(" begins (spare)") == 1
        assert project.rounds() == sorted(project.order())
        assert kept == {name: (project.run_dir / "raw" / name / "round.json").read_text() for name in kept}
        assert judgement(project)[3] == "valid"

    @pytest.mark.slow
    @pytest.mark.xdist_group("real")
    def test_a_process_that_burns_the_machine_is_seen_and_its_block_replaced(self, project):
        """Real load beside a round: no less foreign CPU than the burners had, the cause is named, a spare is run."""
        plan_with_spare(project, 2, foreign_cpu_pct=50)
        cpus = os.cpu_count() or 1
        process = project.start(FAKE_LOAD_S="4")
        burners = [subprocess.Popen([sys.executable, "-c", BURNER.format(PATIENCE_S)]) for _ in range(cpus)]
        try:
            wait_for(lambda: len(project.rounds()) >= 1 or process.poll() is not None)
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
        said = project.end(process)
        assert process.returncode == 0, said
        assert judgement(project)[1] == "invalid"
        assert "block 1 does not count, spare block 2 is run instead: foreign CPU " in said
        first = project.round(project.order()[0])
        for one in first["phases"]:
            if "noise" in one:
                noise = one["noise"]
                # Whatever else runs here is foreign too, so this is a lower bound.
                assert noise["foreign_s"] > 0.5 * noise["seconds"] * noise["cpus"]
                assert noise["foreign_s"] + noise["server_s"] + noise["own_s"] <= noise["busy_s"] + 0.1
        assert any(name.startswith("02-1-") for name in project.rounds())


SPEC = synthetic.Spec(blocks=8, query_types=("cpu-max-all-1",), load_s=6, query_s=6)


def rows(path):
    """Read a CSV file."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


class TestAnalysis:
    """tidy, compare and report of a run with spoilt blocks, whose last two blocks are spares."""

    @pytest.fixture
    def made(self, tmp_path):
        """Return a function that writes a run in which these blocks are spoilt, and goes all the way to the report."""

        def make(*spoilt, **changes):
            run = synthetic.write_run(tmp_path / "run", SPEC)
            lines = (run / "plan/rounds.tsv").read_text().splitlines()
            kinds = [line.replace("measured", "spare") if line[0] in "78" else line for line in lines]
            (run / "plan/rounds.tsv").write_text("\n".join(kinds) + "\n")
            plan = json.loads((run / "plan/experiment.json").read_text())
            plan["design"]["blocks"], plan["noise"] = 6, {"gc_flag_pct": 0.001, "foreign_cpu_pct": 5}
            (run / "plan/experiment.json").write_text(json.dumps(plan | changes))
            signals = [signal(block, "invalid" if block in spoilt else "ok") for block in range(1, 9)]
            (run / "raw/noise.json").write_text(json.dumps({"schema": 1, "blocks": [], "signals": signals}))
            tidy.main(run)
            compare.main(run)
            report.main(run)
            return run

        return make

    def test_a_spare_counts_in_place_of_what_was_spoilt(self, made):
        """As many blocks count as were planned; what does not is named with its cause."""
        run = made(3)
        blocks = json.loads((run / "stats/comparison.json").read_text())["blocks"]["candidate"]
        assert blocks["valid"] == [1, 2, 4, 5, 6, 7]
        assert blocks["dropped"] == [
            {"block": 3, "reason": "spoilt from outside: foreign CPU 52 % of the machine during load, limit 5 %"},
            {"block": 8, "reason": "a spare block, and no block was left for it to replace"},
        ]
        assert "inconclusive: environment" not in verdicts(run)
        text = (run / "report.md").read_text()
        assert (
            "Block 3 spoilt from outside. Rounds with a cause, by variant: baseline 0, candidate 1 (foreign CPU 1)."
            in text
        )
        assert "garbage collection took " in text

    def test_noise_csv_is_the_contract(self, made):
        """Its columns, the host's lines as they are, and a line of garbage collection a round."""
        run = made(3)
        path = run / "tidy/noise.csv"
        assert path.read_text().splitlines()[0] == (
            "block,position,round,variant,phase,query_type,signal,value,unit,limit,effect,message"
        )
        table = rows(path)
        assert {row["effect"] for row in table} == {"ok", "flag", "invalid"}
        assert len([row for row in table if row["signal"] == "gc_pct"]) == 18
        assert [row["round"] for row in table if row["effect"] == "invalid"] == ["03-2-candidate"]

    def test_fewer_blocks_than_planned_are_no_verdict(self, made):
        """Three spoilt and two spares: what would have been judged is `inconclusive: environment`, and says why."""
        run = made(1, 2, 3)
        assert verdicts(run) == {"inconclusive: environment", "shown"}
        (row,) = (r for r in rows(run / "stats/comparison.csv") if r["metric"] == "load_rate")
        assert row["change_pct"]
        assert row["p_adj"] == ""
        assert "outside causes spoilt more blocks than spare ones could replace" in row["warnings"]
        assert "Ingestion: inconclusive: environment, outside causes spoilt more" in (run / "report.md").read_text()

    def test_a_spoilt_spare_leaves_its_place_open(self, made):
        """One spoilt, its spare spoilt, the next spare good: all places are taken."""
        run = made(2, 7)
        assert json.loads((run / "stats/comparison.json").read_text())["blocks"]["candidate"]["valid"] == [
            1,
            3,
            4,
            5,
            6,
            8,
        ]
        assert "inconclusive: environment" not in verdicts(run)

    def test_a_screen_stays_a_screen(self, made):
        """What never could have had a verdict does not blame the environment."""
        run = made(1, 2, 3, 4, 5, screen=True)
        assert verdicts(run) == {"inconclusive (n < 6)", "shown"}

    def test_nothing_left(self, made):
        """All blocks spoilt: tables without figures, and no stack trace."""
        run = made(*range(1, 9))
        assert json.loads((run / "stats/comparison.json").read_text())["blocks"]["candidate"]["valid"] == []
        assert "spoilt from outside" in (run / "report.md").read_text()

    def test_a_run_from_before_noise_was_recorded(self, made):
        """Without raw/noise.json the table is empty, without the table nothing is known; every planned block counts."""
        run = made()
        (run / "raw/noise.json").unlink()
        tidy.main(run)
        assert rows(run / "tidy/noise.csv") == []
        (run / "tidy/noise.csv").unlink()
        compare.main(run)
        report.main(run)
        assert json.loads((run / "stats/comparison.json").read_text())["blocks"]["candidate"]["valid"] == [
            1,
            2,
            3,
            4,
            5,
            6,
        ]
        assert "Nothing of it was recorded in this run." in (run / "report.md").read_text()


def signal(block, effect):
    """Return a line of raw/noise.json."""
    message = "foreign CPU 52 % of the machine during load, limit 5 %" if effect == "invalid" else ""
    return {
        "block": block, "position": 2, "round": f"{block:02}-2-candidate", "variant": "candidate", "phase": "load",
        "query_type": "", "signal": "foreign_cpu_pct", "value": 52.0 if message else 1.0, "unit": "%", "limit": 5,
        "effect": effect, "message": message,
    }  # fmt: skip


def verdicts(run):
    """Return the verdicts of a run's comparison."""
    return {row["verdict"] for row in rows(run / "stats/comparison.csv")}
