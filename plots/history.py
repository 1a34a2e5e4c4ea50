"""`make history`: one metric over the versions of one interleaved run, as a table and a picture."""

import math
from collections.abc import Mapping
from pathlib import Path

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
    if source.plan.imported or source.plan.sweeps or source.pivoted:
        raise UserError(f"{run_dir} has no course over versions: it is a sweep, a pivot or imported; see its report")
    what = followed(source.plan.kind, environment, in_turn=source.plan.exchanges_load)
    rows = [(one, one.row(what.metric, what.query_type)) for one in source.comparisons]
    if not any(row and row["change_pct"] is not None for _, row in rows):
        raise UserError(
            f"{run_dir}: no version has a change of {what.metric} {what.query_type} in percent; see its report"
        )
    first = source.comparisons[0].labels[0]
    points: list[tuple[str | float, ...]] = [(first, 0.0, math.nan, math.nan)]
    cells = [[first, "", "", "", ""]]
    for one, row in rows:
        shown = [math.nan if row is None or row[k] is None else row[k] for k in ("change_pct", "lo_pct", "hi_pct")]
        points.append((one.labels[1], *shown))
        cells.append(
            [
                one.labels[1],
                *(
                    [one.cell_of(what.metric, what.query_type), numbers.interval(row), one.mark(row), one.blocks]
                    if row
                    else [""] * 4
                ),
            ]
        )
    table = pd.DataFrame(points, columns=["label", "change", "low", "high"]).assign(chance=math.nan)
    direction = "lower" if what.higher_is_better else "higher"
    sign = -1 if what.higher_is_better else 1
    figure = history(table, f"{what.name}: change from {first} ({direction} is worse)", sign * what.threshold_pct)
    save(figure, run_dir / "plots/history.svg")
    text = markup.paragraphs(
        f"# {markup.text(what.name)} over versions",
        markup.table(["Version", f"against {first}", "95 % CI", "verdict", "blocks"], cells, [1, 2]),
        "![change over versions](plots/history.png)",
    )
    files.write(run_dir / "history.md", f"{text}\n")
    print(f"{text}\n\nKept in {run_dir}: history.md, plots/history.svg, plots/history.png")
