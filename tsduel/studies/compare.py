"""The runs of a study of settings in one comparison: p is adjusted over all, and figures that grow are fitted."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from tsduel.core import files, tables
from tsduel.core.errors import UserError
from tsduel.core.record import BENCH
from tsduel.stats import aa, compare
from tsduel.stats.estimate import Interval
from tsduel.stats.hosts import interval_of_difference
from tsduel.stats.rows import row, warn_of_short_phases
from tsduel.stats.verdict import judge
from tsduel.studies import growth
from tsduel.studies.growth import At
from tsduel.studies.settings import is_study, runs
from tsduel.workloads import primary

COLUMNS = ("setting", *tables.COMPARISON)
MACHINE = ("gcp.machine", "gcp.threads_per_core")
"""Keys of a matrix that choose a machine."""
_APART = 1_000_000
"""Settings share no block, so that their signs are flipped independently: their numbers are so far apart."""


def main(directory: Path) -> None:
    """Compare the candidates of a run with its baseline, or all of a study."""
    if not is_study(directory):
        compare.main(directory)
        return
    settings, rows = compared(directory)
    out = directory / "stats"
    out.mkdir(exist_ok=True)
    files.write(out / "comparison.csv", tables.csv_of(pd.DataFrame(rows, columns=list(COLUMNS))))
    text = json.dumps(_document(directory, settings, rows), indent=1, ensure_ascii=False, allow_nan=False)
    files.write(out / "comparison.json", f"{text}\n")


def compared(directory: Path) -> tuple[list[At], list[dict[str, Any]]]:
    """Return the settings whose runs were compared, and the rows of all as one family, each with its `setting`."""
    settings = [
        At(step.name, step.set, run, compare.samples_of(run, compare.tidied_of(run)))
        for step, run in runs(directory)
        if (run.path / "stats/comparison.json").exists()
    ]
    if not settings:
        raise UserError(f"{directory}: none of its runs was compared; each says why: make status RUN={directory.name}")
    samples = [
        replace(sample, blocks=[_APART * number + block for block in sample.blocks])
        for number, at in enumerate(settings)
        for sample in at.samples
    ]
    judged = iter(judge(samples, settings[0].run.plan.design.seed))
    rows = list[dict[str, Any]]()
    for at in settings:
        own = [{"setting": at.name, **row(next(judged))} for _ in at.samples]
        warn_of_short_phases(own)
        rows += own
    return settings, rows


def _document(directory: Path, settings: Sequence[At], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    each = {at.name: at.run.json("stats/comparison.json") for at in settings}
    document = {
        "schema": 1,
        "study": directory.name,
        "smoke": settings[0].run.plan.smoke,
        "settings": [
            {"name": step.name, "set": step.set, "run": step.run, "compared": step.name in each}
            for step, _ in runs(directory)
        ],
        "checks": {name: sum(own["checks"][name] for own in each.values()) for name in ("made", "failed")},
        "broken": [{"setting": name, **broken} for name, own in each.items() for broken in own["broken"]],
        "machines": list(_beside(settings, rows)),
        **growth.document(settings, rows),
        "rows": rows,
    }
    if not settings[0].run.plan.aa:
        return document
    blocks = {f"{name} {candidate}": found for name, own in each.items() for candidate, found in own["blocks"].items()}
    expected = [(m.name, query_type) for m, query_type in primary(settings[0].run.plan) if m.part != BENCH]
    return {**document, "aa": aa.verdict({**document, "blocks": blocks}, expected)}


def _beside(settings: Sequence[At], rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the difference between the changes on each two types of machines, in points of percent, with its interval.

    Settings are compared that differ in the machine alone, and rows that have a 95 % interval in both. `one_host`: a
    type has one host only, so type and host cannot be separated. Intervals are not adjusted for their number.
    """
    names = ("candidate", "metric", "query_type")
    shown = (each for each in rows if each["lo_pct"] is not None and each["family"] != "shown")
    by_subject = {(each["setting"], *(each[name] for name in names)): each for each in shown}
    for setting, than in pairs({at.name: at.set for at in settings}):
        for (name, *key), one in by_subject.items():
            if name == setting and (other := by_subject.get((than, *key))):
                first, second = (Interval(side["lo_pct"], side["hi_pct"], side["level"]) for side in (one, other))
                difference = interval_of_difference(first, one["change_pct"], second, other["change_pct"])
                yield {
                    "setting": setting, "than": than, **dict(zip(names, key, strict=True)),
                    "points": one["change_pct"] - other["change_pct"], "lo": difference.low, "hi": difference.high,
                    "level": difference.level, "one_host": min(one["hosts"], other["hosts"]) == 1,
                }  # fmt: skip


def pairs(settings: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return each two settings that differ in the machine alone, in their order."""
    return [pair for names in by_machine(settings) for pair in itertools.combinations(names, 2)]


def by_machine(settings: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the settings that choose a machine, those together that differ in it alone."""
    alike: dict[str, list[str]] = {}
    for name, own in settings.items():
        if any(key in MACHINE for key in own):
            rest = {key: value for key, value in own.items() if key not in MACHINE}
            alike.setdefault(json.dumps(rest, sort_keys=True), []).append(name)
    return [*alike.values()]
