"""A state -> what stands at the foot of the terminal, and what stays above it of a block that is over. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tsduel.rounds.view import lines, model
from tsduel.rounds.view.events import LAST_T, Event
from tsduel.rounds.view.model import Finished, Phase, State

PLACES = {"local": "on this machine", "ssh": "on another machine", "gcp": "on a rented machine"}
# From here on there is room for the longest name of a query type.
WIDE = 76
STAY = frozenset({"block-replaced", "note", "stop-requested", "run-end"})


def panel(state: State, now: float, forecast: str = "") -> RenderableType:
    """Return what the run is doing at a moment, in at most eight lines; too long ones are for the console to cut."""
    if not state.run:
        return Text("no event of this run yet", style="dim")
    parts: list[RenderableType] = [Text(), _head(state), _where(state), _Bars(state, now), _times(state, now)]
    if forecast:
        parts.append(Text(f"forecast {forecast}", style="cyan"))
    if state.stop_requested:
        parts.append(Text("stop requested: the run ends after this block", style="yellow"))
    return Group(*parts)


def fleet(states: Mapping[str, State], now: float) -> RenderableType:
    """Return what all hosts are doing: a row each, and the times of the slowest."""
    known = {host: state for host, state in states.items() if state.run}
    if not known:
        return Text("no event of this run yet", style="dim")
    slowest = max(known.values(), key=lambda state: model.remaining(state, now))
    hosts = Text(next(iter(known.values())).run, style="bold")
    hosts.append(f"  stage run (4 of 7) on {len(states)} hosts", style="not bold")
    table = Table.grid(padding=(0, 1), expand=True)
    for width, ratio in ((8, None), (None, 2), (None, 1), (20, None)):
        table.add_column(no_wrap=True, width=width, ratio=ratio, overflow="ellipsis")
    for host, state in known.items():
        left = model.remaining(state, now)
        done = max(0.0, now - state.begin)
        over = {"": "", "ok": "all blocks are run"}.get(state.over, state.over)
        doing = Text(over or _where(replace(state, blocks=0)).plain)
        bar = "" if state.over else _bar(done / (done + left) if done + left else 0.0)[0]
        blocks = f"{state.finished} of {state.planned} blocks"
        table.add_row(host, doing, bar, blocks + (f", {state.failed} failed" if state.failed else ""))
    return Group(Text(), hosts, table, _times(slowest, now))


def history(event: Event, state: State) -> Text | None:
    """Return the line that stays of an event, or None; ``state``: after it."""
    if event.name == "block-end":
        return _finished(state.ended[-1])
    if event.name == "run-end" and event.text("status") == "ok":
        took = duration(event.t - state.begin)
        failed = f", {state.failed} failed" if state.failed else ""
        return Text(f"{lines.clock(event.t)} all {state.finished} blocks are run{failed}, in {took}", style="bold")
    if event.name in STAY:
        return Text(lines.plain(event) or "", style="yellow" if lines.is_bad(event) else "")
    return None


def duration(seconds: float) -> str:
    """Return minutes and seconds, with hours where there are any: 0:34, 1:02:03."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def name_of(number: int, kind: str, blocks: int = 0) -> str:
    """Return what a block is called; of ``blocks``, where that is given."""
    measured = f"block {number} of {blocks}" if blocks else f"block {number}"
    return {"warmup": "warm-up block", "spare": f"spare block {number}"}.get(kind, measured)


def _finished(of: Finished) -> Text:
    text = Text(f"{lines.clock(of.at)} ", style="dim" if of.kind == "warmup" else "")
    text.append(f"{name_of(of.number, of.kind):<15} ")
    if not of.ok:
        return text.append(of.said, style="red")
    text.append(f"ok {duration(of.seconds):>8}")
    if of.said:
        return text.append(f"  does not count: {of.said}", style="yellow")
    load = lines.rate(of.load_rate, "samples/s") if of.load_rate else ""
    exchanges = f"{of.exchanges:,.0f} exchanges" if of.exchanges else ""
    return text.append(f"  {load:>20}  {exchanges:>18}".rstrip())


def _head(state: State) -> Text:
    text = Text(state.run, style="bold")
    return text.append(f"  stage run (4 of 7) {PLACES.get(state.place, state.place)}", style="not bold")


def _where(state: State) -> Text:
    at, phase = state.block, state.phase
    if at is None:
        doing = {"data": "making the data", "queries": "making the queries", "profile": "profiling, after the blocks"}
        said = doing.get(phase.name, "") if phase else ""
        return Text(said or f"{state.finished} of {state.planned} blocks are finished")
    text = Text(name_of(at.number, at.kind, state.blocks), style="bold")
    if phase:
        text.append(f": {phase.variant or phase.key[0]}", style="not bold")
    if at.phase and at.phases >= at.phase:
        text.append(f", phase {at.phase} of {at.phases}", style="not bold")
    if at.kind != "measured":
        text.append(f", {state.finished} of {state.planned} blocks are finished", style="not bold")
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
    table.add_column(no_wrap=True, width=13 if width < WIDE else 30, overflow="ellipsis")
    table.add_column(ratio=1)
    table.add_column(no_wrap=True, width=5, justify="right")
    table.add_column(no_wrap=True, width=20, overflow="ellipsis")
    if state.phase:
        table.add_row(*_phase_row(state, state.phase, now))
    left = model.remaining(state, now)
    # By time and not by blocks, so that it moves while a block of half an hour runs.
    done = max(0.0, now - state.begin)
    share = done / (done + left) if done + left else 0.0
    table.add_row("the whole run", *_bar(share), f"about {duration(left)} left" if left else "")
    return table


def _phase_row(state: State, phase: Phase, now: float) -> tuple[RenderableType, ...]:
    name = f"{phase.name} {phase.key[2]}".strip()
    passed = max(0.0, now - phase.begin)
    usual = state.typical.get(phase.key, 0.0)
    if phase.total and phase.done:
        unit = lines.UNITS.get(phase.name)
        said = lines.rate(phase.rate, unit) if unit and phase.rate else duration(passed)
        return name, *_bar(min(1.0, phase.done[-1][1] / phase.total)), said
    if usual:
        return name, *_bar(min(1.0, passed / usual)), f"{duration(passed)} of about {duration(usual)}"
    # Nobody knows how long it takes.
    return name, "", "", duration(passed)


def _bar(share: float) -> tuple[RenderableType, str]:
    return ProgressBar(total=1.0, completed=share, pulse=False), f"{100 * share:.0f} %"


def _times(state: State, now: float) -> Text:
    said = [f"elapsed {duration(now - state.begin)}"]
    if left := model.remaining(state, now):
        said.append(f"until about {_day(now, now + left)}{lines.clock(min(now + left, LAST_T))[:5]} UTC")
    if state.failed:
        said.append(f"{state.failed} block{'s' if state.failed > 1 else ''} failed")
    if cost := model.spent(state, now):
        said.append(f"{cost:.2f} USD so far")
    return Text(", ".join(said), style="dim")


def _day(now: float, then: float) -> str:
    """Return the day of the week of another day than today."""
    today, day = (datetime.fromtimestamp(t, UTC) for t in (now, min(then, LAST_T)))
    return "" if today.date() == day.date() else f"{day:%a} "
