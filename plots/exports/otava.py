"""For Apache Otava, which finds change points over many runs: one line a run and candidate, and its configuration.

Otava reads a time column, attributes, and columns of numbers (`nan` for none). All runs of an experiment have
the same columns, so that one file can hold the lines of several runs (docs/operating.md).
"""

import io
from datetime import UTC, datetime
from typing import Any

import yaml

from plots.exports.trackers import figures, series, tracked
from plots.source import Source
from tsduel.core import tables
from tsduel.core.metrics import ALL, GEOMEAN

ATTRIBUTES = ("run", "commit", "version", "baseline")


def files(source: Source) -> dict[str, str]:
    """Return a CSV file a candidate, and one otava.yaml for them."""
    texts, tests, every = dict[str, str](), dict[str, Any](), list(figures(source))
    for candidate in source.run.variants[1:]:
        file = f"otava-{'screen-' if source.standing == 'screen' else ''}{candidate}.csv"
        columns = {_column(f.row["metric"], f.row["query_type"]): f for f in every if f.row["candidate"] == candidate}
        if not columns:
            continue
        texts[file] = _csv(source, candidate, {name: figure.median for name, figure in columns.items()})
        tests[".".join([*series(source).split("/"), candidate])] = {
            "type": "csv",
            "file": file,
            "time_column": "time",
            "attributes": list(ATTRIBUTES),
            "metrics": {n: {"direction": 1 if f.row["better"] == "higher" else -1} for n, f in columns.items()},
        }
    return {**texts, "otava.yaml": yaml.safe_dump({"tests": tests}, sort_keys=False, allow_unicode=True)}


def _csv(source: Source, candidate: str, values: dict[str, float]) -> str:
    phases = source.table("phases")
    began = datetime.fromtimestamp(float(phases["begin"][~phases["block"].isin(source.run.warmups)].min()), UTC)
    about = (source.run.path.name, source.revision(candidate), source.labels[candidate], source.labels[source.baseline])
    columns = _columns(source, candidate)
    text = io.StringIO()
    table = tables.Writer(text)
    table.writerow(["time", *ATTRIBUTES, *columns])
    table.writerow([began.strftime("%Y-%m-%dT%H:%M:%SZ"), *about, *(values.get(name, "nan") for name in columns)])
    return text.getvalue()


def _columns(source: Source, candidate: str) -> list[str]:
    """Return the columns of the experiment; for Go benchmarks those of the run, since revisions may have others."""
    if source.plan.gobench:
        rows = [row for side in source.comparisons if side.candidate == candidate for row in side.rows]
        return [
            _column(row["metric"], row["query_type"])
            for row in rows
            if tracked(source.metrics[row["metric"]], row["family"])
        ]
    columns = []
    for metric in source.metrics.values():
        each = source.query_types if metric.per_type else source.plan.roles if metric.per_role else [""]
        types = [*each] if tracked(metric, metric.family) else []
        types += [name for name, of in ((GEOMEAN, metric.geomean), (ALL, metric.together)) if tracked(metric, of)]
        columns += [_column(metric.name, query_type) for query_type in types]
    return columns


def _column(metric: str, query_type: str) -> str:
    return f"{metric}.{query_type}" if query_type else metric
