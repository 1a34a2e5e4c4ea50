"""Every block that counts as OpenMetrics text with timestamps, to be backfilled beside what was monitored meanwhile.

One gauge a metric; in base units, and the name ends with its unit, as the format wants it. A sample's time is the end
of its phase, or that of the block's last phase where the metric belongs to more than one.
"""

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from plots.exports import names
from plots.source import Source
from tsduel.core.metrics import Metric

_PLURAL = {"s": "seconds", "ms": "seconds", "us": "seconds", "B": "bytes"}
# What a benchmark calls s or ms is its own affair: benchstat's seconds are sec.
_GO_PLURAL = {"sec": "seconds", "B": "bytes"}
_SINGULAR = {"s": "second", "B": "byte"}
_FACTORS = {"ms": 1e-3, "us": 1e-6, "ms/s": 1e-3}


class _Run(Collector):
    """A run as what the client library collects."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Family]:
        source, of_go = self._source, bool(self._source.plan.gobench)
        yield _info(source)
        named = _go_names(source) if of_go else {metric.name: name_of(metric) for metric in source.metrics.values()}
        for metric in source.metrics.values():
            name, unit = named[metric.name]
            family = GaugeMetricFamily(name, f"{metric.title}.", unit=unit)
            _samples(source, metric, family, 1.0 if of_go else _FACTORS.get(metric.unit, 1.0))
            if family.samples:
                yield family


def text(source: Source) -> str:
    """Return the whole exposition, `# EOF` last."""
    registry = CollectorRegistry()
    registry.register(_Run(source))
    said: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]  # the library says no types here
    return said.decode()


def name_of(metric: Metric) -> tuple[str, str]:
    """Return a metric's name and unit: query_mean_ms is ("tsduel_query_mean_seconds", "seconds")."""
    unit = _spoken(metric.unit if metric.unit != "ms/s" else "s/s", _PLURAL)
    name = f"tsduel_{metric.name.removesuffix('_ms').removesuffix('_us')}"
    return name if name.endswith(f"_{unit}") else f"{name}_{unit}", unit


def _go_names(source: Source) -> dict[str, tuple[str, str]]:
    """Return the same of Go benchmarks, whose metrics are units: sec/op is ("tsduel_bench_seconds_per_op", ...)."""
    units = names.safe({unit: _spoken(unit, _GO_PLURAL) for unit in source.metrics}, "_")
    return {unit: (f"tsduel_bench_{spoken}", spoken) for unit, spoken in units.items()}


def _spoken(unit: str, plural: Mapping[str, str]) -> str:
    first, *per = unit.split("/")
    return "_per_".join([plural.get(first, first), *(_SINGULAR.get(part, part) for part in per)])


def _info(source: Source) -> Family:
    """Return which revision each variant was, at the end of its last block; columns of a pivot share theirs."""
    phases = source.table("phases")
    family = InfoMetricFamily("tsduel_variant", "What a variant of a run was.")
    for variant in source.run.variants:
        # In the duel all variants share a phase, which has no variant.
        ends = phases["end"][phases["variant"].isin([variant, ""]) | source.pivoted]
        if len(ends):
            more = {"variant": variant, "label": source.labels[variant], "revision": source.revision(variant)}
            family.add_sample("tsduel_variant_info", _known(_common(source) | more), 1.0, timestamp=float(ends.max()))
    return family


def _samples(source: Source, metric: Metric, family: Family, factor: float) -> None:
    of_type = "benchmark" if source.plan.gobench else "query_type"
    phases = source.table("phases")
    phase_ends = phases.groupby(["block", "variant", "phase", "query_type"])["end"].max().to_dict()
    block_ends = phases.groupby(["block", "variant"])["end"].max().to_dict()
    table = source.counting(source.table("measurements")[source.table("measurements")["metric"] == metric.name])
    columns = ("cell", "block", "variant", "phase", "query_type", "value")
    for cell, block, variant, phase, query_type, value in zip(*(table[c].tolist() for c in columns), strict=True):
        # In the duel all variants share a phase, which has no variant; columns of a pivot share a variant.
        ran = source.plan.variants[0].name if source.pivoted else variant
        found = (phase_ends.get((block, of, phase, query_type)) for of in (ran, ""))
        end = next(filter(None, found), block_ends.get((block, ran)))
        if end is not None:
            own = {"cell": cell, "variant": variant, of_type: query_type, "block": f"{block:.0f}"}
            family.add_sample(
                family.name,
                _known(_common(source) | own),
                float(f"{value * factor:.10g}"),
                timestamp=float(f"{end:.3f}"),
            )


def _common(source: Source) -> dict[str, str]:
    return {"run": source.run.path.name, "experiment": source.plan.name, "standing": source.standing}


def _known(labels: dict[str, str]) -> dict[str, str]:
    """Return the labels without those that are empty: to OpenMetrics these are no labels."""
    return {name: value for name, value in labels.items() if value}
