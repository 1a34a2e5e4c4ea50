"""Shows events: a screen on a terminal, plain lines anywhere else."""

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rich.text import Text

from tsduel.core import runlog
from tsduel.core.errors import UserError
from tsduel.core.rundir import Run
from tsduel.core.wording import did_you_mean, lasting
from tsduel.plan.forecast.spread import Forecast, Outlook
from tsduel.rounds.view import model, screen
from tsduel.rounds.view.events import Event, clean, clock
from tsduel.rounds.view.paint import Painter

# Seconds between two reads of the events. A timed phase may run on this machine, so read less often then.
PAUSE_S, PAUSE_TIMED_S = 1.0, 2.0
PARTS = frozenset({"block-start", "phase-end"})
"""Events of parts of a block; without VIEW=verbose a block is one line."""
SIDE = re.compile(r"\b(?:baseline|candidate(?:-\d+)?)\b")


def wants_screen(environment: Mapping[str, str]) -> bool:
    """Whether there is a terminal that can move its cursor, without VIEW."""
    view = environment.get("VIEW", "").strip()
    if view not in {"", "plain", "verbose"}:
        raise UserError(
            f"VIEW: {view!r} is no way to look at a run; write VIEW=plain for a line a block, VIEW=verbose for all "
            f"phases, or leave it away{did_you_mean(view, ('plain', 'verbose'))}"
        )
    dumb = environment.get("TERM", "") in {"", "dumb"}
    return not view and not dumb and sys.stdout.isatty() and sys.stderr.isatty()


class Board:
    """Shows all views of a run: one view, or one view of each host of a fleet."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.views: list[View] = []
        self.painter = Painter(sys.stdout)

    def paint(self, staying: list[Text]) -> None:
        """Print the lines that stay above the foot, and draw the foot again."""
        with self.lock:
            now = max(time.time(), *(view.state.last for view in self.views))
            foot = None
            if any(not view.state.over for view in self.views):
                first, *others = self.views
                states = {view.host: view.state for view in self.views}
                foot = screen.fleet(states, now) if others else screen.panel(first.state, now, first.forecast)
            self.painter.show(staying, foot)

    def close(self) -> None:
        """Remove the foot, if there is one."""
        self.painter.show([], None)


@dataclass(eq=False)
class View:
    """Prints a line a block on stdout (VIEW=verbose: a line a phase), and other messages on stderr.

    ``expected``: the forecast, for a line where what is foreseen changes; ``log``: takes every line; ``logged``: the Go
    program logs the lines of events itself. Each ``host`` of a fleet has its own view on one ``board``.
    """

    expected: Forecast | None
    log: Callable[[str], object] = lambda _: None
    logged: bool = False
    host: str = ""
    board: Board = field(default_factory=Board)
    state: model.State = field(default_factory=model.State)
    forecast: str = ""
    _said: Outlook | None = None

    def __post_init__(self) -> None:
        self.board.views.append(self)

    @property
    def pause_s(self) -> float:
        """Seconds until the next read of the events."""
        return PAUSE_TIMED_S if self.state.timed else PAUSE_S

    def catch_up(self, events: Iterable[Event]) -> None:
        """Take the events of earlier sessions, which the log has already, and print nothing."""
        for event in events:
            self._advance(event)

    def take(self, events: Iterable[Event]) -> None:
        """Show new events."""
        for event in map(self._named, events):
            forecast, line = self._advance(event, self.log), event.line(self.host)
            if event.name == "block-end" and line:
                line += self._to_go(event.t)
            if self._is_shown(event):
                with self.board.lock:
                    for text in filter(None, (line, forecast)):
                        print(text, file=runlog.unlogged(sys.stdout), flush=True)

    def say(self, text: str) -> None:
        """Show a message that is no event."""
        with self.board.lock:
            print(text, file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Show that time has passed."""

    def _is_shown(self, event: Event) -> bool:
        return (
            event.is_bad
            or event.name not in PARTS
            or not event.text("block")
            or os.environ.get("VIEW", "").strip() == "verbose"
        )

    def _named(self, event: Event) -> Event:
        """Say v1.133.0 where an event says candidate, if the labels tell the variants apart."""
        plan = self.expected.plan if self.expected else None
        labels = {variant.name: variant.label for variant in plan.variants} if plan else {}
        if len(set(labels.values())) < len(labels):
            return event
        texts = {name: text for name in ("line", "variant") if (text := event.text(name))}
        named = {name: SIDE.sub(lambda match: labels.get(match[0], match[0]), text) for name, text in texts.items()}
        return replace(event, fields={**event.fields, **named})

    def _advance(self, event: Event, log: Callable[[str], object] = lambda _: None) -> str:
        """Take one more event and log its lines; return that of the forecast where it has changed, else ""."""
        self.state, forecast = model.advance(self.state, event), ""
        if event.name == "block-end" and self.expected:
            goes_on = model.remaining(self.state, event.t) > 0
            outlook = self.expected.after_block(self.state.ended, goes_on=goes_on)
            self.forecast = outlook.text if outlook else ""
            # Behind the last block comes the comparison.
            if outlook and goes_on and outlook.is_news(self._said):
                self._said, forecast = outlook, f"{clock(event.t)} forecast {outlook.text}"
        for line in filter(None, ("" if self.logged else event.line(self.host), forecast)):
            log(line)
        return forecast

    def _to_go(self, t: float) -> str:
        to_go_s = model.remaining(self.state, t)
        return f"; about {lasting(to_go_s)} to go" if to_go_s else ""


class Screen(View):
    """Shows finished blocks as lines that stay, and below them the state of the run as a foot."""

    _painted = 0.0

    def catch_up(self, events: Iterable[Event]) -> None:
        """Show the events of earlier sessions, which the log has already."""
        self._paint(self._staying(events, lambda _: None))

    def take(self, events: Iterable[Event]) -> None:
        """Print lines that stay at once; `tick` draws the foot."""
        if staying := self._staying(events, self.log):
            self._paint(staying)

    def say(self, text: str) -> None:
        """Print a text above the foot."""
        self.log(text)
        self._paint([Text(clean(line)) for line in text.splitlines() or [""]])

    def tick(self) -> None:
        """Draw the foot again after the pause."""
        if time.monotonic() - self._painted >= self.pause_s - 0.1:
            self._paint([])

    def _staying(self, events: Iterable[Event], log: Callable[[str], object]) -> list[Text]:
        staying = []
        for event in map(self._named, events):
            forecast = self._advance(event, log)
            if text := screen.history(event, self.state):
                staying.append(Text.assemble(f"{self.host} ", text) if self.host else text)
            if forecast:
                # The foot has it, too, but cuts a long line.
                staying.append(Text(forecast))
        return staying

    def _paint(self, staying: list[Text]) -> None:
        self.board.paint(staying)
        self._painted = time.monotonic()


def view_of(run: Run, host: str, environment: Mapping[str, str], **more: Any) -> View:
    """Return the view of a host, with the forecast of its run: a Screen on a terminal. ``more``: fields of View."""
    kind = Screen if wants_screen(environment) else View
    return kind(Forecast.read(run), host=run.plan.named(host), **more)
