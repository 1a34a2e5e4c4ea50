"""queries.log: Prometheus' query log, VictoriaMetrics' top queries, or one path of a request a line.

What was asked most often becomes a query type each; the rest is one type, `other`. Times are kept relative to the
latest request of the log, which is moved to the end of the data.
"""

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

from tsduel.core.errors import UserError
from tsduel.core.wording import number_of
from tsduel.workloads.own.query import Asked, Query, RefusedError, Template, as_json, read_text, span, strings, unique
from tsduel.workloads.own.requests import Data

MOST = 15
"""Queries of a log with a type of their own."""
PATHS = ("/api/v1/query", "/api/v1/query_range")
_STEP_S = 60.0


@dataclass(frozen=True)
class _Request:
    line: int
    text: str
    end: float  # seconds since the epoch; nan where the log does not say
    length_s: float
    step_s: float
    times: int = 1


def read(path: str, _data: Data) -> Asked:
    """Return the queries of a log, weighed by how often they were asked, and what cannot be replayed."""
    text = read_text(path, "queries.log")
    found: list[_Request] = []
    refused: Counter[str] = Counter()
    first: dict[str, int] = {}
    whole = as_json(text)
    if isinstance(whole, dict) and (lists := [whole[kind] for kind in whole if kind.startswith("topBy")]):
        lines = [(1, json.dumps(entry)) for entries in lists if isinstance(entries, list) for entry in entries]
        read_line = _top
    else:
        lines = [(at, line.strip()) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
        read_line = _line
    for number, line in lines:
        try:
            found.append(read_line(line, number))
        except RefusedError as why:
            refused[str(why)] += 1
            first.setdefault(str(why), number)
    if read_line is _top:  # a query is in several of the lists
        found = list({(request.text, request.length_s): request for request in reversed(found)}.values())[::-1]
    said = tuple(
        f"{path}:{first[why]}: {number_of(count, 'line')} cannot be replayed: {why}" for why, count in refused.items()
    )
    if not found:
        raise UserError(
            f"{path}: none of its requests can be replayed; it needs Prometheus' query log, VictoriaMetrics' "
            f"/api/v1/status/top_queries, or lines like /api/v1/query_range?query=up&start=1749513600&end=1749517200"
            f"&step=60{'. ' + said[0] if said else ''}"
        )
    return Asked(_grouped(found, path), left_out=said, lost=sum(refused.values()))


def _grouped(found: list[_Request], path: str) -> tuple[Query, ...]:
    latest = max((request.end for request in found if request.end == request.end), default=0.0)
    by_text: dict[str, list[_Request]] = {}
    for request in found:
        by_text.setdefault(request.text, []).append(request)
    often = sorted(by_text, key=lambda text: -sum(request.times for request in by_text[text]))
    groups = [by_text[text] for text in often[:MOST]]
    rest = [request for text in often[MOST:] for request in by_text[text]]
    queries = [_query("log", group, path, latest) for group in groups]
    return unique([*queries, *([replace(_query("other", rest, path, latest), name="other")] if rest else [])])


def _query(name: str, group: list[_Request], path: str, latest: float) -> Query:
    templates = tuple(
        Template(r.text, r.length_s, r.step_s, latest - r.end if r.end == r.end else None, weight=float(r.times))
        for r in sorted(group, key=lambda request: request.line)
    )
    words = "-".join(group[0].text.replace("(", " ").replace("{", " ").split()[:3])
    weight = float(sum(request.times for request in group))
    return Query(f"{name}-{words}", f"{path}:{group[0].line}", templates, weight, quiet=True)


def _top(line: str, number: int) -> _Request:
    """Read an entry of VictoriaMetrics' top queries."""
    entry = as_json(line)
    if not isinstance(entry, dict) or not entry.get("query"):
        raise RefusedError("it has no query")
    length_s, times = _number(entry.get("timeRangeSeconds", 0)), int(_number(entry.get("count", 1)))
    return _Request(number, str(entry["query"]), math.nan, length_s, max(1.0, length_s // 240), max(1, times))


def _line(line: str, number: int) -> _Request:
    if not line.startswith("{") and '{"' in line:  # behind what a container's log puts before it
        line = line[line.index('{"') :]
    if not line.startswith("{"):
        return _path(line, number)
    entry = as_json(line)
    if not isinstance(entry, dict):
        raise RefusedError("it is cut off, and no JSON")
    params = entry.get("params")
    if not isinstance(params, dict) or not params.get("query"):
        texts = (part for part in strings(entry) if not part.startswith('{"log"'))
        inner = next((text for text in texts if PATHS[0] in text or '"params"' in text), "")
        if inner:  # of an access log in JSON, and of Docker's logs
            return _line(inner.strip(), number)
        raise RefusedError("it has no params.query, and is no line of Prometheus' query log")
    begin, end = _time(params.get("start")), _time(params.get("end"))
    return _request(number, str(params["query"]), begin, end, _number(params.get("step") or 0))


def _path(line: str, number: int) -> _Request:
    words = [word for word in line.replace('"', " ").split() if word.startswith(("/", "http://", "https://"))]
    path = next((word for word in words if PATHS[0] in word), words[0] if words else "")
    try:
        parts = urlsplit(path)
    except ValueError as error:
        raise RefusedError(f"it is no URL ({error})") from None
    if not path or not parts.path.endswith(PATHS):
        kind = parts.path or "no path of a request"
        raise RefusedError(f"{kind[:60]} is no query of Prometheus' API ({', '.join(PATHS)})")
    arguments = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if not arguments.get("query"):
        raise RefusedError("the request has no argument `query`")
    if parts.path.endswith(PATHS[0]):
        at = _time(arguments.get("time"))
        return _request(number, arguments["query"], at, at, 0.0)
    step_s = _number(arguments["step"]) if "step" in arguments else _STEP_S
    return _request(number, arguments["query"], _time(arguments.get("start")), _time(arguments.get("end")), step_s)


def _request(number: int, text: str, begin: float, end: float, step_s: float) -> _Request:
    length_s = end - begin if end == end and begin == begin else 0.0  # noqa: PLR0124 - nan
    if length_s < 0:
        raise RefusedError("its end lies before its start")
    return _Request(number, text, end, length_s, step_s or _STEP_S)


def _number(value: object) -> float:
    try:
        found = float(str(value))
    except ValueError:
        found = span(str(value))
    if not 0 <= found < math.inf:
        raise RefusedError(f"{str(value)[:40]!r} is no number of seconds")
    return found


def _time(value: object) -> float:
    """Return seconds since the epoch of RFC 3339 or a number; nan for nothing."""
    if value is None or value == "":
        return math.nan
    try:
        return _number(value)
    except RefusedError:
        pass
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError):
        raise RefusedError(f"{str(value)[:40]!r} is no time") from None
