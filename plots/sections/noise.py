"""Disturbances from outside, the effect of being second, and where executables lay in memory."""

import pandas as pd

from plots import markup, numbers
from plots.pictures import Pictures
from plots.sections import heading
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.record import DUEL
from tsduel.core.tables import COINS

MOST_FLAGS = 10
FLAG, INVALID = "flag", "invalid"
SECOND = (
    "How far the change is higher in the blocks in which the candidate was second than on average, and p (in a "
    "warning it is larger: as often as coins were looked at). The first "
    "columns compare blocks, the last column compares the sittings of a block. The order is balanced, so these effects "
    "cancel out in the change; from 12 pairs of blocks on they are taken out of its interval, too."
)
# Signal -> its name in the table; in this order.
TITLES = {
    "steal_pct": "steal, % of the machine",
    "throttled_pct": "held back by a limit of CPU time, % of the time",
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


@heading("Noise", 85, "tsbs", "upgrade", "gobench")
def section(source: Source, _: Pictures) -> str:
    """Return the spoilt blocks by variant, the flags, the effects of being second, and the table of signals."""
    noise = source.table("noise")
    if noise.empty:
        return markup.paragraphs("This run recorded no signals of noise.", _coins(source))
    counted = noise[~noise["block"].isin(source.run.warmups)]
    flags = [markup.text(str(message)) for message in counted["message"][counted["effect"] == FLAG]]
    more = f" and {len(flags) - MOST_FLAGS} more, see `tidy/noise.csv`" if len(flags) > MOST_FLAGS else ""
    return markup.paragraphs(
        _spoilt(source, counted),
        f"Flags (seen; the blocks count all the same): {'; '.join(flags[:MOST_FLAGS])}{more}." if flags else "",
        _coins(source),
        markup.folded("Signals", _signals(counted), "Of this machine; a virtual machine does not see its host."),
    )


def _signals(noise: pd.DataFrame) -> str:
    rows = []
    for signal, title in TITLES.items():
        seen = noise[noise["signal"] == signal]
        if seen.empty:
            continue
        size = seen["value"].abs()
        worst = seen.iloc[int(size.to_numpy().argmax())]
        moment = (f"block {worst['block']:.0f}", worst["variant"], worst["phase"], worst["query_type"])
        flags, invalid = (int((seen["effect"] == effect).sum()) for effect in (FLAG, INVALID))
        figures = [numbers.number(float(value), 3) for value in (size.median(), worst["value"])]
        where = " ".join(filter(None, moment)) if worst["value"] else ""
        rows.append([title, *figures, where, f"{flags}, {invalid}" if flags or invalid else ""])
    return markup.table(["", "median", "worst", "where", "flags, beyond the limit"], rows, (1, 2))


def _spoilt(source: Source, noise: pd.DataFrame) -> str:
    """Return the spoilt blocks, and the causes by variant: chance favours no variant."""
    causes = noise[noise["effect"] == INVALID]
    if causes.empty:
        return "Nothing from outside spoilt a block."
    by_variant = []
    for variant in [*source.run.variants, ""]:
        own = causes[causes["variant"] == variant]
        signals = own["signal"].value_counts(sort=False).items()
        counts = markup.aside(
            ", ".join(f"{markup.text(TITLES.get(str(s), str(s)).split(',')[0])} {n}" for s, n in signals)
        )
        if variant or counts:
            by_variant.append(f"{variant or 'while all were resident'} {own['block'].nunique()}{counts}")
    blocks = sorted(set(causes["block"].astype(int)))
    plural = "Block" if len(blocks) == 1 else "Blocks"
    spoilt = f"{plural} {', '.join(map(str, blocks))} spoilt from outside."
    return f"{spoilt} Blocks with a cause, by variant: {', '.join(by_variant)}."


def _coins(source: Source) -> str:
    rows = []
    for comparison in source.comparisons:
        for row in comparison.primary:
            of_duel = row["query_type"] in {"", GEOMEAN, ALL} and comparison.metrics[row["metric"]].part == DUEL
            if of_duel and (effects := row.get("order_effects")):
                name = f"{comparison.named(row)}{markup.aside(comparison.title) if source.several else ''}"
                within = row.get("second_effect_pct")
                last = numbers.MISSING if within is None else f"{within:+.2f} %"
                rows.append([name, *(_effect(effects.get(coin)) for coin in COINS), last])
    heads = ["", "loaded second", "started second", "read second", "asked second", "started second, of sittings"]
    table = markup.table(heads, rows, range(1, len(heads)))
    return markup.paragraphs(table and markup.folded("The effect of being second", table, SECOND), _places(source))


def _effect(effect: dict[str, float] | None) -> str:
    if effect is None or effect["change_pct"] is None:
        return numbers.MISSING
    return f"{effect['change_pct']:+.2f} % (p {numbers.probability(effect['p'])})"


def _places(source: Source) -> str:
    duels = [block.duel for block in source.run.blocks if block.duel and block.kind != "warmup"]
    frames = [place.frames for duel in duels for place in duel.places]
    counts = [runs for runs in frames if runs >= 0]
    if not counts:
        unknown = "Every start had a fresh copy of its executable; where it lay in memory cannot be read here."
        return unknown if frames else ""
    return (
        "Every start had a fresh copy of its executable: in memory each copy lay in "
        f"{numbers.count(min(counts))} to {numbers.count(max(counts))} pieces."
    )
