"""The view of a run: what is made of its events, and that no line can harm it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import golden
from rich.console import Console

from tsduel.core.errors import UserError
from tsduel.rounds.view import lines, model, screen, show
from tsduel.rounds.view.events import Tail, clean, parse

DATA = Path(__file__).parent / "data" / "events.jsonl"
RECORDED = DATA.read_bytes().splitlines(keepends=True)


def drawn(state, now, width):
    """Return the panel as text, as a terminal of that width shows it."""
    console = Console(file=io.StringIO(), width=width - 1, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(screen.panel(state, now), no_wrap=True, overflow="ellipsis", crop=True)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()[1:]) + "\n"


def moment(word):
    """Return the recorded lines up to the first that has these words, and its time."""
    at = next(n for n, line in enumerate(RECORDED) if all(w in line.decode() for w in word))
    return RECORDED[: at + 1], json.loads(RECORDED[at])["t"]


def after(found):
    """Return the state after these lines."""
    return model.after(event for event in map(parse, found) if event)


MOMENTS = {
    "before the first round": ['"phase-end"', '"queries"'],
    "load": ['"progress"', '"load"', "5.4"],
    "settle, the first": ['"phase-start"', '"settle"', "00-1"],
    "settle": ['"phase-start"', '"settle"', "01-2"],
    "responses": ['"progress"', '"responses"'],
    "query": ['"progress"', '"query"', '"done":136'],
    "between two rounds": ['"round-end"', "01-1"],
}


class TestScreen:
    """The foot of the terminal."""

    def test_every_moment_of_a_recorded_run(self):
        """At 80 and at 120 columns, to be looked at in review; a second after the event."""
        text = ""
        for name, words in MOMENTS.items():
            found, t = moment(words)
            for width in (80, 120):
                text += f"== {name}, {width} columns\n{drawn(after(found), t + 1, width)}"
        golden("view.txt", text)

    def test_what_else_there_is_to_say(self):
        """A price, a forecast, a failed round, and that it ends after this round."""
        found, t = moment(MOMENTS["load"])
        start = json.loads(found[0]) | {"place": "gcp", "price_h": "0.42", "machine_since": str(t - 7200)}
        more = [
            {"t": t, "event": "forecast", "block": "1", "message": "10 blocks can show 6 %; you asked for 5 %"},
            {"t": t, "event": "stop-requested"},
        ]
        state = after([json.dumps(start).encode(), *found[1:], *(json.dumps(e).encode() for e in more)])
        said = drawn(state, t, 80)
        assert "0.84 USD so far" in said
        assert "until about Sun 09:38" in drawn(replace(state, round_s=6 * 3600, stop_requested=False), t, 80)
        assert "on a rented machine" in said
        assert "10 blocks can show 6 %; you asked for 5 %" in said
        assert "stop requested" in said
        failed = {"t": t, "event": "round-end", "status": "failed", "round": "x", "phase": "load", "message": "why"}
        state = model.advance(state, parse(json.dumps(failed).encode()))
        assert "1 rounds failed" in drawn(state, t, 80)
        assert "FAILED after 0:00: why" in screen.history(parse(json.dumps(failed).encode()), state).plain

    @pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 300])
    def test_nothing_is_wider_than_the_terminal(self, width):
        """Whatever its width: a line that the terminal breaks would be counted wrong."""
        for words in MOMENTS.values():
            found, t = moment(words)
            assert max(map(len, drawn(after(found), t, width).splitlines())) < width

    def test_what_stays_of_a_whole_run(self):
        """A line a round, and how it ended."""
        state, stays = model.State(), []
        for event in filter(None, map(parse, RECORDED)):
            state = model.advance(state, event)
            if text := screen.history(event, state):
                stays.append(text.plain)
        golden("view-history.txt", "\n".join(stays) + "\n")
        assert max(map(len, stays)) < 80


class TestModel:
    """What a run is doing, and how long it still takes."""

    def test_remaining_time_comes_from_the_plan_and_then_from_finished_rounds(self):
        """The median of what rounds of this kind took; before there is one, what the plan says."""
        start = after(RECORDED[:1])
        assert model.remaining(start, start.last) == start.rounds * start.round_s
        found, t = moment(MOMENTS["between two rounds"])
        state = after(found)
        (took,) = state.seconds["measured"]
        left = state.rounds - state.finished
        assert left == 1
        assert model.remaining(state, t) == took

    def test_data_that_is_made_is_waited_for_as_long_as_its_rate_says(self):
        """As the plan says before there is a rate."""
        start = after([*RECORDED[:1], b'{"t": 1795253880, "event": "phase-start", "phase": "data"}'])
        rounds = start.rounds * start.round_s
        assert model.remaining(start, 1795253883) == rounds + start.workload_s - 3
        line = b'{"t": %d, "event": "progress", "phase": "data", "done": %d, "total": 1000}'
        more = [line % (1795253880 + n, 10 * n) for n in (2, 4)]
        assert model.remaining(model.after(map(parse, more), start), 1795253885) == rounds + (1000 - 40) / 10

    def test_a_run_that_is_gone_on_with_counts_what_was_finished(self):
        """A second run-start begins the clock anew; a round whose end was not written counts all the same."""
        found, t = moment(MOMENTS["between two rounds"])
        again = json.loads(RECORDED[0]) | {"t": t + 1000, "finished": "4"}
        state = after([*found, b'{"t": 17', b"\n", json.dumps(again).encode()])
        assert (state.finished, state.begin, state.round, state.over) == (4, t + 1000, None, "")

    def test_a_replaced_block_is_one_more_to_run(self):
        """As many rounds as there are variants."""
        event = b'{"t": 1.0, "event": "block-replaced", "block": "1", "spare": "7", "message": "foreign CPU"}'
        assert after([*RECORDED, event]).rounds == after(RECORDED).rounds + 2

    def test_live_rate_is_of_late(self):
        """Of the last ten seconds, and of the phase that runs."""
        start = {"t": 100.0, "event": "phase-start", "phase": "load"}
        step = {"event": "progress", "phase": "load", "total": 1e6}
        steps = [step | {"t": 100.0 + 2 * n, "done": 10 * n * n} for n in range(1, 20)]
        state = after(json.dumps(e).encode() for e in (start, *steps))
        assert state.phase.rate == (10 * 19**2 - 10 * 14**2) / 10
        other = {"t": 200.0, "event": "progress", "phase": "query", "done": 5, "total": 9}
        assert after([json.dumps(e).encode() for e in (start, *steps, other)]).phase == state.phase


def broken_df(root):
    """Return a directory with a df that says that nothing is free."""
    (root / "bin").mkdir()
    (root / "bin/df").write_text("#!/bin/sh\necho Avail\necho 0\n")
    (root / "bin/df").chmod(0o755)
    return root / "bin"


class TestLines:
    """Plain lines, for where there is no terminal."""

    def test_a_whole_run(self):
        """One line a phase; nothing that a terminal would obey."""
        said = [line for event in filter(None, map(parse, RECORDED)) if (line := lines.plain(event))]
        golden("view-lines.txt", "\n".join(said) + "\n")
        assert all(line.isprintable() for line in said)

    def test_they_are_what_the_scripts_print(self, project):
        """Where the rounds run a script says it, elsewhere Python: the same words, failed rounds and all."""
        binary = {"source": "binary", "path": str(Path(__file__).parent / "fakes" / "database")}
        bad = binary | {"env": {"FAKE_MODE": "query-error"}}
        project.plan(variants={"baseline": bad, "candidate": binary}, design={"warmup_blocks": 0, "blocks": 1})
        hangs = project.root / "hangs"
        hangs.write_text("timed\n")
        said = [line for line in project.run(FAKE_HANGS=str(hangs)).splitlines() if line[2:3] == ":"]
        recorded = Tail(project.run_dir / "raw" / "events.jsonl").read()
        assert said == [line for event in recorded if (line := lines.plain(event))]
        assert any("FAILED in responses" in line for line in said)
        assert any("samples/s" in line for line in said)
        assert any("fault of the client" in line for line in said)
        assert all(line.isprintable() for line in said)

    def test_the_first_event_has_what_the_plan_says(self, project):
        """Rounds, estimates, and of a rented machine its price and when it was booted: no view reads the plan."""
        resolved = project.plan(design={"warmup_blocks": 1, "blocks": 2})
        path = project.run_dir / "plan/experiment.json"
        path.write_text(json.dumps(resolved | {"place": {"kind": "gcp", "price": {"hour": 0.42}}}))
        project.run(expect=2, PATH=f"{broken_df(project.root)}:{project.env['PATH']}")
        assert not (project.run_dir / "raw/events.jsonl").read_text().count("run-start")
        project.run()
        events = Tail(project.run_dir / "raw/events.jsonl").read()
        start = next(event for event in events if event.name == "run-start")
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
        assert start.fields == {
            "run": "r", "kind": "tsbs", "place": "gcp", "price_h": "0.42", "machine_since": boot.split()[1],
            "blocks": "2", "variants": "2", "rounds": "6", "finished": "0",
            "round_s": str(resolved["duration"]["round_s"]), "workload_s": str(resolved["duration"]["workload_s"]),
        }  # fmt: skip
        assert {event.text("phases") for event in events if event.name == "round-start"} == {"6"}

    @pytest.mark.parametrize(
        ("name", "fields", "said"),
        [
            ("forecast", {"block": "3", "message": "10 blocks can show 6 %"}, "forecast 10 blocks can show 6 %"),
            ("stop-requested", {"round": "01-1-baseline"}, "stop requested: 01-1-baseline is finished first"),
            (
                "phase-end",
                {"phase": "load", "round": "r", "exit": "2", "seconds": "3.1"},
                "r load ended with exit code 2 after 3.1 s",
            ),
            ("progress", {"phase": "load"}, None),
            ("what", {"message": "x"}, None),
        ],
    )
    def test_what_others_add(self, name, fields, said):
        """A forecast after a block, a request to stop, a client that failed; an event that is unknown says nothing."""
        event = parse(json.dumps({"t": 1.0, "event": name, **fields}).encode())
        assert lines.plain(event) == (said and f"00:00:01 {said}")

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"status": "ok"}, "all rounds are run"),
            (
                {"status": "interrupted", "kind": "tsbs", "run": "r"},
                "interrupted; finished rounds are kept. To go on: make tsbs RUN=r",
            ),
            (
                {"message": "stopped as asked", "kind": "gobench", "run": "r"},
                "stopped as asked; finished rounds are kept. To go on: make gobench RUN=r",
            ),
            ({"status": "failed", "message": "3 rounds have failed"}, "the run has stopped: 3 rounds have failed"),
            ({"status": "failed", "code": "1"}, "the run has stopped: exit code 1; the last lines of run.log say more"),
        ],
    )
    def test_how_a_run_ends(self, fields, said):
        """With what to do next."""
        event = parse(json.dumps({"t": 1.0, "event": "run-end", **fields}).encode())
        assert lines.plain(event) == f"00:00:01 {said}"


ATOMS = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
JSON = st.recursive(ATOMS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
NAMES = st.sampled_from([*model._CHANGES, "what"])
FIELDS = st.sampled_from(sorted({field for line in RECORDED for field in json.loads(line)} | {"spare"}))
VALUES = JSON | st.sampled_from(["load", "query", "ok", "-1", "1e999", "nan", "1e14", "\x1b[2J", "warmup"])
EVENTS = st.builds(
    lambda t, name, fields: json.dumps({"t": t, "event": name, **fields}).encode(),
    st.floats() | st.integers() | st.text(),
    NAMES,
    st.dictionaries(FIELDS, VALUES),
)


class TestAnything:
    """A reader of a file that others write, on a machine that can lose its power."""

    @given(st.lists(st.binary() | EVENTS | st.sampled_from(RECORDED), max_size=12), st.floats(1, 2e11))
    def test_no_line_can_harm_it(self, found, now):
        """Whatever is in the file: a state, a panel and lines come out, and nothing that a terminal would obey."""
        events = [event for event in map(parse, found) if event]
        state = model.State()
        for event in events:
            state = model.advance(state, event)
            line, stays = lines.plain(event), screen.history(event, state)
            assert line is None or line.isprintable()
            assert stays is None or stays.plain.isprintable()
        said = drawn(state, now, 80)
        assert all(line.isprintable() and len(line) < 80 for line in said.splitlines())

    @given(st.data())
    def test_a_torn_line_loses_itself_alone(self, data):
        """Cut anywhere, and the next one begun on a line of its own: all others are there."""
        at = data.draw(st.integers(1, len(RECORDED) - 1))
        cut = data.draw(st.integers(0, len(RECORDED[at]) - 2))
        torn = [*RECORDED[:at], RECORDED[at][:cut], *RECORDED[at + 1 :]]
        assert after(torn) == after([*RECORDED[:at], *RECORDED[at + 1 :]])

    def test_a_line_is_read_once_and_when_it_is_whole(self, tmp_path):
        """Also where it is written in two parts, or not there yet."""
        path = tmp_path / "events.jsonl"
        tail = Tail(path)
        assert tail.read() == []
        path.write_bytes(RECORDED[0] + RECORDED[1][:30])
        assert [event.name for event in tail.read()] == ["run-start"]
        path.write_bytes(RECORDED[0] + RECORDED[1] + RECORDED[2])
        assert len(tail.read()) == 2
        assert tail.read() == []
        # Known from elsewhere, and now here as well.
        tail.lines += 1
        path.write_bytes(b"".join(RECORDED[:5]))
        assert tail.read() == [parse(RECORDED[4])]

    def test_text_is_one_line_that_no_terminal_obeys(self):
        """Controls, also the eight-bit ones and those that turn the direction of writing, become spaces."""
        assert clean("a\x1b[2Jb\nc\x9b\u202ed\u00e4") == "a [2Jb c  d\u00e4"


def test_view_is_plain_or_left_away(monkeypatch):
    """Another word is refused with a sentence; without a terminal it is plain anyway."""
    with pytest.raises(UserError, match="VIEW: 'fancy' is no way to look at a run; write VIEW=plain"):
        show.wants_screen({"VIEW": "fancy", "TERM": "xterm"})
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert show.wants_screen({"TERM": "xterm"})
    assert not show.wants_screen({"TERM": "xterm", "VIEW": "plain"})
    assert not show.wants_screen({"TERM": "dumb"})
