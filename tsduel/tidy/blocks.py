"""Which blocks count for which candidate, and why the others do not: the one place that decides it.

A comparison is over the blocks in which the baseline and this candidate have come to their end and nothing from outside
spoilt them. What befell another candidate does not matter to it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tsduel.core.record import Block
from tsduel.core.rundir import BlockRow, Run

MOST_CAUSES = 2
WARMUP, UNPLANNED, MISSING, FAILED, VOID, SPOILT, SURPLUS = (
    *("warmup", "unplanned", "missing", "failed", "void", "spoilt", "surplus"),
)
OWED = "owed"
"""Spoilt like SPOILT, and no spare block has taken its place: too many of them leave no verdict."""


@dataclass(frozen=True)
class Decided:
    """A line of blocks.csv; `cause` is empty for a block that counts."""

    cell: str
    block: int
    candidate: str
    host: str
    kind: str
    cause: str
    second: bool
    reason: str


def decide(run: Run) -> list[Decided]:
    """Return a line for each block and candidate; spare blocks that were not needed have none."""
    reports = [run.of_host(host, "noise.json") for host in run.plan.every_host]
    judged = {int(one["block"]): one for report in reports for one in report.get("blocks", [])}
    done = {block.block: block for block in run.blocks}
    return [
        line
        for cell in dict.fromkeys(row.cell for row in run.planned)
        for candidate in run.variants[1:]
        for line in _of_candidate(run, [row for row in run.planned if row.cell == cell], done, candidate, judged)
    ]


def _of_candidate(
    run: Run,
    planned: list[BlockRow],
    done: Mapping[int, Block],
    candidate: str,
    judged: Mapping[int, Mapping[str, object]],
) -> Iterator[Decided]:
    found = [(row, done.get(row.block), *_decide(run, row, done.get(row.block), candidate, judged)) for row in planned]
    taken, surplus = set[int](), set[int]()
    for host in run.plan.every_host:
        good = [row.block for row, _, cause, _ in found if row.kind == "spare" and row.host == host and not cause]
        # A spare block takes a place that is open: on the same host, of one that was spoilt and not failed for
        # somebody, or was void; on a spare host, of one that was not run.
        places = [
            row.block
            for row, _, cause, _ in found
            if row.kind == "measured"
            and row.block not in taken
            and (cause == MISSING if host in run.plan.spare_hosts else row.host == host and cause in {OWED, VOID})
        ]
        taken.update(places[: len(good)])
        surplus.update(good[len(places) :])
    for row, block, cause, reason in found:
        if block is None and row not in run.due:
            continue
        if row.block in surplus:
            cause, reason = SURPLUS, "a spare block, and no block was left for it to replace"  # noqa: PLW2901 - decided here
        elif cause == OWED and (row.kind == "spare" or row.block in taken):
            cause = SPOILT  # noqa: PLW2901 - decided here
        order = row.order if block is None else block.order
        pair = (candidate, run.variants[0])
        second = all(name in order for name in pair) and order.index(pair[0]) > order.index(pair[1])
        # A block of a lost host runs on another one than was planned.
        host = row.host if block is None else block.host
        yield Decided(row.cell, row.block, candidate, host, row.kind, cause, second, reason)
    numbers = {row.block for row in run.planned}
    for block in done.values() if planned[0].cell == run.planned[0].cell else ():
        if block.block not in numbers:
            # What was looked at before it was decided to run more tests nothing.
            why = "it is not in plan/blocks.tsv, which was drawn before the run"
            yield Decided(
                block.cell, block.block, candidate, block.host, block.kind, UNPLANNED, second=False, reason=why
            )


def _decide(
    run: Run, row: BlockRow, block: Block | None, candidate: str, judged: Mapping[int, Mapping[str, object]]
) -> tuple[str, str]:
    """Return the cause for which a block does not count, and a sentence; both empty if it may."""
    if row.kind == "warmup":
        return WARMUP, "a warm-up block"
    if block is None:
        lost = run.json("host/lost.json").get(row.host)
        return MISSING, f"it was not run, since {row.host} was lost: {lost['why']}" if lost else "it was not run"
    # The columns of a pivoted run come from one and the same variant.
    concerned = {"", run.variants[0], candidate} if candidate in row.order else {"", *row.order}
    why = [f"{f.variant or 'the block'} failed: {f.message}" for f in block.failures if f.variant in concerned]
    if why:
        return FAILED, "; ".join(why)
    if block.void:
        return VOID, f"nothing in it may be compared: {block.void}"
    verdict = judged.get(row.block, {})
    causes = verdict.get("causes")
    if isinstance(causes, list) and causes:
        more = f"; and {len(causes) - MOST_CAUSES} more in tidy/noise.csv" if len(causes) > MOST_CAUSES else ""
        reason = f"spoilt from outside: {'; '.join(map(str, causes[:MOST_CAUSES]))}{more}"
        # The host owes a spare block for one that was spoilt, but not where another variant has failed in it, too.
        return (OWED if verdict.get("state") == "invalid" else SPOILT), reason
    return "", ""
