"""The duel of a block -> one log ratio a query type, candidate and estimator, with its standard error in the block.

MEASUREMENT.md 3: `typical` is the 10 % trimmed mean of the log ratios of the exchanges, `total` the log of the ratio of
sums, `cpu` the log of the ratio of CPU ns an operation. Times are in ns here, in the metrics' units in what comes out.
"""

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, EXCHANGE, IDLE, METRICS
from tsduel.core.record import DUEL, Block
from tsduel.workloads.measured import Measurement, PairedRatio, Reading

Times = NDArray[np.float64]

TRIM = 0.1
COUNTERS = (
    ("duel_rows_read", "rows_read", 1.0),
    ("duel_index_searches", "index_searches", 1.0),
    ("duel_cache_requests", "cache_requests", 1.0),
    ("duel_cache_misses", "cache_misses", 1.0),
    ("duel_gc_cpu_us", "gc_cpu", 1e-6),
)
"""The database's own counters, an operation: metric, our name, the metric's unit."""
PERCENTILES = (("duel_p50_ms", 0.5), ("duel_p95_ms", 0.95), ("duel_p99_ms", 0.99))


def trimmed_mean(values: Times) -> tuple[float, float | None]:
    """Return the mean without the lowest and highest tenth, and its standard error; None of fewer than three values.

    The error is that of Tukey and McLaughlin, Sankhya A 25 (1963): the winsorized standard deviation over
    (1 - 2 x 0.1) sqrt(n).
    """
    n, cut = len(values), int(TRIM * len(values))
    ordered = np.sort(values)
    kept = ordered[cut : n - cut]
    mean = float(kept.mean())
    if n < 3:  # noqa: PLR2004 - see above
        return mean, None
    winsorized = np.clip(ordered, kept[0], kept[-1])
    return mean, float(winsorized.std(ddof=1)) / ((1 - 2 * TRIM) * math.sqrt(n))


def ratio_of_sums(baseline: Times, candidate: Times) -> tuple[float, float | None]:
    """Return ln(sum(candidate) / sum(baseline)) and its standard error by the delta method on the pairs."""
    n, b, c = len(baseline), float(baseline.mean()), float(candidate.mean())
    if n < 3:  # noqa: PLR2004 - as of the trimmed mean
        return math.log(c / b), None
    return math.log(c / b), float((candidate / c - baseline / b).std(ddof=1)) / math.sqrt(n)


def read_duel(block: Block, variants: Sequence[str], into: Reading) -> None:
    """Add what the duel of a block says. A variant that failed in the block has no figure of its duel."""
    duel = block.duel
    failed = {failure.variant for failure in block.failures}
    if duel is None or "" in failed or block.void:
        return
    alive = [name for name in variants if name not in failed]
    put = Put(variants[0], alive, into)
    for query_type, times in read_exchanges(block.path / "duel/exchanges.csv.gz", alive).items():
        put.times(query_type, times)
    for one in duel.types:
        put.per_operation("duel_cpu_us", one.query_type, one.cpu_ns, one.exchanges, 1e3)
        put.per_operation("duel_instructions", one.query_type, one.instructions or {}, one.exchanges, 1.0)
        for metric, name, unit in COUNTERS:
            put.per_operation(metric, one.query_type, _counted(one.counters, name), one.exchanges, unit)
        if one.client_cpu_ns is not None and one.seconds:
            # One client asks all of them, so that each has the same share.
            put.values(
                "duel_client_cpu_ratio", one.query_type, dict.fromkeys(alive, one.client_cpu_ns), one.seconds * 1e9
            )
    operations = sum(one.exchanges for one in duel.types)
    put.per_operation("duel_cpu_us", ALL, sums([one.cpu_ns for one in duel.types]), operations, 1e3)
    put.by_role("duel_role_cpu_us", [one.cpu_ns_by_role for one in duel.types], operations, 1e3)
    put.by_role("duel_role_rss_bytes", [duel.rss_by_role], 1, 1.0)
    counted = [duel.counters] if duel.counters else [one.counters for one in duel.types]
    for metric, name, unit in COUNTERS:
        put.per_operation(metric, ALL, sums([_counted(found, name) for found in counted]), operations, unit)
    put.per_operation("duel_instructions", ALL, sums([one.instructions or {} for one in duel.types]), operations, 1.0)
    if duel.idle:
        seconds = sum(idle.seconds for idle in duel.idle)
        put.values("duel_idle_cpu_ms", "", sums([idle.cpu_ns for idle in duel.idle]), seconds * 1e6, IDLE)
    put.values("duel_rss_bytes", "", duel.rss_bytes, 1.0)
    if duel.load:
        # Nothing was exchanged where a side did not even take a connection.
        times = read_exchanges(block.path / "duel/load.csv.gz", alive).get("", {})
        if any(map(len, times.values())):
            put.typical("duel_load_typical_ms", "", times)
        put.per_operation("duel_load_cpu_us", "", duel.load.cpu_ns, duel.load.samples, 1e3)
        put.by_role("duel_load_role_cpu_us", [duel.load.cpu_ns_by_role], duel.load.samples, 1e3)


def read_exchanges(path: Path, variants: Sequence[str] | None = None) -> dict[str, dict[str, Times]]:
    """Read an exchanges.csv.gz: query type ("" where there is none) -> variant -> ns of every exchange, in their order.

    Of these variants, or all. Exchanges that not each of them answered are left out; what the columns of others lack,
    since they died, is nothing to them.
    """
    try:
        table = pd.read_csv(path, usecols=lambda name: name == "query_type" or name.endswith("_ns"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing, though its block was finished: the run directory is not whole") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:  # pandas' own errors are ValueErrors
        raise UserError(f"{path}: no whole table of exchanges: {' '.join(str(error).split())}") from None
    columns = [
        name
        for name in table.columns
        if name.endswith("_ns") and (variants is None or name.removesuffix("_ns") in variants)
    ]
    values = table[columns].to_numpy(dtype=float)
    whole = np.isfinite(values).all(axis=1) & (values > 0).all(axis=1)
    types = table["query_type"].to_numpy(dtype=str) if "query_type" in table.columns else np.full(len(table), "")
    names = [name.removesuffix("_ns") for name in columns]
    return {
        str(query_type): dict(zip(names, values[whole & (types == query_type)].T, strict=True))
        for query_type in dict.fromkeys(types.tolist())
    }


def _counted(counters: Mapping[str, Mapping[str, float]], name: str) -> dict[str, float]:
    return {variant: found[name] for variant, found in counters.items() if name in found}


def sums(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Add up by variant, over those that have a figure in every part."""
    names = set.intersection(*(set(part) for part in parts)) if parts else set()
    return {name: sum(part[name] for part in parts) for name in names}


def _roles(found: Iterable[Mapping[str, Mapping[str, float]]]) -> list[str]:
    return list(dict.fromkeys(role for of in found for by in of.values() for role in by))


class Put:
    """Adds values of the variants that are alive, and ratios to the baseline where that is."""

    def __init__(
        self, baseline: str, alive: Sequence[str], into: Reading, part: str = DUEL, phase: str = EXCHANGE
    ) -> None:
        self._baseline, self._alive, self._into, self._part, self._phase = baseline, alive, into, part, phase
        self._candidates = [name for name in alive if name != baseline]

    def values(self, metric: str, query_type: str, found: Mapping[str, float], scale: float, phase: str = "") -> None:
        """Add a value of each variant, divided by `scale`."""
        unit = METRICS[metric].unit
        self._into.measurements += [
            Measurement(name, self._part, phase or self._phase, query_type, metric, found[name] / scale, unit)
            for name in self._alive
            if name in found
        ]

    def per_operation(
        self, metric: str, query_type: str, found: Mapping[str, float], operations: int, scale: float
    ) -> None:
        """Add figures of a clock that ran over all operations: one ratio, whose error the blocks show."""
        if operations == 0:
            return
        self.values(metric, query_type, found, operations * scale)
        baseline = found.get(self._baseline, 0)
        for name in self._candidates:
            if baseline > 0 and found.get(name, 0) > 0:
                self._ratio(name, metric, query_type, (math.log(found[name] / baseline), None), operations)

    def by_role(
        self, metric: str, parts: Sequence[Mapping[str, Mapping[str, float]]], operations: int, scale: float
    ) -> None:
        """Add figures of each component: maps from variant and role, of which several are added up."""
        for role in _roles(parts):
            of_role = [{name: by[role] for name, by in part.items() if role in by} for part in parts]
            self.per_operation(metric, role, sums(of_role), operations, scale)

    def typical(self, metric: str, query_type: str, times: Mapping[str, Times]) -> None:
        """Add the trimmed means, of each variant's times and of the log ratios of the pairs."""
        self.values(metric, query_type, {name: trimmed_mean(ns)[0] for name, ns in times.items()}, 1e6)
        baseline = times.get(self._baseline)
        for name in self._candidates:
            if baseline is not None and name in times:
                self._ratio(name, metric, query_type, trimmed_mean(np.log(times[name] / baseline)), len(baseline))

    def total(self, metric: str, query_type: str, times: Mapping[str, Times]) -> None:
        """Add the means, and the ratios of the sums."""
        self.values(metric, query_type, {name: float(ns.mean()) for name, ns in times.items()}, 1e6)
        baseline = times.get(self._baseline)
        for name in self._candidates:
            if baseline is not None and name in times:
                self._ratio(name, metric, query_type, ratio_of_sums(baseline, times[name]), len(baseline))

    def times(self, query_type: str, times: Mapping[str, Times]) -> None:
        """Add all that the service times of a query type say."""
        n = min((len(ns) for ns in times.values()), default=0)
        if n == 0:
            return
        self._into.times |= {(name, query_type): ns for name, ns in times.items()}
        self.typical("duel_typical_ms", query_type, times)
        self.total("duel_total_ms", query_type, times)
        quantiles = {name: np.quantile(ns, [q for _, q in PERCENTILES]) for name, ns in times.items()}
        for at, (metric, _) in enumerate(PERCENTILES):
            self.values(metric, query_type, {name: float(found[at]) for name, found in quantiles.items()}, 1e6)
        for metric, of in (("duel_min_ms", np.min), ("duel_max_ms", np.max), ("duel_stddev_ms", np.std)):
            self.values(metric, query_type, {name: float(of(ns)) for name, ns in times.items()}, 1e6)
        first = self._baseline
        for name in self._candidates if first in times else ():
            if name in times:
                for at, (metric, _) in enumerate(PERCENTILES):
                    shift = math.log(float(quantiles[name][at]) / float(quantiles[first][at]))
                    self._ratio(name, metric, query_type, (shift, None), n)

    def _ratio(self, name: str, metric: str, query_type: str, found: tuple[float, float | None], n: int) -> None:
        self._into.pairs.append(PairedRatio(name, self._part, self._phase, query_type, metric, *found, n))
