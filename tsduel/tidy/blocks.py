"""Decides which blocks count for which candidate, and why the others do not. No other module decides this.

A block counts for a candidate if the baseline and this candidate finished it and nothing from outside spoilt it.
Failures of other candidates do not matter.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tsduel.core import files
from tsduel.core.record import Block, after
from tsduel.core.rundir import BlockRow, Run
from tsduel.core.tables import COINS

MOST_CAUSES = 2
WARMUP, UNPLANNED, MISSING, FAILED, VOID, SPOILT, SURPLUS = (
    *("warmup", "unplanned", "missing", "failed", "void", "spoilt", "surplus"),
)
OWED = "owed"
"""Spoilt, and no spare block has replaced it: a candidate with such a block gets no verdict."""


class Decided(NamedTuple):
    """A line of blocks.csv. `cause` is empty for a block that counts. `second`, by coin: the candidate came second."""

    block: int
    candidate: str
    host: str
    kind: str
    cause: str
    second: tuple[bool | None, ...]
    reason: str


def decide(run: Run) -> list[Decided]:
    """Return a line for each block and candidate; none for spare blocks that were not needed."""
    reports = [run.of_host(host, "noise.json") for host in run.plan.every_host]
    with files.reading(run.path / "raw/HOST/noise.json", "record of noise"):
        judged = {int(verdict["block"]): verdict for report in reports for verdict in report.get("blocks", [])}
    done = {block.block: block for block in run.blocks}
    return [line for candidate in run.variants[1:] for line in _of_candidate(run, run.planned, done, candidate, judged)]


def lacks_blocks(run_dir: Path) -> bool:
    """Return whether tidy/ is of a run that could go on: blocks of it were not run, on hosts that are not lost.

    So is a table that has no line, as a power cut may leave it.
    """
    decided, lost = run_dir / "tidy/blocks.csv", run_dir / "host/lost.json"
    if not decided.exists():
        return False
    gone = files.read_json(lost) if lost.exists() else {}
    with decided.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return not rows or any(row["cause"] == MISSING and row["host"] not in gone for row in rows)


def _of_candidate(
    run: Run,
    planned: list[BlockRow],
    done: Mapping[int, Block],
    candidate: str,
    judged: Mapping[int, Mapping[str, object]],
) -> Iterator[Decided]:
    causes = {row.block: _cause(run, row, done.get(row.block), candidate, judged.get(row.block, {})) for row in planned}
    replaced, surplus = set[int](), set[int]()
    for host in run.plan.every_host:
        good = [row.block for row in planned if row.kind == "spare" and row.host == host and not causes[row.block][0]]
        # A spare block replaces a spoilt or void block of its host; on a spare host, one that was not run.
        on_spare = host in run.plan.spare_hosts
        places = [
            row.block
            for row in planned
            if row.kind == "measured"
            and row.block not in replaced
            and causes[row.block][0] in ({MISSING} if on_spare else {OWED, VOID})
            and (on_spare or row.host == host)
        ]
        replaced.update(places[: len(good)])
        surplus.update(good[len(places) :])
    for row in planned:
        block, (cause, reason) = done.get(row.block), causes[row.block]
        if block is None and row not in run.due:
            continue
        if row.block in surplus:
            cause, reason = SURPLUS, "a spare block, and no block was left for it to replace"
        elif cause == OWED and (row.kind == "spare" or row.block in replaced):
            cause = SPOILT
        drawn: BlockRow | Block = block or row
        second = tuple(after(run.variants[0], candidate, getattr(drawn, coin)) for coin in COINS)
        # The host of the block: a block of a lost host runs on another one than was planned.
        yield Decided(row.block, candidate, drawn.host, row.kind, cause, second, reason)
    numbers = {row.block for row in run.planned}
    for block in done.values():
        if block.block not in numbers:
            # A decision to run more that is taken after a look at the results would bias the test.
            why = "it is not in plan/blocks.tsv, which was drawn before the run"
            none = (None,) * len(COINS)
            yield Decided(block.block, candidate, block.host, block.kind, UNPLANNED, none, why)


def _cause(
    run: Run, row: BlockRow, block: Block | None, candidate: str, verdict: Mapping[str, object]
) -> tuple[str, str]:
    """Return the cause for which a block does not count, and a sentence; both empty if it may."""
    if row.kind == "warmup":
        return WARMUP, "a warm-up block"
    if block is None:
        lost = run.json("host/lost.json").get(row.host)
        return MISSING, f"it was not run, since {row.host} was lost: {lost['why']}" if lost else "it was not run"
    # In a pivoted run all columns come from the same variants, so every failure counts.
    concerned = {"", run.variants[0], candidate} if candidate in block.order else {"", *block.order}
    why = [f"{f.variant or 'the block'} failed: {f.message}" for f in block.failures if f.variant in concerned]
    if why:
        return FAILED, "; ".join(why)
    if block.void:
        return VOID, f"nothing in it may be compared: {block.void}"
    causes = verdict.get("causes")
    if not isinstance(causes, list) or not causes:
        return "", ""
    more = f"; and {len(causes) - MOST_CAUSES} more in tidy/noise.csv" if len(causes) > MOST_CAUSES else ""
    reason = f"spoilt from outside: {'; '.join(map(str, causes[:MOST_CAUSES]))}{more}"
    # The host owes no spare block where another variant has failed as well.
    return (OWED if verdict.get("state") == "invalid" else SPOILT), reason
