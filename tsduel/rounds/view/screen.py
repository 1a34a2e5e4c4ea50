"""A state -> what stands at the foot of the terminal, and what stays above it of a round that is over. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tsduel.rounds.view import lines, model
from tsduel.rounds.view.events import LAST_T

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from tsduel.rounds.view.events import Event
    from tsduel.rounds.view.model import Finished, Phase, State

PLACES = {"local": "on this machine", "ssh": "on another machine", "gcp": "on a rented machine"}
# Everything that lasts is told in whole seconds; below ten of something its tenths matter.
FEW = 10
# From here on there is room for the longest name of a query type.
WIDE = 76
STAY = frozenset({"block-replaced", "note", "forecast", "stop-requested"})


def panel(state: State, now: float) -> RenderableType:
    """Return what the run is doing at a moment, in at most eight lines; too long ones are for the console to cut."""
    if not state.run:
        return Text("no event of this run yet", style="dim")
    parts: list[RenderableType] = [Text(), _head(state), _where(state), _Bars(state, now), _times(state, now)]
    if state.forecast:
        parts.append(Text(f"forecast {state.forecast}", style="cyan"))
    if state.stop_requested:
        parts.append(Text("stop requested: the run ends after this round", style="yellow"))
    return Group(*parts)


def history(event: Event, state: State) -> Text | None:
    """Return the line that stays of an event, or None; ``state``: after it."""
    if event.name == "round-end" and state.ended:
        return _finished(state.ended)
    if event.name == "run-end" and event.text("status") == "ok":
        took = duration(event.t - state.begin)
        failed = f", {state.failed} failed" if state.failed else ""
        return Text(f"{lines.clock(event.t)} all {state.finished} rounds are run{failed}, in {took}", style="bold")
    if event.name in STAY or event.name == "run-end":
        return Text(lines.plain(event) or "", style="yellow" if lines.is_bad(event) else "")
    return None


def duration(seconds: float) -> str:
    """Return minutes and seconds, with hours where there are any: 0:34, 1:02:03."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def rate(value: float, unit: str) -> str:
    """Return a rate with its unit; nothing of one that is unknown."""
    if not value:
        return ""
    return f"{value:,.0f} {unit}" if value >= 10 * FEW else f"{value:.1f} {unit}"


def _finished(of: Finished) -> Text:
    text = Text(f"{lines.clock(of.at)} ", style="dim" if of.kind == "warmup" else "")
    text.append(f"{of.name:<15} ")
    if of.ok:
        text.append(f"ok {duration(of.seconds):>8}")
        text.append(f"  {rate(of.load_rate, 'samples/s'):>19}  {rate(of.query_rate, 'queries/s'):>17}".rstrip())
    else:
        text.append(f"FAILED after {duration(of.seconds)}: {of.message}", style="red")
    return text


def _head(state: State) -> Text:
    text = Text(state.run, style="bold")
    text.append(f"  stage run (4 of 7) {PLACES.get(state.place, state.place)}", style="not bold")
    return text


def _where(state: State) -> Text:
    at = state.round
    if at is None:
        doing = {"data": "making the data", "queries": "making the queries", "profile": "profiling, after the rounds"}
        said = doing.get(state.phase.name, "") if state.phase else ""
        return Text(said or f"{state.finished} of {state.rounds} rounds are finished")
    kind = {"warmup": "warm-up block", "spare": f"spare block {at.block}"}.get(at.kind)
    block = kind or f"block {at.block} of {state.blocks}"
    text = Text(f"{block}, round {state.finished + 1} of {state.rounds}: ")
    text.append(at.name, style="bold")
    if at.number and at.phases >= at.number:
        text.append(f", phase {at.number} of {at.phases}")
    return text


@dataclass(frozen=True)
class _Bars:
    """The rows with bars, in columns that stay where they are whatever is in them."""

    state: State
    now: float

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        yield _bars(self.state, self.now, options.max_width)


def _bars(state: State, now: float, width: int) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    narrow = width < WIDE
    table.add_column(no_wrap=True, width=13 if narrow else 27, overflow="ellipsis")
    table.add_column(ratio=1)
    table.add_column(no_wrap=True, width=5, justify="right")
    table.add_column(no_wrap=True, width=20, overflow="ellipsis")
    if state.phase:
        table.add_row(*_phase_row(state, state.phase, now))
    left = model.remaining(state, now)
    # By time and not by rounds, so that it moves while a round of half an hour runs.
    done = max(0.0, now - state.begin)
    share = done / (done + left) if done + left else 0.0
    words = f"about {duration(left)} left" if left else ""
    table.add_row("the whole run", _bar(share), f"{100 * share:.0f} %", words)
    return table


def _phase_row(state: State, phase: Phase, now: float) -> tuple[RenderableType, ...]:
    name = f"{phase.name} {phase.query_type}".strip()
    passed = max(0.0, now - phase.begin)
    usual = state.typical.get((phase.name, phase.query_type), 0.0)
    if phase.total and phase.done:
        share = min(1.0, phase.done[-1][1] / phase.total)
        words = rate(phase.rate, lines.UNITS[phase.name]) if phase.name in lines.UNITS else duration(passed)
    elif usual:
        share, words = min(1.0, passed / usual), f"{duration(passed)} of about {duration(usual)}"
    else:
        # Nobody knows how long it takes.
        return name, "", "", duration(passed)
    return name, _bar(share), f"{100 * share:.0f} %", words


def _bar(share: float) -> ProgressBar:
    return ProgressBar(total=1.0, completed=share, pulse=False)


def _times(state: State, now: float) -> Text:
    words = [f"elapsed {duration(now - state.begin)}"]
    if left := model.remaining(state, now):
        words.append(f"until about {_day(now, now + left)}{lines.clock(min(now + left, LAST_T))[:5]} UTC")
    if state.failed:
        words.append(f"{state.failed} rounds failed")
    if cost := model.spent(state, now):
        words.append(f"{cost:.2f} USD so far")
    return Text(", ".join(words), style="dim")


def _day(now: float, then: float) -> str:
    """Return the day of the week of another day than today."""
    today, day = (datetime.fromtimestamp(t, UTC) for t in (now, min(then, LAST_T)))
    return "" if today.date() == day.date() else f"{day:%a} "
