"""For services that keep a value a commit and warn when it changes: github-action-benchmark and Bencher.

Both describe the candidates of a run. Names hold the experiment, the variant, the metric and the query type, never a
run or a revision: these are in `extra` where the format has a place for them.

- github-action-benchmark, tools customSmallerIsBetter and customBiggerIsBetter: an array of {name, unit, value, range,
  extra}; range and extra are text.
- Bencher Metric Format: {benchmark: {measure: {value, lower_value, upper_value}}}; a measure is named by its slug.
"""

import itertools
from typing import Any, Literal

from plots import numbers
from plots.exports import names
from plots.exports.tracked import Figure, figures, series, short
from plots.sections.duel import PERCENTILES, SPREAD
from plots.source import Source
from tsduel.core.wording import number_of


def github_action_benchmark(source: Source, better: Literal["lower", "higher"]) -> list[dict[str, Any]]:
    """Return the entries of one of the two files: `lower` or `higher` is better. `range` is over blocks.

    Where the shift is the question, the smaller ones have both sides' percentiles, the shift and the change as well.
    """
    judged = [
        {
            "name": "/".join(filter(None, [series(source), candidate, figure.metric.name, figure.query_type])),
            "unit": figure.metric.unit,
            "value": figure.median,
            "range": f"{numbers.number(figure.least)} to {numbers.number(figure.largest)}",
            "extra": _extra(source, candidate, figure),
        }
        for candidate in source.run.variants[1:]
        for figure in figures(source, candidate)
        if figure.metric.better == better
    ]
    known = {entry["name"] for entry in judged}
    return judged + [entry for entry in _shifts(source) if better == "lower" and entry["name"] not in known]


def _shifts(source: Source) -> list[dict[str, Any]]:
    found = {}
    for one in source.comparisons if source.dwells_on_shift and source.plan.duels else ():
        for metric, query_type in itertools.product(PERCENTILES | SPREAD, source.query_types):
            row = one.row(metric, query_type)
            if row is None or row["verdict"] == "failed" or row["change_pct"] is None or not row["shift"]:
                continue
            values = {
                (source.baseline, ""): (row["unit"], row["baseline_median"]),
                (one.candidate, ""): (row["unit"], row["candidate_median"]),
                (one.candidate, "shift"): (row["unit"], row["shift"]["difference"]),
                (one.candidate, "change"): ("%", row["change_pct"]),
            }
            for (side, what), (unit, value) in values.items():
                name = "/".join(filter(None, [series(source), side, metric, query_type, what]))
                found[name] = {"name": name, "unit": unit, "value": short(value)}
    return list(found.values())


def _extra(source: Source, candidate: str, figure: Figure) -> str:
    baseline, row, plan = source.baseline, figure.row, source.plan
    interval = f" ({numbers.interval(row)})" if row["lo_pct"] is not None else ""
    change = f"{numbers.effect(row)}{interval}" if row["change_pct"] is not None else "no change in %"
    of = (
        f"package {plan.gobench.package}"
        if plan.gobench
        else f"data {', '.join(d.key for d in plan.workload.data) if plan.workload else ''}"
    )
    return "\n".join(
        [
            f"{source.labels[candidate]}, revision {source.revision(candidate)}",
            f"median of {number_of(row['blocks'], 'block')}" + (", a screen" if source.standing == "screen" else ""),
            f"against {source.labels[baseline]}, revision {source.revision(baseline)}: {change}, {row['verdict']}",
            f"{source.host.get('cpu_model') or plan.host.machine}; {of}; run {source.run.path.name}",
        ]
    )


def bencher(source: Source) -> dict[str, dict[str, dict[str, float]]]:
    """Return the document; the lower and upper values are the least and the largest block."""
    document: dict[str, dict[str, dict[str, float]]] = {}
    slugs = names.safe({name: name for name in source.metrics}, "-")
    for candidate in source.run.variants[1:]:
        for figure in figures(source, candidate):
            benchmark = "/".join(filter(None, [series(source), candidate, figure.query_type]))
            document.setdefault(benchmark, {})[slugs[figure.metric.name]] = {
                "value": figure.median,
                "lower_value": figure.least,
                "upper_value": figure.largest,
            }
    return document
