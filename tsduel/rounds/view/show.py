"""What is done with events as they come: a screen on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tsduel.core.errors import UserError
from tsduel.rounds.view import lines, model, screen
from tsduel.rounds.view.events import clean
from tsduel.rounds.view.paint import Painter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tsduel.rounds.view.events import Event

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


def choose(environment: Mapping[str, str], log: Callable[[str], Any] = lambda _: None) -> View:
    """Return a screen for a terminal, else plain lines; ``log`` is given what a screen does not print as a line."""
    return Screen(log) if wants_screen(environment) else View()


class View:
    """Plain lines on stdout, one an event that says something; other words on stderr."""

    def __init__(self) -> None:
        self.state = model.State()

    @property
    def pause_s(self) -> float:
        """How long nothing has to be looked at."""
        return PAUSE_TIMED_S if self.state.timed else PAUSE_S

    def catch_up(self, events: Iterable[Event]) -> None:
        """Know what was before, and print nothing of it."""
        self.state = model.after(events, self.state)

    def take(self, events: Iterable[Event]) -> None:
        """Show what has happened."""
        for event in events:
            self.state = model.advance(self.state, event)
            if line := lines.plain(event):
                print(line, flush=True)

    def say(self, text: str) -> None:
        """Say something that is no event."""
        print(text, file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Let time pass."""

    def close(self) -> None:
        """Nothing more will come."""


class Screen(View):
    """Finished rounds as lines that stay, and below them what the run is doing now."""

    def __init__(self, log: Callable[[str], Any] = lambda _: None, *, says_how_it_failed: bool = True) -> None:
        super().__init__()
        self._log = log
        # Where the scripts' own words are shown, they have said so.
        self._says_how_it_failed = says_how_it_failed
        self._painter = Painter(sys.stdout)
        self._painted = 0.0

    def catch_up(self, events: Iterable[Event]) -> None:
        """Show what was before, which no log has to know again."""
        self._paint(self._advance(events, lambda _: None))

    def take(self, events: Iterable[Event]) -> None:
        """Show what stays of the events at once; what moves waits for its time."""
        if staying := self._advance(events, self._log):
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
        self._painter.show([], None)

    def _advance(self, events: Iterable[Event], log: Callable[[str], Any]) -> list[Text]:
        staying = []
        for event in events:
            self.state = model.advance(self.state, event)
            if line := lines.plain(event):
                log(line)
            told = event.name == "run-end" and self.state.over != "ok" and not self._says_how_it_failed
            if (text := screen.history(event, self.state)) and not told:
                staying.append(text)
        return staying

    def _paint(self, staying: list[Text]) -> None:
        now = max(time.time(), self.state.last)
        self._painter.show(staying, None if self.state.over else screen.panel(self.state, now))
        self._painted = time.monotonic()
