"""How far the answers of two databases agree, and why no further: what stands here was seen by asking both.

A database says itself what its windows are called by (`Target.windows`): PromQL's window ends at the time of its
point and holds it, InfluxQL's begins at that time and does not hold its end. So where no sample lies on the edge of a
window both hold the same ones, and are compared by value. Where that is not all there is to it, `APART` says so.
"""

import math
from collections.abc import Mapping
from datetime import datetime

from tsduel.core.plan import Compared, Target
from tsduel.core.sections import WorkloadAsked

EDGE_S = 60
"""Windows begin at whole minutes."""

APART: Mapping[frozenset[str], Mapping[str, Compared]] = {}
"""Two targets -> query type -> what is left to compare."""


def compared(one: Target, other: Target, query_type: str, window_s: int, workload: WorkloadAsked) -> Compared:
    """Return how far answers of one type are compared where the data is a workload's."""
    if apart := APART.get(frozenset((one.name, other.name)), {}).get(query_type):
        return apart
    if not window_s:
        return Compared(level="data", why="this type has no windows that could be held against each other")
    if one.windows == other.windows or not on_edges(workload):
        return Compared(level="values")
    return Compared(
        level="series",
        why=(
            f"samples lie on the edges of windows, which {one.name} and {other.name} count to different ones: "
            f'SET="workload.start={_moved(workload)}" puts them inside'
        ),
    )


def on_edges(workload: WorkloadAsked) -> bool:
    """Say whether a sample falls on a whole minute."""
    return _second(workload) % math.gcd(workload.step_s, EDGE_S) == 0


def _second(workload: WorkloadAsked) -> int:
    return int(datetime.fromisoformat(workload.start).timestamp()) % EDGE_S


def _moved(workload: WorkloadAsked) -> str:
    start = datetime.fromisoformat(workload.start)
    return start.replace(second=(start.second + max(1, math.gcd(workload.step_s, EDGE_S) // 2)) % EDGE_S).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
