"""queries.log: Prometheus' query log, VictoriaMetrics' top queries, or one path of a request a line.

What was asked most often becomes a query type each; the rest is one type, `other`. Times are kept relative to the
latest request of the log, which is moved to the end of the data.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tsduel.core.errors import UserError
from tsduel.core.wording import number_of
from tsduel.workloads.own.query import Asked, Query, Template, read_text, seconds, unique

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


class _RefusedError(Exception):
    """Why a line cannot be replayed."""


def read(path: str) -> Asked:
    """Return the queries of a log, weighed by how often they were asked, and what cannot be replayed."""
    text = read_text(path, "queries.log")
    found: list[_Request] = []
    refused: Counter[str] = Counter()
    first: dict[str, int] = {}
    whole = _json(text)
    if isinstance(whole, dict) and (lists := [whole[kind] for kind in whole if kind.startswith("topBy")]):
        found = list(_top(lists, path))
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                found.append(_line(line.strip(), number))
            except _RefusedError as why:
                refused[str(why)] += 1
                first.setdefault(str(why), number)
    said = tuple(
        f"{path}:{first[why]}: {number_of(count, 'line')} cannot be replayed: {why}" for why, count in refused.items()
    )
    if not found:
        raise UserError(
            f"{path}: none of its requests can be replayed; it needs Prometheus' query log, VictoriaMetrics' "
            f"/api/v1/status/top_queries, or lines like /api/v1/query_range?query=up&start=1749513600&end=1749517200"
            f"&step=60{'. ' + said[0] if said else ''}"
        )
    return Asked(_grouped(found, path), left_out=said)


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
        Template(r.text, r.length_s, r.step_s, latest - r.end if r.end == r.end else None)
        for r in sorted(group, key=lambda request: request.line)
    )
    words = "-".join(group[0].text.replace("(", " ").replace("{", " ").split()[:3])
    weight = float(sum(request.times for request in group))
    return Query(f"{name}-{words}", f"{path}:{group[0].line}", templates, weight, quiet=True)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _top(lists: list[Any], path: str) -> Iterator[_Request]:
    """Yield VictoriaMetrics' top queries; a query is in several of its lists."""
    seen = set()
    for entry in (entry for entries in lists for entry in entries or ()):
        try:
            text, length_s = str(entry["query"]), float(entry.get("timeRangeSeconds", 0))
            times = max(1, int(entry.get("count", 1)))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError(
                f"{path}: an entry of its lists has no query, timeRangeSeconds and count, as VictoriaMetrics writes "
                f"them: {str(entry)[:80]}; fetch /api/v1/status/top_queries again"
            ) from None
        if (text, length_s) not in seen:
            seen.add((text, length_s))
            yield _Request(1, text, float("nan"), length_s, max(1.0, length_s // 240), times)


def _line(line: str, number: int) -> _Request:
    if not line.startswith("{"):
        return _path(line, number)
    entry = _json(line)
    if not isinstance(entry, dict):
        raise _RefusedError("it is cut off, and no JSON")
    params = entry.get("params")
    if not isinstance(params, dict) or not params.get("query"):
        raise _RefusedError("it has no params.query, and is no line of Prometheus' query log")
    begin, end = _time(params.get("start")), _time(params.get("end"))
    step_s = _number(params.get("step") or 0)
    return _request(number, str(params["query"]), begin, end, step_s)


def _path(line: str, number: int) -> _Request:
    path = next((word for word in line.replace('"', " ").split() if word.startswith(("/", "http://", "https://"))), "")
    parts = urlsplit(path)
    if not path or not parts.path.endswith(PATHS):
        kind = parts.path or "no path of a request"
        raise _RefusedError(f"{kind[:60]} is no query of Prometheus' API ({', '.join(PATHS)})")
    arguments = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if not arguments.get("query"):
        raise _RefusedError("the request has no argument `query`")
    if parts.path.endswith(PATHS[0]):
        at = _time(arguments.get("time"))
        return _request(number, arguments["query"], at, at, 0.0)
    step_s = _number(arguments["step"]) if "step" in arguments else _STEP_S
    return _request(number, arguments["query"], _time(arguments.get("start")), _time(arguments.get("end")), step_s)


def _request(number: int, text: str, begin: float, end: float, step_s: float) -> _Request:
    length_s = end - begin if end == end and begin == begin else 0.0  # noqa: PLR0124 - nan
    if length_s < 0:
        raise _RefusedError("its end lies before its start")
    return _Request(number, text, end, length_s, step_s or _STEP_S)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    try:
        return seconds(value, "step")
    except UserError:
        raise _RefusedError(f"its step {str(value)[:40]!r} is no number of seconds, and no duration") from None


def _time(value: object) -> float:
    """Return seconds since the epoch of RFC 3339 or a number; nan for nothing."""
    if value is None or value == "":
        return float("nan")
    try:
        return float(str(value))
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        raise _RefusedError(f"{str(value)[:40]!r} is no time") from None
