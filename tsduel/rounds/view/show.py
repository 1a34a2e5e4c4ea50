"""What is done with events as they come: a screen on a terminal, plain lines anywhere else."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.text import Text

from tsduel.core.errors import UserError
from tsduel.rounds.view import forecast, lines, model, screen
from tsduel.rounds.view.events import Event, clean
from tsduel.rounds.view.paint import Painter

# Seconds between two looks: seldom while a phase is timed on this very machine.
PAUSE_S, PAUSE_TIMED_S = 1.0, 2.0


def wants_screen(environment: Mapping[str, str]) -> bool:
    """Whether somebody sits at a terminal that can move its cursor, and has not said VIEW=plain."""
    asked = environment.get("VIEW", "").strip()
    if asked not in {"", "plain"}:
        raise UserError(
            f"VIEW: {asked!r} is no way to look at a run; write VIEW=plain for plain lines, or leave it away"
        )
    dumb = environment.get("TERM", "") in {"", "dumb"}
    return not asked and not dumb and sys.stdout.isatty() and sys.stderr.isatty()


class Board:
    """Where all views of a run are shown: one, or one for each host of a fleet, which are attended at once."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.views: list[View] = []
        self.painter = Painter(sys.stdout)

    def paint(self, staying: list[Text]) -> None:
        """Put what stays above the foot, and draw the foot anew."""
        with self.lock:
            now = max(time.time(), *(view.state.last for view in self.views))
            going = [view for view in self.views if not view.state.over]
            if len(self.views) == 1:
                foot = screen.panel(going[0].state, now, going[0].forecast) if going else None
            else:
                foot = screen.fleet({view.host: view.state for view in self.views}, now) if going else None
            self.painter.show(staying, foot)

    def close(self) -> None:
        """Leave what stays, and nothing else."""
        for view in self.views:
            view.close()


class View:
    """Plain lines on stdout, one an event that says something; what is no event on stderr."""

    def __init__(
        self,
        section: Mapping[str, Any],
        log: Callable[[str], Any],
        *,
        said: bool = False,
        host: str = "",
        board: Board | None = None,
    ) -> None:
        self.state = model.State()
        self.forecast = ""
        self.host, self.board = host, board or Board()
        self._section, self._log, self._said = section, log, said
        self.board.views.append(self)

    @property
    def pause_s(self) -> float:
        """How long nothing has to be looked at."""
        return PAUSE_TIMED_S if self.state.timed else PAUSE_S

    def catch_up(self, events: Iterable[Event]) -> None:
        """Know what was before, and print nothing of it."""
        for event in events:
            self._advance(event)

    def take(self, events: Iterable[Event]) -> None:
        """Show what has happened."""
        for event in events:
            foreseen = self._advance(event)
            with self.board.lock:
                if not self._said and (line := lines.plain(event, self.host)):
                    print(line, flush=True)
                if foreseen:
                    print(foreseen, flush=True)

    def say(self, text: str) -> None:
        """Say something that is no event."""
        with self.board.lock:
            print(text, file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Let time pass."""

    def close(self) -> None:
        """Nothing more will come."""

    def _advance(self, event: Event) -> str:
        """Know one more event; return the forecast's line where it is the end of a block."""
        self.state = model.advance(self.state, event)
        if event.name != "block-end":
            return ""
        self.forecast = forecast.after_block(self.state, self._section)
        return f"{lines.clock(event.t)} forecast {self.forecast}" if self.forecast else ""


class Screen(View):
    """Finished blocks as lines that stay, and below them what the run is doing now."""

    _painted = 0.0

    def catch_up(self, events: Iterable[Event]) -> None:
        """Show what was before, which no log has to know again."""
        self._paint(self._staying(events, lambda _: None))

    def take(self, events: Iterable[Event]) -> None:
        """Show what stays of the events at once; what moves waits for its time."""
        if staying := self._staying(events, self._log):
            self._paint(staying)

    def say(self, text: str) -> None:
        """Put a text above the foot."""
        self._log(text)
        self._paint([Text(clean(line)) for line in text.splitlines() or [""]])

    def tick(self) -> None:
        """Draw the foot anew where it is time to."""
        if time.monotonic() - self._painted >= self.pause_s - 0.1:
            self._paint([])

    def close(self) -> None:
        """Leave what stays, and nothing else."""
        self.board.painter.show([], None)

    def _staying(self, events: Iterable[Event], log: Callable[[str], Any]) -> list[Text]:
        staying = []
        for event in events:
            foreseen = self._advance(event)
            if not self._said and (line := lines.plain(event, self.host)):
                log(line)
            if text := screen.history(event, self.state):
                staying.append(Text.assemble(f"{self.host} ", text) if self.host else text)
            if foreseen:
                log(foreseen)
                # The foot has it as well, in as much of a line as there is.
                staying.append(Text(foreseen))
        return staying

    def _paint(self, staying: list[Text]) -> None:
        self.board.paint(staying)
        self._painted = time.monotonic()


def choose(
    environment: Mapping[str, str],
    section: Mapping[str, Any],
    log: Callable[[str], Any] = lambda _: None,
    host: str = "",
    board: Board | None = None,
    *,
    said: bool = False,
) -> View:
    """Return a screen for a terminal, else plain lines.

    ``section``: plan/forecast.json, see tsduel.rounds.view.forecast; ``log`` is given what a screen does not print as a
    line; ``said``: the Go program on this machine prints and logs the events' own lines itself. Of a fleet each
    ``host`` has a view of its own on one ``board``.
    """
    return (Screen if wants_screen(environment) else View)(section, log, said=said, host=host, board=board)
