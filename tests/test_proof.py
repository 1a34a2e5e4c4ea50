"""`make proof`: what it measures next, what its lines say, and the table that is made of them."""

import csv
from types import SimpleNamespace

import pytest

from bench import proof, quick, zeros
from bench.proof import CPU, KINDS, TIME
from tsduel.core.errors import UserError


def lines(kind, count, **more):
    """Return so many lines of a kind, each as expected."""
    row = dict.fromkeys(proof.COLUMNS, "") | {"kind": kind, "protocol": str(KINDS[kind].protocol), "as_expected": "1"}
    row |= {"date": "2026-11-27", "machine": "AMD, 2 CPUs", "beside": "0.5", "time_pct": "1.5"} | more
    return [row | {"number": str(number)} for number in range(1, count + 1)]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Keep lines and page in a directory of the test."""
    monkeypatch.setattr(proof, "LINES", tmp_path / "proof/runs.csv")
    monkeypatch.setattr(proof, "PAGE", tmp_path / "validation.md")
    monkeypatch.setattr(quick, "RESULTS", tmp_path)
    return tmp_path


def cells(known):
    """Return the cells of the table's rows, by their first."""
    rows = [line.split("|")[1:-1] for line in proof.table(known).splitlines()]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}


def interval(low, high):
    """Return a row of a comparison: a change in the middle of its interval."""
    return {"change_pct": (low + high) / 2, "lo_pct": low, "hi_pct": high, "verdict": "equivalent"}


def test_what_is_missing_is_measured_in_turns():
    """Number 1 of every kind comes before number 2 of any; what has a line is left out."""
    known = [*lines("slow-5", 2), *lines("same", 1)]
    order = list(proof.missing(known, ["slow-5", "same", "default-beside"]))
    assert order[:4] == [("default-beside", 1), ("same", 2), ("default-beside", 2), ("slow-5", 3)]
    assert len(order) == sum(KINDS[name].times for name in ("slow-5", "same", "default-beside")) - 3


@pytest.mark.usefixtures("kept")
def test_a_line_of_an_older_protocol_is_measured_again():
    """It is not among the lines, and goes when its run is there again."""
    proof.add(lines("same", 1)[0])
    text = proof.LINES.read_text().replace(f"same,1,{proof.PROTOCOL},", "same,1,0,")
    proof.LINES.write_text(text)
    assert proof.lines() == []
    assert ("same", 1) in list(proof.missing(proof.lines(), ["same"]))
    proof.add(lines("same", 2)[0])
    with proof.LINES.open(newline="") as file:
        assert [row["protocol"] for row in csv.DictReader(file)] == [str(proof.PROTOCOL)]


@pytest.mark.usefixtures("kept")
def test_the_table_says_what_was_missed_and_what_is_missing():
    """A figure that cannot be reached any more is missed; lines that are not there yet are counted."""
    for row in [*lines("slow-3", 9), *lines("slow-5", 2, as_expected="0")]:
        proof.add(row)
    proof.PAGE.write_text(f"before\n{proof.BEGIN}\nold\n{proof.END}\nafter\n")
    proof.page()
    text = proof.PAGE.read_text()
    rows = {cells[1].strip(): cells for line in text.splitlines() if len(cells := line.split("|")) > 5}
    assert [cell.strip() for cell in rows[KINDS["slow-3"].title][2:5]] == ["9 of 9", "9 of 10", "+1.50"]
    assert rows[KINDS["slow-3"].title][-2].strip() == "1"
    assert "MISSED" in rows[KINDS["slow-5"].title][2]
    assert "MISSED" not in rows[KINDS["same"].title][2]
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text


def test_a_run_is_as_expected_by_its_own_rule():
    """Found where something was planted; silent where nothing was."""
    rows = {proof.TIME: {"verdict": "regression"}, proof.CPU: {"verdict": "equivalent"}}
    assert KINDS["slow-5"].expected("", rows)
    assert not KINDS["same"].expected("", rows)
    assert not KINDS["burn-5"].expected("", rows)
    flagged = {proof.CPU: {"verdict": "negligible", "p_adj": 0.04, "change_pct": 1.0}}
    assert KINDS["burn-2"].expected("", flagged)
    assert KINDS["burn-2"].expected("", {proof.LOAD_CPU: flagged[proof.CPU]})
    assert not KINDS["burn-2"].expected("", {proof.CPU: {"verdict": "x", "p_adj": 0.04, "change_pct": -1.0}})


def test_a_burner_that_makes_a_time_better_is_not_as_expected():
    """Whatever CPU says: ingestion of a burner was called better, and its lines said that all is well."""
    found = {proof.CPU: {"verdict": "regression", "p_adj": 0.01, "change_pct": 9.0}}
    for metric in (proof.TIME, proof.INGESTION):
        for kind in ("burn-5", "burn-2"):
            assert KINDS[kind].expected("", found | {metric: {"verdict": "regression"}})
            assert not KINDS[kind].expected("", found | {metric: {"verdict": "improvement"}})


@pytest.mark.usefixtures("kept")
def test_lines_of_a_kind_that_a_new_protocol_does_not_change_stay():
    """Each kind has the oldest protocol whose lines say the same."""
    for kind in ("gate-same", "same"):
        proof.add(lines(kind, 1)[0])
    proof.LINES.write_text(proof.LINES.read_text().replace(f"same,1,{proof.PROTOCOL},", "same,1,1,"))
    assert [row["kind"] for row in proof.lines()] == ["gate-same"]


class TestZeros:
    """A program against itself is judged by the mean of each kind, and by the flags of all kinds together."""

    ALL = "all of these: nothing is called"

    def test_a_kind_is_its_mean_and_a_flag_is_all_kinds(self):
        """A run that is off zero, and one that is flagged, miss nothing alone."""
        off = lines("zero-git", 10, time_pct="0.1", cpu_pct="0.2")
        off[0] |= {"time_pct": "-1.1", "as_expected": "0"}
        found = cells([*off, *lines("zero-stale", 4, time_pct="0.6", cpu_pct="0.1")])
        assert found[KINDS["zero-git"].title][:4] == ["0.20 %", "at most 0.3 %", "-0.02", "+0.20"]
        assert found[KINDS["zero-stale"].title][0] == "0.60 % so far"
        assert found[KINDS["zero-same"].title][:2] == ["", "at most 0.3 %"]
        assert found[self.ALL][:2] == ["13 of 14", "76 of 80"]

    def test_a_mean_off_zero_is_missed_when_it_is_whole(self):
        """Of CPU as of time."""
        found = cells(lines("zero-git", 10, time_pct="0.1", cpu_pct="-0.31"))
        assert found[KINDS["zero-git"].title][0] == "0.31 % MISSED"

    @pytest.mark.parametrize(("flags", "text"), [(4, "6 of 10"), (5, "5 of 10 MISSED")])
    def test_four_flags_of_eighty_are_allowed(self, flags, text):
        """Whatever their kinds; the fifth misses, however many are still to come."""
        known = lines("zero-git", 10, cpu_pct="0")
        for row in known[:flags]:
            row["as_expected"] = "0"
        assert cells(known)[self.ALL][0] == text
        assert sum(kind.zero for kind in KINDS.values()) == len(zeros.KINDS) == 8


class TestPairs:
    """Two default runs an hour apart."""

    @pytest.fixture
    def runs(self, kept, monkeypatch):
        """Return the rows of the halves; a half that was made has ended at second 100 of a clock, which is returned."""
        clock = SimpleNamespace(now=200.0, made=[], rows={})

        def judged(name, *_):
            if name not in clock.made:
                clock.made.append(name)
                (kept / name / "stats").mkdir(parents=True)
                (kept / name / proof.COMPARED).write_text("{}")
            return clock.rows[name.split("-")[1]]

        monkeypatch.setattr(quick, "judged", judged)
        monkeypatch.setattr(proof, "open_run", lambda _: SimpleNamespace(blocks=[SimpleNamespace(ended=100.0)]))
        monkeypatch.setattr(proof.time, "time", lambda: clock.now)
        clock.rows = {"first": {TIME: interval(-3, -2), CPU: interval(-2, -1)},
                      "second": {TIME: interval(-2.5, -1.5), CPU: interval(-0.75, 0.25)}}  # fmt: skip
        return clock

    def test_the_second_begins_an_hour_after_the_first_has_ended(self, runs):
        """Other kinds are measured meanwhile; the first alone has no line."""
        kind = KINDS["default-apart"]
        assert kind.due(1) == 0
        assert proof.measured("default-apart", 1) is None
        assert kind.run(1) is None
        assert runs.made == ["default-first-1"]
        assert proof.soonest([("default-apart", 1), ("same", 1)]) == (0, "same", 1)
        assert proof.soonest([("default-apart", 1)]) == (3500, "default-apart", 1)
        runs.now = 3700.0
        assert kind.run(1)[0] == "default-second-1"

    def test_its_line_is_how_far_the_changes_are_apart(self, runs):
        """As expected if the intervals of time and of CPU overlap."""
        runs.now = 5000.0
        run, rows = KINDS["default-apart"].run(1)
        assert [rows[TIME][name] for name in ("change_pct", "lo_pct", "hi_pct")] == [0.5, -0.5, 1.5]
        assert [rows[CPU][name] for name in ("change_pct", "lo_pct", "hi_pct")] == [1.25, 0.25, 2.25]
        assert proof.called(rows) == ["duel_cpu_us all"]
        assert not KINDS["default-apart"].expected(run, rows)
        runs.rows["second"][CPU] = interval(-1.5, 0)
        assert KINDS["default-apart"].expected(*KINDS["default-apart"].run(1))

    def test_what_has_no_interval_has_no_difference(self, runs):
        """It is inconclusive."""
        runs.now = 5000.0
        runs.rows["first"]["other"] = runs.rows["second"]["other"] = dict.fromkeys(("change_pct", "lo_pct", "hi_pct"))
        assert KINDS["default-apart"].run(1)[1]["other"]["verdict"] == "inconclusive"


def test_a_run_that_fails_does_not_keep_the_others_from_being_made(kept, monkeypatch, capsys):
    """It is said, and the exit code is 1."""
    (kept / "validation.md").write_text(f"{proof.BEGIN}\n{proof.END}\n")

    def measured(name, number):
        if number == 1:
            raise UserError("it fell")
        return lines(name, number)[-1]

    monkeypatch.setattr(proof, "measured", measured)
    monkeypatch.setattr(proof.sys, "argv", ["proof", "5", "default-same"])
    assert proof.main() == 1
    assert [row["number"] for row in proof.lines()] == ["2", "3", "4", "5"]
    assert capsys.readouterr().err == "proof: default-same 1: it fell\n"


def test_a_look_prints_the_table_of_its_runs_and_records_nothing(monkeypatch, capsys):
    """Of the named kinds alone; what is no number or no kind is refused."""
    monkeypatch.setattr(proof, "add", None)
    monkeypatch.setattr(proof, "measured", lambda kind, number: lines(kind, number, time_pct="0.1", cpu_pct="0")[-1])
    assert proof.look(["2", "slow-5", "zero-git"]) == 0
    rows = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines()[2:]]
    assert [[cell.strip() for cell in row] for row in rows] == [
        [KINDS["zero-git"].title, "0.10 % so far"], [TestZeros.ALL, "2 of 2"], [KINDS["slow-5"].title, "2 of 2"],
    ]  # fmt: skip
    for words, sentence in ((["same"], "a number and kinds, of zero-same"), (["2", "sane"], "unknown: sane; there")):
        with pytest.raises(UserError, match=sentence):
            proof.look(words)


def test_a_wrong_answer_is_found_by_the_block_that_it_fails(monkeypatch):
    """Also if that ends the run; not by another failure, nor by answers that differ without one."""
    kind = KINDS["wrong-150"]
    for variant, differences, is_found in (("candidate", 1, True), ("baseline", 1, False), ("candidate", 0, False)):
        duel = SimpleNamespace(types=[SimpleNamespace(differences=differences)])
        failing = SimpleNamespace(failures=[SimpleNamespace(variant=variant)], duel=duel)
        run = SimpleNamespace(blocks=[SimpleNamespace(failures=[], duel=None), failing])
        monkeypatch.setattr(proof, "open_run", lambda _, run=run: run)
        assert kind.expected("known-wrong-150-1", {}) is is_found
