"""How often quick.yml finds planted differences, and differences of one version from itself.

    .venv/bin/python -m bench.known_answers [TIMES [KIND...]]

TIMES runs (10 unless given) of each kind, or of those that are named, in turns: a handler that is 5 % and 3 % slower; a
thread that burns 5 and 2 % of a core, on either side; a garbage collector that runs three times as often; and a version
against itself. One of each takes twenty minutes on two quiet cores. The runs stay in results/ as known-KIND-N, and a
finished run is not repeated.
"""

import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bench import quick
from bench.figures import Figure, at_least, at_most, show
from bench.quick import CPU, TIME, Rows
from tsduel.calibrate import planted
from tsduel.core import caches
from tsduel.core.metrics import GEOMEAN
from tsduel.stats.power import ALPHA
from tsduel.stats.verdict import IMPROVEMENT, REGRESSION

TIMES = 10
BASELINE, CANDIDATE = "baseline", "candidate"
KINDS = ("slow-5", "same", "slow-3", "burn-5", "burn-2", "gc", "same-again")
HALF_WIDTH_PCT = 0.6
OFF_ZERO_PCT = 0.2
TOTAL, INGESTION = ("duel_total_ms", GEOMEAN), ("duel_load_typical_ms", "")
GOGC, GC_BLOCKS = 10, 16
"""VictoriaMetrics' own GOGC is 30. It takes 2 % of ingestion's time, which eight blocks do not see."""


def main() -> int:
    """Make the runs, and print each figure beside its target."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else TIMES
    return show(figures(quick.series(sys.argv[2:] or KINDS, times, run)))


def run(kind: str, seed: int) -> Rows:
    """Return the rows of run `seed` of a kind, as if the candidate had the difference; it is made unless it exists."""
    repository = planted.repository(caches.directory(os.environ))
    base, planted_side = f"git:{repository}@base", CANDIDATE
    sides = {"BASELINE": base, "CANDIDATE": f"git:{repository}@{kind}"}
    settings = f"design.seed={seed}"
    if kind.startswith("same"):
        sides = {"BASELINE": base, "AA": "1"}
    elif kind == "gc":
        sides["CANDIDATE"] = base
        settings += f" variants.candidate.env.GOGC={GOGC} design.blocks={GC_BLOCKS}"
    elif kind.startswith("burn") and seed % 2 == 0:
        sides, planted_side = {"BASELINE": sides["CANDIDATE"], "CANDIDATE": base}, BASELINE
    # A wrong answer fails its block, also the first one.
    wrong = kind.startswith("wrong")
    needs = () if wrong else (TIME, CPU)
    rows = quick.judged(f"known-{kind}-{seed}", {**sides, "SET": settings}, needs=needs, fails=wrong)
    return rows if planted_side == CANDIDATE else {metric: mirrored(row) for metric, row in rows.items()}


def mirrored(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row as if the sides were exchanged."""
    turned = {REGRESSION: IMPROVEMENT, IMPROVEMENT: REGRESSION}
    names = ("change_pct", "hi_pct", "lo_pct")
    values = [None if row[name] is None else 100 * (1 / (1 + row[name] / 100) - 1) for name in names]
    return {
        **row, **dict(zip(("change_pct", "lo_pct", "hi_pct"), values, strict=True)),
        "verdict": turned.get(row["verdict"], row["verdict"]),
    }  # fmt: skip


def figures(series: Mapping[str, Sequence[Rows]]) -> Iterator[Figure]:
    """Yield how often planted differences were found, how often others, and the widths of intervals."""

    def share(name: str, kind: str, is_found: Callable[[Rows], bool], of_ten: int) -> Iterator[Figure]:
        if runs := series.get(kind):
            yield at_least(name, sum(map(is_found, runs)), of_ten * len(runs) / 10, f"of {len(runs)}", _median(runs))

    def called(rows: Rows) -> bool:
        return any(row["verdict"] == REGRESSION for row in quick.primary(rows))

    def worse(*metrics: tuple[str, str]) -> Callable[[Rows], bool]:
        return lambda rows: all(
            rows[metric]["p_adj"] is not None and rows[metric]["p_adj"] <= ALPHA and rows[metric]["change_pct"] > 0
            for metric in metrics
        )

    def flagged(rows: Rows) -> bool:
        return any(row["p_adj"] is not None and row["p_adj"] <= ALPHA for row in quick.primary(rows))

    def width(name: str, metric: tuple[str, str]) -> Iterator[Figure]:
        rows = [rows[metric] for runs in series.values() for rows in runs if metric in rows]
        if widths := [quick.half_width(row) for row in rows if row["hi_pct"] is not None]:
            detail = f"median; the widest {max(widths):.2f} %"
            yield at_most(f"half-width of {name}", statistics.median(widths), HALF_WIDTH_PCT, "%", detail)

    yield from share("a handler 5 % slower is called a regression", "slow-5", called, 10)
    yield from share("one 3 % slower is flagged", "slow-3", flagged, 9)
    by_cpu = "5 % of a core in the background, by CPU"
    yield from share(by_cpu, "burn-5", lambda rows: rows[CPU]["verdict"] == REGRESSION, 10)
    yield from share("the same, by query time", "burn-5", worse(TIME), 10)
    yield from share("the same, by ingestion time", "burn-5", worse(INGESTION), 9)
    by_either = "2 % of a core in the background, by time or CPU"
    yield from share(by_either, "burn-2", lambda rows: worse(TIME)(rows) or called(rows), 9)
    yield from share("a collector that runs three times as often", "gc", worse(TIME, TOTAL, INGESTION), 10)
    if same := [rows for kind in ("same", "same-again") for rows in series.get(kind, ())]:
        for title, metric in (("query time", TIME), ("CPU of a query", CPU)):
            mean = statistics.mean(rows[metric]["change_pct"] for rows in same)
            yield at_most(f"off zero: {title}", abs(mean), OFF_ZERO_PCT, "%", f"mean of {len(same)}")
        most = max(1, len(same) // 10)
        flags = sum(map(flagged, same))
        yield at_most("a version against itself is flagged", flags, most, f"of {len(same)}", _median(same))
    yield from width("typical, all types", TIME)
    yield from width("CPU of a query", CPU)


def _median(runs: Sequence[Rows]) -> str:
    time, cpu = (statistics.median(rows[metric]["change_pct"] for rows in runs) for metric in (TIME, CPU))
    return f"median time {time:+.2f} %, CPU {cpu:+.2f} %"


if __name__ == "__main__":
    sys.exit(main())
