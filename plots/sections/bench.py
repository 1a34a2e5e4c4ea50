"""Go benchmarks: a row a benchmark, a column a unit; benchstat's own table."""

import re

from plots import markup
from plots.charts.forest import READ, Change, forest_of, shared_path
from plots.pictures import Pictures
from plots.printed import printed
from plots.sections import duel
from plots.source import Source
from tsduel.core.metrics import GEOMEAN
from tsduel.core.project import PROJECT

_BENCHSTAT_S = 600


def benchmarks(source: Source, pictures: Pictures) -> str:
    """Return the table of all benchmarks in all units, and the picture of memory and their own metrics."""
    units = {name: _titled(metric.title, name) for name, metric in source.metrics.items()}
    rows = source.query_types
    changes = [
        Change.of(row, row["metric"], f"{one.metrics[row['metric']].title}, {row['query_type'][shared_path(rows) :]}")
        for one in source.comparisons for row in one.rows
        if row["family"] == "secondary" and row["metric"] != "sec/op" and row["query_type"] != GEOMEAN
        and row["change_pct"] is not None
    ]  # fmt: skip
    names = markup.text(" and ".join(source.labels.values()))
    return markup.paragraphs(
        *(
            markup.paragraphs(duel.overview(one, units, rows, "Benchmark"), duel.details(one, units, rows))
            for one in source.comparisons
        ),
        "A cell is the baseline's median → the candidate's (change) and its mark.",
        pictures.show(
            "change-in-memory", "change in memory and allocations",
            f"Change of bytes, allocations and own metrics of each benchmark with its 95 % interval: {names}",
            f"Worse is always to the right; the figures have the metric's own sign. {READ}",
            forest_of(changes, source.labels, "Change in memory, allocations and own metrics, % (left is better)"),
        ),
    )  # fmt: skip


def _titled(title: str, unit: str) -> str:
    return f"{title} ({unit})" if title != unit else unit


def benchstat(source: Source, _: Pictures) -> str:
    """Return benchstat's own table, or a sentence that says why there is none."""
    words = [str(PROJECT / "scripts/benchstat"), str(source.run.path)]
    if source.plan.gobench and source.plan.gobench.pivot:
        keys = [f"/{key}" for row in source.query_types[:1] for key in re.findall(r"/([^/=]+)=", row)]
        words += ["-row", " ".join([".name", *keys]), "-col", f"/{source.plan.gobench.pivot.column}"]
    said = printed(words, _BENCHSTAT_S, "benchstat")
    return markup.paragraphs(
        "Medians and Mann-Whitney of the same values, unpaired: a second opinion. The verdicts above decide.",
        markup.block(said, "text"),
    )
