"""The queries of an experiment that are the user's own, as query types with their requests."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from tsduel.core.metrics import MIX
from tsduel.core.sections import QuerySettings, WorkloadAsked
from tsduel.core.target import Target
from tsduel.targets.database import FIELDS
from tsduel.workloads.own import dump, grafana, logs, requests, rules, written
from tsduel.workloads.own.query import Asked, Query, unique
from tsduel.workloads.own.requests import Data


@dataclass(frozen=True)
class OwnType:
    """A query type and its requests, whose hash identifies them. `quiet`: all of its answers may be empty."""

    name: str
    where: str
    requests: tuple[str, ...]
    may_be_empty: bool
    quiet: bool

    @property
    def sha256(self) -> str:
        """The hash of the requests."""
        return hashlib.sha256("\n".join(self.requests).encode()).hexdigest()


def is_own(queries: QuerySettings) -> bool:
    """Whether the queries are the user's."""
    return bool(queries.file or queries.log or queries.rules or queries.dashboard)


def language_of(target: Target) -> str:
    """Return the language that a database is asked, as expression.examine names it."""
    if target.answers == "prometheus":
        return "promql" if target.query_form == "prometheus" else "metricsql"
    return target.answers


def data_of(workload: WorkloadAsked, target: Target, *, loads: bool = True) -> Data:
    """Return what a workload holds in a database; only the window where the run does not load it (``loads``)."""
    if found := dump.of(workload):
        span = (found.start_ms / 1000, found.end_ms / 1000)
        return Data(*span, language_of(target), metrics=found.names, labels=found.labels)
    prefix = "" if target.query_form == "prometheus" else target.name_prefix
    names = tuple(prefix + field for field in FIELDS) if target.answers == "prometheus" else ()
    start, end = (datetime.fromisoformat(time).timestamp() for time in (workload.start, workload.end))
    return Data(start, end, language_of(target), hosts=loads * workload.scale, metrics=names if loads else ())


_READERS = {"file": written.read, "log": logs.read, "rules": rules.read, "dashboard": grafana.read}


def settled(queries: QuerySettings, data: Data) -> Asked:
    """Read all files, and check their queries against the data: a UserError names file and line."""
    data = replace(data, values=queries.values)
    paths = {key: getattr(queries, key) for key in _READERS}
    parts = [
        requests.settled(_READERS[key](path, data), data, leave_out=key != "file")
        for key, path in paths.items()
        if path
    ]
    return Asked(
        unique(query for part in parts for query in part.queries),
        {name: values for part in parts for name, values in part.values.items()} | queries.values,
        tuple(sentence for part in parts for sentence in part.left_out),
    )


def types(asked: Asked, data_of: Callable[[Query], Data], seed: int, most: int = requests.MOST) -> tuple[OwnType, ...]:
    """Return a type for each query over its own window of data, and first of all the mix if there are several."""
    made = []
    for query in asked.queries:
        data = data_of(query)
        filled = replace(data, values={**data.values, **asked.values})
        paths = tuple(requests.paths(query, filled, seed, most))
        is_quiet = query.quiet if len(asked.queries) > 1 else query.silent
        made.append(OwnType(query.name, query.where, paths, query.quiet, is_quiet))
    if len(made) == 1:
        return tuple(made)
    drawn = requests.mix(asked.queries, [own.requests for own in made], seed, most)
    quiet, silent = any(query.quiet for query in asked.queries), all(query.silent for query in asked.queries)
    return (OwnType(MIX, made[0].where.rpartition(":")[0], tuple(drawn), quiet, silent), *made)


def names(asked: Asked) -> tuple[str, ...]:
    """Return the names of those types."""
    own = tuple(query.name for query in asked.queries)
    return (MIX, *own) if len(own) > 1 else own


def rate(asked: Asked) -> float:
    """Return the requests a second of all queries, where the weights are rates (queries.rules)."""
    return sum(query.weight for query in asked.queries)
