"""Go benchmarks: a table with a row a benchmark and a column a unit, and benchstat's own table."""

import re

from plots import markup
from plots.charts.forest import Change, caption, forest_of, shared_path
from plots.pictures import Pictures
from plots.programs import printed
from plots.sections import heading, tables
from plots.source import Source
from tsduel.core.metrics import GEOMEAN
from tsduel.core.project import PROJECT

_BENCHSTAT_S = 600


@heading("Benchmarks", 40, "gobench")
def benchmarks(source: Source, pictures: Pictures) -> str:
    """Return the table of all benchmarks in all units, and the picture of memory and their own metrics."""
    rows, metrics = source.query_types, source.metrics
    heads = {unit: m.title if m.title == unit else f"{m.title} ({unit})" for unit, m in metrics.items()}
    found = [
        (row, f"{metrics[row['metric']].title}, {row['query_type'][shared_path(rows) :]}")
        for comparison in source.comparisons for row in comparison.rows
        if row["family"] == "secondary" and row["metric"] != "sec/op" and row["query_type"] != GEOMEAN
    ]  # fmt: skip
    changes = [Change.of(row, row["metric"], name) for row, name in found if row["change_pct"] is not None]
    return markup.paragraphs(
        *tables.of_types(source, heads, title="Benchmark"),
        "A cell has the baseline's value → the candidate's value (the change) and the mark.",
        pictures.show(
            "change-in-memory", "change in memory and allocations",
            f"Change of bytes, allocations and own metrics of each benchmark with its 95 % interval: {source.names}",
            caption(changes, [markup.text(name) for row, name in found if row["native"]]),
            forest_of(changes, source.labels, "Change in memory, allocations and own metrics, %"),
        ),
    )  # fmt: skip


@heading("benchstat's view", 41, "gobench")
def benchstat(source: Source, _: Pictures) -> str:
    """Return benchstat's own table, or a sentence with the reason for none."""
    words = [str(PROJECT / "scripts/benchstat"), str(source.run.path)]
    if source.plan.gobench and source.plan.gobench.pivot:
        keys = [f"/{key}" for row in source.query_types[:1] for key in re.findall(r"/([^/=]+)=", row)]
        words += ["-row", " ".join([".name", *keys]), "-col", f"/{source.plan.gobench.pivot.column}"]
    return markup.paragraphs(
        "Medians and Mann-Whitney of the same values, unpaired: a second opinion. The verdicts above decide.",
        markup.block(printed(words, _BENCHSTAT_S, "benchstat"), "text"),
    )
