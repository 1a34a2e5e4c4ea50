"""Queries -> requests: placeholders filled and windows drawn from a seed, all inside the data's window."""

import bisect
import difflib
import functools
import itertools
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
_NAMED = 50
HOSTS = ("hostname", "host", "instance")
"""Labels of the user's data that `{{host}}` may stand for."""
_TO_ESCAPE = re.compile(r"""["'`\\|\n]""")
_IN_REGEX = re.compile(r"[][(){}*+?^$]")
_PLAIN = re.compile(r"[^\W\d][\w:]*|:[\w:]*")
_Drawn = Callable[[Sequence[str] | range, int], list[str]]
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*(?::\s*(\d+)\s*)?\}\}")


@dataclass(frozen=True)
class Data:
    """The data that queries are over: its window in seconds since the epoch, and what placeholders are filled with.

    `metrics`: all names that a query can select by; none if they are not known. `language`: that of expression.examine.
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

    A UserError names file and line of all faults; with ``leave_out`` (logs, rules, dashboards) such queries are left
    out and counted.
    """
    data = replace(data, values={**asked.values, **data.values})
    kept, refused = list[Query](), dict[str, list[Query]]()
    by_text = _known(dict.fromkeys(template.text for query in asked.queries for template in query.templates), data)
    for query in asked.queries:
        templates = []
        for template in query.templates:
            try:
                templates.append(_checked(template, by_text[template.text], data))
            except RefusedError as why:
                refused.setdefault(str(why), []).append(query)
        if templates:
            share = math.fsum(one.weight for one in templates) / math.fsum(one.weight for one in query.templates)
            kept.append(replace(query, templates=tuple(templates), weight=query.weight * share))
    if not leave_out and (asked.faults or refused):
        faults = [f"{query.where}: {query.name} {why}" for why, queries in refused.items() for query in queries]
        raise UserError("\n".join(sorted([*asked.faults, *faults], key=_line)))
    left_out = [
        f"{queries[0].where}: {number_of(len(queries), 'request')} left out, {queries[0].name} first: it {why}"
        + _also(queries)
        for why, queries in sorted(refused.items(), key=lambda item: _line(item[1][0].where))
    ]
    if not kept:
        raise UserError(
            f"{asked.queries[0].where}: no query is left that this data can be asked: {'; '.join(left_out)}"
        )
    if left_out or asked.lost:
        weights = [sum(query.weight for query in queries) for queries in (kept, asked.queries)]
        file = asked.queries[0].where.rpartition(":")[0]
        share = weights[0] / (weights[1] + asked.lost)
        note = f"{file}: the mix is {100 * share:.3g} % of what the file asks, {len(kept)} of its queries"
        left_out.append(note)
    return replace(asked, queries=tuple(kept), left_out=(*asked.left_out, *left_out))


def _also(queries: Sequence[Query]) -> str:
    """Name the other queries that are left out for the same reason, with their lines."""
    names = list(dict.fromkeys(f"{query.name} ({query.where.rpartition(':')[2]})" for query in queries))[1:]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"; the same holds for {', '.join(names[:_NAMED])}{more}" if names else ""


def _line(sentence: str) -> int:
    found = re.search(r":(\d+)", sentence)
    return int(found[1]) if found else 0


def _known(texts: Iterable[str], data: Data) -> dict[str, expression.Reading]:
    """Return what is known of queries; their placeholders are filled so often that each value which the user gives is.

    Names that the data lack are part of `wrong`.
    """
    tried, by_text = dict[str, list[str]](), dict[str, expression.Reading]()
    for text in texts:
        counts = [len(data.values[match[1]]) for match in _PLACEHOLDER.finditer(text) if match[1] in data.values]
        try:
            tried[text] = [
                _filled(text, data, functools.partial(_in_turn, at), (data.start, data.end))
                for at in range(min(MOST, max(counts, default=1)))
            ]
        except RefusedError as why:
            by_text[text] = expression.Reading(str(why))
    one = expression.examine((each for filled in tried.values() for each in filled), data.language, data.metrics)
    for text, filled in tried.items():
        found = [one[each] for each in filled]
        lacks = next((each.lacks for each in found if each.lacks), "")
        near = difflib.get_close_matches(lacks, data.metrics, n=3, cutoff=0) if lacks else ()
        names = f"it has {len(data.metrics)} names, like {', '.join(near)}"
        reason = f"reads {lacks}, which the data does not have; {names}" if lacks else ""
        wrong = next((each.wrong for each in found if each.wrong), reason)
        by_text[text] = expression.Reading(wrong, back_s=max(each.back_s for each in found))
    return by_text


def _checked(template: Template, reading: expression.Reading, data: Data) -> Template:
    if reading.wrong:
        raise RefusedError(reading.wrong)
    if (reads_s := template.length_s + reading.back_s) >= data.end - data.start:
        raise RefusedError(
            f"reads {reads_s:,.0f} s, and the data's window has {data.end - data.start:,.0f} s "
            "(workload.start, workload.end): make the one shorter or the other longer"
        )
    return replace(template, reach_s=reading.back_s)


def paths(query: Query, data: Data, seed: int, most: int = MOST) -> list[str]:
    """Return the requests of a query as methods and paths, in the order in which they are sent."""
    draw = random.Random(f"{seed} {query.name}")  # noqa: S311 - a seed is wanted
    makers = [_maker(template, data) for template in query.templates]
    if all(template.back_s is not None and not _PLACEHOLDER.search(template.text) for template in query.templates):
        return [make(draw) for make in makers][:most]
    weights = [template.weight for template in query.templates]
    if len(set(weights)) > 1:
        return [make(draw) for make in draw.choices(makers, weights, k=most)]
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
    window = data.end - data.start
    # As much as is read must lie in the data, so that every request has the same work.
    room = window - template.length_s - (template.reach_s if template.length_s + template.reach_s < window else 0.0)
    step_s = template.step_s if template.length_s else 1.0

    def make(draw: random.Random) -> str:
        end = data.end - (draw.random() * room if template.back_s is None else template.back_s % room)
        # As dashboards do, which ask for whole steps.
        whole = end // step_s * step_s
        end = whole if whole >= data.end - room else end // 1
        begin = end - template.length_s
        text = _filled(template.text, data, lambda values, count: _drawn(values, count, draw), (begin, end))
        if data.language == "influxql":
            return "GET /query?" + urlencode({"q": text})
        if template.length_s:
            times = {"start": f"{begin:.0f}", "end": f"{end:.0f}", "step": f"{template.step_s:.10g}"}
            return "GET /api/v1/query_range?" + urlencode({"query": text, **times})
        return "GET /api/v1/query?" + urlencode({"query": text, "time": f"{end:.0f}"})

    return make


def _filled(text: str, data: Data, drawn: _Drawn, window: tuple[float, float]) -> str:
    # A variable that stands twice, as on both sides of a ratio, has one value.
    @functools.cache
    def value(name: str, count: int, shown: str) -> str:
        if name in {"start", "end"} and name not in data.values:
            at = window[0] if name == "start" else window[1]
            return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = _values(name, data)
        if not 0 < count <= len(values):
            raise RefusedError(f"wants {count} values of {shown}, and there are {len(values)}")
        return "|".join(drawn(values, count))

    return _PLACEHOLDER.sub(lambda match: value(match[1], int(match[2] or 1), match[0]), text)


def _values(name: str, data: Data) -> Sequence[str] | range:
    if name in data.values:
        return data.values[name]
    if name in {"host", "hosts"} and data.hosts:
        return range(data.hosts)
    if name == "metric" and data.metrics:
        plain = [metric for metric in data.metrics if _PLAIN.fullmatch(metric)]
        return plain or [re.sub(r"([^\w:])|^(?=\d)", r"\\\1", metric) for metric in data.metrics]
    # Values that a query would have to escape, or that mean something else in =~, are left out.
    for label in HOSTS if name in {"host", "hosts"} else (name,):
        values = [value for value in data.labels.get(label, ()) if not _TO_ESCAPE.search(value)]
        if values := [value for value in values if not _IN_REGEX.search(value)] or values:
            return values
    raise RefusedError(
        f'has the placeholder {{{{{name}}}}} without values: SET="queries.values.{name}=[a,b]" gives them, '
        f"and so does `values: {{{name}: [a, b]}}` in a file of queries"
    )


def _drawn(values: Sequence[str] | range, count: int, draw: random.Random) -> list[str]:
    taken: dict[int, None] = {}
    while len(taken) < count:
        taken[int(draw.random() * len(values))] = None
    return [_written(values, at) for at in taken]


def _in_turn(at: int, values: Sequence[str] | range, count: int) -> list[str]:
    return [_written(values, (at + more) % len(values)) for more in range(count)]


def _written(values: Sequence[str] | range, at: int) -> str:
    return f"host_{values[at]}" if isinstance(values, range) else values[at]
