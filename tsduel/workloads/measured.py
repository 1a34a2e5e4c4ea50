"""The contents of a block's raw files, for every workload: rows of tidy/ without block."""

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
    """ln(candidate / baseline) of a block from `n` paired operations; `se` is its error within the block, if known.

    It is the mean over `sittings`; `sitting_sd` is the ratio's standard deviation among them. `second_effect` is half
    of the difference between sittings that start the candidate second and those that start it first.
    """

    candidate: str
    part: str
    phase: str
    query_type: str
    metric: str
    log_ratio: float
    se: float | None
    n: int
    sittings: int = 1
    sitting_sd: float | None = None
    second_effect: float | None = None


@dataclass
class Reading:
    """All data of one block. `times`: service times in ns, by variant and query type; `better`: directions of units.

    `counts`: histograms, ns -> count, by variant, part, rate, operation and time as in tidy/responses.csv.
    """

    measurements: list[Measurement] = field(default_factory=list)
    pairs: list[PairedRatio] = field(default_factory=list)
    times: dict[tuple[str, str], NDArray[np.float64]] = field(default_factory=dict)
    counts: dict[tuple[str, str, float, str, str], dict[int, int]] = field(default_factory=dict)
    better: dict[str, Better] = field(default_factory=dict)
