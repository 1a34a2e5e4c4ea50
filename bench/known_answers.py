"""How often quick.yml finds planted differences, and differences of one version from itself.

    .venv/bin/python -m bench.known_answers [TIMES]

TIMES runs (10 unless given) each of a handler that is 5 % and 3 % slower and of a thread that burns 5 % of a core, and
twice as many of a version against itself, in turns. One of each takes eight minutes on two quiet cores. The runs stay
in results/ as known-KIND-N, and a finished run is not repeated.
"""

import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence

from bench import quick
from bench.figures import Figure, at_least, at_most, show
from bench.quick import CPU, TIME, Rows
from tsduel.calibrate import planted
from tsduel.core import caches
from tsduel.stats.power import ALPHA
from tsduel.stats.verdict import REGRESSION

TIMES = 10
KINDS = ("slow-5", "same", "slow-3", "same-again", "burn-5")
HALF_WIDTH_PCT = 0.6


def main() -> int:
    """Make the runs, and print each figure beside its target."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else TIMES
    repository = planted.repository(caches.directory(os.environ))

    def made(kind: str, seed: int) -> Rows:
        sides = {"AA": "1"} if kind.startswith("same") else {"CANDIDATE": f"git:{repository}@{kind}"}
        knobs = {"BASELINE": f"git:{repository}@base", **sides, "SET": f"design.seed={seed}"}
        return quick.judged(f"known-{kind}-{seed}", knobs)

    return show(figures(quick.series(KINDS, times, made)))


def figures(series: Mapping[str, Sequence[Rows]]) -> list[Figure]:
    """Return how often planted differences were found, how often others, and the widths of intervals."""

    def share(name: str, kind: str, is_found: Callable[[Rows], bool], of_ten: int) -> Figure:
        runs = series[kind]
        return at_least(name, sum(map(is_found, runs)), of_ten * len(runs) / 10, f"of {len(runs)}", _median(runs))

    def called(rows: Rows) -> bool:
        return any(row["verdict"] == REGRESSION for row in quick.primary(rows))

    def flagged(rows: Rows) -> bool:
        return any(row["p_adj"] is not None and row["p_adj"] <= ALPHA for row in quick.primary(rows))

    def width(name: str, metric: tuple[str, str]) -> Figure:
        rows = [rows[metric] for runs in series.values() for rows in runs]
        widths = [quick.half_width(row) for row in rows if row["hi_pct"] is not None]
        detail = f"median; the widest {max(widths):.2f} %"
        return at_most(f"half-width of {name}", statistics.median(widths), HALF_WIDTH_PCT, "%", detail)

    same = [*series["same"], *series["same-again"]]
    most, of_same = max(1, len(same) // 10), f"of {len(same)}"
    return [
        share("a handler 5 % slower is called a regression", "slow-5", called, 10),
        share("one 3 % slower is flagged", "slow-3", flagged, 9),
        share("5 % of a core in the background, by CPU", "burn-5", lambda rows: rows[CPU]["verdict"] == REGRESSION, 10),
        at_most("a version against itself is flagged", sum(map(flagged, same)), most, of_same, _median(same)),
        width("typical, all types", TIME),
        width("CPU of a query", CPU),
    ]


def _median(runs: Sequence[Rows]) -> str:
    time, cpu = (statistics.median(rows[metric]["change_pct"] for rows in runs) for metric in (TIME, CPU))
    return f"median time {time:+.2f} %, CPU {cpu:+.2f} %"


if __name__ == "__main__":
    sys.exit(main())
