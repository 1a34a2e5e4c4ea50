"""Slopes of a soak: how memory, CPU, disk, open files and p99 grow in an hour, and when a limit is reached."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtri

from tsduel.core import files
from tsduel.core.rundir import Run
from tsduel.stats.estimate import Interval
from tsduel.stats.hosts import interval_of_difference
from tsduel.tidy.read import read_table

FILE = "stats/soak.json"
LEAST_HOURS = 4.0
"""A slope of fewer sampling hours is shown and not judged: caches fill, and the next merge may take it all back."""
SETTLING = 0.1
"""The first part of each life that is left out, while caches fill."""
PIECES = 16
"""A life is cut into so many consecutive pieces: neighbouring windows are alike, and medians of pieces are less so."""
LEAST_PIECES = 6
CONFIDENCE = 0.95
Series = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Slope:
    """A metric's slope of a variant in an hour, with its interval; None: of too few windows.

    `hours` is sampled time of all `lives` (starts of the servers); `level` is the median of the last piece. `verdict`:
    grows, falls, none (the interval has 0), or short (fewer than LEAST_HOURS). `reached_h`: hours from the end of the
    sampling until the limit, at the slope and at its upper end; None where it is not known to grow.
    """

    variant: str
    metric: str
    slope: float | None
    lo: float | None
    hi: float | None
    hours: float
    lives: int
    level: float
    limit: float | None
    verdict: str
    reached_h: tuple[float, float] | None


def write(run: Run) -> None:
    """Write stats/soak.json, if the run has windows."""
    windows = read_table(run.path, "windows")
    all_slopes = [] if windows.empty else list(slopes(windows))
    if all_slopes:
        files.write(
            run.path / FILE, json.dumps([asdict(slope) for slope in all_slopes], indent=1, allow_nan=False) + "\n"
        )


def read(path: Path) -> list[Slope]:
    """Return the slopes of a run; none if it is no soak."""
    file = path / FILE
    return [Slope(**row) for row in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []


def slopes(windows: pd.DataFrame) -> Iterator[Slope]:
    """Yield the slope of each variant and metric. `windows`: the table of tidy/."""
    for (variant, metric), of_variant in windows.groupby(["variant", "metric"], sort=False):
        lives = [pieces(life) for _, life in of_variant.groupby("life")]
        # The first window that is kept was sampled as long as the others.
        hours = float((1 - SETTLING) * of_variant.groupby("life")["elapsed_s"].max().sum() / 3600)
        slope, lo, hi = theil_sen(lives) or (None, None, None)
        level, limit = float(lives[-1][1][-1]), float(of_variant["limit"].iloc[-1] or math.nan)
        left = None if math.isnan(limit) else max(0.0, limit - level)
        verdict = _verdict(lo, hi, hours)
        yield Slope(
            str(variant), str(metric), slope, lo, hi, hours, len(lives), level,
            None if math.isnan(limit) else limit,
            verdict, (left / slope, left / hi) if verdict == "grows" and slope and hi and left is not None else None,
        )  # fmt: skip


def _verdict(lo: float | None, hi: float | None, hours: float) -> str:
    if lo is None or hi is None or hours < LEAST_HOURS:
        return "short"
    return "grows" if lo > 0 else "falls" if hi < 0 else "none"


def _sampled(life: pd.DataFrame) -> Series:
    """Return hours and values of a life without its first part."""
    life = life.sort_values("elapsed_s")
    kept = life[life["elapsed_s"] >= SETTLING * life["elapsed_s"].max()]
    return kept["elapsed_s"].to_numpy() / 3600, kept["value"].to_numpy()


def pieces(life: pd.DataFrame) -> Series:
    """Return the mean hour and the median value of each piece of a life. `life`: columns elapsed_s, value.

    As batch means, with medians: of pieces that are long against what windows remember, the medians are nearly
    independent (Schmeiser, "Batch size effects in the analysis of simulation output", 1982: 10 to 30 of them).
    """
    hours, values = _sampled(life)
    cut = [part for part in np.array_split(np.arange(len(hours)), PIECES) if len(part)]
    return np.array([hours[p].mean() for p in cut]), np.array([np.median(values[p]) for p in cut])


def theil_sen(lives: Sequence[Series]) -> tuple[float, float, float] | None:
    """Return the median of the slopes of all pairs of one life, and its interval; None of fewer than LEAST_PIECES.

    For one life it is scipy.stats.theilslopes (Sen, "Estimates of the regression coefficient based on Kendall's tau",
    1968). Of several, pairs are within a life only, and the variances of Kendall's S add up (Hirsch, Slack and Smith,
    "Techniques of trend analysis for monthly water quality data", 1982), so that a restart is no slope.
    """
    all_slopes, variance = [], 0.0
    for hours, values in lives:
        n, (later, earlier) = len(hours), np.tril_indices(len(hours), -1)
        apart = hours[later] > hours[earlier]
        later, earlier = later[apart], earlier[apart]
        all_slopes.append((values[later] - values[earlier]) / (hours[later] - hours[earlier]))
        ties = np.unique(values, return_counts=True)[1]
        variance += (n * (n - 1) * (2 * n + 5) - np.sum(ties * (ties - 1) * (2 * ties + 5))) / 18
    ordered = np.sort(np.concatenate(all_slopes))
    count = len(ordered)
    if not count or max(len(hours) for hours, _ in lives) < LEAST_PIECES:
        return None
    reach = ndtri((1 + CONFIDENCE) / 2) * math.sqrt(variance)
    lo = max(round((count - reach) / 2) - 1, 0)
    hi = min(round((count + reach) / 2), count - 1)
    return float(np.median(ordered)), float(ordered[lo]), float(ordered[hi])


def difference(baseline: Slope, candidate: Slope) -> tuple[float, float, float] | None:
    """Return candidate minus baseline with its interval; None if a side has no slope."""
    b, c = baseline.slope, candidate.slope
    if b is None or c is None:
        return None
    of_baseline, of_candidate = (
        Interval(slope.lo or 0.0, slope.hi or 0.0, CONFIDENCE) for slope in (baseline, candidate)
    )
    interval = interval_of_difference(of_candidate, c, of_baseline, b)
    return c - b, interval.low, interval.high
