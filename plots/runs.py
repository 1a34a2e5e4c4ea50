"""Several runs: `make compare-runs RUNS="a b c"` side by side, `make trend METRIC=` over all that are stored.

Runs are put into one table only where machine, data, protocol and kind are the same; otherwise it is said what differs.
A change is measured within a run, with both sides beside each other; values of different days are not, and drift.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from plots import markup, numbers, sentences
from plots.charts.style import save
from plots.charts.trend import trend as draw
from plots.comparison import Comparison
from plots.listing import BROKEN, NO_RUNS
from plots.source import Source, open_source
from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.results import run_directory
from tsduel.core.wording import number_of
from tsduel.stats.calibration import machine_kind
from tsduel.workloads import workload_of

OUT = Path("results/trend")
MOST_REASONS = 4


@dataclass(frozen=True)
class Known:
    """A compared run, and what another one must share with it for their figures to stand in one table."""

    source: Source

    @property
    def name(self) -> str:
        """The name of the run's directory."""
        return self.source.run.path.name

    @cached_property
    def shared(self) -> dict[str, str]:
        """Return kind, machine, protocol, data and every setting that changes what is measured, by name."""
        plan, document = self.source.plan, self.source.document
        data = plan.workload.data if plan.workload else []
        found = {
            "kind": plan.kind,
            "machine": machine_kind(self.source.run),
            "protocol": f"plan {plan.plan_version}, comparison {document['schema']}",
            "data": ", ".join(one.key for one in data) or "none",
        }
        return found | dict(_flat(workload_of(plan).alike(plan)))


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}".lstrip("."))
    else:
        yield name, str(value)


def why_apart(one: Known, other: Known) -> str:
    """Say why two runs are not comparable, e.g. "machine: a against b"; an empty string where they are."""
    names = dict.fromkeys([*one.shared, *other.shared])
    differ = [(n, one.shared.get(n, "none"), other.shared.get(n, "none")) for n in names]
    said = [f"{n}: {a} against {b}" for n, a, b in differ if a != b]
    more = f"; and {len(said) - MOST_REASONS} more" if len(said) > MOST_REASONS else ""
    return "; ".join(said[:MOST_REASONS]) + more


def groups(runs: Sequence[Known]) -> list[list[Known]]:
    """Return the runs by what they share, in order."""
    found: list[list[Known]] = []
    for run in runs:
        mine = next((group for group in found if not why_apart(group[0], run)), None)
        if mine is None:
            found.append([run])
        else:
            mine.append(run)
    return found


def _apart(found: Sequence[Sequence[Known]]) -> str:
    return markup.items(
        f"{a[-1].name} and {b[0].name} are not put together: {markup.text(why_apart(a[-1], b[0]))}."
        for a, b in pairwise(found)
    )


def compare(environment: Mapping[str, str]) -> str:
    """Return the runs that RUNS names side by side, as Markdown: a table for those that are comparable."""
    names = environment.get("RUNS", "").split()
    if len(names) < 2:  # noqa: PLR2004 - one run has a report
        raise UserError('RUNS is not two runs or more: make compare-runs RUNS="latest 20261120T140000Z-local"')
    runs = [Known(open_source(run_directory(name, must_exist=True))) for name in dict.fromkeys(names)]
    found = groups(runs)
    return markup.paragraphs("# Runs side by side", _apart(found), *map(_beside, found)) + "\n"


def _beside(group: Sequence[Known]) -> str:
    columns = [(run, one) for run in group for one in run.source.comparisons]
    keys = dict.fromkeys((row["metric"], row["query_type"]) for _, one in columns for row in _rows(one))
    heads = [
        f"{run.name}: {one.labels[1]} against {one.labels[0]}{one.cell and f' ({one.cell})'}, {one.blocks}"
        for run, one in columns
    ]
    rows = [
        [_named([one for _, one in columns], *key), *(one.cell_of(*key) or numbers.MISSING for _, one in columns)]
        for key in keys
    ]
    return markup.table(["Metric", *heads], rows, range(1, len(heads) + 1))


def _rows(one: Comparison) -> list[dict[str, Any]]:
    rows = [row for _, row in sentences.subjects(one)]
    means = {row["metric"] for row in rows if row["query_type"] == GEOMEAN}
    return rows + [row for row in one.rows if row["metric"] in means and row["query_type"] != GEOMEAN]


def _named(comparisons: Sequence[Comparison], metric: str, query_type: str) -> str:
    one, row = next((one, row) for one in comparisons if (row := one.row(metric, query_type)))
    unit = numbers.scaled(row["unit"], 0.0)[0]
    return f"{one.named(row)}, {unit}"


def trend(environment: Mapping[str, str], results: Path) -> str:
    """Return the course of a metric over the stored runs that are results, and draw the longest group's.

    METRIC is a metric of stats/comparison.csv, with a query type behind a slash where it has some.
    """
    given = environment.get("METRIC", "")
    runs = sorted(_stored(results), key=lambda run: (run.source.plan.created, run.name))
    found = {key for run in runs for one in run.source.comparisons for key in _keys(one) if one.row(*key)}
    # Of Go benchmarks both have slashes of their own: sec/op, Search/Data/100.
    asked = {f"{m}/{t}": (m, t) for m, t in found} | {
        m: (m, t) for t in (ALL, GEOMEAN, "") for m, at in found if at == t
    }
    if given not in asked:
        known = ", ".join(sorted({m for m, _ in found})) or f"none, since no run in {results} is a result yet"
        raise UserError(f"METRIC: {given or 'nothing'!r} is in no run; METRIC is METRIC or METRIC/TYPE of {known}")
    metric, query_type = asked[given]
    mine = groups([run for run in runs if any(one.row(metric, query_type) for one in run.source.comparisons)])
    tables = [_course(group, metric, query_type) for group in mine]
    longest = max(mine, key=len)
    name = _named([one for run in longest for one in run.source.comparisons], metric, query_type)
    higher = longest[0].source.metrics[metric].better == "higher"
    ratio, points = longest[0].source.plan.crosses, _points(longest, metric, query_type)
    parts = [f"# {metric} {query_type}".rstrip(), _apart(mine), *tables]
    if points.empty:
        return markup.paragraphs(*parts, "No picture: no run has a change of it in percent.") + "\n"
    if ratio:
        points[["change", "low", "high"]] = 1 + points[["change", "low", "high"]].astype(float) / 100
    figure = draw(points, name, higher_is_better=higher, ratio=ratio)
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{metric}{'-' if query_type else ''}{query_type}".replace("/", "_")
    save(figure, path.with_name(path.name + ".svg"))
    drawn = f"Picture of {number_of(len(longest), 'run')}: {path}.svg, {path}.png"
    return markup.paragraphs(*parts, drawn) + "\n"


def _stored(results: Path) -> Iterator[Known]:
    for path in results.iterdir():
        if path.name in NO_RUNS or path.is_symlink() or not (path / "stats/comparison.json").is_file():
            continue
        try:
            run = Known(open_source(path))
        except BROKEN:
            continue  # `make list` says why
        # The figures of a sweep are by cell, and a course has one point a run.
        if run.source.standing == "result" and not run.source.plan.sweeps:
            yield run


def _keys(one: Comparison) -> set[tuple[str, str]]:
    return {(row["metric"], row["query_type"]) for row in one.rows}


def _course(group: Sequence[Known], metric: str, query_type: str) -> str:
    rows = [
        [run.source.plan.created[:16], run.name, *one.labels, one.cell_of(metric, query_type)]
        for run in group
        for one in run.source.comparisons
    ]
    name = _named([one for run in group for one in run.source.comparisons], metric, query_type)
    return markup.table(["Created", "Run", "baseline", "candidate", name], rows, [4])


def _points(group: Sequence[Known], metric: str, query_type: str) -> pd.DataFrame:
    """Return the change of each candidate and its interval, in percent: columns created, version, change, low, high."""
    rows = [
        (run.source.plan.created[:10], one.labels[1], row["change_pct"], row["lo_pct"], row["hi_pct"])
        for run in group
        for one in run.source.comparisons
        if (row := one.row(metric, query_type)) and row["change_pct"] is not None
    ]
    return pd.DataFrame(rows, columns=["created", "version", "change", "low", "high"])
