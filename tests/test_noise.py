"""What disturbs a round from outside, judged from the records of its rounds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
LIMITS = {
    "steal_pct": 5, "foreign_cpu_pct": 5, "canary_pct": 10, "clock_step_s": 0.2,
    "steal_flag_pct": 1, "foreign_cpu_flag_pct": 2, "canary_flag_pct": 5, "canary_fsync_flag_pct": 50,
    "pressure_cpu_flag_pct": None, "pressure_io_flag_pct": 20, "pressure_memory_flag_pct": 1, "swap_flag_pages": 1,
    "gc_flag_pct": 10, "pool_s": 5, "spare_pct": 25,
}  # fmt: skip
QUIET = {
    "seconds": 20.0, "clock_step_s": 0.001, "cpus": 2, "busy_s": 30.0, "steal_s": 0.0, "iowait_s": 0.1,
    "server_s": 20.0, "own_s": 10.0, "kernel_s": 0.1, "foreign_s": 0.1, "context_switches": 100, "swap_pages": 0,
    "temperature_c": None, "pressure_s": {"cpu": 19.0, "io": 0.1, "memory": 0.0},
}  # fmt: skip


def phase(name="load", query_type="", **noise):
    """Return a phase of a quiet host, but for what is said."""
    return {"phase": name, "query_type": query_type, "noise": QUIET | noise}


class Judged:
    """Rounds by hand, and what scripts/judge-noise says of them."""

    def __init__(self, run_dir):
        self.run_dir = run_dir
        self.limits = dict(LIMITS)

    def round(self, block, position, *phases, **fields):
        """Write one round; baseline is always first."""
        variant = "baseline" if position == 1 else "candidate"
        directory = self.run_dir / f"raw/{block:02}-{position}-{variant}"
        directory.mkdir(parents=True, exist_ok=True)
        record = {
            "block": block, "position": position, "variant": variant, "kind": "measured" if block else "warmup",
            "status": "ok", "boot_id": "one", "maintenance": "", "noise": QUIET,
            "canary": {"cpu_s": 1.0, "memory_s": 0.5, "fsync_s": 0.1}, "phases": list(phases) or [phase()],
        }  # fmt: skip
        (directory / "round.json").write_text(json.dumps(record | fields))

    def block(self, block, *phases, **fields):
        """Write a block whose baseline is quiet."""
        self.round(block, 1)
        self.round(block, 2, *phases, **fields)

    def judge(self):
        """Return the judgement."""
        (self.run_dir / "plan").mkdir(exist_ok=True)
        plan = {"variants": [{"name": "baseline"}, {"name": "candidate"}], "noise": self.limits}
        (self.run_dir / "plan/experiment.json").write_text(json.dumps(plan))
        subprocess.run([SCRIPTS / "judge-noise", self.run_dir], check=True)
        return json.loads((self.run_dir / "raw/noise.json").read_text())

    def states(self):
        """Return the state of each block."""
        return {block["block"]: block["state"] for block in self.judge()["blocks"]}

    def causes(self, block=1):
        """Return the causes that spoilt a block."""
        return next(b["causes"] for b in self.judge()["blocks"] if b["block"] == block)

    def flags(self):
        """Return the sentences of all flags."""
        return [s["message"] for s in self.judge()["signals"] if s["effect"] == "flag"]


@pytest.fixture
def judged(tmp_path):
    """Return a run without rounds yet."""
    return Judged(tmp_path)


class TestJudged:
    """scripts/judge-noise: a pure function of the rounds' records and the plan's limits."""

    @pytest.mark.parametrize(
        ("phases", "fields", "sentence"),
        [
            (
                [phase(steal_s=2.0)],
                {},
                "steal 5 % of the machine during load of 01-2-candidate, limit 5 %",
            ),
            (
                [phase(), phase("query", "cpu-max-all-1", foreign_s=20.84)],
                {},
                "foreign CPU 52.1 % of the machine during query cpu-max-all-1 of 01-2-candidate, limit 5 %",
            ),
            (
                [phase()],
                {"canary": {"cpu_s": 1.13, "memory_s": 0.5}},
                "the canary before 01-2-candidate took 13 % more than the run's median for its CPU spin, limit 10 %",
            ),
            (
                [phase()],
                {"canary": {"cpu_s": 1.0, "memory_s": 0.4}},
                "the canary before 01-2-candidate took 20 % less than the run's median for its memory copy, limit 10 %",
            ),
            (
                [phase()],
                {"boot_id": "two"},
                "the machine was started again between 01-1-baseline and 01-2-candidate",
            ),
            (
                [phase()],
                {"noise": QUIET | {"clock_step_s": -3.25}},
                "the clock was set by -3.25 s during 01-2-candidate, limit 0.2 s",
            ),
            (
                [phase()],
                {"maintenance": "MIGRATE_ON_HOST_MAINTENANCE"},
                "the host was under maintenance (MIGRATE_ON_HOST_MAINTENANCE) during 01-2-candidate",
            ),
        ],
    )
    def test_each_outside_cause_spoils_the_whole_block(self, judged, phases, fields, sentence):
        """The sentence has the figure, the limit, and in which round it was; other blocks are as they were."""
        judged.block(1, *phases, **fields)
        for block in (2, 3):
            judged.block(block)
        assert judged.causes() == [sentence]
        assert judged.states() == {1: "invalid", 2: "valid", 3: "valid"}

    def test_nothing_that_a_version_does_spoils_a_block(self, judged):
        """A candidate that takes ten times as long, all the CPU, the disk and swap is judged as any other."""
        judged.block(1)
        slow = {"seconds": 200.0, "busy_s": 398.0, "server_s": 390.0, "own_s": 7.5, "context_switches": 10**7}
        load = {"pressure_s": {"cpu": 200.0, "io": 150.0, "memory": 100.0}, "iowait_s": 90.0, "foreign_s": 0.4}
        judged.block(2, phase(**slow, **load), noise=QUIET | {"swap_pages": 10**6, "temperature_c": 99.0})
        assert judged.states() == {1: "valid", 2: "valid"}
        assert judged.flags() == [
            "somebody waited for io during 75 % of load of 02-2-candidate, limit 20 %",
            "somebody waited for memory during 50 % of load of 02-2-candidate, limit 1 %",
            "1000000 pages were swapped during 02-2-candidate, limit 1 pages",
        ]

    def test_what_is_below_a_limit_is_flagged_and_kept(self, judged):
        """Steal from 1 %, foreign CPU from 2 %, a canary from 5 % and its fsync from 50 % are shown."""
        canary = {"cpu_s": 1.06, "memory_s": 0.5, "fsync_s": 0.18}
        judged.block(1, phase(steal_s=0.5, foreign_s=1.0), canary=canary)
        judged.block(2)
        assert judged.states() == {1: "valid", 2: "valid"}
        assert judged.flags() == [
            "the canary before 01-2-candidate took 6 % more than the run's median for its CPU spin, limit 5 %",
            "the canary before 01-2-candidate took 80 % more than the run's median for its fsync'd writes, limit 50 %",
            "steal 1.3 % of the machine during load of 01-2-candidate, limit 1 %",
            "foreign CPU 2.5 % of the machine during load of 01-2-candidate, limit 2 %",
        ]

    def test_short_phases_are_judged_together(self, judged):
        """One of nine phases under 5 s may be all foreign; a tenth of all of them is what counts."""
        brief = [phase("query", f"type-{i}", seconds=0.9, steal_s=0, foreign_s=0) for i in range(8)]
        judged.limits["foreign_cpu_pct"] = 15
        judged.block(1, *brief, phase("query", "last", seconds=0.9, steal_s=0, foreign_s=1.62))
        judged.block(2, *brief, phase("query", "last", seconds=0.9, steal_s=0, foreign_s=2.7))
        assert judged.states() == {1: "valid", 2: "invalid"}
        assert judged.causes(2) == [
            "foreign CPU 16.7 % of the machine during the short phases of 02-2-candidate, limit 15 %"
        ]
        signals = {(s["round"], s["phase"]) for s in judged.judge()["signals"] if s["signal"] == "steal_pct"}
        assert signals == {
            (f"{b:02}-{p}", q) for b in (1, 2) for p, q in (("1-baseline", "load"), ("2-candidate", "pooled"))
        }

    def test_a_limit_of_null_is_never_reached(self, judged):
        """On a machine that is shared on purpose nothing but a flag is left."""
        judged.limits |= {"steal_pct": None, "foreign_cpu_pct": None, "canary_pct": None}
        judged.block(1, phase(steal_s=20, foreign_s=20), canary={"cpu_s": 9})
        judged.block(2)
        assert judged.states() == {1: "valid", 2: "valid"}
        assert len(judged.flags()) == 3

    def test_a_failed_block_is_failed_and_half_a_block_is_incomplete(self, judged):
        """Neither is called spoilt, so neither is replaced; the warm-up block is not judged at all."""
        judged.block(0, phase(foreign_s=30))
        judged.block(1, phase(foreign_s=30), status="failed")
        judged.round(2, 1, phase(foreign_s=30))
        assert judged.states() == {1: "failed", 2: "incomplete"}
        assert "foreign CPU 75 % of the machine during load of 00-2-candidate, limit 2 %" in judged.flags()

    def test_rounds_without_records_and_plans_without_limits(self, judged):
        """What was recorded before there was any of this is left as it is."""
        judged.block(1, {"phase": "load", "query_type": ""}, noise={}, canary={})
        assert judged.states() == {1: "valid"}
        (judged.run_dir / "raw/noise.json").unlink()
        (judged.run_dir / "plan/experiment.json").write_text('{"variants": []}')
        subprocess.run([SCRIPTS / "judge-noise", judged.run_dir], check=True)
        assert not (judged.run_dir / "raw/noise.json").exists()
