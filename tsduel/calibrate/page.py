"""The page at the end of `make calibrate`: which differences this machine shows, and in what time."""

import math
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tsduel.calibrate.planted import repository
from tsduel.calibrate.stale import age, executable, twins
from tsduel.core import caches, files
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.rundir import Run, open_run
from tsduel.core.wording import lasting, number_of
from tsduel.stats.estimate import percent
from tsduel.stats.power import mde
from tsduel.studies.study import Rule

BLOCKS = (6, 8, 16)
MOST_REASONS = 3
MOST_REPETITIONS = 64
RESTART_S = 0.6
"""About the time to start both sides again between two sittings."""
TITLES = {
    ("duel_typical_ms", GEOMEAN): "service time (typical, all types)",
    ("duel_total_ms", GEOMEAN): "service time (total, all types)",
    ("duel_cpu_us", ALL): "CPU of the duel",
}


def text(same: Run, stale: Run, slow: Run) -> str:
    """Return the page in Markdown. The runs compare a binary with itself, with an old file of it, with a slower one."""
    documents = [files.read_json(run.path / "stats/comparison.json") for run in (same, stale, slow)]
    seen, old, slower = (
        [{"title": title} | row_of(document, key) for key, title in TITLES.items()] for document in documents
    )
    aa = documents[0]["aa"]
    reasons = aa["reasons"]
    more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    not_passed = f"**Not passed**: {'; '.join(reasons[:MOST_REASONS])}{more}."
    block_s = statistics.median(block.ended - block.started for block in same.blocks if block.kind == "measured")
    cpu = f"{same.host.get('cpu_model') or 'An unknown CPU'}, {same.host.get('cpus')} CPUs"
    times = [f"{blocks} blocks ({lasting(blocks * block_s)})" for blocks in BLOCKS]
    header = ("", "change", "95 % CI", "verdict")
    paragraphs = [
        "# What this machine can tell apart",
        f"{cpu}; {same.plan.created}; a block of `experiments/quick.yml` takes {lasting(block_s)}.",
        f"## The same binary twice ({same.path.name})",
        "Passed: nothing was called different." if aa["passed"] else not_passed,
        "The smallest change that is seen with 80 % power, from how much the blocks scattered:",
        _table(("", "spread of a block", *times), map(_spread, seen)),
        sittings_advice(same, seen[0]),
        f"## The same binary, an old file against a fresh copy ({stale.path.name})",
        "Nothing differs but where the files lay in memory before the run.",
        _table(header, map(_change, old)),
        f"## A query handler made 5 % slower by us ({slow.path.name})",
        "The client sees less than 5 %, since sending and receiving are not the handler's.",
        _table(header, map(_change, slower)),
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def row_of(document: dict[str, Any], key: tuple[str, str]) -> dict[str, Any]:
    """Return the row of a metric and query type; empty where there is none."""
    return next((row for row in document["rows"] if (row["metric"], row["query_type"]) == key), {})


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows))


def _spread(row: dict[str, Any]) -> list[str]:
    deviation = row.get("s_d")
    if deviation is None:
        return [row["title"], "not measured", *["-"] * len(BLOCKS)]
    smallest = (mde(deviation, blocks) for blocks in BLOCKS)
    return [row["title"], *(f"{percent(ratio):.2g} %" for ratio in (deviation, *smallest))]


def _change(row: dict[str, Any]) -> list[str]:
    if row.get("change_pct") is None:
        return [row["title"], "not measured", "-", row.get("verdict", "-")]
    interval = "-" if row["lo_pct"] is None else f"{row['lo_pct']:+.1f} to {row['hi_pct']:+.1f} %"
    return [row["title"], f"{row['change_pct']:+.1f} %", interval, row["verdict"]]


def repetitions(cost_above: float, cost: float, variance: float, variance_above: float) -> int:
    """Return how many times to repeat a level within the one above, 1 to 64, for the least variance in the same time.

    r = sqrt(cost of the level above / cost of this one x variance of this one / variance above): Kalibera and Jones,
    "Rigorous benchmarking in reasonable time", ISMM 2013.
    """
    if variance <= 0:
        return 1
    if variance_above <= 0 or cost <= 0:
        return MOST_REPETITIONS
    return max(1, min(MOST_REPETITIONS, round(math.sqrt(cost_above / cost * variance / variance_above))))


def sittings_advice(run: Run, row: dict[str, Any]) -> str:
    """Say how many sittings pay, from a row of an A/A comparison; empty where the spread of a level is not known.

    Sittings share `duel.seconds`, so another one costs only a restart.
    """
    shares, sittings = row.get("shares") or {}, int(row.get("sittings") or 1)
    measured = [block.seconds for block in run.blocks if block.kind == "measured"]
    if {"exchange", "sitting", "block"} - set(shares) or not measured:
        return ""
    rest_s = max(0.0, statistics.median(measured) - sittings * RESTART_S)
    best = repetitions(rest_s, RESTART_S, sittings * shares["sitting"], shares["exchange"] + shares["block"])
    spreads = ", ".join(f"{percent(math.sqrt(shares[level])):.2g} % from {level}s" for level in shares)
    return (
        f"Of the spread of a block come {spreads}, with {number_of(sittings, 'sitting')}; another one costs about "
        f"{RESTART_S:g} s, the rest of a block {rest_s:.0f} s. {number_of(best, 'sitting')} would tell most in the "
        "same time (`duel.sittings`)."
    )


def rule(stem: Path) -> Rule:
    """Yield the knobs of the three runs, whose names begin with ``stem``; then write results/calibration.md, and print.

    A verdict that fails a run is a result too.
    """
    same, stale, slow = (stem.with_name(f"{stem.name}-{which}") for which in ("same", "stale", "slow-5"))
    planted, every = f"git:{repository(caches.directory(os.environ))}", {"KIND": "tsbs", "EXPERIMENT": "quick"}
    base = every | {"BASELINE": f"{planted}@base"}
    code = yield base | {"RUN": same.name, "AA": "1"}
    if _compared(same):
        old, new = twins(executable(same, "baseline"), caches.directory(os.environ) / "src" / "twins")
        aged = every | {"RUN": stale.name, "BASELINE": f"binary:{old}", "CANDIDATE": f"binary:{new}"}
        if code := (yield aged | {"TSDUEL_STAGES": "plan provision build"}):
            return code
        sys.stdout.write(age(stale))
        code = yield aged
    if _compared(stale):
        code = yield base | {"RUN": slow.name, "CANDIDATE": f"{planted}@slow-5"}
    if not _compared(slow):
        return code
    page, path = text(*map(open_run, (same, stale, slow))), stem.with_name("calibration.md")
    files.write(path, page)
    sys.stdout.write(f"\n{page}\nKept in {path}\n")
    return 0


def _compared(run_dir: Path) -> bool:
    return (run_dir / "stats/comparison.json").exists()
