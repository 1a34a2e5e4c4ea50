"""`make history`: one metric over the versions of one interleaved run, as a table and a picture."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from plots import markup, numbers
from plots.charts.history import history
from plots.charts.style import save
from plots.source import open_source
from tsduel.bisect.metric import followed
from tsduel.core import files
from tsduel.core.errors import UserError


def main(run_dir: Path, environment: Mapping[str, str]) -> None:
    """Print history.md of a compared run, and draw plots/history.svg and .png."""
    source = open_source(run_dir)
    if source.pivoted:
        raise UserError(f"{run_dir} has no course over versions: it is a pivot; see its report")
    what = followed(source.plan.kind, environment, in_turn=source.plan.exchanges_load)
    if what.by:
        raise UserError("METRIC: A:B is followed by bisect and worst; a history is of one metric")
    rows = [(comparison, comparison.row(what.metric, what.query_type)) for comparison in source.comparisons]
    if not any(row and row["change_pct"] is not None for _, row in rows):
        raise UserError(
            f"{run_dir}: no version has a change of {what.metric} {what.query_type} in percent; see its report"
        )
    first, empty = source.comparisons[0].labels[0], [""] * 4
    points: list[tuple[Any, ...]] = [(first, 0.0, None, None)]
    cells = [[first, *empty]]
    for comparison, row in rows:
        points.append((comparison.labels[1], *((row or {}).get(k) for k in ("change_pct", "lo_pct", "hi_pct"))))
        both = comparison.cell_of(what.metric, what.query_type)
        columns = [both, numbers.interval(row), comparison.mark(row), comparison.blocks] if row else empty
        cells.append([comparison.labels[1], *columns])
    table = pd.DataFrame(points, columns=["label", "change", "low", "high"]).assign(chance=math.nan)
    figure = history(table, what.name, what.threshold_pct, higher_is_better=what.higher_is_better)
    save(figure, run_dir / "plots/history.svg")
    text = markup.paragraphs(
        f"# {markup.text(what.name)} over versions",
        markup.table(["Version", f"against {first}", "95 % CI", "verdict", "blocks"], cells, [1, 2]),
        "![change over versions](plots/history.png)",
    )
    files.write(run_dir / "history.md", f"{text}\n")
    print(f"{text}\n\nKept in {run_dir}: history.md, plots/history.svg, plots/history.png")
