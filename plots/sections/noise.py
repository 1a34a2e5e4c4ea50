"""What disturbed the run from outside, in words and one table."""

import pandas as pd

from plots import markup, numbers
from plots.pictures import Pictures
from plots.source import Source

MOST_FLAGS = 10
FLAG, INVALID = "flag", "invalid"
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


def section(source: Source, _: Pictures) -> str:
    """Return the table of signals, what was spoilt and by variant, and what was flagged."""
    noise = source.table("noise")
    if noise.empty:
        return "Nothing of it was recorded in this run."
    # What happened in the warm-up block was discarded with it.
    counted = noise[~noise["block"].isin(source.run.warmups)]
    flags = [markup.text(said) for said in counted["message"][counted["effect"] == FLAG].tolist()]
    more = f" and {len(flags) - MOST_FLAGS} more, see `tidy/noise.csv`" if len(flags) > MOST_FLAGS else ""
    return markup.paragraphs(
        _spoilt(source, counted),
        (flags and f"Flags (seen, and kept): {'; '.join(flags[:MOST_FLAGS])}{more}.") or "",
        markup.folded("Signals", _signals(counted), "All of it on this machine: one virtual machine is one host."),
    )


def _signals(noise: pd.DataFrame) -> str:
    rows = []
    for signal, title in TITLES.items():
        seen = noise[noise["signal"] == signal]
        if seen.empty:
            continue
        size = seen["value"].abs()
        worst = seen.iloc[int(size.to_numpy().argmax())]
        place = " ".join(
            filter(None, [f"block {worst['block']:.0f}", worst["variant"], worst["phase"], worst["query_type"]])
        )
        flags, invalid = (int((seen["effect"] == effect).sum()) for effect in (FLAG, INVALID))
        figures = [numbers.number(float(value), 3) for value in (size.median(), worst["value"])]
        rows.append(
            [title, *figures, place if worst["value"] else "", f"{flags}, {invalid}" if flags or invalid else ""]
        )
    return markup.table(["", "median", "worst", "where", "flags, beyond the limit"], rows, (1, 2))


def _spoilt(source: Source, noise: pd.DataFrame) -> str:
    """Say which blocks were spoilt, and by whose turn: causes that prefer one side would be no chance."""
    causes = noise[noise["effect"] == INVALID]
    if causes.empty:
        return "No block was spoilt from outside."
    by_variant = []
    for variant in [*source.run.variants, ""]:
        own = causes[causes["variant"] == variant]
        counts = ", ".join(
            f"{TITLES.get(str(s), str(s)).split(',')[0]} {n}" for s, n in own["signal"].value_counts(sort=False).items()
        )
        if variant or counts:
            by_variant.append(
                f"{variant or 'while all were resident'} {own['block'].nunique()}{f' ({counts})' if counts else ''}"
            )
    blocks = sorted({int(block) for block in causes["block"].tolist()})
    plural = "Block" if len(blocks) == 1 else "Blocks"
    spoilt = f"{plural} {', '.join(map(str, blocks))} spoilt from outside."
    return f"{spoilt} Blocks with a cause, by variant: {', '.join(by_variant)}."
