"""How far the answers of two databases are compared, and why no further. The rules were found by asking both.

`Target.windows` says by which end a database calls its windows: a window of PromQL ends at the time of its point and
includes it, a window of InfluxQL begins at that time and excludes its end. If no sample lies on the edge of a window,
both windows have the same samples, and answers are compared by value.
"""

import math
from datetime import datetime

from tsduel.core.sections import WorkloadAsked
from tsduel.core.target import Compared, Target

EDGE_S = 60
"""Windows begin at whole minutes."""


def compared(baseline: Target, candidate: Target, window_s: int, workload: WorkloadAsked) -> Compared:
    """Return how far answers over the data of a workload are compared; `window_s`: as in QueryType."""
    if not window_s:
        return Compared(level="data", why="this type has no windows that could be held against each other")
    start, step_s = datetime.fromisoformat(workload.start), math.gcd(workload.step_s, EDGE_S)
    if baseline.windows == candidate.windows or start.second % step_s:
        return Compared(level="values")
    moved = start.replace(second=(start.second + max(1, step_s // 2)) % EDGE_S)
    return Compared(
        level="series",
        why=(
            f"samples lie on the edges of windows, which {baseline.name} and {candidate.name} count to different ones: "
            f'SET="workload.start={moved:%Y-%m-%dT%H:%M:%SZ}" puts them inside'
        ),
    )
