"""The user's queries in a plan: query types with keys, and the file with their requests."""

import gzip
import hashlib
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tsduel.core import plan as planned
from tsduel.core.sections import QuerySettings, WorkloadAsked
from tsduel.core.target import Target
from tsduel.core.tsbs import QueryType
from tsduel.workloads.own import asked as own
from tsduel.workloads.own.asked import OwnType
from tsduel.workloads.own.query import Query
from tsduel.workloads.own.requests import MOST, Data

FILE = "requests.txt.gz"
"""In plan/: a line for each request of the user's queries: the key of its type, its method, its path."""
_INSTANT_REACH_S = 1800


def planned_types(
    queries: QuerySettings, workload: WorkloadAsked, target: Target, count: int, *, upgrades: bool, loads: bool = True
) -> dict[str, Any]:
    """Return `types`, `windowed` and `left_out` of a plan's queries.

    Each file has `count` requests: after the last one follows the first.
    """
    made, left_out = _made(queries, workload, target, upgrades=upgrades, loads=loads)
    over = {
        window: tuple(
            _type(own_type, f"{own_type.name}@{window}".rstrip("@"), queries.seed, count, target) for own_type in types
        )
        for window, types in made.items()
    }
    types = over.pop("")
    return {"types": types, "windowed": tuple(itertools.chain.from_iterable(over.values())), "left_out": left_out}


def _made(
    queries: QuerySettings, workload: WorkloadAsked, target: Target, *, upgrades: bool, loads: bool
) -> tuple[dict[str, tuple[OwnType, ...]], tuple[str, ...]]:
    """Return the types by window ("" is the window of the first data), and why queries were left out."""
    data = own.data_of(workload, target, loads=loads)
    asked = own.settled(queries, data)
    windows: dict[str, Callable[[Query], Data]] = {"": lambda _: data}
    if upgrades:
        windows |= _windows(workload, data)
    most = min(MOST, queries.max_count)
    types = {name: own.types(asked, data_of, queries.seed, most) for name, data_of in windows.items()}
    return types, asked.left_out


def _windows(workload: WorkloadAsked, data: Data) -> dict[str, Callable[[Query], Data]]:
    """Return the windows of an upgrade: a quarter to three quarters of each range in either, and the new one."""

    def half(query: Query) -> Data:
        reach_s = 0.75 * max(template.length_s + template.reach_s for template in query.templates)
        reach_s = reach_s or _INSTANT_REACH_S
        return replace(data, start=data.end - reach_s, end=data.end + reach_s)

    return {"half": half, "new": lambda _: replace(data, start=data.end, end=data.end + workload.window_s)}


def _type(made: OwnType, name: str, seed: int, count: int, target: Target) -> QueryType:
    identity = json.dumps({"type": name, "requests": made.sha256, "count": count})
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    form = ":".join(filter(None, (target.query_format, target.query_form)))
    return QueryType(
        name=name, seed=seed, keys={form: key}, own=made.where, may_be_empty=made.may_be_empty, quiet=made.quiet
    )


def written(plan: planned.Plan) -> dict[str, bytes]:
    """Return the file of requests of the user's queries; none without them."""
    lines, queries, workload = list[str](), plan.queries, plan.workload
    if queries and workload and own.is_own(queries):
        target = plan.target_of(plan.variants[0].name)
        made, _ = _made(queries, workload, target, upgrades=bool(queries.windowed), loads=plan.loads)
        types = itertools.chain.from_iterable(made.values())
        for planned_type, own_type in zip((*queries.types, *queries.windowed), types, strict=True):
            (key,) = planned_type.keys.values()
            lines += [f"{key} {request}\n" for request in own_type.requests]
    return {FILE: gzip.compress("".join(lines).encode(), mtime=0)} if lines else {}
