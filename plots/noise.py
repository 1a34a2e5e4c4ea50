"""What disturbed the run from outside, in words and one table: the report's section of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plots import markup, numbers, tables
from tsduel.question.noise import FLAG, INVALID, OK

if TYPE_CHECKING:
    import pandas as pd

    from tsduel.core.rundir import Run

MOST_FLAGS = 10
# Signal -> what a person calls it; in this order.
TITLES = {
    "steal_pct": "steal, % of the machine",
    "foreign_cpu_pct": "foreign CPU, % of the machine",
    "iowait_pct": "waiting for I/O, % of the machine",
    "pressure_cpu_pct": "pressure: CPU, % of the time",
    "pressure_io_pct": "pressure: I/O, % of the time",
    "pressure_memory_pct": "pressure: memory, % of the time",
    "canary_cpu_pct": "canary: CPU spin, % off the median",
    "canary_memory_pct": "canary: memory copy, % off the median",
    "canary_fsync_pct": "canary: fsync'd writes, % off the median",
    "gc_pct": "garbage collection, % of the machine",
    "context_switches": "context switches/s",
    "swap_pages": "pages swapped",
    "clock_step_s": "clock step, s",
    "temperature_c": "temperature, C",
}


def section(run: Run, noise: pd.DataFrame) -> list[str]:
    """Return the paragraphs of the section on noise."""
    if noise.empty:
        return ["Nothing of it was recorded in this run."]
    # What happened in the warm-up block was discarded with it.
    counted = noise[noise["block"] > 0]
    flags = [markup.text(said) for said in counted["message"][counted["effect"] == FLAG].tolist()]
    said = [_signals(counted), *_invalidations(run, counted)]
    if flags:
        more = f" and {len(flags) - MOST_FLAGS} more, see `tidy/noise.csv`" if len(flags) > MOST_FLAGS else ""
        said.append(f"Flags (seen, and kept): {'; '.join(flags[:MOST_FLAGS])}{more}.")
    said.append("All of it on this machine: one virtual machine is one host.")
    return said


def _signals(noise: pd.DataFrame) -> str:
    rows = []
    for signal, title in TITLES.items():
        seen = noise[noise["signal"] == signal]
        if seen.empty:
            continue
        size = seen["value"].abs()
        worst = seen.iloc[int(size.to_numpy().argmax())]
        place = " ".join(filter(None, [worst["round"], worst["phase"], worst["query_type"]]))
        flags, invalid = ((seen["effect"] == effect).sum() for effect in (FLAG, INVALID))
        figures = [numbers.number(float(value), 3) for value in (size.median(), worst["value"])]
        quiet = (seen["effect"] == OK).all()
        rows.append([title, *figures, place if worst["value"] else "", "" if quiet else f"{flags}, {invalid}"])
    return tables.markdown(["", "median", "worst", "where", "flags, beyond the limit"], rows)


def _invalidations(run: Run, noise: pd.DataFrame) -> list[str]:
    """Say which blocks were spoilt, and during whose rounds: causes that prefer one side would be no chance."""
    causes = noise[noise["effect"] == INVALID]
    if causes.empty:
        return ["No block was spoilt from outside."]
    by_variant = []
    for variant in run.variants:
        own = causes[causes["variant"] == variant]
        rounds = own["round"].nunique()
        by_variant.append(f"{variant} {rounds}{f' ({_counted(own)})' if rounds else ''}")
    blocks = sorted({int(block) for block in causes["block"].tolist()})
    plural = "Block" if len(blocks) == 1 else "Blocks"
    spoilt = f"{plural} {', '.join(map(str, blocks))} spoilt from outside."
    return [f"{spoilt} Rounds with a cause, by variant: {', '.join(by_variant)}."]


def _counted(causes: pd.DataFrame) -> str:
    counts = causes["signal"].value_counts(sort=False)
    return ", ".join(
        f"{TITLES.get(str(signal), str(signal)).split(',')[0]} {count}" for signal, count in counts.items()
    )
