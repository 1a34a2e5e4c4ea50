"""Spare blocks: drawn with the plan, run once in place of what outside causes spoilt, and counted in its place."""

from __future__ import annotations

import csv
import json

import pytest
import synthetic

from plots import report
from tsduel.stats import compare
from tsduel.tidy import tables as tidy

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
