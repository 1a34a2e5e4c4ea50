"""For Apache Otava, which looks for change points over many runs: one line a run and candidate, and its configuration.

Otava reads a time column, columns it only shows (attributes) and columns of numbers. It wants a number in every line,
so what a run does not have is `nan`. The columns are those of the experiment, whatever a run has of them, so that the
lines of several runs can be put into one file (docs/operating.md).
"""

import csv
import io
from datetime import UTC, datetime
from typing import Any

import yaml

from plots.exports.tracked import figures, series, tracked
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN

ATTRIBUTES = ("run", "commit", "version", "baseline")


def files(source: Source) -> dict[str, str]:
    """Return a CSV file a candidate, and one otava.yaml for them."""
    texts, tests = dict[str, str](), dict[str, Any]()
    for candidate in source.run.variants[1:]:
        file = f"otava-{'screen-' if source.standing == 'screen' else ''}{candidate}.csv"
        found = {_column(f.metric.name, f.query_type): f for f in figures(source, candidate)}
        if not found:
            continue
        texts[file] = _csv(source, candidate, {name: figure.median for name, figure in found.items()})
        tests[".".join([*series(source).split("/"), candidate])] = {
            "type": "csv",
            "file": file,
            "time_column": "time",
            "attributes": list(ATTRIBUTES),
            "metrics": {
                name: {"direction": 1 if figure.metric.better == "higher" else -1} for name, figure in found.items()
            },
        }
    return {**texts, "otava.yaml": yaml.safe_dump({"tests": tests}, sort_keys=False, allow_unicode=True)}


def _csv(source: Source, candidate: str, values: dict[str, float]) -> str:
    phases = source.table("phases")
    began = datetime.fromtimestamp(float(phases["begin"][~phases["block"].isin(source.run.warmups)].min()), UTC)
    about = (
        source.run.path.name,
        source.revision(candidate),
        source.labels[candidate],
        source.labels[source.baseline],
    )
    columns = _columns(source, candidate)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["time", *ATTRIBUTES, *columns])
    table.writerow([began.strftime("%Y-%m-%dT%H:%M:%SZ"), *about, *(values.get(name, "nan") for name in columns)])
    return text.getvalue()


def _columns(source: Source, candidate: str) -> list[str]:
    """Return the columns of the experiment; of Go benchmarks those that were found: revisions may have others."""
    if source.plan.gobench:
        rows = [row for one in source.comparisons if one.candidate == candidate for row in one.rows]
        return [_column(row["metric"], row["query_type"]) for row in rows if tracked(source.metrics[row["metric"]])]
    return [
        _column(metric.name, query_type)
        for metric in filter(tracked, source.metrics.values())
        for query_type in (
            [*source.query_types, *([GEOMEAN] if metric.geomean else []), *([ALL] if metric.together else [])]
            if metric.per_type
            else (source.plan.roles if metric.per_role else [""])
        )
    ]


def _column(metric: str, query_type: str) -> str:
    return f"{metric}.{query_type}" if query_type else metric
