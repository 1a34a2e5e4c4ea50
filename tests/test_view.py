"""The view of a run: events -> state -> screen and lines, and that no line can harm it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
from asking import planned
from goldens import golden
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tsduel.plan.forecast.spread import Forecast
from tsduel.rounds.view import model, screen, show
from tsduel.rounds.view.events import Tail, clean, parse

DATA = Path(__file__).parent / "data" / "events.jsonl"
RECORDED = DATA.read_bytes().splitlines(keepends=True)


def drawn(state, now, width, forecast=""):
    """Return the panel as text, as a terminal of that width shows it."""
    console = Console(file=io.StringIO(), width=width - 1, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(screen.panel(state, now, forecast), no_wrap=True, overflow="ellipsis", crop=True)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()[1:]) + "\n"


def moment(word):
    """Return the recorded lines up to the first that has these words, and its time."""
    at = next(n for n, line in enumerate(RECORDED) if all(w in line.decode() for w in word))
    return RECORDED[: at + 1], json.loads(RECORDED[at])["t"]


def after(found):
    """Return the state after these lines."""
    return reduce(model.advance, filter(None, map(parse, found)), model.State())


MOMENTS = {
    "before the first block": ['"phase-end"', '"queries"'],
    "load": ['"progress"', '"load"'],
    "settle, the first": ['"phase-start"', '"settle"'],
    "settle, later": ['"phase-start"', '"settle"', '"block":2'],
    "the duel": ['"progress"', '"exchange"', '"total":64'],
    "between two blocks": ['"block-end"', '"block":1'],
}


def failing(**more):
    """Return a block that has failed, as an event."""
    said = {"status": "failed", "line": "block 1 FAILED in candidate load after 3 s: why"}
    fields = {"block": 1, "kind": "measured", "seconds": 3, **said, **more}
    return parse(json.dumps({"t": 1.0, "event": "block-end", **fields}).encode())


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
        """A price, a forecast, a failed block, and the end after this block."""
        found, t = moment(MOMENTS["load"])
        start = json.loads(found[0]) | {"place": "gcp", "price_h": 0.42, "machine_since": t - 7200}
        more = json.dumps({"t": t, "event": "stop-requested"}).encode()
        state = after([json.dumps(start).encode(), *found[1:], more])
        said = drawn(state, t, 80, "after block 1 of 8: 6 % in load rate")
        assert "0.84 USD so far" in said
        assert "until about Sun 09:38" in drawn(replace(state, block_s=8 * 3600, stop_requested=False), t, 80)
        assert "on a rented machine" in said
        assert "forecast after block 1 of 8: 6 % in load rate" in said
        assert "stop requested" in said
        state = model.advance(state, failing())
        assert "1 block failed" in drawn(state, t, 80)
        assert "FAILED in candidate load after 3 s: why" in screen.history(failing(), state).plain
        spoilt = failing(status="ok", causes=["foreign CPU 52 %"])
        assert "does not count: foreign CPU 52 %" in screen.history(spoilt, model.advance(state, spoilt)).plain

    @pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 300])
    def test_nothing_is_wider_than_the_terminal(self, width):
        """At any width: we count a line that the terminal breaks as one."""
        for words in MOMENTS.values():
            found, t = moment(words)
            assert max(map(len, drawn(after(found), t, width).splitlines())) < width

    def test_what_stays_of_a_whole_run(self):
        """A line a block, and how it ended."""
        state, stays = model.State(), []
        for event in filter(None, map(parse, RECORDED)):
            state = model.advance(state, event)
            if text := screen.history(event, state):
                stays.append(text.plain)
        golden("view-history.txt", "\n".join(stays) + "\n")
        assert max(len(line) for line in stays if " ok " in line) < 80


class TestModel:
    """The state of a run, and its remaining time."""

    def test_remaining_time_comes_from_the_plan_and_then_from_finished_blocks(self):
        """The median of such blocks; before the first, the time of the plan."""
        start = after(RECORDED[:1])
        assert model.remaining(start, start.last) == start.planned * start.block_s
        found, t = moment(MOMENTS["between two blocks"])
        state = after(found)
        (took,) = state.seconds["measured"]
        assert state.planned - state.finished == 1
        assert model.remaining(state, t) == took

    def test_the_time_to_make_the_data_comes_from_its_rate(self):
        """Or from the plan, before there is a rate."""
        start = after([*RECORDED[:1], b'{"t": 1795253880, "event": "phase-start", "phase": "data"}'])
        blocks = start.planned * start.block_s
        assert model.remaining(start, 1795253883) == blocks + start.workload_s - 3
        line = b'{"t": %d, "event": "progress", "phase": "data", "done": %d, "total": 1000}'
        more = [line % (1795253880 + n, 10 * n) for n in (2, 4)]
        assert model.remaining(reduce(model.advance, map(parse, more), start), 1795253885) == blocks + (1000 - 40) / 10

    def test_a_resumed_run_counts_finished_blocks(self):
        """A second run-start sets the clock to 0; a block whose end was not written counts, too."""
        found, t = moment(MOMENTS["between two blocks"])
        again = json.loads(RECORDED[0]) | {"t": t + 1000, "finished": 3}
        state = after([*found, b'{"t": 17', b"\n", json.dumps(again).encode()])
        assert (state.finished, state.begin, state.block, state.over) == (3, t + 1000, None, "")

    def test_a_replaced_block_does_not_count_and_adds_one_to_run(self):
        """The replacement shows that it is spoilt, also if its end did not."""
        event = b'{"t": 1.0, "event": "block-replaced", "block": 1, "spare": 7, "message": "foreign CPU"}'
        state = after([*RECORDED, event])
        assert state.planned == after(RECORDED).planned + 1
        assert [block.causes for block in state.ended] == [(), ("foreign CPU",), ()]

    def test_a_void_block_does_not_count_and_null_is_no_ratio(self):
        """A load of no time has no rate: that is not zero."""
        ratios = {"candidate": {"load_rate": None, "duel_typical_ms": 0.5}}
        (block,) = model.advance(
            model.State(), failing(status="ok", void="warmer", causes=["steal 9 %"], ratios=ratios)
        ).ended
        assert (block.causes, block.spoilt, block.why) == (("warmer", "steal 9 %"), True, "warmer, steal 9 %")
        assert block.ratios == {"candidate": {"duel_typical_ms": 0.5}}

    def test_live_rate_is_of_late(self):
        """It is of the last ten seconds, and of the running phase."""
        start = {"t": 100.0, "event": "phase-start", "phase": "load"}
        step = {"event": "progress", "phase": "load", "total": 1e6}
        steps = [step | {"t": 100.0 + 2 * n, "done": 10 * n * n} for n in range(1, 20)]
        state = after(json.dumps(e).encode() for e in (start, *steps))
        assert state.phase.rate == (10 * 19**2 - 10 * 14**2) / 10
        other = {"t": 200.0, "event": "progress", "phase": "query", "done": 5, "total": 9}
        assert after([json.dumps(e).encode() for e in (start, *steps, other)]).phase == state.phase


class TestLines:
    """Plain lines, without a terminal."""

    def test_a_whole_run(self):
        """One printable line a phase. host/record tests its words."""
        said = [line for event in filter(None, map(parse, RECORDED)) if (line := event.line())]
        golden("view-lines.txt", "\n".join(said) + "\n")
        assert all(line.isprintable() for line in said)

    @pytest.mark.parametrize(("view", "parts"), [("plain", False), ("verbose", True)])
    def test_a_block_is_a_short_line_and_the_forecast_one_where_it_changes(self, capsys, monkeypatch, view, parts):
        """Phases are for those who ask. All is logged, unless the Go program logs it; then only the forecasts are."""
        monkeypatch.setenv("VIEW", view)
        expected = Forecast(planned(), (), {})
        found = [event for event in map(parse, RECORDED) if event]
        first = next(n for n, event in enumerate(found) if event.name == "block-end") + 1
        own = [line for event in found[first:] if (line := event.line())]
        for logged_by_go in (True, False):
            logged = []
            shown = show.View(expected, logged.append, logged=logged_by_go)
            shown.catch_up(found[:first])
            shown.take(found[first:])
            printed = capsys.readouterr().out.splitlines()
            # The session before has said what the warm-up tells: nothing is new.
            assert not any("forecast" in line for line in [*printed, *logged])
            assert re.search(r" block 1 ok in \d+ s; about \d+ s to go$", "\n".join(printed), re.MULTILINE)
            without = [line.partition("; about ")[0] for line in printed]
            assert (without == own) == parts
            assert [line for line in own if line in without] == without
            assert logged == ([] if logged_by_go else own)
            show.View(expected, logged.append, logged=True).take(found)
            (foreseen,) = [line for line in logged if " forecast after the warm-up: " in line]
            assert [line for line in capsys.readouterr().out.splitlines() if "forecast" in line] == [foreseen]

    def test_a_side_is_named_by_its_version(self, capsys):
        """Where labels tell the variants apart; the reason of a failure as well."""
        plan = planned()
        labels = {"baseline": "v1.132.0", "candidate": "v1.133.0"}
        sides = tuple(side.model_copy(update={"label": labels[side.name]}) for side in plan.variants)
        view = show.View(Forecast(plan.model_copy(update={"variants": sides}), (), {}))
        view.take([failing()])
        assert "block 1 FAILED in v1.133.0 load after 3 s: why" in capsys.readouterr().out
        assert view.state.ended[0].why == "FAILED in v1.133.0 load after 3 s: why"


ATOMS = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
JSON = st.recursive(ATOMS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
NAMES = st.sampled_from([*model._CHANGES, "what"])
FIELDS = st.sampled_from(sorted({field for line in RECORDED for field in json.loads(line)} | {"spare"}))
ODD = ["load", "ok", "-1", -1, 1e14, "\x1b[2J", "warmup", [{"message": 1}], {"c": {"m": None}}]
VALUES = JSON | st.sampled_from(ODD)
EVENTS = st.builds(
    lambda t, name, fields: json.dumps({"t": t, "event": name, **fields}).encode(),
    st.floats() | st.integers() | st.text(),
    NAMES,
    st.dictionaries(FIELDS, VALUES),
)


class TestAnything:
    """Files that another program writes, on a machine that can lose its power."""

    @given(st.lists(st.binary() | EVENTS | st.sampled_from(RECORDED), max_size=12), st.floats(1, 2e11))
    def test_no_line_can_harm_it(self, found, now):
        """Any file gives a state, a panel and lines that are printable."""
        events = [event for event in map(parse, found) if event]
        state = model.State()
        for event in events:
            state = model.advance(state, event)
            line, stays = event.line(), screen.history(event, state)
            assert line == "" or line.isprintable()
            assert stays is None or stays.plain.isprintable()
        said = drawn(state, now, 80)
        assert all(line.isprintable() and len(line) < 80 for line in said.splitlines())

    @given(st.data())
    def test_a_torn_line_loses_itself_alone(self, data):
        """A cut line does not affect the others."""
        at = data.draw(st.integers(1, len(RECORDED) - 1))
        cut = data.draw(st.integers(0, len(RECORDED[at]) - 2))
        torn = [*RECORDED[:at], RECORDED[at][:cut], *RECORDED[at + 1 :]]
        assert after(torn) == after([*RECORDED[:at], *RECORDED[at + 1 :]])

    def test_a_line_is_read_once_and_when_it_is_whole(self, tmp_path):
        """Also if it is written in two parts, or not written yet."""
        path = tmp_path / "events.jsonl"
        tail = Tail(path)
        assert tail.read() == []
        path.write_bytes(RECORDED[0] + RECORDED[1][:30])
        assert [event.name for event in tail.read()] == ["run-start"]
        path.write_bytes(RECORDED[0] + RECORDED[1] + RECORDED[2])
        assert len(tail.read()) == 2
        assert tail.read() == []
        # A line that is known from elsewhere.
        tail.lines += 1
        path.write_bytes(b"".join(RECORDED[:5]))
        assert tail.read() == [parse(RECORDED[4])]

    def test_text_is_one_line_that_no_terminal_obeys(self):
        """Controls, also the eight-bit ones and those that turn the direction of writing, become spaces."""
        assert clean("a\x1b[2Jb\nc\x9b\u202ed\u00e4") == "a [2Jb c  d\u00e4"


def test_view_is_plain_or_left_away(monkeypatch):
    """Without a terminal it is plain anyway."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert show.wants_screen({"TERM": "xterm"})
    assert not show.wants_screen({"TERM": "xterm", "VIEW": "plain"})
    assert not show.wants_screen({"TERM": "dumb"})
