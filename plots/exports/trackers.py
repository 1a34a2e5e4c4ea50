"""For services that keep a value a commit and warn when it changes: github-action-benchmark and Bencher.

Both describe the candidates of a run. Names have the experiment, the variant, the metric and the query type.
The run and the revision are in `extra`, if the format has it.

- github-action-benchmark, tools customSmallerIsBetter and customBiggerIsBetter: an array of {name, unit, value, range,
  extra}; range and extra are text.
- Bencher Metric Format: {benchmark: {measure: {value, lower_value, upper_value}}}; a measure is named by its slug.
"""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from plots import numbers
from plots.comparison import Row
from plots.sections import duel
from plots.sections.blocks import values_of
from plots.source import Source
from tsduel.core.metrics import Metric
from tsduel.core.wording import number_of

LONGEST = 64
"""Most characters of a slug of Bencher."""
RATES = {"query_rate", "B/s"}
"""Well known, and so exported though they are shown only."""


@dataclass(frozen=True)
class Figure:
    """A row of comparison.json, and what its candidate's blocks have, in the metric's unit."""

    row: Row
    median: float
    least: float
    largest: float


def series(source: Source) -> str:
    """Return the beginning of every name, the same for all runs of an experiment; screens have their own."""
    return f"{'screen/' if source.standing == 'screen' else ''}{source.plan.name}"


def tracked(metric: Metric, family: str | None) -> bool:
    """Return whether a row of a metric is exported: it is judged, or it is a well-known rate."""
    return metric.better != "none" and (family not in {"shown", None} or metric.name in RATES)


def figures(source: Source) -> Iterator[Figure]:
    """Yield the judged metrics of the candidates and their rates, without those with a failed check."""
    for comparison in source.comparisons:
        for row in comparison.rows:
            metric, median = comparison.metrics[row["metric"]], row["candidate_median"]
            if not tracked(metric, row["family"]) or row["verdict"] == "failed" or median is None:
                continue
            table = values_of(source, metric.name, row["query_type"], (source.baseline, row["candidate"]))
            counts = (table["variant"] == row["candidate"]) & table["block"].isin(comparison.valid)
            of_candidate = table[counts]["value"]
            least, largest = (min(of_candidate), max(of_candidate)) if len(of_candidate) else (median, median)
            yield Figure(row, short(median), short(least), short(largest))


def short(value: float) -> float:
    """Return a value with ten significant digits."""
    return float(f"{value:.10g}")


def github_action_benchmark(source: Source, better: Literal["lower", "higher"]) -> list[dict[str, Any]]:
    """Return the entries of one of the two files: `lower` or `higher` is better. `range` is over blocks.

    A run that shows shifts in full also has both sides' percentiles, the shift and the change, in the file
    for `lower`.
    """
    judged = [
        {
            "name": _name(source, *(figure.row[key] for key in ("candidate", "metric", "query_type"))),
            "unit": figure.row["unit"],
            "value": figure.median,
            "range": f"{numbers.number(figure.least)} to {numbers.number(figure.largest)}",
            "extra": _extra(source, figure.row),
        }
        for figure in figures(source)
        if figure.row["better"] == better
    ]
    names = {entry["name"] for entry in judged}
    return judged + [entry for entry in _shifts(source) if better == "lower" and entry["name"] not in names]


def _name(source: Source, *parts: str) -> str:
    return "/".join(filter(None, [series(source), *parts]))


def _shifts(source: Source) -> list[dict[str, Any]]:
    entries = {}
    for comparison in source.comparisons if source.dwells_on_shift and source.plan.duels else ():
        for metric, query_type in itertools.product(duel.percentiles(source), source.query_types):
            row = comparison.row(metric, query_type)
            if row is None or row["verdict"] == "failed" or row["change_pct"] is None or not row["shift"]:
                continue
            values = {
                (source.baseline, ""): (row["unit"], row["baseline_median"]),
                (comparison.candidate, ""): (row["unit"], row["candidate_median"]),
                (comparison.candidate, "shift"): (row["unit"], row["shift"]["difference"]),
                (comparison.candidate, "change"): ("%", row["change_pct"]),
            }
            for (side, what), (unit, value) in values.items():
                name = _name(source, side, metric, query_type, what)
                entries[name] = {"name": name, "unit": unit, "value": short(value)}
    return list(entries.values())


def _extra(source: Source, row: Row) -> str:
    baseline, candidate, plan = source.baseline, row["candidate"], source.plan
    interval = f" ({numbers.interval(row)})" if row["lo_pct"] is not None else ""
    change = f"{numbers.effect(row)}{interval}" if row["change_pct"] is not None else "no change in %"
    data = ", ".join(file.key for file in plan.workload.data) if plan.workload else ""
    subject = f"package {plan.gobench.package}" if plan.gobench else f"data {data}"
    screen = ", a screen" if source.standing == "screen" else ""
    return (
        f"{source.labels[candidate]}, revision {source.revision(candidate)}\n"
        f"median of {number_of(row['blocks'], 'block')}{screen}\n"
        f"against {source.labels[baseline]}, revision {source.revision(baseline)}: {change}, {row['verdict']}\n"
        f"{source.run.host.get('cpu_model') or plan.host.machine}; {subject}; run {source.run.path.name}"
    )


def bencher(source: Source) -> dict[str, dict[str, dict[str, float]]]:
    """Return the document; the lower and upper values are the least and the largest block."""
    document: dict[str, dict[str, dict[str, float]]] = {}
    slugs = safe({name: name for name in source.metrics}, "-")
    for figure in figures(source):
        values = {"value": figure.median, "lower_value": figure.least, "upper_value": figure.largest}
        benchmark = _name(source, figure.row["candidate"], figure.row["query_type"])
        document.setdefault(benchmark, {})[slugs[figure.row["metric"]]] = values
    return document


def safe(words: Mapping[str, str], joiner: str) -> dict[str, str]:
    """Return for each key its words in lower-case letters and digits, with `joiner` between them, at most LONGEST long.

    A name that is empty, too long or not unique ends with a part of the key's hash, the same in every run.
    """
    names = {key: re.sub(r"[^a-z0-9]+", joiner, text.lower()).strip(joiner) for key, text in words.items()}
    times = Counter(names.values())
    for key, name in names.items():
        if not name or times[name] > 1 or len(name) > LONGEST:
            digest = hashlib.sha256(key.encode()).hexdigest()[:8]
            names[key] = f"{name[: LONGEST - len(digest) - 1].rstrip(joiner)}{joiner}{digest}".lstrip(joiner)
    return names
