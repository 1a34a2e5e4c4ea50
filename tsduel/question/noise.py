"""Disturbance from outside the versions: what an experiment may say of its limits, and the rows of tidy/noise.csv.

The host judges (scripts/judge-noise), since it is there that a spoilt block is replaced; here its judgement is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

from tsduel.core import defaults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tsduel.core.rundir import Round, Run
    from tsduel.workloads.tsbs.measure import Measurement

Percent = Annotated[float, Field(gt=0, le=1000)]

OK, FLAG, INVALID = "ok", "flag", "invalid"
COLUMNS = (
    *("block", "position", "round", "variant", "phase", "query_type"),
    *("signal", "value", "unit", "limit", "effect", "message"),
)


class Noise(BaseModel):
    """Limits, each null for never. A value at its limit or beyond spoils the whole block, or with `flag` is shown only.

    Shares are of the whole machine (steal, foreign CPU), of the phase (pressure) or of the run's median (canary).
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    steal_pct: Percent | None = defaults.STEAL_PCT
    foreign_cpu_pct: Percent | None = defaults.FOREIGN_CPU_PCT
    canary_pct: Percent | None = 10
    clock_step_s: Annotated[float, Field(gt=0)] | None = defaults.CLOCK_STEP_S
    steal_flag_pct: Percent | None = defaults.STEAL_FLAG_PCT
    foreign_cpu_flag_pct: Percent | None = defaults.FOREIGN_CPU_FLAG_PCT
    canary_flag_pct: Percent | None = 5
    canary_fsync_flag_pct: Percent | None = 50
    # A closed loop with as many workers as CPUs makes its own CPU pressure.
    pressure_cpu_flag_pct: Percent | None = None
    pressure_io_flag_pct: Percent | None = 20
    pressure_memory_flag_pct: Percent | None = 1
    swap_flag_pages: Annotated[int, Field(ge=1)] | None = 1
    gc_flag_pct: Percent | None = 10
    pool_s: Annotated[float, Field(ge=0, le=3600)] = 5
    spare_pct: Annotated[float, Field(ge=0, le=25)] = 25

    def spares(self, blocks: int) -> int:
        """How many spare blocks are drawn for so many measured ones."""
        return int(blocks * self.spare_pct // 100)


def rows(run: Run, measured: Iterable[tuple[Round, list[Measurement]]]) -> Iterator[tuple[object, ...]]:
    """Yield the lines of tidy/noise.csv: the host's judgement as it is, then garbage collection, which tidy knows.

    A run from before noise was recorded has none of either.
    """
    judged = run.json("raw/noise.json")
    for signal in judged.get("signals", []):
        yield tuple("" if signal[name] is None else signal[name] for name in COLUMNS)
    if judged:
        cpus, limit = float(run.json("raw/host.json").get("cpus") or 1), run.plan["noise"].get("gc_flag_pct")
        for found, measurements in measured:
            yield from _collection(found, measurements, cpus, limit)


def _collection(
    found: Round, measurements: list[Measurement], cpus: float, limit: float | None
) -> Iterator[tuple[object, ...]]:
    """Yield the share of garbage collection: no cause from outside, but a reason for scatter.

    Of the time of all CPUs, like Go's own GCCPUFraction, since what Go counts is the time its threads were runnable.
    """
    seconds = [m.value for m in measurements if m.metric == "gc_cpu_seconds"]
    load, stop = found.phase("load"), found.phase("stop")
    if not seconds or load is None or stop is None or stop.begin <= load.begin:
        return
    share = 100 * seconds[0] / (stop.begin - load.begin) / cpus
    flagged = limit is not None and share >= limit
    said = f"garbage collection took {share:.1f} % of the machine's CPU time in {found.name}, limit {limit} %"
    who = (found.block, found.position, found.name, found.variant, "", "")
    yield (
        *who,
        "gc_pct",
        f"{share:.3f}",
        "%",
        "" if limit is None else limit,
        FLAG if flagged else OK,
        said if flagged else "",
    )
