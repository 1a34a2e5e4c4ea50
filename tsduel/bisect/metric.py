"""METRIC, TYPE, ROLE and THRESHOLD: the row of stats/comparison.json that is followed through revisions."""

from collections.abc import Mapping
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, GEOMEAN, Metric
from tsduel.core.sections import Part
from tsduel.workloads import WORKLOADS

WORDS = {
    "tsbs": {
        "cpu": "duel_cpu_us",
        "time": "duel_typical_ms",
        "load": "load_rate",
        "load-cpu": "load_cpu_seconds",
        "memory": "duel_rss_bytes",
    },
    "gobench": {"time": "sec/op", "memory": "B/op", "allocs": "allocs/op"},
}
"""Short words; the first is the default. Those of ingestion mean batches in turn, where a run has them."""


class Followed(Part):
    """A metric and query type of stats/comparison.json, its threshold in percent, its title."""

    metric: str
    query_type: str
    threshold_pct: float
    title: str
    higher_is_better: bool

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return self.title + (f", {self.query_type}" if self.query_type not in {"", ALL, GEOMEAN} else "")

    def row(self, document: Mapping[str, Any], candidate: str) -> dict[str, Any] | None:
        """Return its row of a comparison, None where there is none."""
        wanted = (self.metric, self.query_type, candidate)
        rows = (row for row in document["rows"] if (row["metric"], row["query_type"], row["candidate"]) == wanted)
        return next(rows, None)


def followed(kind: str, environment: Mapping[str, str], *, in_turn: bool = False) -> Followed:
    """Return the row that METRIC, TYPE, ROLE and THRESHOLD name, for a kind of run.

    ``in_turn``: the run sends batches in turn, which are more precise than loads alone.
    """
    words, query_type = WORDS[kind], environment.get("TYPE", "").strip()
    given = environment.get("METRIC", "").strip() or next(iter(words))
    known = {metric.name: metric for metric in WORKLOADS[kind].registered}
    name = words.get(given, given)
    if in_turn and given in words:
        name = next((metric.name for metric in known.values() if metric.instead_of == name), name)
    metric = known.get(name)
    if metric is None and kind == "gobench" and "/" in given:  # a unit of the benchmark's own
        metric = Metric(given, "bench", given, "lower", 3.0, "secondary", given, per_type=True)
    if metric is None or metric.better == "none":
        raise UserError(
            f"METRIC: {given!r} is nothing that gets better or worse; give {', '.join(words)}, or a metric of "
            "stats/comparison.csv"
        )
    if metric.per_role:
        query_type = query_type or environment.get("ROLE", "").strip()
        if not query_type:
            raise UserError(
                f"METRIC: {metric.name} is measured by component; say whose with ROLE=, of a run that is there TYPE="
            )
    elif query_type and not metric.per_type:
        raise UserError(f"TYPE: {metric.name} is not measured by query type; leave TYPE out, or follow another METRIC")
    together = ALL if metric.together else GEOMEAN if metric.geomean else ""
    if metric.per_type and not (query_type or together):
        raise UserError(f"METRIC: {metric.name} is measured by type; say which one with TYPE=")
    return Followed(
        metric=metric.name,
        query_type=query_type or together,
        threshold_pct=_threshold(environment.get("THRESHOLD", "").strip(), metric.threshold),
        title=metric.title,
        higher_is_better=metric.better == "higher",
    )


def _threshold(given: str, usual: float) -> float:
    try:
        value = float(given or usual)
    except ValueError:
        value = 0.0
    if not 0 < value < 100:  # noqa: PLR2004 - percent; as design.thresholds
        raise UserError(f"THRESHOLD: {given!r} is no number of percent above 0 and below 100")
    return value
