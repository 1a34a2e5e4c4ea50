"""What the exports for trackers are made of: each metric of a candidate as one figure over the blocks that count."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plots.sections.blocks import values_of
from plots.source import Source
from tsduel.core.metrics import Metric


@dataclass(frozen=True)
class Figure:
    """One metric of a candidate, in the metric's unit; `row` is that of comparison.json."""

    metric: Metric
    query_type: str
    median: float
    least: float
    largest: float
    row: dict[str, Any]


def series(source: Source) -> str:
    """Return the beginning of every name: stable over runs of one experiment; screens have a series of their own."""
    return f"{'screen/' if source.standing == 'screen' else ''}{source.plan.name}"


def tracked(metric: Metric) -> bool:
    """Say whether a metric is worth a series: it is judged, or is a rate that people know it by."""
    return metric.better != "none" and (metric.family != "shown" or bool(metric.geomean or metric.together))


def figures(source: Source, candidate: str) -> Iterator[Figure]:
    """Yield what is judged of a candidate, and its rates; not what a failed check touches: that is of no use."""
    for one in source.comparisons:
        for row in one.rows if one.candidate == candidate else ():
            metric, median = one.metrics[row["metric"]], row["candidate_median"]
            if not tracked(metric) or row["verdict"] == "failed" or median is None:
                continue
            table = values_of(source, metric.name, row["query_type"], one.cell)
            mine = table[(table["variant"] == candidate) & table["block"].isin(one.valid)]["value"]
            least, largest = (min(mine), max(mine)) if len(mine) else (median, median)
            yield Figure(metric, row["query_type"], short(median), short(least), short(largest), row)


def short(value: float) -> float:
    """Return a value without digits that mean nothing."""
    return float(f"{value:.10g}")
