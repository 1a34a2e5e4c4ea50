"""Every block that counts as OpenMetrics text with timestamps, to backfill it beside a monitoring system's data.

One gauge a metric, in base units; its name ends with the unit, as the format requires. A sample's time is the
end of its phase, or of the block's last phase for a metric of several phases.
"""

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace

import pandas as pd
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest

from plots.exports.trackers import safe
from plots.source import Source
from tsduel.core.metrics import Metric

_PLURAL = {"s": "seconds", "ms": "seconds", "us": "seconds", "B": "bytes"}
# benchstat's seconds are `sec`; a benchmark's own `s` or `ms` may mean anything.
_GO_PLURAL = {"sec": "seconds", "B": "bytes"}
_SINGULAR = {"s": "second", "B": "byte"}
_EndOf = Callable[[int, str, str, str], float | None]
_FACTORS = {"ms": 1e-3, "us": 1e-6, "ms/s": 1e-3}


def text(source: Source) -> str:
    """Return the whole exposition, `# EOF` last."""
    families = SimpleNamespace(collect=lambda: _families(source))
    exposition: bytes = generate_latest(families)  # type: ignore[no-untyped-call]  # the library says no types here
    return exposition.decode()


def _families(source: Source) -> Iterator[Family]:
    yield _info(source)
    of_go = bool(source.plan.gobench)
    named = _go_names(source) if of_go else {metric.name: name_of(metric) for metric in source.metrics.values()}
    values, end_of = dict(list(source.counting(source.table("measurements")).groupby("metric"))), _end_of(source)
    for metric in source.metrics.values():
        name, unit = named[metric.name]
        family = GaugeMetricFamily(name, f"{metric.title}.", unit=unit)
        if metric.name in values:
            factor = 1.0 if of_go else _FACTORS.get(metric.unit, 1.0)
            _add_samples(source, family, values[metric.name], factor, end_of)
        if family.samples:
            yield family


def name_of(metric: Metric) -> tuple[str, str]:
    """Return a metric's name and unit: query_mean_ms is ("tsduel_query_mean_seconds", "seconds")."""
    unit = _spoken(metric.unit if metric.unit != "ms/s" else "s/s", _PLURAL)
    name = f"tsduel_{metric.name.removesuffix('_ms').removesuffix('_us')}"
    return name if name.endswith(f"_{unit}") else f"{name}_{unit}", unit


def _go_names(source: Source) -> dict[str, tuple[str, str]]:
    """Return names and units of Go benchmarks by unit: sec/op is ("tsduel_bench_seconds_per_op", ...)."""
    units = safe({unit: _spoken(unit, _GO_PLURAL) for unit in source.metrics}, "_")
    return {unit: (f"tsduel_bench_{spoken}", spoken) for unit, spoken in units.items()}


def _spoken(unit: str, plural: Mapping[str, str]) -> str:
    first, *per = unit.split("/")
    return "_per_".join([plural.get(first, first), *(_SINGULAR.get(part, part) for part in per)])


def _info(source: Source) -> Family:
    phases = source.table("phases")
    family = InfoMetricFamily("tsduel_variant", "What a variant of a run was.")
    for variant in source.run.variants:
        # A phase of the duel has no variant.
        ends = phases["end"][phases["variant"].isin([variant, ""]) | source.pivoted]
        if len(ends):
            more = {"variant": variant, "label": source.labels[variant], "revision": source.revision(variant)}
            family.add_sample("tsduel_variant_info", _known(_common(source) | more), 1.0, timestamp=float(ends.max()))
    return family


def _end_of(source: Source) -> _EndOf:
    """Return a function of (block, variant, phase, query type): when that ended, else the variant's last phase."""
    phases = source.table("phases")
    phase_ends = phases.groupby(["block", "variant", "phase", "query_type"])["end"].max().to_dict()
    block_ends = phases.groupby(["block", "variant"])["end"].max().to_dict()

    def end_of(block: int, variant: str, phase: str, query_type: str) -> float | None:
        # A phase of the duel has no variant; the columns of a pivot share a variant.
        ran = source.plan.variants[0].name if source.pivoted else variant
        ends = (phase_ends.get((block, owner, phase, query_type)) for owner in (ran, ""))
        # Loads and queries in turn have no phase of one variant.
        return next(filter(None, (*ends, *(block_ends.get((block, owner)) for owner in (ran, "")))), None)

    return end_of


def _add_samples(source: Source, family: Family, values: pd.DataFrame, factor: float, end_of: _EndOf) -> None:
    of_type = "benchmark" if source.plan.gobench else "query_type"
    table = values[["block", "variant", "phase", "query_type", "value"]]
    for block, variant, phase, query_type, value in table.itertuples(index=False):
        if (end := end_of(block, variant, phase, query_type)) is not None:
            own = {"variant": variant, of_type: query_type, "block": f"{block:.0f}"}
            labels, scaled = _known(_common(source) | own), float(f"{value * factor:.10g}")
            family.add_sample(family.name, labels, scaled, timestamp=float(f"{end:.3f}"))


def _common(source: Source) -> dict[str, str]:
    return {"run": source.run.path.name, "experiment": source.plan.name, "standing": source.standing}


def _known(labels: dict[str, str]) -> dict[str, str]:
    """Return the labels without empty ones, which OpenMetrics treats as missing."""
    return {name: value for name, value in labels.items() if value}
