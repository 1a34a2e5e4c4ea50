"""An upgrade with data on disk: before, right after, half new data, all new data, and the downgrade."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from plots import markup, numbers
from plots.charts.upgrade import through
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.sections import heading, tables
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN, METRICS, threshold
from tsduel.core.record import Downgrade
from tsduel.core.wording import number_of

HEADS = {"right_after": "old data: before → right after", "half": "half old, half new data", "new": "only new data"}
STATES = {
    "": "before",
    "right_after": "right after:\nold data",
    "half": "half old,\nhalf new data",
    "new": "only\nnew data",
}
COLUMNS = {"typical_ms": ("typical", "query time, ms"), "cpu_us": ("CPU", "CPU of a query, µs")}
"""The metrics of a query in each state, with their short and long names."""
OPEN = "The way back is open"
WINDOWS = {"old": "the old data", "half": "half old, half new data", "new": "only new data"}
STARTED = ("start_seconds", "first_answer_seconds", "quiet_seconds", "migration_cpu_seconds", "migration_written_bytes")
READ = (
    "Left of each arrow is the baseline, as without an upgrade, right of it the candidate. Both run on copies of one "
    "directory and are asked in turn. The baseline loaded the old data; each variant loaded the new data on top."
)


def standing(source: Source) -> list[str]:
    """Return the warnings of an upgrade: the new version does not start, or there is no way back."""
    lines = [line for comparison in source.comparisons for line in _sentences(comparison, source)]
    return [line for line in lines if line.startswith("**") and OPEN not in line]


@heading("Before and after the upgrade", 40, "upgrade")
def section(source: Source, pictures: Pictures) -> str:
    """Return the sentences on start and downgrade, the tables in the order of an upgrade, and the picture."""
    types, comparisons = source.query_types, source.comparisons
    columns = ["candidate", "query_type", "state", "change", "low", "high", "hint"]
    steps = pd.DataFrame([step for side in comparisons for step in _steps(side, types)], columns=columns)
    cut = threshold(METRICS["upgrade_right_after_typical_ms"], source.plan.design.thresholds)
    alone = tables.measured(source, "upgrade", "start", "ingest", "after")
    heads = {f"upgrade_{state}_{name}": f"{head}, {short}" for state, head in HEADS.items()
             for name, (short, _) in COLUMNS.items()}  # fmt: skip
    return markup.paragraphs(
        *(
            text for comparison in comparisons for text in (
                markup.items(_sentences(comparison, source)),
                *(tables.by_type(comparison, {f"upgrade_{state}_{name}": head for state, head in HEADS.items()}, types,
                                 f"{comparison.title}, {title}") for name, (_, title) in COLUMNS.items()),
            )
        ),
        "" if steps.empty else READ,
        pictures.show(
            "upgrade", "changes through the upgrade", f"Query time through the upgrade: {source.names}",
            "Each state against the baseline on the same data. The band is the threshold; a line is a query type.",
            None if steps.empty else through(steps, STATES, source.labels, cut),
        ),
        markup.folded("Start, migration, load on top, disk", tables.by_metric(source, alone)),
        *(tables.intervals(comparison, heads, types) for comparison in comparisons),
    )  # fmt: skip


def _steps(comparison: Comparison, query_types: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for state, head in HEADS.items():
        for query_type, row in comparison.by_type(f"upgrade_{state}_typical_ms", query_types).items():
            if row["change_pct"] is not None and query_type != ALL:
                name = "" if query_type == GEOMEAN else query_type
                hint = f"{name or 'all types'}, {head}: {numbers.changed(row)} % ({numbers.interval(row)})"
                yield comparison.candidate, name, state, row["change_pct"], row["lo_pct"], row["hi_pct"], hint


def _sentences(comparison: Comparison, source: Source) -> Iterator[str]:
    upgrades = [block.upgrade for block in source.run.blocks if block.upgrade and block.kind != "warmup"]
    new, old = (markup.text(label) for label in reversed(comparison.labels))
    starts = (upgrade.start.get(comparison.candidate) for upgrade in upgrades)
    refused = [start.refused for start in starts if start and start.refused]
    if refused:
        yield (
            f"**{new} does not start on the data that {old} has left**, in {len(refused)} of "
            f"{number_of(len(upgrades), 'block')}: {markup.code(refused[0])}"
        )
    rows = {name: comparison.row(f"upgrade_{name}") for name in STARTED}
    took = {name: _both(row) for name, row in rows.items() if row and row["blocks"]}
    if len(took) == len(STARTED):
        yield (
            f"On the data that {old} has left, {new} is healthy after {took['start_seconds']}, gives its first answer "
            f"with data after {took['first_answer_seconds']} and is quiet after {took['quiet_seconds']}; until then it "
            f"has used {took['migration_cpu_seconds']} of CPU and written {took['migration_written_bytes']}. (In "
            f"brackets: {old} on the same data.)"
        )
    down = [outcome for upgrade in upgrades if (outcome := upgrade.downgrade.get(comparison.candidate))]
    if down:
        yield _downgrade(down, old, new)


def _both(row: Row) -> str:
    """Return the candidate's value, and the baseline's in brackets: two digits, since starts are read every 50 ms."""
    baseline, candidate = row["baseline_pseudomedian"], row["candidate_pseudomedian"]
    unit, factor = numbers.scaled(row["unit"], max(baseline, candidate))
    return f"{numbers.number(candidate / factor, 2)} {unit} ({numbers.number(baseline / factor, 2)})"


def _downgrade(down: list[Downgrade], old: str, new: str) -> str:
    starts = [downgrade for downgrade in down if downgrade.starts]
    if not starts:
        return f"**No way back**: {old} does not start on the data that {new} leaves: {markup.code(down[0].said)}"
    answers = [answer for downgrade in starts for answer in downgrade.answers]
    parts: list[str] = []
    for window, title in WINDOWS.items():
        of_window = [answer for answer in answers if answer.window == window]
        total, same = sum(answer.asked for answer in of_window), sum(answer.same for answer in of_window)
        what = next((answer.what for answer in of_window if answer.what), "")
        if total or what:
            differs = f" (e.g. {markup.code(what)})" if what and "e.g." not in "".join(parts) else ""
            parts.append(f"of queries over {title} {same} of {total} are answered the same{differs}")
    words = next((downgrade.said for downgrade in starts if downgrade.said), "")
    complaint = f" It says: {markup.code(words)}" if words else ""
    # Without any answer, it may have stopped before the first query.
    whole = bool(parts) and all(answer.same == answer.asked and not answer.what for answer in answers)
    how = OPEN if len(starts) == len(down) else "The way back fails at times"
    return (
        f"**{how if whole else 'The way back loses answers'}**: {old} starts on the data that {new} leaves, in "
        f"{len(starts)} of {number_of(len(down), 'block')}; {'; '.join(parts) or 'no query was answered'}.{complaint}"
    )
