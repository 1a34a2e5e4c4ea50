"""Events -> what a run is doing. Pure: a state and an event make the next state, whatever the events are."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tsduel.rounds.view import lines
from tsduel.rounds.view.events import Event, clean, is_sane

# While one of these runs, whoever looks does so seldom.
EXCHANGES = frozenset({"exchange", "before", "after"})
TIMED = frozenset({"load", "settle", "query", "idle", "ingest", "mixed", "rung", "find", "bench", *EXCHANGES})
# The live rate is that of about as many seconds.
WINDOW_S = 10.0
SMALLEST = -1e3


@dataclass(frozen=True)
class Phase:
    """The phase that runs: when it began, and what is done of it at which moment, newest last."""

    key: tuple[str, str, str]  # part, name, query type
    variant: str
    begin: float
    total: float = 0.0
    done: tuple[tuple[float, float], ...] = ()

    @property
    def name(self) -> str:
        """What is done: load, settle, exchange ..."""
        return self.key[1]

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
class Block:
    """The block that runs."""

    number: int
    kind: str
    begin: float
    phases: int  # that it has, 0: unknown
    phase: int = 0  # that runs, from 1
    load_rates: tuple[float, ...] = ()
    exchanges: float = 0.0


@dataclass(frozen=True)
class Finished:
    """A block that is over; ``load_rate`` is the mean of its variants', ``said`` why it failed or does not count.

    ``ratios``: candidate -> metric -> log ratio, for the forecast's spread alone.
    """

    at: float
    number: int
    kind: str
    ok: bool
    seconds: float
    load_rate: float = 0.0
    exchanges: float = 0.0
    said: str = ""
    void: bool = False
    causes: tuple[str, ...] = ()
    ratios: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """What a run is doing; everything is empty before its first event."""

    run: str = ""
    kind: str = ""
    place: str = ""
    blocks: int = 0  # that are measured
    planned: int = 0  # with the warm-up, and the spare ones that were needed
    finished: int = 0
    failed: int = 0
    begin: float = 0.0  # of this session: a run that is gone on with begins anew
    last: float = 0.0  # when the last event was
    block_s: float = 0.0  # as the plan has it
    workload_s: float = 0.0
    price_h: float = 0.0
    machine_since: float = 0.0
    block: Block | None = None
    phase: Phase | None = None
    ended: tuple[Finished, ...] = ()
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # of good blocks, by kind
    typical: Mapping[tuple[str, str, str], float] = field(default_factory=dict)  # seconds of a phase, by its key
    stop_requested: bool = False
    over: str = ""  # ok, interrupted or failed

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
    """Return the seconds that are left: each block takes what others of its kind took, else what the plan says."""
    if state.over:
        return 0.0
    left = max(0, state.planned - state.finished)
    total = 0.0
    if state.block and left:
        left -= 1
        total += max(0.0, usual(state, state.block.kind) - (now - state.block.begin))
    elif state.phase and state.phase.name == "data":
        phase, passed = state.phase, now - state.phase.begin
        known = (phase.total - phase.done[-1][1]) / phase.rate if phase.rate else state.workload_s - passed
        total += max(0.0, known)
    return total + (0 if state.stop_requested else left) * usual(state, "measured")


def usual(state: State, kind: str) -> float:
    """Return how long a block of this kind lasts, in seconds: the median of what was seen of it, else of any other."""
    same = "measured" if kind == "spare" else kind
    seen = state.seconds.get(same) or state.seconds.get("measured") or state.seconds.get("warmup")
    return statistics.median(seen) if seen else state.block_s


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
        planned=int(event.number("planned")),
        finished=int(event.number("finished")),
        begin=event.t,
        block_s=event.number("block_s"),
        workload_s=event.number("workload_s"),
        price_h=event.number("price_h"),
        # A machine that was restarted meanwhile was paid for all the same.
        machine_since=min(state.machine_since or since, since or state.machine_since),
        block=None,
        phase=None,
        over="",
        stop_requested=False,
    )


def _block_start(state: State, event: Event) -> State:
    number_, kind, phases = int(event.number("block")), event.text("kind"), int(event.number("phases"))
    return replace(state, block=Block(number_, kind, event.t, phases), phase=None, over="")


def _phase_start(state: State, event: Event) -> State:
    at = state.block and replace(state.block, phase=state.block.phase + 1)
    key = (event.text("part"), event.text("phase"), event.text("query_type"))
    return replace(state, block=at, phase=Phase(key, event.text("variant"), event.t))


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
    key = (event.text("part"), event.text("phase"), event.text("query_type"))
    at = state.block
    if at and key[1] == "load" and key[0] == "solo":
        at = replace(at, load_rates=(*at.load_rates, event.number("rate")))
    elif at and key[1] in EXCHANGES:
        at = replace(at, exchanges=at.exchanges + event.number("count"))
    # The whole of it is what is waited for, and not only what is timed within.
    lasted = event.t - state.phase.begin if state.phase else event.number("seconds")
    return replace(state, block=at, phase=None, typical={**state.typical, key: max(0.0, lasted)})


def _block_end(state: State, event: Event) -> State:
    at, ok, seconds = state.block, event.text("status") == "ok", event.number("seconds")
    kind, void = event.text("kind"), event.text("void")
    causes = tuple(clean(str(cause)) for cause in event.items("causes"))
    ended = Finished(
        at=event.t,
        number=int(event.number("block")),
        kind=kind,
        ok=ok,
        seconds=seconds,
        load_rate=statistics.fmean(at.load_rates) if at and at.load_rates else 0.0,
        exchanges=at.exchanges if at else 0.0,
        said=(void or ", ".join(causes)) if ok else lines.failed(event),
        void=bool(void),
        causes=causes,
        ratios={
            clean(name): {metric: float(value) for metric, value in of.items() if is_sane(value, SMALLEST)}
            for name, of in event.table("ratios").items()
            if isinstance(of, dict)
        },
    )
    lasted = dict(state.seconds)
    if ok:
        # The driver's own work between two blocks belongs to what is waited for.
        same = "measured" if kind == "spare" else kind
        lasted[same] = (*lasted.get(same, ()), max(seconds, event.t - at.begin if at else 0.0))
    return replace(
        state,
        finished=state.finished + 1,
        failed=state.failed + (not ok),
        block=None,
        phase=None,
        # One that was lost with a machine is run again.
        ended=(*(of for of in state.ended if of.number != ended.number), ended),
        seconds=lasted,
    )


def _block_replaced(state: State, event: Event) -> State:
    spoilt, why = int(event.number("block")), event.text("message")
    ended = tuple(
        replace(of, causes=of.causes or (why,)) if of.number == spoilt and not of.void else of for of in state.ended
    )
    return replace(state, planned=state.planned + 1, ended=ended)


def _stop_requested(state: State, _event: Event) -> State:
    return replace(state, stop_requested=True)


def _run_end(state: State, event: Event) -> State:
    return replace(state, block=None, phase=None, over=event.text("status") or "failed")


_CHANGES = {
    "run-start": _run_start,
    "block-start": _block_start,
    "phase-start": _phase_start,
    "progress": _progress,
    "phase-end": _phase_end,
    "block-end": _block_end,
    "block-replaced": _block_replaced,
    "stop-requested": _stop_requested,
    "run-end": _run_end,
}
