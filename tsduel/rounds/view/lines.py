"""An event as a plain line, or as none: the words that the Go program prints of the same event where the blocks run.

For a log, a pipe, or another terminal: no colour, no control character. tests/golden/view-lines.txt pins both.
"""

from datetime import UTC, datetime

from tsduel.rounds.view.events import Event, clean

UNITS = {
    **dict.fromkeys(("load", "ingest"), "samples/s"), **dict.fromkeys(("exchange", "before", "after"), "exchanges/s"),
    **dict.fromkeys(("mixed", "rung"), "operations/s"), "query": "queries/s", "data": "lines/s",
}  # fmt: skip
HUNDRED = 100


def clock(t: float) -> str:
    """Return hours, minutes and seconds of an epoch time in UTC."""
    return datetime.fromtimestamp(t, UTC).strftime("%H:%M:%S")


def plain(event: Event, host: str = "") -> str | None:
    """Return the line of an event, or None for one that only moves a bar; ``host``: of a fleet, whose it is."""
    text = _text(event)
    return f"{clock(event.t)} {f'{host} ' if host else ''}{text}" if text else None


def is_bad(event: Event) -> bool:
    """Whether a line about this is a warning."""
    broken = event.name == "phase-end" and event.number("exit") != 0
    bad_end = event.name in {"block-end", "run-end"} and event.text("status") != "ok"
    return broken or bad_end or bool(event.text("void")) or event.name in {"block-replaced", "note"}


def _text(event: Event) -> str:  # noqa: PLR0911 - one for each kind
    get = event.text
    match event.name:
        case "run-start":
            cells = f", {get('cells')} cells in turn" if event.number("cells") > 1 else ""
            return f"{get('run')}: {get('finished') or 0} of {get('planned')} blocks are finished{cells}"
        case "block-start":
            return f"block {get('block')} begins ({' '.join(filter(None, (get('kind'), get('cell'))))})"
        case "phase-end":
            return _phase(event)
        case "block-end":
            return _block(event)
        case "block-replaced":
            return f"block {get('block')} does not count, spare block {get('spare')} is run instead: {get('message')}"
        case "note":
            where = _where(event, "variant", "query_type")
            return f"{where}: {get('message')}" if where else get("message")
        case "stop-requested":
            return get("message") or f"stop requested: block {get('block')} is finished first"
        case "run-end":
            return ending(event)
    return ""


def ending(event: Event) -> str:
    """Return how a run has ended, and how to go on with it."""
    get = event.text
    if get("status") == "ok":
        return "all blocks are run"
    if get("status") == "interrupted":
        go_on = f"To go on: make {get('kind')} RUN={get('run')}"
        return f"{get('message')}; finished blocks are kept. {go_on}"
    return f"the run has stopped: {get('message')}"


def rate(value: float, unit: str) -> str:
    """Return a rate with its unit: whole from a hundred on, with thousands apart."""
    return f"{value:,.0f} {unit}" if value >= HUNDRED else f"{value:.1f} {unit}"


def failed(event: Event) -> str:
    """Return where a block has failed first, after how long and why."""
    failures = [found for found in event.items("failures") if isinstance(found, dict)]
    if not failures:
        return f"{event.text('status')} in {event.number('seconds'):.0f} s"
    first = {name: clean(str(failures[0].get(name) or "")) for name in ("variant", "phase", "query_type", "message")}
    *where, why = first.values()
    said = " ".join(word for word in ("FAILED in", *where) if word)
    return f"{said} after {event.number('seconds'):.0f} s: {why}"


def _phase(event: Event) -> str:
    # The duel is nobody's alone.
    what = _where(event, "variant" if event.text("variant") else "part", "phase", "query_type")
    seconds, speed = event.number("seconds"), event.number("rate")
    if event.number("exit"):
        return f"{what} ended with exit code {event.text('exit')} after {seconds:.1f} s"
    unit = UNITS.get(event.text("phase"), "")
    return f"{what} {seconds:.1f} s" + (f", {rate(speed, unit)}" if speed and unit else "")


def _block(event: Event) -> str:
    if event.text("status") == "ok" and event.text("void"):
        return f"block {event.text('block')} does not count: {event.text('void')}"
    return f"block {event.text('block')} {failed(event)}"


def _where(event: Event, *fields: str) -> str:
    block = [f"block {event.text('block')}"] if event.text("block") else []
    return " ".join(block + [event.text(field) for field in fields if event.text(field)])
