"""The state of a run -> the foot of the terminal, and the lines of finished blocks above it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tsduel.core.place import WHERE
from tsduel.plan.forecast.spread import Ended
from tsduel.rounds.view import model
from tsduel.rounds.view.events import LAST_T, Event, clock
from tsduel.rounds.view.model import Phase, State

DOING = {"data": "making the data", "queries": "making the queries", "profile": "profiling, after the blocks"}
UNITS = {
    **dict.fromkeys(("load", "ingest"), "samples/s"), **dict.fromkeys(("exchange", "before", "after"), "exchanges/s"),
    **dict.fromkeys(("mixed", "rung"), "operations/s"), "query": "queries/s", "data": "lines/s",
}  # fmt: skip
# From this width on there is room for the longest name of a query type.
WIDE = 76
HUNDRED = 100
STAY = frozenset({"block-replaced", "note", "stop-requested", "run-end"})


def panel(state: State, now: float, forecast: str = "") -> RenderableType:
    """Return the foot of a run, in at most eight lines; the console cuts lines that are too long."""
    if not state.run:
        return Text("no event of this run yet", style="dim")
    where = WHERE.get(state.place, state.place)
    parts: list[RenderableType] = [Text(), _head(state, where), _block(state), _Bars(state, now), _times(state, now)]
    if forecast:
        parts.append(Text(f"forecast {forecast}", style="cyan"))
    if state.stop_requested:
        parts.append(Text("stop requested: the run ends after this block", style="yellow"))
    return Group(*parts)


def fleet(states: Mapping[str, State], now: float) -> RenderableType:
    """Return the foot of a fleet: a row a host, and the times of the slowest."""
    running = {host: state for host, state in states.items() if state.run}
    if not running:
        return Text("no event of this run yet", style="dim")
    slowest = max(running.values(), key=lambda state: model.remaining(state, now))
    table = Table.grid(padding=(0, 1), expand=True)
    for width, ratio in ((8, None), (None, 2), (None, 1), (20, None)):
        table.add_column(no_wrap=True, width=width, ratio=ratio, overflow="ellipsis")
    for host, state in running.items():
        over = {"": "", "ok": "all blocks are run"}.get(state.over, state.over)
        doing = Text(over or _block(replace(state, blocks=0)).plain)
        bar = "" if state.over else _bar(_share(state, now))[0]
        blocks = f"{state.finished} of {state.planned} blocks"
        table.add_row(host, doing, bar, blocks + (f", {state.failed} failed" if state.failed else ""))
    return Group(Text(), _head(slowest, f"on {len(states)} hosts"), table, _times(slowest, now))


def history(event: Event, state: State) -> Text | None:
    """Return the line that stays above the foot, or None; ``state``: after the event."""
    if event.name == "block-end":
        return _finished(state.ended[-1])
    if event.name == "run-end" and event.text("status") == "ok":
        took = duration(event.t - state.begin)
        failed = f", {state.failed} failed" if state.failed else ""
        return Text(f"{clock(event.t)} all {state.finished} blocks are run{failed}, in {took}", style="bold")
    if event.name in STAY and (line := event.line()):
        return Text(line, style="yellow" if event.is_bad else "")
    return None


def duration(seconds: float) -> str:
    """Return minutes and seconds, with hours if there are any: 0:34, 1:02:03."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def rate(value: float, unit: str) -> str:
    """Return a rate with its unit; from 100 on without decimals, and with commas between thousands."""
    return f"{value:,.0f} {unit}" if value >= HUNDRED else f"{value:.1f} {unit}"


def _name(number: int, kind: str, of_blocks: str = "") -> str:
    return {"warmup": "warm-up block", "spare": f"spare block {number}"}.get(kind, f"block {number}{of_blocks}")


def _finished(block: Ended) -> Text:
    text = Text(f"{clock(block.at)} ", style="dim" if block.kind == "warmup" else "")
    text.append(f"{_name(block.number, block.kind):<15} ")
    if not block.ok:
        return text.append(block.why, style="red")
    text.append(f"ok {duration(block.seconds):>8}")
    if block.why:
        return text.append(f"  does not count: {block.why}", style="yellow")
    load = rate(block.load_rate, "samples/s") if block.load_rate else ""
    exchanges = f"{block.exchanges:,.0f} exchanges" if block.exchanges else ""
    return text.append(f"  {load:>20}  {exchanges:>18}".rstrip())


def _head(state: State, where: str) -> Text:
    return Text(state.run, style="bold").append(f"  stage run (4 of 7) {where}", style="not bold")


def _block(state: State) -> Text:
    block, phase = state.block, state.phase
    blocks = f"{state.finished} of {state.planned} blocks are finished"
    if block is None:
        return Text(DOING.get(phase.name if phase else "", blocks))
    of_blocks = f" of {state.blocks}" if state.blocks else ""
    text = Text(_name(block.number, block.kind, of_blocks), style="bold")
    if phase:
        text.append(f": {phase.variant or phase.key[0]}", style="not bold")
    if block.phase and block.phases >= block.phase:
        text.append(f", phase {block.phase} of {block.phases}", style="not bold")
    if block.kind != "measured":
        text.append(f", {blocks}", style="not bold")
    return text


@dataclass(frozen=True)
class _Bars:
    """The rows with bars, in columns whose widths do not depend on their content."""

    state: State
    now: float

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True, width=13 if options.max_width < WIDE else 30, overflow="ellipsis")
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, width=5, justify="right")
        table.add_column(no_wrap=True, width=20, overflow="ellipsis")
        if self.state.phase:
            table.add_row(*_phase_row(self.state, self.state.phase, self.now))
        left = model.remaining(self.state, self.now)
        about = f"about {duration(left)} left" if left else ""
        table.add_row("the whole run", *_bar(_share(self.state, self.now)), about)
        yield table


def _phase_row(state: State, phase: Phase, now: float) -> tuple[RenderableType, ...]:
    name = f"{phase.name} {phase.key[2]}".strip()
    passed = max(0.0, now - phase.begin)
    usual = state.typical.get(phase.key, 0.0)
    if phase.total and phase.done:
        unit = UNITS.get(phase.name)
        live = rate(phase.rate, unit) if unit and phase.rate else duration(passed)
        return name, *_bar(phase.done[-1][1] / phase.total), live
    if usual:
        return name, *_bar(passed / usual), f"{duration(passed)} of about {duration(usual)}"
    return name, "", "", duration(passed)


def _share(state: State, now: float) -> float:
    # Of the time, and not of the blocks, so that it also moves during a block of half an hour.
    done = max(0.0, now - state.begin)
    return done and done / (done + model.remaining(state, now))


def _bar(share: float) -> tuple[RenderableType, str]:
    share = min(1.0, share)
    return ProgressBar(total=1.0, completed=share, pulse=False), f"{100 * share:.0f} %"


def _times(state: State, now: float) -> Text:
    parts = [f"elapsed {duration(now - state.begin)}"]
    if left := model.remaining(state, now):
        parts.append(f"until about {_day(now, now + left)}{clock(min(now + left, LAST_T))[:5]} UTC")
    if state.failed:
        parts.append(f"{state.failed} block{'s' if state.failed > 1 else ''} failed")
    if cost := model.spent(state, now):
        parts.append(f"{cost:.2f} USD so far")
    return Text(", ".join(parts), style="dim")


def _day(now: float, then: float) -> str:
    """Return the weekday of another day than today, else ""."""
    today, day = (datetime.fromtimestamp(t, UTC) for t in (now, min(then, LAST_T)))
    return "" if today.date() == day.date() else f"{day:%a} "
