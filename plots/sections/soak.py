"""A soak: what grows from hour to hour, and when a limit of the machine would be reached."""

import math
from collections.abc import Iterator

from plots import markup, numbers
from plots.charts.soak import NAMES, over_hours
from plots.pictures import Pictures
from plots.sections import heading
from plots.source import Source
from tsduel.core.limits import ServerLimits
from tsduel.core.wording import number_of
from tsduel.stats.soak import LEAST_HOURS, Slope, difference, read

READ = (
    "A slope is the median over all pairs of sixteenths of a start of the servers, without its first tenth, in which "
    "caches fill (Theil and Sen; docs/soak.md). It describes these hours, and not the hours after them. Data on disk "
    "grow as long as somebody writes."
)
_ENDS = {"grows": "grows", "falls": "falls", "none": "no trend", "short": "not judged"}
_DAY_H = 24


def sentences(source: Source) -> list[str]:
    """Return a sentence for each growth, each difference between variants, and what is not judged."""
    slopes = read(source.run.path)
    lines = []
    short = {slope.variant: slope for slope in slopes if slope.verdict == "short"}
    if short:
        hours = min(slope.hours for slope in short.values())
        named = " and ".join(dict.fromkeys(_variant(source, slope) for slope in short.values()))
        what, whose = "No slope is judged", "a variant was"
        if any(slope.variant not in short for slope in slopes):
            one = len(short) == 1
            what, whose = f"{named} {'is' if one else 'are'} not judged", "it was" if one else "one was"
        lines.append(
            f"**{what}**: {whose} sampled for {numbers.number(hours, 2)} hours, and in less than {LEAST_HOURS:g} "
            "hours caches still fill. These figures are a first look; a longer `mixed.seconds` gives a verdict."
        )
    grown = (slope for slope in slopes if slope.verdict == "grows" and slope.metric != "disk_bytes")
    lines += [f"{_of(source, slope)} {_grows(source, slope)}." for slope in grown]
    differ = list(_differences(source, slopes))
    if slopes and not lines:
        lines.append(
            "Nothing was shown to grow: of memory, CPU, open files and response times no interval lies above 0. "
            "The upper end of each is what may still be hidden (*Hour after hour*)."
        )
    return lines + differ


@heading("Hour after hour", 29, "tsbs")
def section(source: Source, pictures: Pictures) -> str:
    """Return a table of slopes and the picture; nothing without a soak. Its sentences are on the first screen."""
    if not (slopes := read(source.run.path)):
        return ""
    windows = source.table("windows")
    heads = ["", "an hour", "95 % CI", "at the end", "limit", "reached in", "sampled", "verdict"]
    caption = "Thin: each window. Thick: the slope. A gap in a variant's lines is another start of its servers."
    return markup.paragraphs(
        markup.table(heads, [_row(source, slope) for slope in slopes], range(1, 7)),
        pictures.show(
            "soak", "a soak", f"Hour after hour: {source.names}", caption, over_hours(windows, slopes, source.labels)
        ),
        READ,
    )


def _row(source: Source, slope: Slope) -> list[str]:
    low, estimate, high = (_amount(slope, value, signed=True) for value in (slope.lo, slope.slope, slope.hi))
    interval = numbers.MISSING if numbers.MISSING in {low, high} else f"{low} to {high}"
    starts = f" in {number_of(slope.lives, 'start')}" if slope.lives > 1 else ""
    reached = _hours(slope.reached_h[0]) if slope.reached_h else numbers.MISSING
    level, limit = _amount(slope, slope.level), _amount(slope, slope.limit)
    sampled = f"{numbers.number(slope.hours, 2)} h{starts}"
    return [_of(source, slope), estimate, interval, level, limit, reached, sampled, _ENDS[slope.verdict]]


def _variant(source: Source, slope: Slope) -> str:
    return markup.text(source.labels[slope.variant])


def _of(source: Source, slope: Slope) -> str:
    return f"{_variant(source, slope)}: {NAMES[slope.metric][0]}"


def _amount(slope: Slope, value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return numbers.MISSING
    unit, factor = numbers.scaled(NAMES[slope.metric][1], abs(value))
    return f"{'+' if signed and value > 0 else ''}{numbers.number(value / factor, 3)} {unit}"


def _hours(hours: float) -> str:
    return f"{numbers.number(hours, 2)} h" if hours < 2 * _DAY_H else f"{numbers.number(hours / _DAY_H, 2)} days"


def _grows(source: Source, slope: Slope) -> str:
    estimate, low, high, limit = (_amount(slope, of) for of in (slope.slope, slope.lo, slope.hi, slope.limit))
    text = f"grows by {estimate} an hour (95 % CI {low} to {high}, {numbers.number(slope.hours, 2)} h)"
    if not slope.reached_h:
        return text
    typical, soonest = map(_hours, slope.reached_h)
    limits = source.plan.limits or ServerLimits()
    parts = next(len(side.components) for side in source.plan.variants if side.name == slope.variant)
    held = {
        "rss_bytes": parts * ((limits.memory_mb or 0) << 20), "cpu_cores": parts * (limits.cpus or 0),
        "open_files": slope.limit,
    }  # fmt: skip
    whose = "its" if math.isclose(held.get(slope.metric) or 0, slope.limit or 0, rel_tol=1e-3) else "the machine's"
    return f"{text}: {whose} {limit} would be reached in {typical}, at the upper end in {soonest}"


def _differences(source: Source, slopes: list[Slope]) -> Iterator[str]:
    of = {(slope.variant, slope.metric): slope for slope in slopes if slope.verdict != "short"}
    for (variant, metric), slope in of.items():
        baseline = of.get((source.baseline, metric))
        if variant == source.baseline or baseline is None or (interval := difference(baseline, slope)) is None:
            continue
        estimate, lo, hi = interval
        if lo > 0 or hi < 0:
            more, label = "above" if estimate > 0 else "below", markup.text(source.labels[source.baseline])
            low, high = (_amount(slope, value) for value in sorted((abs(lo), abs(hi))))
            by = f"{_amount(slope, abs(estimate))} an hour {more}"
            yield f"{_of(source, slope)}: the slope is {by} that of {label} (95 % CI {low} to {high})."
