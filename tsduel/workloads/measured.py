"""What a block's raw files become, for every workload: the rows that tidy/ is made of, but for cell and block."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsduel.core.metrics import Better


class Measurement(NamedTuple):
    """One value of a variant, in the metric's unit."""

    variant: str
    part: str
    phase: str
    query_type: str
    metric: str
    value: float
    unit: str


class PairedRatio(NamedTuple):
    """ln(candidate / baseline) of a block from `n` paired operations; `se` is its error within the block, if known."""

    candidate: str
    part: str
    phase: str
    query_type: str
    metric: str
    log_ratio: float
    se: float | None
    n: int


class Point(NamedTuple):
    """One point of a course; seconds since its phase began."""

    variant: str
    part: str
    phase: str
    query_type: str
    elapsed_s: float
    metric: str
    value: float


@dataclass
class Reading:
    """All of one block. `times`: service times in ns, by variant and query type; `better`: directions of units.

    `counts`: histograms, ns -> count, by variant, part, rate, operation and time as in the table of responses.
    """

    measurements: list[Measurement] = field(default_factory=list)
    pairs: list[PairedRatio] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    times: dict[tuple[str, str], NDArray[np.float64]] = field(default_factory=dict)
    counts: dict[tuple[str, str, float, str, str], dict[int, int]] = field(default_factory=dict)
    better: dict[str, Better] = field(default_factory=dict)
