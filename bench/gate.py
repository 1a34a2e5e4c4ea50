"""How often `make gate` flags a version against itself, and work that was planted.

    .venv/bin/python -m bench.gate [TIMES [KIND...]]

TIMES runs (10 unless given) of each kind, or of those that are named, in turns: a version against itself, one object
more a query, 2 % more bytes for one query type, and a sleep that work does not see. A run takes a minute and a half.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from bench import quick
from bench.figures import Figure, at_least, at_most, show
from bench.quick import Rows
from tsduel.calibrate import planted
from tsduel.core import caches
from tsduel.core.metrics import GEOMEAN
from tsduel.stats.verdict import REGRESSION

TIMES = 10
KINDS = ("same", "object", "bytes", "sleep")
OBJECTS, BYTES = "duel_objects", "duel_object_bytes"
WIDEST_PCT, OFF_ZERO_PCT = {OBJECTS: 0.1, BYTES: 0.5}, {OBJECTS: 0.1, BYTES: 0.5}


def main() -> int:
    """Make the runs, and print each figure beside its target."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else TIMES
    return show(figures(quick.series(sys.argv[2:] or KINDS, times, run)))


def run(kind: str, seed: int) -> Rows:
    """Return the rows of run `seed` of a kind; it is made unless it exists."""
    repository = planted.repository(caches.directory(os.environ))
    knobs = {"BASELINE": f"git:{repository}@base", "SET": f"design.seed={seed}"}
    knobs |= {"AA": "1"} if kind == "same" else {"CANDIDATE": f"git:{repository}@{kind}"}
    return quick.judged(f"gate-{kind}-{seed}", knobs, None, "experiments/gate.yml", [(OBJECTS, GEOMEAN)])


def figures(series: Mapping[str, Sequence[Rows]]) -> Iterator[Figure]:
    """Yield how often each kind was flagged, and how near a version is to itself."""

    def flags(kind: str, *verdicts: str) -> tuple[int, int]:
        runs = series.get(kind, ())
        return sum(any(row["verdict"] in verdicts for row in rows.values()) for rows in runs), len(runs)

    for kind, title in (("object", "one object more a query fails"), ("bytes", "2 % more bytes of one type fail")):
        found, of = flags(kind, REGRESSION)
        if of:
            yield at_least(title, found, of, f"of {of}", "regressions")
    found, of = flags("same", *quick.CALLED)
    if of:
        yield at_most("a version against itself is flagged", found, 0, f"of {of}", "any verdict of a change")
    found, of = flags("sleep", REGRESSION)
    if of:
        # Who sleeps in a handler allocates one object less there: that is true, and fails no gate.
        yield at_most("a sleep of a millisecond fails", found, 0, f"of {of}", "regressions")
    for metric, widest in WIDEST_PCT.items():
        rows = [row for run in series.get("same", ()) for (name, _), row in run.items() if name == metric]
        bounded = [row for row in rows if row["hi_pct"] is not None]
        if bounded:
            worst = max(bounded, key=quick.half_width)
            off = max(bounded, key=lambda row: abs(row["change_pct"]))
            middle = sorted(map(quick.half_width, bounded))[len(bounded) // 2]
            detail = f"median; the widest {quick.half_width(worst):.2f} %, {worst['query_type']}"
            yield at_most(f"half-width of {metric}", middle, widest, "%", detail)
            yield at_most(f"farthest from zero, {metric}", abs(off["change_pct"]), OFF_ZERO_PCT[metric], "%",
                          f"{off['query_type']}, of {len(bounded)} rows")  # fmt: skip
    missed = [rows for rows in series.get("object", ()) if rows[OBJECTS, GEOMEAN]["verdict"] != REGRESSION]
    if series.get("object"):
        yield at_most("one object more is no regression of all types", len(missed), 0, "runs", "of objects")


if __name__ == "__main__":
    sys.exit(main())
