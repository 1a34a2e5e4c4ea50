"""Queries -> requests: placeholders filled and windows drawn from a seed, all inside the data's window."""

import bisect
import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from tsduel.core.errors import UserError
from tsduel.core.metrics import MIX
from tsduel.core.wording import number_of
from tsduel.workloads.own import expression
from tsduel.workloads.own.query import Asked, Query, RefusedError, Template

MOST = 2000
"""Different requests of a type; after the last one follows the first."""
HOSTS = ("hostname", "host", "instance")
"""Labels of the user's data that `{{host}}` may stand for."""
_TO_ESCAPE = re.compile(r"""["'`\\|\n]""")
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*(?::\s*(\d+)\s*)?\}\}")


@dataclass(frozen=True)
class Data:
    """The data that queries are over: its window in seconds since the epoch, and what placeholders are filled with.

    `metrics`: all names that a query can select by; none if they are not known. `language`: prometheus or influxql.
    `labels`: values that the data has of each label. `values`: those that the user gives.
    """

    start: float
    end: float
    language: str
    hosts: int = 0
    metrics: tuple[str, ...] = ()
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)


def settled(asked: Asked, data: Data, *, leave_out: bool) -> Asked:
    """Check every query against the data.

    A UserError names file and line; with ``leave_out`` (logs and rules) such queries are left out and counted.
    """
    data = replace(data, values={**data.values, **asked.values})
    kept, refused = [], dict[str, list[Query]]()
    for query in asked.queries:
        templates = []
        for template in query.templates:
            try:
                _check(template, data)
                templates.append(template)
            except RefusedError as why:
                if not leave_out:
                    raise UserError(f"{query.where}: {query.name} {why}") from None
                refused.setdefault(str(why), []).append(query)
        if templates:
            share = len(templates) / len(query.templates)
            kept.append(replace(query, templates=tuple(templates), weight=query.weight * share))
    left_out = [
        f"{queries[0].where}: {number_of(len(queries), 'request')} left out, {queries[0].name} first: it {why}"
        for why, queries in refused.items()
    ]
    if not kept:
        raise UserError(
            f"{asked.queries[0].where}: no query is left that this data can be asked: {'; '.join(left_out)}"
        )
    return replace(asked, queries=tuple(kept), left_out=(*asked.left_out, *left_out))


def _check(template: Template, data: Data) -> None:
    known = _known(template, data)
    if known.wrong:
        raise RefusedError(known.wrong)
    unknown = [name for name in known.metrics if data.metrics and name not in data.metrics]
    if unknown:
        some = ", ".join(data.metrics[:3])
        raise RefusedError(
            f"reads {unknown[0]}, which the data does not have; it has {len(data.metrics)} names, like {some}"
        )
    reads_s = template.length_s + known.back_s[1]
    if reads_s >= data.end - data.start:
        raise RefusedError(
            f"reads {reads_s:,.0f} s, and the data's window has {data.end - data.start:,.0f} s "
            "(workload.start, workload.end): make the one shorter or the other longer"
        )


def paths(query: Query, data: Data, seed: int, most: int = MOST) -> list[str]:
    """Return the requests of a query as methods and paths, in the order in which they are sent."""
    draw = random.Random(f"{seed} {query.name}")  # noqa: S311 - a seed is wanted
    makers = [_maker(template, data) for template in query.templates]
    if all(template.back_s is not None and not _PLACEHOLDER.search(template.text) for template in query.templates):
        return [make(draw) for make in makers][:most]
    return [make(draw) for make in itertools.islice(itertools.cycle(makers), max(most, len(makers)))]


def mix(queries: Sequence[Query], requests: Sequence[Sequence[str]], seed: int, most: int = MOST) -> Iterator[str]:
    """Yield requests of all queries, each drawn by its weight, and of each query in the order of its own."""
    draw = random.Random(f"{seed} {MIX}")  # noqa: S311
    sums = list(itertools.accumulate(query.weight for query in queries))
    turns = [itertools.cycle(own) for own in requests]
    for _ in range(most):
        yield next(turns[min(bisect.bisect(sums, draw.random() * sums[-1]), len(sums) - 1)])


def _maker(template: Template, data: Data) -> Callable[[random.Random], str]:
    """Return what makes a request of a template: a window that lies in the data, and filled placeholders."""
    known = _known(template, data)
    window = data.end - data.start
    # As much as is read must lie in the data, so that every request has the same work.
    back_s = next((s for s in known.back_s if template.length_s + s < window), 0.0)
    room = window - template.length_s - back_s
    step_s = template.step_s if template.length_s else 1.0

    def make(draw: random.Random) -> str:
        end = data.end - (draw.random() * room if template.back_s is None else template.back_s % room)
        # As dashboards do, which ask for whole steps.
        whole = end // step_s * step_s
        end = whole if whole >= data.end - room else end // 1
        begin = end - template.length_s
        text = _filled(template.text, data, draw, (begin, end))
        if data.language == "influxql":
            return "GET /query?" + urlencode({"q": text})
        if template.length_s:
            times = {"start": f"{begin:.0f}", "end": f"{end:.0f}", "step": f"{template.step_s:.10g}"}
            return "GET /api/v1/query_range?" + urlencode({"query": text, **times})
        return "GET /api/v1/query?" + urlencode({"query": text, "time": f"{end:.0f}"})

    return make


def _known(template: Template, data: Data) -> expression.Known:
    any_values = random.Random("check")  # noqa: S311
    return expression.examine(_filled(template.text, data, any_values, (data.start, data.end)), data.language)


def _filled(text: str, data: Data, draw: random.Random, window: tuple[float, float]) -> str:
    def value(match: re.Match[str]) -> str:
        name, count = match[1], int(match[2] or 1)
        if name in {"start", "end"} and name not in data.values:
            at = window[0] if name == "start" else window[1]
            return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = _values(name, data)
        if not 0 < count <= len(values):
            raise RefusedError(f"wants {count} values of {match[0]}, and there are {len(values)}")
        return "|".join(_drawn(values, count, draw))

    return _PLACEHOLDER.sub(value, text)


def _values(name: str, data: Data) -> Sequence[str] | range:
    if name in data.values:
        return data.values[name]
    if name in {"host", "hosts"} and data.hosts:
        return range(data.hosts)
    if name == "metric" and data.metrics:
        return data.metrics
    # Values that a query would have to escape are left out.
    for label in HOSTS if name in {"host", "hosts"} else (name,):
        if values := [value for value in data.labels.get(label, ()) if not _TO_ESCAPE.search(value)]:
            return values
    raise RefusedError(
        f"has the placeholder {{{{{name}}}}} without values: write `values: {{{name}: [a, b]}}` in the file of queries"
    )


def _drawn(values: Sequence[str] | range, count: int, draw: random.Random) -> list[str]:
    taken: dict[int, None] = {}
    while len(taken) < count:
        taken[int(draw.random() * len(values))] = None
    return [f"host_{values[at]}" if isinstance(values, range) else values[at] for at in taken]
