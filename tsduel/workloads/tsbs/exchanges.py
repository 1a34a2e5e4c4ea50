"""The duel of a block -> a log ratio for each query type, candidate and estimator, with its error within the block.

docs/statistics.md: `typical` is the 10 % trimmed mean of the log ratios of the exchanges, `total` the log of the ratio
of sums, `cpu` the log of the ratio of CPU ns an operation. The value of a block is the mean over its sittings. Times
are in ns inside this module; its results are in the units of the metrics.
"""

import io
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsduel.core import files
from tsduel.core.metrics import ALL, EXCHANGE, GEOMEAN, METRICS, MIX
from tsduel.core.record import Block, DuelLoad, DuelType, after
from tsduel.workloads.measured import PairedRatio, Reading

Times = NDArray[np.float64]
Sittings = Mapping[int, Mapping[str, Times]]
"""Service times by sitting and variant."""
Clock = tuple[int, Mapping[str, float], int]
"""A sitting, by how much a clock or counter of each variant moved in it, and the number of operations."""
Roles = tuple[int, Mapping[str, Mapping[str, float]], int]
"""The same by variant and role."""
Estimate = tuple[float, float | None]
"""A log ratio and its standard error within a sitting."""

TRIM = 0.1
CLOCKS = (("duel_cpu_us", "cpu_ns", 1e3), ("duel_instructions", "instructions", 1.0))
"""Metric, attribute of DuelType, and how many of the field's units make the metric's unit."""
COUNTERS = tuple(
    (metric.name, metric.counter, 1e-6 if metric.unit == "us" else 1.0)
    for metric in METRICS.values() if metric.counter and metric.phase == EXCHANGE
)  # fmt: skip
"""The same of the database's counters, by our names."""
PERCENTILES = (("duel_p50_ms", 0.5), ("duel_p95_ms", 0.95), ("duel_p99_ms", 0.99))


def trimmed_mean(values: Times) -> Estimate:
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


def ratio_of_sums(baseline: Times, candidate: Times) -> Estimate:
    """Return ln(sum(candidate) / sum(baseline)) and its standard error by the delta method on the pairs."""
    n, b, c = len(baseline), float(baseline.mean()), float(candidate.mean())
    if n < 3:  # noqa: PLR2004 - as of the trimmed mean
        return math.log(c / b), None
    return math.log(c / b), float((candidate / c - baseline / b).std(ddof=1)) / math.sqrt(n)


def read_duel(figures: "Figures") -> None:
    """Add the figures of a block's duel."""
    block, alive = figures.block, figures.alive
    duel = block.duel
    if duel is None:
        return
    for query_type, times in read_exchanges(block.path / "duel/exchanges.csv.gz", alive).items():
        figures.times(query_type, times)
    figures.mean_over_types(("duel_typical_ms", "duel_total_ms"))
    for query_type in (*dict.fromkeys(record.query_type for record in duel.types), ALL):
        records = whole(duel.types) if query_type == ALL else [r for r in duel.types if r.query_type == query_type]
        for metric, clock, unit in CLOCKS:
            clocks = [(record.sitting, getattr(record, clock), record.exchanges) for record in records]
            figures.per_operation(metric, query_type, clocks, unit)
        for metric, counter, unit in COUNTERS:
            clocks = [(record.sitting, _only(record.counters, counter), record.exchanges) for record in records]
            if query_type == ALL and duel.counters:
                clocks = [(0, _only(duel.counters, counter), sum(record.exchanges for record in duel.types))]
            figures.per_operation(metric, query_type, clocks, unit)
        seconds = sum(record.seconds for record in records)
        _turns(records, query_type, figures)
        if seconds and query_type != ALL:
            # One client sends the queries to all variants: each variant has the same share of its CPU.
            used = sum(record.client_cpu_ns for record in records)
            figures.values("duel_client_cpu_ratio", query_type, dict.fromkeys(alive, used), seconds * 1e9)
    roles = [(record.sitting, record.cpu_ns_by_role, record.exchanges) for record in duel.types]
    figures.by_role("duel_role_cpu_us", roles, 1e3)
    figures.by_role("duel_role_rss_bytes", [(0, duel.rss_by_role, 1)], 1.0)
    if duel.idle:
        seconds = sum(idle.seconds for idle in duel.idle)
        figures.values("duel_idle_cpu_ms", "", sums([idle.cpu_ns for idle in duel.idle]), seconds * 1e6)
    figures.values("duel_rss_bytes", "", duel.rss_bytes, 1.0)
    if duel.load:
        _load(duel.load, figures)


def _turns(records: Sequence[DuelType], query_type: str, figures: "Figures") -> None:
    """Add the time of a turn, and its share of a phase: the same for all variants. Without turns there is none."""
    if turns := sum(record.turns for record in records):
        spent = dict.fromkeys(figures.alive, sum(record.turn_s for record in records))
        figures.values("duel_turn_us", query_type, spent, turns / 1e6)
        figures.values("duel_turns_ratio", query_type, spent, sum(record.seconds for record in records))


def _load(load: Sequence[DuelLoad], figures: "Figures") -> None:
    """Add the figures of batches sent to each variant in turn."""
    # No line is in the file if a variant did not even accept a connection.
    batches = read_exchanges(figures.block.path / "duel/load.csv.gz", figures.alive).get("", {})
    figures.typical("duel_load_typical_ms", "", batches)
    for metric, clock in (("duel_load_cpu_us", "drained_cpu_ns"), ("duel_load_acknowledged_cpu_us", "cpu_ns")):
        figures.per_operation(metric, "", [(part.sitting, getattr(part, clock), part.samples) for part in load], 1e3)
    figures.by_role("duel_load_role_cpu_us", [(part.sitting, part.cpu_ns_by_role, part.samples) for part in load], 1e3)
    if not any(one.metric == "rss_peak_bytes" for one in figures.into.measurements):  # no variant loaded alone
        peaks = {
            name: max(part.rss_peak_bytes[name] for part in load)
            for name in figures.alive
            if all(name in part.rss_peak_bytes for part in load)
        }
        figures.values("rss_peak_bytes", "", peaks, 1.0)


def read_exchanges(path: Path, variants: Sequence[str] | None = None) -> dict[str, dict[int, dict[str, Times]]]:
    """Read an exchanges.csv.gz: query type ("" without this column) -> sitting -> variant -> ns of its exchanges.

    Columns of other variants than `variants` are ignored; None for all. Exchanges that not all of these variants
    answered are left out.
    """
    with files.reading(path, "table of exchanges"):
        table = pd.read_csv(
            io.BytesIO(files.content(path)),
            usecols=lambda name: name in {"query_type", "sitting"} or name.endswith("_ns"),
        )
        return _exchanges(pd.DataFrame({"query_type": "", "sitting": 0, **table}), variants)


def _exchanges(table: pd.DataFrame, variants: Sequence[str] | None) -> dict[str, dict[int, dict[str, Times]]]:
    names = [column.removesuffix("_ns") for column in table.columns if column.endswith("_ns")]
    names = [name for name in names if variants is None or name in variants]
    exchanges: defaultdict[str, dict[int, dict[str, Times]]] = defaultdict(dict)
    for key, rows in table.groupby(["query_type", "sitting"], sort=False):
        query_type, sitting = cast("tuple[str, int]", key)
        ns = rows[[f"{name}_ns" for name in names]].to_numpy(dtype=float)
        answered = (np.isfinite(ns) & (ns > 0)).all(axis=1)
        exchanges[query_type][int(sitting)] = dict(zip(names, ns[answered].T, strict=True))
    return dict(exchanges)


def pooled(times: Sittings) -> dict[str, Times]:
    """Return the times of all sittings together."""
    names = dict.fromkeys(name for sitting in times.values() for name in sitting)
    return {name: np.concatenate([sitting[name] for sitting in times.values() if name in sitting]) for name in names}


def whole(records: Sequence[DuelType]) -> list[DuelType]:
    """Return the records of the mix, which has all queries; all records if there is no mix."""
    return [record for record in records if record.query_type.partition("@")[0] == MIX] or list(records)


def _only(counters: Mapping[str, Mapping[str, float]], name: str) -> dict[str, float]:
    """Return by variant the figure of one counter or role."""
    return {variant: figures[name] for variant, figures in counters.items() if name in figures}


def sums(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Add up by variant, for the variants with a figure in every part."""
    names = set.intersection(*(set(part) for part in parts)) if parts else set()
    return {name: sum(part[name] for part in parts) for name in names}


@dataclass
class Figures:
    """Adds values of the variants that did not fail in a block, and ratios to the baseline if it did not fail."""

    block: Block
    baseline: str
    alive: Sequence[str]
    into: Reading
    by_sitting: dict[tuple[str, str, str], dict[int, float]] = field(default_factory=dict)

    @property
    def candidates(self) -> list[str]:
        """All variants that are alive but the baseline."""
        return [name for name in self.alive if name != self.baseline]

    def values(self, metric: str, query_type: str, figures: Mapping[str, float], scale: float) -> None:
        """Add a value of each variant, divided by `scale`."""
        for name in self.alive:
            if name in figures:
                self.into.add(name, [(metric, query_type, figures[name] / scale)])

    def per_operation(self, metric: str, query_type: str, clocks: Iterable[Clock], scale: float) -> None:
        """Add figures of a clock over all operations of a sitting: one ratio, whose error only the blocks show.

        Several clocks of one sitting are added up.
        """
        grouped: defaultdict[int, list[Clock]] = defaultdict(list)
        for clock in clocks:
            grouped[clock[0]].append(clock)
        counts = {sitting: n for sitting, own in grouped.items() if (n := sum(clock[2] for clock in own))}
        moved = {sitting: sums([clock[1] for clock in grouped[sitting]]) for sitting in counts}
        if not counts:
            return
        operations = sum(counts.values())
        self.values(metric, query_type, sums(list(moved.values())), operations * scale)
        for name in self.candidates:
            ratios = {
                sitting: (math.log(clock[name] / clock[self.baseline]), None)
                for sitting, clock in moved.items()
                if clock.get(self.baseline, 0) > 0 and clock.get(name, 0) > 0
            }
            if len(ratios) == len(moved):
                self._ratio(name, metric, query_type, ratios, operations)

    def by_role(self, metric: str, clocks: Sequence[Roles], scale: float) -> None:
        """Add figures of each component."""
        for role in dict.fromkeys(role for _, moved, _ in clocks for roles in moved.values() for role in roles):
            self.per_operation(metric, role, [(at, _only(moved, role), n) for at, moved, n in clocks], scale)

    def typical(self, metric: str, query_type: str, times: Sittings) -> None:
        """Add the trimmed means, of each variant's times and of the log ratios of the pairs."""
        self._estimated(
            metric, query_type, times, lambda ns: trimmed_mean(ns)[0], lambda b, c: trimmed_mean(np.log(c / b))
        )

    def total(self, metric: str, query_type: str, times: Sittings) -> None:
        """Add the means, and the ratios of the sums."""
        self._estimated(metric, query_type, times, lambda ns: float(ns.mean()), ratio_of_sums)

    def times(self, query_type: str, times: Sittings) -> None:
        """Add all figures of the service times of a query type."""
        whole = pooled(times)
        n = min((len(ns) for ns in whole.values()), default=0)
        if n == 0:
            return
        self.into.times |= {(name, query_type): ns for name, ns in whole.items()}
        self.typical("duel_typical_ms", query_type, times)
        self.total("duel_total_ms", query_type, times)
        for metric, share in PERCENTILES:
            figures = {name: float(np.quantile(ns, share)) for name, ns in whole.items()}
            self.values(metric, query_type, figures, 1e6)
            for name in self.candidates:
                if name in figures and self.baseline in figures:
                    # Of all sittings together, since a percentile of few exchanges says little.
                    ratio = math.log(figures[name] / figures[self.baseline])
                    self._ratio(name, metric, query_type, {0: (ratio, None)}, n)
        for metric, statistic in (("duel_min_ms", np.min), ("duel_max_ms", np.max), ("duel_stddev_ms", np.std)):
            self.values(metric, query_type, {name: float(statistic(ns)) for name, ns in whole.items()}, 1e6)

    def mean_over_types(self, metrics: Iterable[str]) -> None:
        """Add the mean ratio of the query types in each sitting, because their deviations are not independent."""
        for metric in metrics:
            for name in self.candidates:
                own = {key[2]: figures for key, figures in self.by_sitting.items() if key[:2] == (name, metric)}
                types = [own[MIX]] if MIX in own else list(own.values())
                sittings = sorted(set.intersection(*map(set, types))) if types else []
                if sittings:
                    means = {at: (statistics.fmean(ratios[at] for ratios in types), None) for at in sittings}
                    self._ratio(name, metric, GEOMEAN, means, 0)

    def _estimated(
        self,
        metric: str,
        query_type: str,
        times: Sittings,
        value: Callable[[Times], float],
        ratio: Callable[[Times, Times], Estimate],
    ) -> None:
        """Add the value of all sittings together, and the ratio of each."""
        whole = {name: ns for name, ns in pooled(times).items() if len(ns)}
        self.values(metric, query_type, {name: value(ns) for name, ns in whole.items()}, 1e6)
        first = self.baseline
        for name in self.candidates if first in whole else ():
            ratios = {
                at: ratio(ns[first], ns[name]) for at, ns in times.items() if len(ns.get(name, ())) and len(ns[first])
            }
            if ratios:
                self._ratio(name, metric, query_type, ratios, len(whole[first]))

    def _ratio(self, name: str, metric: str, query_type: str, estimates: Mapping[int, Estimate], n: int) -> None:
        """Add the mean over sittings; its error is that of the exchanges alone."""
        self.by_sitting[name, metric, query_type] = {at: ratio for at, (ratio, _) in estimates.items()}
        ratios, errors = zip(*estimates.values(), strict=True)
        count = len(ratios)
        error = None if None in errors else math.sqrt(sum(se * se for se in errors)) / count
        deviation = statistics.stdev(ratios) if count > 1 else None
        part, phase = METRICS[metric].part, METRICS[metric].phase
        key = (name, part, phase, query_type, metric, statistics.fmean(ratios), error, n)
        self.into.pairs.append(PairedRatio(*key, count, deviation, self._second_effect(name, estimates)))

    def _second_effect(self, name: str, estimates: Mapping[int, Estimate]) -> float | None:
        """Return half of the difference between sittings that start the candidate second and those that start it first.

        The order of starts is the block's in the first sitting, its reverse in the next two, and so on: B C C B.
        """
        late = after(self.baseline, name, self.block.start)
        if late is None:
            return None
        second, first = (
            [ratio for at, (ratio, _) in estimates.items() if (late != (at % 4 in {1, 2})) is side]
            for side in (True, False)
        )
        return (statistics.fmean(second) - statistics.fmean(first)) / 2 if first and second else None
