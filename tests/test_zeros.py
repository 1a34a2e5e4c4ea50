"""Series of runs of equal programs: how an old file is made, which finished runs are read, and the figures."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest
import reports

from bench import known_answers, quick, zeros
from tsduel.calibrate import stale
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.question.read import read_file

ASKED = {"BASELINE": "v1.132.0", "AA": "1", "SET": "design.seed=1"}
ELSE = "asked something else: another experiment than "
PAGES = 500


def row(change, verdict="equivalent", *, family="primary", p_adj=1.0):
    """Return what is read of a row of stats/comparison.json, with an interval of a percent."""
    return {"change_pct": change, "lo_pct": change - 0.5, "hi_pct": change + 0.5, "verdict": verdict, "family": family,
            "p_adj": p_adj}  # fmt: skip


def rows(time, cpu, **more):
    """Return what was judged in a run."""
    return {quick.TIME: row(time), quick.CPU: row(cpu), **more}


def asked(**changes):
    """Return what puts into a plan that it asked for quick.yml, or for something else."""
    written = json.loads(json.dumps(read_file(quick.PROJECT / quick.EXPERIMENT), default=str))
    return lambda plan: plan.update(
        asked={"experiment": quick.EXPERIMENT, "written": written, "knobs": ASKED} | changes
    )


@pytest.fixture
def program(tmp_path):
    """Return a file of random bytes whose name is a program's."""
    path = tmp_path / "program"
    path.write_bytes(os.urandom(PAGES * stale.PAGE))
    path.chmod(0o755)
    return path


def text_of(program):
    """Return the bytes of a program whose place in memory can be seen."""
    if stale.runs(program) is None:
        pytest.skip("where pages lie is told to root alone (/proc/self/pagemap)")
    return program.read_bytes()


class TestStale:
    """An old file and its twin."""

    def test_twins_are_programs_of_the_same_code_and_other_files(self, tmp_path, program):
        """So that each is built for itself; made again they are as before."""
        found = stale.twins(program, tmp_path / "twins")
        assert [twin.read_bytes() for twin in found] == [program.read_bytes() + bytes(n) for n in (1, 2)]
        assert all(os.access(twin, os.X_OK) for twin in found)
        assert stale.twins(program, tmp_path / "twins") == found

    def test_an_old_file_lies_in_as_many_pieces_as_it_has_pages(self, program):
        """And is the same file; written anew it lies in few."""
        text = text_of(program)
        try:
            stale.scatter(program)
        except UserError as error:
            pytest.skip(f"no disk below pytest's directory: {error}")
        scattered = stale.runs(program)
        assert scattered > 0.9 * PAGES
        fresh = program.with_name("fresh")
        fresh.write_bytes(text)
        if stale.runs(fresh) > 0.8 * PAGES:
            pytest.skip("free memory itself lies in pieces of a page, and so would any file")
        stale.renew(program)
        assert stale.runs(program) < 0.9 * scattered
        assert program.read_bytes() == text
        assert os.access(program, os.X_OK)

    def test_a_file_that_is_written_beside_another_lies_in_many_pieces(self, program):
        """Another file takes every other page; nothing of it is left."""
        text = text_of(program)
        zeros.write_in_pieces(program)
        assert stale.runs(program) > 0.5 * PAGES
        assert [path.name for path in program.parent.iterdir()] == [program.name]
        assert program.read_bytes() == text

    def test_a_file_whose_pages_cannot_be_let_go_is_refused(self, program, monkeypatch):
        """In a sentence, before a run that would show nothing."""
        monkeypatch.setattr(stale, "runs", lambda _: 3)
        with pytest.raises(UserError, match="cannot be made stale: its 500 pages are in 3 pieces"):
            stale.scatter(program)


class TestSeries:
    """A finished run is read and not repeated."""

    def test_a_finished_run_is_read(self, tmp_path, monkeypatch):
        """No command is typed, and what is only shown is left out."""
        run_dir = reports.compared(tmp_path)
        reports.edit_plan(run_dir, asked())
        monkeypatch.setattr(quick, "RESULTS", tmp_path)
        monkeypatch.setattr(quick, "make", None)
        found = quick.judged(run_dir.name, ASKED)
        judged = {(r["metric"], r["query_type"]): r for r in read_json(run_dir / "stats/comparison.json")["rows"]}
        assert found[quick.TIME] == judged[quick.TIME]
        assert {r["family"] for r in found.values()} == {"primary", "secondary", "work"}
        assert len(quick.primary(found)) < len(found)

    def test_a_run_that_asked_something_else_is_refused(self, tmp_path):
        """Another experiment, one that has changed since, other knobs, another version of the plan."""
        run_dir = reports.compared(tmp_path)
        for other, sentence in (
            (asked(experiment="experiments/local.yml"), ELSE),
            (asked(written={"name": "quick"}), ELSE),
            (asked(knobs=ASKED | {"BLOCKS": "7"}), ELSE),
            (lambda plan: plan.update(plan_version=1), "was made by an older tsduel"),
        ):
            reports.edit_plan(run_dir, other)
            with pytest.raises(UserError, match=sentence):
                quick.is_finished(run_dir, ASKED)

    def test_where_a_run_is_may_be_set_and_nothing_else(self, tmp_path, monkeypatch):
        """A run that was made at another port is the same; other settings would be another measurement."""
        run_dir = reports.compared(tmp_path)
        reports.edit_plan(run_dir, asked(knobs={**ASKED, "SET": "design.seed=1 host.port=9000"}))
        monkeypatch.setenv("SET", "host.port=9999")
        assert quick.is_finished(run_dir, ASKED)
        (run_dir / "plan/experiment.json").unlink()
        monkeypatch.setattr(quick, "RESULTS", tmp_path)
        monkeypatch.setattr(quick, "make", lambda *words, **_: " ".join(words))
        with pytest.raises(UserError, match=r"BASELINE=v1\.132\.0 AA=1 SET=design\.seed=1 host\.port=9999 VIEW=plain"):
            quick.judged(run_dir.name, ASKED)
        monkeypatch.setenv("SET", "host.port=9999 design.blocks=2")
        with pytest.raises(UserError, match=r"SET: design\.blocks=2 would be another measurement"):
            quick.judged(run_dir.name, ASKED)

    def test_what_ran_beside_is_what_others_took_of_the_cpu(self, tmp_path):
        """Of a median phase of all runs; nothing is said where no run has it."""
        head = "block,variant,phase,query_type,signal,value,unit,limit,effect,message"
        for name, values in (("a", (1, 9)), ("b", (4,)), ("c", ())):
            rows = [f"{n},,pooled,,foreign_cpu_pct,{value},%,,ok," for n, value in enumerate(values)]
            path = tmp_path / name / "tidy/noise.csv"
            path.parent.mkdir(parents=True)
            path.write_text("\n".join([head, *rows, "0,baseline,pooled,,steal_pct,70,%,,ok,"]) + "\n")
        assert quick.beside(tmp_path / "a", tmp_path / "b") == "4.0"
        assert quick.beside(tmp_path / "c") == ""

    def test_a_run_that_was_stopped_goes_on(self, tmp_path, monkeypatch):
        """Its builds get their history again; a run without time and CPU is refused."""
        run_dir = reports.compared(tmp_path)
        reports.edit_plan(run_dir, asked())
        compared = (run_dir / "stats/comparison.json").read_text()
        (run_dir / "stats/comparison.json").unlink()
        typed = []

        def make(*words, may_fail=False):
            typed.append((words[0], may_fail))
            if words[0] == "tsbs":
                (run_dir / "stats/comparison.json").write_text(compared)
            return ""

        monkeypatch.setattr(quick, "RESULTS", tmp_path)
        monkeypatch.setattr(quick, "make", make)
        quick.judged(run_dir.name, ASKED, typed.append)
        assert typed == [("plan", False), run_dir, ("tsbs", True)]
        (run_dir / "stats/comparison.json").write_text('{"rows": []}')
        with pytest.raises(UserError, match="says nothing of what it is for"):
            quick.judged(run_dir.name, ASKED)

    def test_a_block_that_fails_may_be_the_result_of_a_run(self, tmp_path, monkeypatch):
        """Then it is tidied and has no row; otherwise a run that was ended is no result."""
        run_dir = reports.compared(tmp_path)
        reports.edit_plan(run_dir, asked())
        (run_dir / "stats/comparison.json").unlink()
        monkeypatch.setattr(quick, "RESULTS", tmp_path)
        typed = []
        monkeypatch.setattr(quick, "make", lambda *words, **_: typed.append(words[0]) or "")
        with pytest.raises(UserError, match="did not come to its end"):
            quick.judged(run_dir.name, ASKED, fails=True)
        monkeypatch.setattr(quick, "open_run", lambda _: SimpleNamespace(blocks=[SimpleNamespace(failures=["why"])]))
        assert quick.judged(run_dir.name, ASKED, fails=True) == {}
        assert typed == ["tsbs", "tsbs", "tidy"]
        with pytest.raises(UserError, match="did not come to its end"):
            quick.judged(run_dir.name, ASKED)

    def test_which_side_has_the_history_changes(self, monkeypatch):
        """The flags change sides as well; one revision without flags is A/A."""
        calls = []
        monkeypatch.setattr(quick, "judged", lambda _name, knobs, _history: calls.append(knobs) or rows(1.0, -1.0))
        monkeypatch.setitem(zeros.KINDS, "git", lambda: zeros.Kind("git:r@base", "v1"))
        assert zeros.run("git", 1)[quick.TIME]["change_pct"] == 1.0
        assert zeros.run("git", 2)[quick.TIME]["change_pct"] == pytest.approx(-0.99, abs=0.001)
        zeros.run("same", 1)
        assert calls == [
            {"CANDIDATE": "git:r@base", "BASELINE": "v1", "SET": "design.seed=1"},
            {"BASELINE": "git:r@base", "CANDIDATE": "v1", "SET": "design.seed=2"},
            ASKED,
        ]
        for number, sides in ((1, ["candidate", "baseline"]), (2, ["baseline", "candidate"])):
            zeros.run("arguments", number)
            flags = dict(word.split(".flags=[") for word in calls[-1]["SET"].split()[1:])
            longer, shorter = (len(flags[f"variants.{side}"]) for side in sides)
            assert longer == shorter + zeros.LONG - 1


class TestFigures:
    """The figures of a series."""

    def test_a_row_is_turned_as_if_the_sides_were_exchanged(self):
        """A quarter more is a fifth less, and better is worse; so are the ends of the interval."""
        at = quick.TIME
        turned = known_answers.turned({at: row(25, "improvement") | {"lo_pct": 0, "hi_pct": 100}})[at]
        assert [round(turned[name]) for name in ("change_pct", "lo_pct", "hi_pct")] == [-20, -50, 0]
        assert turned["verdict"] == "regression"

    def test_make_bench_has_the_half_widths_of_the_newest_runs(self, tmp_path, capsys):
        """Beside their targets; where there is no run it says so."""
        for name in ("20261101T000000Z-quick", "20261102T000000Z-quick"):
            reports.compared(tmp_path / "made").rename(tmp_path / name)
        found = list(quick.widths(tmp_path))
        assert [(one.target, one.detail) for one in found] == [(0.6, "20261102T000000Z-quick")] * 2
        assert "no run of local.yml is finished" in capsys.readouterr().out
        (tmp_path / "20261102T000000Z-quick").rename(tmp_path / "20261103T000000Z-local")
        assert {one.target for one in quick.widths(tmp_path)} >= {0.3, 0.8}
