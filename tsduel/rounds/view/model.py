"""Events -> the state of a run. Pure: a state and an event make the next state, whatever the event is."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tsduel.plan.forecast.spread import Ended
from tsduel.rounds.view.events import Event, clean, is_sane

# The view reads less often during these phases, since it would disturb them.
EXCHANGES = frozenset({"exchange", "before", "after"})
TIMED = frozenset({"load", "settle", "query", "idle", "ingest", "mixed", "rung", "find", "bench", *EXCHANGES})
# The live rate is the mean of these last seconds.
WINDOW_S = 10.0
SMALLEST = -1e3


@dataclass(frozen=True)
class Phase:
    """The running phase; `done`: (time, units done), newest last."""

    key: tuple[str, str, str]  # part, name, query type
    variant: str
    begin: float
    total: float = 0.0
    done: tuple[tuple[float, float], ...] = ()

    @property
    def name(self) -> str:
        """The phase: load, settle, exchange ..."""
        return self.key[1]

    @property
    def rate(self) -> float:
        """Recent units a second; 0 if unknown."""
        if not self.done:
            return 0.0
        (t, done), (then, before) = self.done[-1], self.done[0]
        if t == then:
            then, before = self.begin, 0.0
        return (done - before) / (t - then) if t > then else 0.0


@dataclass(frozen=True)
class Block:
    """The running block; `phases`: how many it has, 0 if unknown; `phase`: the running one, from 1."""

    number: int
    kind: str
    begin: float
    phases: int
    phase: int = 0
    load_rates: tuple[float, ...] = ()
    exchanges: float = 0.0


@dataclass(frozen=True)
class State:
    """The state of a run; everything is empty before its first event."""

    run: str = ""
    place: str = ""
    blocks: int = 0  # measured
    planned: int = 0  # with the warm-up, and the spare blocks that were needed
    finished: int = 0
    failed: int = 0
    begin: float = 0.0  # of this session: a resumed run begins anew
    last: float = 0.0  # time of the last event
    block_s: float = 0.0  # by the plan
    workload_s: float = 0.0
    price_h: float = 0.0
    machine_since: float = 0.0
    block: Block | None = None
    phase: Phase | None = None
    ended: tuple[Ended, ...] = ()
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # of good blocks, by kind
    typical: Mapping[tuple[str, str, str], float] = field(default_factory=dict)  # phase -> seconds
    stop_requested: bool = False
    over: str = ""  # ok, interrupted or failed

    @property
    def timed(self) -> bool:
        """Whether a phase is timed right now."""
        return self.phase is not None and self.phase.name in TIMED


def advance(state: State, event: Event) -> State:
    """Return the state after one more event; an unknown event only changes the time."""
    change = _CHANGES.get(event.name)
    state = replace(state, last=max(state.last, event.t))
    return change(state, event) if change else state


def remaining(state: State, now: float) -> float:
    """Return the remaining seconds, from the times of other blocks of a kind, or from the plan."""
    if state.over:
        return 0.0
    left = max(0, state.planned - state.finished)
    total = 0.0
    if state.block and left:
        left -= 1
        total += max(0.0, usual(state, state.block.kind) - (now - state.block.begin))
    elif state.phase and state.phase.name == "data":
        phase, passed = state.phase, now - state.phase.begin
        total += max(0.0, (phase.total - phase.done[-1][1]) / phase.rate if phase.rate else state.workload_s - passed)
    return total + (0 if state.stop_requested else left) * usual(state, "measured")


def usual(state: State, kind: str) -> float:
    """Return the usual seconds of a kind of block: the median of such or of measured blocks, or else by the plan.

    A warm-up says nothing of other blocks: it may load all data, which they do not.
    """
    seconds = state.seconds.get(kind) or state.seconds.get("measured")
    return statistics.median(seconds) if seconds else state.block_s


def spent(state: State, now: float) -> float:
    """Return the cost of the rented machine so far in USD; 0 without one."""
    return state.price_h * max(0.0, now - state.machine_since) / 3600 if state.machine_since else 0.0


def _run_start(state: State, event: Event) -> State:
    since = event.number("machine_since")
    values: dict[str, Any] = {name: event.text(name) for name in ("run", "place")}
    values |= {name: int(event.number(name)) for name in ("blocks", "planned", "finished")}
    values |= {name: event.number(name) for name in ("block_s", "workload_s", "price_h")}
    # A machine that was restarted costs money from its first start on.
    since = min(state.machine_since or since, since or state.machine_since)
    values |= {"begin": event.t, "machine_since": since}
    return replace(state, block=None, phase=None, over="", stop_requested=False, **values)


def _block_start(state: State, event: Event) -> State:
    block = Block(int(event.number("block")), event.text("kind"), event.t, int(event.number("phases")))
    return replace(state, block=block, phase=None, over="")


def _key(event: Event) -> tuple[str, str, str]:
    return event.text("part"), event.text("phase"), event.text("query_type")


def _phase_start(state: State, event: Event) -> State:
    block = state.block and replace(state.block, phase=state.block.phase + 1)
    return replace(state, block=block, phase=Phase(_key(event), event.text("variant"), event.t))


def _progress(state: State, event: Event) -> State:
    phase = state.phase
    if phase is None or event.text("phase") != phase.name:
        return state
    done, recent = event.number("done"), phase.done
    if recent and (done < recent[-1][1] or event.t <= recent[-1][0]):
        recent = ()  # the phase was started again
    recent = tuple(point for point in recent if event.t - point[0] <= WINDOW_S)
    return replace(state, phase=replace(phase, total=event.number("total"), done=(*recent, (event.t, done))))


def _phase_end(state: State, event: Event) -> State:
    key, block = _key(event), state.block
    if block and key[:2] == ("solo", "load"):
        block = replace(block, load_rates=(*block.load_rates, event.number("rate")))
    elif block and key[1] in EXCHANGES:
        block = replace(block, exchanges=block.exchanges + event.number("count"))
    # Users wait for the whole phase, and not only for its timed part.
    seconds = event.t - state.phase.begin if state.phase else event.number("seconds")
    return replace(state, block=block, phase=None, typical={**state.typical, key: max(0.0, seconds)})


def _block_end(state: State, event: Event) -> State:
    block, ok, seconds = state.block, event.text("status") == "ok", event.number("seconds")
    kind = event.text("kind")
    causes = tuple(filter(None, (event.text("void"), *(clean(str(cause)) for cause in event.get("causes", list)))))
    ended = Ended(
        at=event.t,
        number=int(event.number("block")),
        kind=kind,
        ok=ok,
        seconds=seconds,
        load_rate=statistics.fmean(block.load_rates) if block and block.load_rates else 0.0,
        exchanges=block.exchanges if block else 0.0,
        why=", ".join(causes) if ok else event.text("line").partition(f"block {event.text('block')} ")[2],
        causes=causes,
        ratios={
            clean(candidate): {metric: float(value) for metric, value in by_metric.items() if is_sane(value, SMALLEST)}
            for candidate, by_metric in event.get("ratios", dict).items()
            if isinstance(by_metric, dict)
        },
    )
    by_kind = dict(state.seconds)
    if ok:
        # Users also wait for the driver's own work between two blocks.
        longest = max(seconds, event.t - block.begin if block else 0.0)
        alike = "measured" if kind == "spare" else kind
        by_kind[alike] = (*by_kind.get(alike, ()), longest)
    return replace(
        state,
        finished=state.finished + 1,
        failed=state.failed + (not ok),
        block=None,
        phase=None,
        # A block that was lost with its machine runs again, under the same number.
        ended=(*(before for before in state.ended if before.number != ended.number), ended),
        seconds=by_kind,
    )


def _block_replaced(state: State, event: Event) -> State:
    number, why = int(event.number("block")), event.text("message")
    ended = tuple(
        replace(block, causes=(why,)) if block.number == number and not block.causes else block for block in state.ended
    )
    return replace(state, planned=state.planned + 1, ended=ended)


_CHANGES: Mapping[str, Callable[[State, Event], State]] = {
    "run-start": _run_start,
    "block-start": _block_start,
    "phase-start": _phase_start,
    "progress": _progress,
    "phase-end": _phase_end,
    "block-end": _block_end,
    "block-replaced": _block_replaced,
    "stop-requested": lambda state, _: replace(state, stop_requested=True),
    "run-end": lambda state, event: replace(state, block=None, phase=None, over=event.text("status") or "failed"),
}
