"""The page that `make calibrate` ends with: what was told apart here, how finely, and in what time."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.rundir import open_run
from tsduel.core.wording import lasting
from tsduel.stats.estimate import percent
from tsduel.stats.power import mde

if TYPE_CHECKING:
    from tsduel.core.rundir import Run

BLOCKS = (6, 8, 16)
MOST_REASONS = 3
ROWS = (
    ("duel_typical_ms", GEOMEAN, "service time (typical, all types)"),
    ("duel_total_ms", GEOMEAN, "service time (total, all types)"),
    ("duel_cpu_us", ALL, "CPU of the duel"),
)


def text(same: Run, slow: Run) -> str:
    """Return the page in Markdown, of a run of one binary against itself and of one against a planted difference."""
    compared = {run.path.name: files.read_json(run.path / "stats/comparison.json") for run in (same, slow)}
    aa = compared[same.path.name].get("aa") or {}
    block_s = statistics.median(block.ended - block.started for block in same.blocks if block.kind == "measured")
    host = same.host
    times = [f"{blocks} blocks ({lasting(blocks * block_s)})" for blocks in BLOCKS]
    lines = [
        "# What this machine can tell apart",
        "",
        (
            f"{host.get('cpu_model') or 'An unknown CPU'}, {host.get('cpus')} CPUs; {same.plan.created}; a block of "
            f"`experiments/quick.yml` takes {lasting(block_s)}."
        ),
        "",
        f"## The same binary twice ({same.path.name})",
        "",
        "Passed: nothing was called different." if aa.get("passed") else f"**Not passed**: {_reasons(aa)}.",
        "",
        "The smallest change that is seen with 80 % power, from how much the blocks scattered:",
        "",
        _row("", "spread of a block", *times),
        _row(*["---"] * (2 + len(BLOCKS))),
        *(_seen(compared[same.path.name], *row) for row in ROWS),
        "",
        f"## A query handler made 5 % slower by us ({slow.path.name})",
        "",
        "The client sees less than 5 %, since sending and receiving are not the handler's.",
        "",
        _row("", "change", "95 % CI", "verdict"),
        _row(*["---"] * 4),
        *(_found(compared[slow.path.name], *row) for row in ROWS),
    ]
    return "\n".join(lines) + "\n"


def _reasons(aa: dict[str, Any]) -> str:
    reasons = aa.get("reasons") or ["it was not judged"]
    more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    return "; ".join(reasons[:MOST_REASONS]) + more


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _of(document: dict[str, Any], metric: str, query_type: str) -> dict[str, Any]:
    found = [r for r in document["rows"] if (r["metric"], r["query_type"]) == (metric, query_type)]
    return found[0] if found else {}


def _seen(document: dict[str, Any], metric: str, query_type: str, title: str) -> str:
    deviation = _of(document, metric, query_type).get("s_d")
    if deviation is None:
        return _row(title, "not measured", *["-"] * len(BLOCKS))
    shows = (f"{percent(mde(deviation, blocks)):.2g} %" for blocks in BLOCKS)
    return _row(title, f"{percent(deviation):.2g} %", *shows)


def _found(document: dict[str, Any], metric: str, query_type: str, title: str) -> str:
    row = _of(document, metric, query_type)
    if row.get("change_pct") is None:
        return _row(title, "not measured", "-", row.get("verdict", "-"))
    interval = "-" if row["lo_pct"] is None else f"{row['lo_pct']:+.1f} to {row['hi_pct']:+.1f} %"
    return _row(title, f"{row['change_pct']:+.1f} %", interval, row["verdict"])


def main(same: Path, slow: Path) -> None:
    """Write results/calibration.md, and print it."""
    page = text(open_run(same), open_run(slow))
    files.write(same.parent / "calibration.md", page)
    sys.stdout.write(f"\n{page}\nKept in {same.parent / 'calibration.md'}\n")


if __name__ == "__main__":
    try:
        main(*map(Path, sys.argv[1:3]))
    except UserError as error:
        sys.exit(f"tsduel: {error}")
