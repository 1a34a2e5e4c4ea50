"""What is probed next: a function of what was found, so a search that was killed goes on to the same end.

results/worst/NAME/worst.json has what may be changed and every probe; each is an ordinary run in results/.
"""

import math
import statistics
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field
from scipy.stats import qmc

from tsduel.bisect.metric import Followed
from tsduel.core.sections import Part
from tsduel.stats.power import ALPHA
from tsduel.studies.study import Study

HOME = "worst"
CONFIRM_BLOCKS, FEWEST_CONFIRM = 32, 12
LEAST_CONFIRM = 7
"""With six blocks no p is small enough for three loads: 2 / 2^6."""
SEARCHING = 0.6
"""Share of the time for the search; the rest is for what is measured anew."""
FEWEST, MOST, FINALISTS, PROBE_S = 6, 32, 2, 30.0

Point = tuple[int, ...]
"""The place of each field's value in `Key.every`."""
Why = Literal["draw", "again", "move", "without", "confirm"]


class Key(Part):
    """What a field may be: `usual` stands first in `every`, unless it is among the values."""

    values: tuple[Any, ...] = Field(min_length=1)
    usual: Any

    @property
    def every(self) -> tuple[Any, ...]:
        """All values, in their order."""
        return self.values if self.usual in self.values else (self.usual, *self.values)


class Probe(Part):
    """One run; `values`: log ratios of its blocks, above zero where the candidate is as is looked for."""

    run: str
    at: Point
    blocks: int
    why: Why
    values: tuple[float, ...] = ()
    p: float | None = None
    failed: str = ""
    seconds: float = 0
    block_s: float = 0
    """How long its longest block took; ``seconds`` has the builds of the first probe, too."""

    @property
    def middle(self) -> float:
        """What is said of it: the mean of a probe's few blocks, the median of what was measured anew."""
        if not self.values:
            return -math.inf
        return statistics.median(self.values) if self.why == "confirm" else statistics.fmean(self.values)


class Worst(Study):
    """worst.json; `sign` times a log ratio is above zero where the candidate is as is looked for."""

    FILE: ClassVar[str] = "worst.json"
    COMMAND: ClassVar[str] = "make worst BASELINE= CANDIDATE="

    knobs: dict[str, str]
    written: dict[str, Any] = Field(default_factory=dict)
    """What the experiment's file had."""
    fewest: int = 2
    """The blocks of a probe at least."""
    space: dict[str, Key]
    followed: Followed
    sign: int
    minutes: float
    seed: int = 1
    confirm_blocks: int = CONFIRM_BLOCKS
    """At most; see `blocks_anew`."""
    probes: tuple[Probe, ...] = ()

    @property
    def usual(self) -> Point:
        """The usual load."""
        return tuple(key.every.index(key.usual) for key in self.space.values())

    def every(self, at: Point) -> dict[str, Any]:
        """Return all fields of a point."""
        return {name: key.every[place] for (name, key), place in zip(self.space.items(), at, strict=True)}

    def fields(self, at: Point) -> dict[str, Any]:
        """Return the fields of a point that differ from the usual load."""
        return {name: value for name, value in self.every(at).items() if value != self.space[name].usual}

    def score(self, at: Point) -> float:
        """Return the mean log ratio of a point's probes; minus infinity where none has a value."""
        values = [value for probe in self.searched if probe.at == at for value in probe.values]
        return statistics.fmean(values) if values else -math.inf

    @property
    def searched(self) -> list[Probe]:
        """The probes that choose; those that confirm chose nothing."""
        return [probe for probe in self.probes if probe.why != "confirm"]

    def has(self, at: Point, *why: Why) -> bool:
        """Whether a point has a probe of one of these kinds, ended."""
        return any(probe.at == at and probe.why in why for probe in self.probes)


def drawn(study: Worst) -> list[Point]:
    """Return the usual load and points that fill the space: as many as a half of the search has time for."""
    first = [probe.seconds for probe in study.probes[:3]]
    # The median, since the first one builds.
    each = statistics.median(first) if len(first) == 3 else PROBE_S  # noqa: PLR2004 - then it is known
    count = max(FEWEST, min(MOST, int(SEARCHING / 2 * 60 * study.minutes / max(each, 0.1))))
    sizes = [len(key.every) for key in study.space.values()]
    # As many are drawn whatever the time, so that the first ones are the same.
    rows = qmc.Sobol(len(sizes), rng=study.seed).random(64)
    points = [tuple(min(int(x * n), n - 1) for x, n in zip(row, sizes, strict=True)) for row in rows]
    return list(dict.fromkeys([study.usual, *points]))[:count]


def following(study: Worst) -> tuple[Point, Why] | None:
    """Return what is probed next and why; None at the end."""
    points = drawn(study)
    for at in points:
        if not study.has(at, "draw"):
            return at, "draw"
    alive = sorted((at for at in points if study.score(at) > -math.inf), key=study.score, reverse=True)
    if not alive:
        return None
    spent = sum(probe.seconds for probe in study.searched)
    for at in alive[: max(2, len(alive) // 4)]:
        if not study.has(at, "again"):
            return at, "again"
    best, wanted = _climb(study, spent < SEARCHING * 60 * study.minutes)
    if wanted:
        return wanted, "move"
    return _anew(study, best)


def _anew(study: Worst, best: Point) -> tuple[Point, Why] | None:
    for at in confirming(study, best):
        if not study.has(at, "confirm"):
            return at, "confirm"
    found = answer(study)
    missing = (
        at
        for at in (without(study, found[0].at) if found else {}).values()
        if not study.has(at, "again", "move", "without", "confirm")
    )
    return next(((at, "without") for at in missing), None)


def _climb(study: Worst, has_time: bool) -> tuple[Point, Point | None]:  # noqa: FBT001
    """Walk from the best point along one field at a time; return where it ends, or what has to be probed first."""
    best = max((probe.at for probe in study.searched if probe.why == "again"), key=study.score)
    for place, key in enumerate(study.space.values()):
        for step in (-1, 1):
            while 0 <= best[place] + step < len(key.every):
                there = (*best[:place], best[place] + step, *best[place + 1 :])
                if not study.has(there, "again", "move"):
                    if has_time:
                        return best, there
                    break
                if study.score(there) <= study.score(best):
                    break
                best = there
    return best, None


def without(study: Worst, point: Point) -> dict[str, Point]:
    """Return a point with each of its fields as usual."""
    places = [place for place, (here, usual) in enumerate(zip(point, study.usual, strict=True)) if here != usual]
    names = list(study.space)
    return {names[at]: (*point[:at], study.usual[at], *point[at + 1 :]) for at in places}


def confirming(study: Worst, best: Point) -> list[Point]:
    """Return what is measured anew: the finalists, and the usual load."""
    tried = {probe.at for probe in study.searched if probe.why in {"again", "move"}} - {best, study.usual}
    others = sorted(tried, key=study.score, reverse=True)[: FINALISTS - 1]
    return list(dict.fromkeys([best, *(at for at in others if study.score(at) > study.score(best) / 2), study.usual]))


def best_of(study: Worst) -> Point | None:
    """Return where the search ended; None where no point has a value."""
    return _climb(study, has_time=False)[0] if any(probe.why == "again" for probe in study.searched) else None


def named_keys(study: Worst, found: Probe) -> list[str]:
    """Return the fields whose usual value takes at least a half of a finalist's effect away, the most first."""
    left = dict[str, float]()
    for name, at in without(study, found.at).items():
        if middles := [probe.middle for probe in study.probes if probe.at == at and probe.values]:
            left[name] = middles[-1]  # the one of most blocks
    return sorted((name for name, rest in left.items() if rest <= found.middle / 2), key=left.__getitem__)


def blocks_anew(study: Worst) -> int:
    """Return how many blocks measure a load anew: as many as the time has room for, from 12 to those asked for."""
    chose = [probe for probe in study.searched if probe.why != "without"]
    seconds, blocks = (sum(getattr(probe, name) for probe in chose) for name in ("seconds", "blocks"))
    loads = len(confirming(study, best_of(study) or study.usual))
    room = (60 * study.minutes - seconds) * blocks / max(seconds, 1) / loads
    return max(min(FEWEST_CONFIRM, study.confirm_blocks), min(study.confirm_blocks, int(room)))


def confirmed(study: Worst) -> Iterator[tuple[Probe, float | None]]:
    """Yield what was measured anew, the worst first and the usual load last, with p for so many loads."""
    anew = [probe for probe in study.probes if probe.why == "confirm"]
    for probe in sorted(anew, key=lambda probe: (probe.at == study.usual, -probe.middle)):
        yield probe, None if probe.p is None else min(1.0, len(anew) * probe.p)


def holds(study: Worst, probe: Probe, p: float | None) -> bool:
    """Whether a finalist is as is looked for: by more than chance, and by the threshold."""
    limit = math.log1p(study.followed.threshold_pct / 100)
    return p is not None and p <= ALPHA and probe.middle >= limit


def answer(study: Worst) -> tuple[Probe, float] | None:
    """Return what is worst of what was measured anew and holds, and its p; the usual load only where no other does."""
    return next(((each, p) for each, p in confirmed(study) if p is not None and holds(study, each, p)), None)
