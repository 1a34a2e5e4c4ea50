"""An event as a plain line, or as none: what scripts/lib/tell.sh prints of the same event where the rounds run.

For a log, a pipe, or another terminal: no colour, no control character. A test compares the two on a whole run.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tsduel.rounds.view.events import Event

UNITS = {"load": "samples/s", "query": "queries/s", "data": "lines/s"}


def clock(t: float) -> str:
    """Return hours, minutes and seconds of an epoch time in UTC."""
    return datetime.fromtimestamp(t, UTC).strftime("%H:%M:%S")


def plain(event: Event) -> str | None:
    """Return the line of an event, or None for one that only moves a bar."""
    text = _text(event)
    return f"{clock(event.t)} {text}" if text else None


def is_bad(event: Event) -> bool:
    """Whether a line about this is a warning."""
    failed = event.name == "phase-end" and event.text("exit") not in {"", "0"}
    bad_end = event.name in {"round-end", "run-end"} and event.text("status") not in {"", "ok"}
    return failed or bad_end or event.name in {"block-replaced", "note"}


def _text(event: Event) -> str:  # noqa: PLR0911 - one for each kind
    get = event.text
    match event.name:
        case "run-start":
            return f"{get('run')}: {get('finished') or 0} of {get('rounds')} rounds are finished"
        case "round-start":
            return f"{get('round')} begins ({get('kind')})"
        case "phase-end":
            return _phase(event)
        case "round-end":
            return _round(event)
        case "block-replaced":
            return f"block {get('block')} does not count, spare block {get('spare')} is run instead: {get('message')}"
        case "note":
            return f"{_words(event, 'round', 'query_type')}: {get('message')}"
        case "forecast":
            return f"forecast {get('message')}"
        case "stop-requested":
            return get("message") or f"stop requested: {get('round') or 'the round that runs'} is finished first"
        case "run-end":
            return ending(event)
    return ""


def ending(event: Event) -> str:
    """Return how a run has ended, and how to go on with it."""
    status = event.text("status")
    if status == "ok" or (not status and not event.text("message")):
        return "all rounds are run"
    go_on = f"To go on: make {event.text('kind') or 'tsbs'} RUN={event.text('run')}"
    if status in {"", "interrupted"}:
        return f"{event.text('message') or 'interrupted'}; finished rounds are kept. {go_on}"
    why = event.text("message") or f"exit code {event.text('code')}; the last lines of run.log say more"
    return f"the run has stopped: {why}"


def grouped(number: str) -> str:
    """Return a number as text with its thousands apart; what is no whole number stays as it is."""
    return f"{int(number):,}" if re.fullmatch(r"[0-9]{1,30}", number) else number


def _phase(event: Event) -> str:
    what, seconds, rate = _words(event, "round", "phase", "query_type"), event.text("seconds"), event.text("rate")
    if event.text("exit") not in {"", "0"}:
        return f"{what} ended with exit code {event.text('exit')} after {seconds} s"
    return f"{what} {seconds} s" + (f", {grouped(rate)} {UNITS.get(event.text('phase'), '')}" if rate else "")


def _round(event: Event) -> str:
    name, seconds, rate = event.text("round"), event.text("seconds"), event.text("rate")
    if event.text("status") == "ok":
        return f"{name} ok in {seconds} s" + (f", {grouped(rate)} samples/s" if rate else "")
    return f"{name} FAILED in {_words(event, 'phase', 'query_type')} after {seconds} s: {event.text('message')}"


def _words(event: Event, *fields: str) -> str:
    return " ".join(event.text(field) for field in fields if event.text(field))
