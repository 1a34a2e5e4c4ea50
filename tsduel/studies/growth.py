"""How figures grow over settings: exponents of power laws, and the setting from which on there is a difference.

Both are of lines: settings that differ in one numeric key of the matrix and in nothing else.
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsduel.core.metrics import METRICS
from tsduel.core.plan import Plan
from tsduel.core.rundir import Run
from tsduel.stats.estimate import Floats, hodges_lehmann, interval
from tsduel.stats.findings import LEVEL, Sample
from tsduel.stats.verdict import IMPROVEMENT, REGRESSION

PER_SAMPLE = frozenset({"load_cpu_seconds", "disk_bytes"})
"""Metrics that are divided by the stored samples before their exponent is found."""
SAMPLES = "samples"
BENT = 0.1
"""If the exponents at both ends of a line differ by more, it is no single power law."""
_VOLUME = ("workload.interval", "workload.start", "workload.end")
_ENDS = 2
_DIFFERENCES = (REGRESSION, IMPROVEMENT)


@dataclass(frozen=True)
class At:
    """A run of the study at a setting: what it sets, and what is tested of it."""

    name: str
    set: Mapping[str, Any]
    run: Run
    samples: Sequence[Sample]


@dataclass(frozen=True)
class Line:
    """Settings that differ in one key alone, in the order of its values `at`; `name` is the key in plain words.

    `beside`: the other words of their names, which they share.
    """

    key: str
    name: str
    beside: str
    settings: tuple[str, ...]
    at: tuple[float, ...]


def lines(settings: Sequence[At]) -> list[Line]:
    """Return the lines of a study, of two settings at least.

    Where only the interval or the window changes how much is stored, the line is over samples.
    """
    points: dict[tuple[str, str], list[tuple[float, str]]] = {}
    keys = dict.fromkeys(key for each in settings for key in each.set)
    moved = [key for key in keys if key in (*_VOLUME, "workload.scale")]
    names: dict[str, str] = {}
    for key in keys:
        volume = key in _VOLUME and moved == [key]
        names[key] = SAMPLES if volume else "window" if key in _VOLUME[1:] else key.rpartition(".")[2]
        positions = [_position(each.run.plan, key, each.set[key], volume=volume) for each in settings]
        for each, at in zip(settings, positions, strict=True):
            if at is None or None in positions:
                break
            rest = json.dumps({k: v for k, v in each.set.items() if k != key}, sort_keys=True)
            points.setdefault((key, rest), []).append((at, each.name))
    result = []
    for (key, _), unordered in points.items():
        along, named = zip(*sorted(unordered), strict=True)
        if len(set(along)) >= _ENDS:
            common = " ".join(word for word in named[0].split() if all(word in name.split() for name in named))
            result.append(Line(key, names[key], common, named, along))
    return result


def _position(plan: Plan, key: str, value: Any, *, volume: bool) -> float | None:
    """Return the position of a setting on an axis; None where it is no number above zero."""
    if plan.workload is not None and key in _VOLUME:
        if volume:
            return float(plan.workload.samples)
        return plan.workload.interval_s if key == _VOLUME[0] else plan.workload.window_s / 3600
    positive = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if positive else None


def slopes(x: Sequence[float], y: Floats) -> Floats:
    """Return the least-squares slope of ln y over ln x of each round; y has a round a row and a setting a column.

    A power law y = a x^b is a line of slope b. One number for each replicate, and a test of these, is the
    summary-measures analysis of Matthews, Altman, Campbell and Royston, BMJ 300 (1990) 230. A round is the k-th block
    of each run; the runs follow each other, so what a machine drifts between them is in the slope (docs/growth.md).
    """
    centred = np.log(x) - np.log(x).mean()
    return np.asarray(np.log(y) @ centred / (centred**2).sum())


def exponent(x: Sequence[float], y: Floats) -> dict[str, Any]:
    """Return exponent and interval over rounds, exponents at both ends, and how far medians are from the power law.

    Exponents are Hodges-Lehmann estimates of the rounds' slopes, with exact signed-rank intervals (estimate.py): 95 %
    needs six rounds. ``bent``: the ends differ by more than BENT and more than chance.
    """
    of_rounds = slopes(x, y)
    ci = interval(of_rounds.tolist(), LEVEL)
    first, last = slopes(x[:_ENDS], y[:, :_ENDS]), slopes(x[-_ENDS:], y[:, -_ENDS:])
    turned = interval((last - first).tolist(), LEVEL) if len(x) > _ENDS else None
    beta = hodges_lehmann(of_rounds.tolist())
    rest = np.median(np.log(y), axis=0) - beta * np.log(x)
    return {
        "exponent": beta,
        "lo": ci and ci.low,
        "hi": ci and ci.high,
        "level": ci and ci.level,
        "rounds": len(of_rounds),
        "first": hodges_lehmann(first.tolist()),
        "last": hodges_lehmann(last.tolist()),
        "bent": turned is not None
        and not turned.low <= 0 <= turned.high
        and abs(hodges_lehmann((last - first).tolist())) > BENT,
        "off_pct": 100 * math.expm1(float(np.abs(rest - np.median(rest)).max())),
    }


def document(settings: Sequence[At], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return lines, exponents, and where differences begin; ``rows``: those of the study."""
    by_name, all_lines = {each.name: each for each in settings}, lines(settings)
    return {
        "lines": [vars(line) for line in all_lines],
        "fits": [
            fit for at, line in enumerate(all_lines) for fit in _fits(at, line, [by_name[n] for n in line.settings])
        ],
        "begins": [begin for at, line in enumerate(all_lines) for begin in _begins(at, line, rows)],
    }


def _fits(at: int, line: Line, settings: Sequence[At]) -> Iterator[dict[str, Any]]:
    """Yield the exponent of each variant, and of the candidate's ratio to the baseline (variant "")."""
    found: dict[tuple[str, str, str], list[Sample]] = {}
    for each in settings:
        for item in each.samples:
            if item.metric.name in METRICS and item.metric.better != "none":
                found.setdefault((item.candidate, item.metric.name, item.query_type), []).append(item)
    yielded, baseline = set[tuple[str, str, str]](), settings[0].run.variants[0]
    stored = [load.samples for each in settings if (load := each.run.plan.workload)]
    for (candidate, metric, query_type), samples in found.items():
        sides = _rounds([each.run for each in settings], samples) if len(samples) == len(settings) else None
        if sides is None:
            continue
        if metric in PER_SAMPLE and len(stored) == len(settings):
            sides = sides / np.array(stored)
        for variant, values in {baseline: sides[0], candidate: sides[1], "": sides[1] / sides[0]}.items():
            key = (variant or f"/{candidate}", metric, query_type)
            if key not in yielded:
                yielded.add(key)
                yield {
                    "line": at, "candidate": candidate, "variant": variant, "metric": metric, "query_type": query_type,
                    "per": "sample" if metric in PER_SAMPLE and stored else "", **exponent(line.at, values),
                }  # fmt: skip


def _rounds(runs: Sequence[Run], samples: Sequence[Sample]) -> Floats | None:
    """Return values of both sides, (side, round, setting), of whole rounds; None with fewer than two, or with a zero.

    A spare block takes the place of the block that it replaces.
    """
    columns = []
    for run, sample in zip(runs, samples, strict=True):
        pairs = dict(zip(sample.blocks, sample.pairs, strict=True))
        spares = iter([pairs[row.block] for row in run.planned if row.kind == "spare" and row.block in pairs])
        measured = [row.block for row in run.planned if row.kind == "measured"]
        columns.append([pairs[block] if block in pairs else next(spares, (None, None)) for block in measured])
    whole = [row for row in zip(*columns, strict=False) if all(None not in pair for pair in row)]
    if len(whole) < _ENDS:
        return None
    values = np.array(whole, dtype=float).transpose(2, 0, 1)
    return values if (values > 0).all() else None


def _begins(at: int, line: Line, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the setting from which on all verdicts to the end of a line are the same difference."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in rows:
        if row["setting"] in line.settings:
            key = (row["candidate"], row["metric"], row["query_type"])
            found.setdefault(key, {})[row["setting"]] = row["verdict"]
    for (candidate, metric, query_type), by_setting in found.items():
        verdicts = [by_setting.get(name, "") for name in line.settings]
        if verdicts[-1] in _DIFFERENCES:
            same = len(list(itertools.takewhile(verdicts[-1].__eq__, reversed(verdicts))))
            yield {
                "line": at, "candidate": candidate, "metric": metric, "query_type": query_type,
                "verdict": verdicts[-1], "setting": line.settings[-same],
            }  # fmt: skip
