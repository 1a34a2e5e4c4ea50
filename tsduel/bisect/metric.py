"""METRIC, TYPE, ROLE and THRESHOLD: the row of stats/comparison.json that is followed through revisions."""

from collections.abc import Mapping
from typing import Any, Self

from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, GEOMEAN, Metric
from tsduel.core.sections import Part
from tsduel.core.wording import did_you_mean
from tsduel.stats.estimate import signed_rank_p
from tsduel.workloads import WORKLOADS

WORDS = {
    "tsbs": {
        "cpu": "duel_cpu_us",
        "time": "duel_typical_ms",
        "load": "load_rate",
        "load-cpu": "load_cpu_seconds",
        "memory": "duel_rss_bytes",
        "objects": "duel_objects",
        "bytes": "duel_object_bytes",
        "reads": "duel_read_calls",
        "gc": "duel_gc_runs",
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
    by: Self | None = None
    """METRIC=A:B follows A for each unit of B: the log ratio of B is subtracted in each block."""

    @property
    def name(self) -> str:
        """Its name in sentences."""
        own = self.title + (f", {self.query_type}" if self.query_type not in {"", ALL, GEOMEAN} else "")
        return f"{own} / {self.by.name}" if self.by else own

    @property
    def direction(self) -> str:
        """Which side is the better one, for the end of a sentence."""
        return f"{'higher' if self.higher_is_better else 'lower'} is better"

    def row(self, document: Mapping[str, Any], candidate: str) -> dict[str, Any] | None:
        """Return its row of a comparison, None where there is none; of a ratio the row of A, by B's differences."""
        wanted = (self.metric, self.query_type, candidate)
        rows = (row for row in document["rows"] if (row["metric"], row["query_type"], row["candidate"]) == wanted)
        own: dict[str, Any] | None = next(rows, None)
        if own is None or self.by is None or not own["differences"]:
            return own
        other = self.by.row(document, candidate)
        if other is None or not other["differences"]:
            return other
        if own["native"] or other["native"] or len(own["differences"]) != len(other["differences"]):
            raise UserError(f"METRIC: {self.name}: a ratio needs both in the same blocks, and values above zero")
        differences = [a - b for a, b in zip(own["differences"], other["differences"], strict=True)]
        return own | {"differences": differences, "p": signed_rank_p(differences)}


def followed(kind: str, environment: Mapping[str, str], *, in_turn: bool = False) -> Followed:
    """Return the row that METRIC, TYPE, ROLE and THRESHOLD name, for a kind of run.

    METRIC=A:B is the ratio of two, each with a type or role of its own after a slash (`duel_load_role_cpu_us/vmagent`).
    ``in_turn``: the run sends batches in turn, which are more precise than loads alone.
    """
    wanted, colon, other = environment.get("METRIC", "").partition(":")
    if colon and kind == "tsbs":
        sides = []
        for side in (wanted, other):
            word, _, type_or_role = side.strip().partition("/")
            own = {**environment, "METRIC": word} | ({"TYPE": type_or_role} if type_or_role else {})
            sides.append(_followed(kind, own, in_turn=in_turn))
        return sides[0].model_copy(update={"by": sides[1]})
    return _followed(kind, environment, in_turn=in_turn)


def _followed(kind: str, environment: Mapping[str, str], *, in_turn: bool) -> Followed:
    words, query_type = WORDS[kind], environment.get("TYPE", "").strip()
    wanted = environment.get("METRIC", "").strip() or next(iter(words))
    registered = {metric.name: metric for metric in WORKLOADS[kind].registered}
    name = words.get(wanted, wanted)
    if in_turn and wanted in words:
        name = next((metric.name for metric in registered.values() if metric.instead_of == name), name)
    metric = registered.get(name)
    if metric is None and kind == "gobench" and "/" in wanted:  # a unit of the benchmark's own
        metric = Metric(wanted, "bench", wanted, "lower", 3.0, "secondary", wanted, per_type=True)
    if metric is None or metric.better == "none":
        raise UserError(
            f"METRIC: {wanted!r} is nothing that gets better or worse; give {', '.join(words)}, or a metric of "
            f"stats/comparison.csv{did_you_mean(wanted, [*words, *registered])}"
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


def _threshold(text: str, usual: float) -> float:
    try:
        value = float(text or usual)
    except ValueError:
        value = 0.0
    if not 0 < value < 100:  # noqa: PLR2004 - percent; as design.thresholds
        raise UserError(f"THRESHOLD: {text!r} is no number of percent above 0 and below 100")
    return value
