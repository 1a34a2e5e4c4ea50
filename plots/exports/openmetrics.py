"""Every round that counts as OpenMetrics text with timestamps, to be backfilled beside what was monitored meanwhile.

One gauge a metric; in base units, and the name ends with its unit, as the format wants it. A sample's time is the end
of its phase, or that of the round's last phase where the metric belongs to the whole round.
"""

import re
from collections.abc import Iterator, Mapping

import pandas as pd

from plots.exports import names
from plots.exports.figures import Source
from tsduel.core.metrics import Metric

_PLURAL = {"s": "seconds", "ms": "seconds", "B": "bytes"}
# What a benchmark calls s or ms is its own affair: benchstat's seconds are sec.
_GO_PLURAL = {"sec": "seconds", "B": "bytes"}
_SINGULAR = {"s": "second", "B": "byte"}
_FACTORS = {"ms": 1e-3}


def text(source: Source) -> str:
    """Return the whole exposition, `# EOF` last."""
    lines = [*_info(source)]
    of_go = source.run.kind == "gobench"
    named = _go_names(source) if of_go else {metric.name: name_of(metric) for metric in source.metrics.values()}
    for metric in source.metrics.values():
        name, unit = named[metric.name]
        samples = list(_samples(source, metric, name, 1.0 if of_go else _FACTORS.get(metric.unit, 1.0)))
        if samples:
            lines += [
                f"# TYPE {name} gauge",
                f"# UNIT {name} {unit}",
                f"# HELP {name} {_escaped(metric.title)}.",
                *samples,
            ]
    return "\n".join([*lines, "# EOF"]) + "\n"


def name_of(metric: Metric) -> tuple[str, str]:
    """Return a metric's name and unit: query_mean_ms is ("tsduel_query_mean_seconds", "seconds")."""
    unit = _spoken(metric.unit, _PLURAL)
    name = f"tsduel_{metric.name.removesuffix('_ms')}"
    return name if name.endswith(f"_{unit}") else f"{name}_{unit}", unit


def _go_names(source: Source) -> dict[str, tuple[str, str]]:
    """Return the same of Go benchmarks, whose metrics are units: sec/op is ("tsduel_bench_seconds_per_op", ...)."""
    units = names.safe({unit: _spoken(unit, _GO_PLURAL) for unit in source.metrics}, "_")
    return {unit: (f"tsduel_bench_{spoken}", spoken) for unit, spoken in units.items()}


def _spoken(unit: str, plural: Mapping[str, str]) -> str:
    first, *per = unit.split("/")
    return "_per_".join([plural.get(first, first), *(_SINGULAR.get(part, part) for part in per)])


def _info(source: Source) -> Iterator[str]:
    """Yield which revision each variant was, at the end of its last round; columns of a pivot share their rounds."""
    phases = source.phases
    ends = phases.groupby("variant")["end"].max()
    if source.pivoted and not phases.empty:
        ends = pd.Series(phases["end"].max(), index=source.run.variants)
    yield "# TYPE tsduel_variant info"
    yield "# HELP tsduel_variant What a variant of a run was."
    for variant in source.run.variants:
        if variant in ends.index:
            more = {"label": source.labels[variant], "revision": source.revision(variant)}
            labels = _labels({**_common(source), "variant": variant, **more})
            yield f"tsduel_variant_info{labels} 1 {ends[variant]:.3f}"


def _samples(source: Source, metric: Metric, name: str, factor: float) -> Iterator[str]:
    of_type = "benchmark" if source.run.kind == "gobench" else "query_type"
    counting = _counting(source)
    phase_ends = source.phases.groupby(["round", "phase", "query_type"])["end"].max().to_dict()
    round_ends = source.phases.groupby("round")["end"].max().to_dict()
    table = source.measurements[source.measurements["metric"] == metric.name]
    columns = ("block", "round", "variant", "phase", "query_type", "value")
    for block, round_, variant, phase, query_type, value in zip(*(table[c].tolist() for c in columns), strict=True):
        end = phase_ends.get((round_, phase, query_type), round_ends.get(round_))
        if (variant, block) in counting and end is not None:
            own = {"variant": variant, of_type: query_type, "block": f"{block:.0f}", "round": round_}
            yield f"{name}{_labels({**_common(source), **own})} {value * factor:.10g} {end:.3f}"


def _counting(source: Source) -> set[tuple[str, int]]:
    """Return (variant, block) of the rounds that count; the baseline's count for any candidate."""
    by_candidate = {name: source.valid(name) for name in source.document["candidates"]}
    mine = {(name, block) for name, blocks in by_candidate.items() for block in blocks}
    return mine | {(source.run.variants[0], block) for _, block in mine}


def _common(source: Source) -> dict[str, str]:
    plan = source.run.plan
    return {"run": source.run.path.name, "experiment": str(plan["name"]), "standing": source.standing}


def _labels(labels: dict[str, str]) -> str:
    """Return the labels in braces, without those that are empty: to OpenMetrics these are no labels."""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items() if value) + "}"


def _escaped(value: str) -> str:
    return re.sub(r'[\\"\n]', lambda found: {"\\": r"\\", '"': r"\"", "\n": r"\n"}[found[0]], value)
