"""Several runs: `make compare-runs RUNS="a b c"` side by side, `make trend METRIC=` over all stored runs.

A table has runs of the same machine, data, protocol and kind only; a sentence says in what other runs differ.
Changes of different runs may be compared, since each run measures both sides; values may not: machines drift.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from plots import markup, numbers, sentences
from plots.charts.history import trend as draw
from plots.charts.style import save
from plots.comparison import Comparison
from plots.listing import BROKEN, NO_RUNS
from plots.source import Source, open_source
from tsduel.bisect.metric import WORDS, followed
from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.results import run_directory
from tsduel.core.wording import did_you_mean, number_of
from tsduel.stats.calibration import machine_kind
from tsduel.workloads import workload_of

OUT = "trend"
MOST_REASONS = 4


def settings(run: Source) -> dict[str, str]:
    """Return what two runs must share to be in one table: kind, machine, protocol, data, settings of the workload."""
    plan = run.plan
    data = plan.workload.data if plan.workload else []
    parts = {
        "kind": plan.kind,
        "machine": machine_kind(run.run),
        "protocol": f"plan {plan.plan_version}, comparison {run.document['schema']}",
        "data": ", ".join(file.key for file in data) or "none",
    }
    (alike,) = pd.json_normalize(workload_of(plan).alike(plan)).to_dict("records")
    return parts | {str(name): str(value) for name, value in alike.items()}


def _name(run: Source) -> str:
    return run.run.path.name


def _sides(runs: Iterable[Source]) -> list[Comparison]:
    return [comparison for run in runs for comparison in run.comparisons]


def groups(runs: Sequence[Source]) -> list[list[Source]]:
    """Return lists of runs that may be in one table, in order."""
    by_settings: dict[frozenset[tuple[str, str]], list[Source]] = {}
    for run in runs:
        by_settings.setdefault(frozenset(settings(run).items()), []).append(run)
    return list(by_settings.values())


def _differences(together: Sequence[Sequence[Source]]) -> str:
    lines = []
    for run, other in ((group[-1], following[0]) for group, following in pairwise(together)):
        first, second = settings(run), settings(other)
        names = dict.fromkeys([*first, *second])
        differ = [(name, first.get(name, "none"), second.get(name, "none")) for name in names]
        reasons = markup.most([f"{name}: {a} against {b}" for name, a, b in differ if a != b], MOST_REASONS)
        lines.append(f"{_name(run)} and {_name(other)} are not put together: {markup.text('; '.join(reasons))}.")
    return markup.items(lines)


def compare(environment: Mapping[str, str]) -> str:
    """Return the runs of the knob RUNS side by side, as Markdown: a table for each group of comparable runs."""
    names = environment.get("RUNS", "").split()
    if len(names) < 2:  # noqa: PLR2004 - one run has a report
        raise UserError('RUNS is not two runs or more: make compare-runs RUNS="latest 20261120T140000Z-local"')
    together = groups([open_source(run_directory(name, must_exist=True)) for name in dict.fromkeys(names)])
    return markup.paragraphs("# Runs side by side", _differences(together), *map(_table, together)) + "\n"


def _table(group: Sequence[Source]) -> str:
    columns = [(run, side) for run in group for side in run.comparisons]
    keys = dict.fromkeys((row["metric"], row["query_type"]) for _, side in columns for row in _rows(side))
    heads = [f"{_name(run)}: {side.labels[1]} against {side.labels[0]}, {side.blocks}" for run, side in columns]
    rows = [[_named(_sides(group), *key), *(side.cell_of(*key) for _, side in columns)] for key in keys]
    return markup.table(["Metric", *heads], rows, range(1, len(heads) + 1))


def _rows(comparison: Comparison) -> list[dict[str, Any]]:
    rows = sentences.subjects(comparison)
    means = {row["metric"] for row in rows if row["query_type"] == GEOMEAN}
    return rows + [row for row in comparison.rows if row["metric"] in means and row["query_type"] != GEOMEAN]


def _named(comparisons: Sequence[Comparison], metric: str, query_type: str) -> str:
    side, row = next((side, row) for side in comparisons if (row := side.row(metric, query_type)))
    unit = numbers.scaled(row["unit"], 0.0)[0]
    return f"{side.named(row)}, {unit}"


def trend(environment: Mapping[str, str], results: Path) -> str:
    """Return the changes of a metric over the stored runs that are results, and draw those of the longest group.

    METRIC is a short word, a metric of stats/comparison.csv, or METRIC/TYPE if it has query types.
    """
    metric_wanted = environment.get("METRIC", "")
    runs = sorted(_stored(results), key=lambda run: (run.plan.created, _name(run)))
    names = ((side, row["metric"], row["query_type"]) for side in _sides(runs) for row in side.rows)
    keys = {(m, t) for side, m, t in names if side.row(m, t)}
    # METRIC and TYPE of Go benchmarks may have slashes: sec/op, Search/Data/100.
    whole = {m: (m, t) for t in (ALL, GEOMEAN, "") for m, at in keys if at == t}
    by_name = {f"{m}/{t}": (m, t) for m, t in keys} | whole
    if runs and metric_wanted in (words := WORDS[runs[-1].plan.kind]):
        plan = runs[-1].plan
        what = followed(plan.kind, environment, in_turn=plan.exchanges_load)
        by_name |= {metric_wanted: (what.metric, what.query_type)} if (what.metric, what.query_type) in keys else {}
    if metric_wanted not in by_name:
        metrics = ", ".join(sorted({m for m, _ in keys})) or f"none, since no run in {results} is a result yet"
        short = f"{', '.join(words)}, or " if runs else ""
        raise UserError(
            f"METRIC: {metric_wanted or 'nothing'!r} is in no run; give {short}METRIC or METRIC/TYPE of {metrics}"
            f"{did_you_mean(metric_wanted, by_name)}"
        )
    metric, query_type = by_name[metric_wanted]
    with_metric = groups([run for run in runs if any(side.row(metric, query_type) for side in _sides([run]))])
    tables = [_course(group, metric, query_type) for group in with_metric]
    longest = max(with_metric, key=len)
    parts = [f"# {metric} {query_type}".rstrip(), _differences(with_metric), *tables]
    points = _points(longest, metric, query_type)
    if points.empty:
        return markup.paragraphs(*parts, "No picture: no run has a change of it in percent.") + "\n"
    higher = longest[0].metrics[metric].better == "higher"
    name, ratio = _named(_sides(longest), metric, query_type), longest[0].plan.crosses
    figure = draw(points, name, higher_is_better=higher, ratio=ratio)
    directory = results / OUT
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "-".join(filter(None, (metric, query_type))).replace("/", "_")
    save(figure, path.with_name(path.name + ".svg"))
    drawn = f"Picture of {number_of(len(longest), 'run')}: {path}.svg, {path}.png"
    return markup.paragraphs(*parts, drawn) + "\n"


def _stored(results: Path) -> Iterator[Source]:
    for path in results.iterdir() if results.is_dir() else ():
        if path.name in NO_RUNS or path.is_symlink() or not (path / "stats/comparison.json").is_file():
            continue
        try:
            run = open_source(path)
        except BROKEN:
            continue  # `make list` says why
        if run.standing == "result":
            yield run


def _course(group: Sequence[Source], metric: str, query_type: str) -> str:
    name = _named(_sides(group), metric, query_type)
    rows = [
        [run.plan.created[:16], _name(run), *side.labels, side.cell_of(metric, query_type)]
        for run in group
        for side in run.comparisons
    ]
    return markup.table(["Created", "Run", "baseline", "candidate", name], rows, [4])


def _points(group: Sequence[Source], metric: str, query_type: str) -> pd.DataFrame:
    """Return columns created, version, change, low, high: the change of each candidate in percent, or as a ratio."""
    rows = [
        (run.plan.created[:10], side.labels[1], row["change_pct"], row["lo_pct"], row["hi_pct"])
        for run in group
        for side in run.comparisons
        if (row := side.row(metric, query_type)) and row["change_pct"] is not None
    ]
    points = pd.DataFrame(rows, columns=["created", "version", "change", "low", "high"])
    if group[0].plan.crosses:
        points[["change", "low", "high"]] = 1 + points[["change", "low", "high"]].astype(float) / 100
    return points
