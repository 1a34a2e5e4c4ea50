"""Events -> what a run is doing. Pure: a state and an event make the next state, whatever the events are."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tsduel.rounds.view.events import Event

# While one of these runs, whoever looks does so seldom.
TIMED = frozenset({"load", "settle", "query", "find", "bench"})
# The live rate is that of about as many seconds.
WINDOW_S = 10.0
MESSAGES = 3


@dataclass(frozen=True)
class Phase:
    """The phase that runs: when it began, and what is done of it at which moment, newest last."""

    name: str
    query_type: str
    begin: float
    total: float = 0.0
    done: tuple[tuple[float, float], ...] = ()

    @property
    def rate(self) -> float:
        """Units a second, of late; 0 while nobody knows."""
        if not self.done:
            return 0.0
        (t, done), (then, before) = self.done[-1], self.done[0]
        if t == then:
            then, before = self.begin, 0.0
        return (done - before) / (t - then) if t > then else 0.0


@dataclass(frozen=True)
class Round:
    """The round that runs."""

    name: str
    block: int
    variant: str
    kind: str
    begin: float
    phases: int  # that it has, 0: unknown
    number: int = 0  # of the phase that runs, from 1
    load_rate: float = 0.0
    query_rates: tuple[float, ...] = ()


@dataclass(frozen=True)
class Finished:
    """A round that is over: when, how, its seconds, samples/s, and the geometric mean of queries/s over the types."""

    at: float
    name: str
    kind: str
    ok: bool
    seconds: float
    load_rate: float
    query_rate: float
    message: str


@dataclass(frozen=True)
class State:
    """What a run is doing; everything is empty before its first event."""

    run: str = ""
    kind: str = ""
    place: str = ""
    blocks: int = 0
    variants: int = 0
    rounds: int = 0  # planned, and the spare ones that were needed
    finished: int = 0
    failed: int = 0
    begin: float = 0.0  # of this session: a run that is gone on with begins anew
    last: float = 0.0  # when the last event was
    round_s: float = 0.0  # as the plan has it
    workload_s: float = 0.0
    price_h: float = 0.0
    machine_since: float = 0.0
    round: Round | None = None
    phase: Phase | None = None
    ended: Finished | None = None  # the last one
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # of good rounds, by kind
    typical: Mapping[tuple[str, str], float] = field(default_factory=dict)  # seconds, by phase and query type
    messages: tuple[str, ...] = ()
    forecast: str = ""
    stop_requested: bool = False
    over: str = ""  # ok, interrupted or failed
    ending: Event | None = None

    @property
    def timed(self) -> bool:
        """Whether a phase is timed right now."""
        return self.phase is not None and self.phase.name in TIMED


def after(events: Iterable[Event], state: State | None = None) -> State:
    """Return the state after all of these."""
    state = state or State()
    for event in events:
        state = advance(state, event)
    return state


def advance(state: State, event: Event) -> State:
    """Return the state after one more event; one that is unknown changes nothing but the time."""
    change = _CHANGES.get(event.name)
    moved = replace(state, last=max(state.last, event.t))
    return change(moved, event) if change else moved


def remaining(state: State, now: float) -> float:
    """Return the seconds that are left: each round takes what others of its kind took, else what the plan says."""
    if state.over:
        return 0.0
    left = max(0, state.rounds - state.finished)
    total = 0.0
    if state.round and left:
        left -= 1
        total += max(0.0, usual(state, state.round.kind) - (now - state.round.begin))
    elif state.phase and state.phase.name == "data":
        phase, passed = state.phase, now - state.phase.begin
        known = (phase.total - phase.done[-1][1]) / phase.rate if phase.rate else state.workload_s - passed
        total += max(0.0, known)
    # Of a warm-up block some may be among them; they last alike.
    return total + (0 if state.stop_requested else left) * usual(state, "measured")


def usual(state: State, kind: str) -> float:
    """Return how long a round of this kind lasts, in seconds: the median of what was seen of it, else of any other."""
    same = "measured" if kind == "spare" else kind
    seen = state.seconds.get(same) or state.seconds.get("measured") or state.seconds.get("warmup")
    return statistics.median(seen) if seen else state.round_s


def spent(state: State, now: float) -> float:
    """Return the USD that the rented machine has cost since it began to run; 0 where nothing is rented."""
    if not state.price_h or not state.machine_since:
        return 0.0
    return state.price_h * max(0.0, now - state.machine_since) / 3600


def _run_start(state: State, event: Event) -> State:
    since = event.number("machine_since")
    return replace(
        state,
        run=event.text("run"),
        kind=event.text("kind"),
        place=event.text("place"),
        blocks=int(event.number("blocks")),
        variants=int(event.number("variants")),
        rounds=int(event.number("rounds")),
        finished=int(event.number("finished")),
        begin=event.t,
        round_s=event.number("round_s"),
        workload_s=event.number("workload_s"),
        price_h=event.number("price_h"),
        # A machine that was restarted meanwhile was paid for all the same.
        machine_since=min(state.machine_since or since, since or state.machine_since),
        round=None,
        phase=None,
        over="",
        ending=None,
        stop_requested=False,
    )


def _round_start(state: State, event: Event) -> State:
    begun = Round(
        name=event.text("round"),
        block=int(event.number("block")),
        variant=event.text("variant"),
        kind=event.text("kind"),
        begin=event.t,
        phases=int(event.number("phases")),
    )
    return replace(state, round=begun, phase=None, over="")


def _phase_start(state: State, event: Event) -> State:
    at = state.round and replace(state.round, number=state.round.number + 1)
    return replace(state, round=at, phase=Phase(event.text("phase"), event.text("query_type"), event.t))


def _progress(state: State, event: Event) -> State:
    phase = state.phase
    if phase is None or event.text("phase") != phase.name:
        return state
    done, seen = event.number("done"), phase.done
    if seen and (done < seen[-1][1] or event.t <= seen[-1][0]):
        # It was begun again.
        seen = ()
    recent = tuple(point for point in seen if event.t - point[0] <= WINDOW_S)
    return replace(state, phase=replace(phase, total=event.number("total"), done=(*recent, (event.t, done))))


def _phase_end(state: State, event: Event) -> State:
    name, query_type, seconds = event.text("phase"), event.text("query_type"), event.number("seconds")
    at, rate = state.round, event.number("rate")
    if at and name == "load":
        at = replace(at, load_rate=rate)
    elif at and name == "query" and rate:
        at = replace(at, query_rates=(*at.query_rates, rate))
    # The whole of it is what is waited for, and not only what is timed within.
    lasted = event.t - state.phase.begin if state.phase else seconds
    typical = {**state.typical, (name, query_type): max(0.0, lasted)}
    return replace(state, round=at, phase=None, typical=typical)


def _round_end(state: State, event: Event) -> State:
    at, ok, seconds = state.round, event.text("status") == "ok", event.number("seconds")
    kind = at.kind if at else ""
    rates = at.query_rates if at else ()
    ended = Finished(
        at=event.t,
        name=event.text("round"),
        kind=kind,
        ok=ok,
        seconds=seconds,
        load_rate=at.load_rate if at else event.number("rate"),
        query_rate=math.exp(statistics.fmean(map(math.log, rates))) if rates else 0.0,
        message=event.text("message"),
    )
    lasted = dict(state.seconds)
    if ok and kind:
        # The driver's own work between two rounds belongs to what is waited for.
        same = "measured" if kind == "spare" else kind
        lasted[same] = (*lasted.get(same, ()), max(seconds, event.t - at.begin if at else 0.0))
    return replace(
        state,
        finished=state.finished + 1,
        failed=state.failed + (not ok),
        round=None,
        phase=None,
        ended=ended,
        seconds=lasted,
    )


def _block_replaced(state: State, event: Event) -> State:
    return _note(replace(state, rounds=state.rounds + state.variants), event)


def _note(state: State, event: Event) -> State:
    return replace(state, messages=(*state.messages, event.text("message"))[-MESSAGES:])


def _forecast(state: State, event: Event) -> State:
    return replace(state, forecast=event.text("message"))


def _stop_requested(state: State, _event: Event) -> State:
    return replace(state, stop_requested=True)


def _run_end(state: State, event: Event) -> State:
    over = event.text("status") or ("interrupted" if event.text("message") else "ok")
    return replace(state, round=None, phase=None, over=over, ending=event)


_CHANGES = {
    "run-start": _run_start,
    "round-start": _round_start,
    "phase-start": _phase_start,
    "progress": _progress,
    "phase-end": _phase_end,
    "round-end": _round_end,
    "block-replaced": _block_replaced,
    "note": _note,
    "forecast": _forecast,
    "stop-requested": _stop_requested,
    "run-end": _run_end,
}
