"""What becomes of people who upgrade with data on disk: before, right after, half in each, all new, and back again."""

from collections.abc import Iterator, Sequence

from plots import markup, numbers
from plots.charts.upgrade import Step, through
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.sections.duel import NAMES, details
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN, METRICS, UPGRADE_STATES, threshold
from tsduel.core.record import Downgrade, Upgrade
from tsduel.core.wording import number_of

HEADS = {
    "right_after": "old data: before → right after",
    "half": "half old, half new data",
    "new": "only new data",
}
STATES = {
    "": "before",
    "right_after": "right after:\nold data",
    "half": "half old,\nhalf new data",
    "new": "only\nnew data",
}
OPEN = "The way back is open"
WINDOWS = {"old": "the old data", "half": "half old, half new data", "new": "only new data"}
STARTED = ("start_seconds", "first_answer_seconds", "quiet_seconds", "migration_cpu_seconds", "migration_written_bytes")
READ = (
    "Left of each arrow is the baseline, as it would be without an upgrade, right of it the candidate; both on copies "
    "of one directory, asked in turn. Old data were loaded by the baseline, new data by each variant on top of them."
)


def standing(source: Source) -> list[str]:
    """Say what nobody who upgrades may miss: that there is no way there, or none back."""
    return [
        line for one in source.comparisons for line in _words(one, source) if line.startswith("**") and OPEN not in line
    ]


def section(source: Source, pictures: Pictures) -> str:
    """Return the table in the order of an upgrade, its picture, what a start takes, and whether there is a way back."""
    steps = [step for one in source.comparisons for step in _steps(one, source.query_types)]
    cut = threshold(METRICS["upgrade_right_after_typical_ms"], source.plan.design.thresholds)
    names = markup.text(" and ".join(source.labels.values()))
    return markup.paragraphs(
        *(
            markup.paragraphs(
                markup.items(_words(one, source)),
                _table(one, "typical_ms", "typical service time, ms", source.query_types),
                _table(one, "cpu_us", "CPU an operation, µs", source.query_types),
            )
            for one in source.comparisons
        ),
        READ if steps else "",
        pictures.show(
            "upgrade", "changes through the upgrade", f"Service time through the upgrade: {names}",
            "Each state against the baseline on the same data. The band is the threshold; a line is a query type.",
            through(steps, STATES, source.labels, cut) if steps else None,
        ),
        *(_alone(one, source) for one in source.comparisons),
        *(
            details(one, {f"upgrade_{state}_{of}": f"{HEADS[state]}, {title}"
                          for state in UPGRADE_STATES for of, title in (("typical_ms", "typical"), ("cpu_us", "CPU"))},
                    source.query_types)
            for one in source.comparisons
        ),
    )  # fmt: skip


def _table(comparison: Comparison, of: str, title: str, query_types: Sequence[str]) -> str:
    rows = []
    for query_type in (*query_types, *NAMES):
        cells = [comparison.cell_of(f"upgrade_{state}_{of}", query_type) for state in HEADS]
        if any(cell != numbers.MISSING for cell in cells):
            rows.append([NAMES.get(query_type, query_type), *cells])
    return markup.table([f"{comparison.title}, {title}", *HEADS.values()], rows, range(1, len(HEADS) + 1))


def _steps(comparison: Comparison, query_types: Sequence[str]) -> Iterator[Step]:
    for state, head in HEADS.items():
        for query_type, row in comparison.of(f"upgrade_{state}_typical_ms", query_types).items():
            if row["change_pct"] is not None and query_type != ALL:
                name = "" if query_type == GEOMEAN else query_type
                said = f"{name or 'geometric mean'}, {head}: {numbers.changed(row)} % ({numbers.interval(row)})"
                yield Step(comparison.candidate, name, state, row["change_pct"], row["lo_pct"], row["hi_pct"], said)


def _alone(comparison: Comparison, source: Source) -> str:
    """Return the table of what each variant did alone: starting, being fed, lying on the disk."""
    names = [
        m.name for m in source.metrics.values() if m.part == "upgrade" and m.phase != "downgrade" and not m.per_type
    ]
    rows = [row for name in names if (row := comparison.row(name))]
    return markup.folded("Start, migration, load on top, disk", comparison.table(rows) if rows else "")


def _words(comparison: Comparison, source: Source) -> Iterator[str]:
    """Yield in sentences whether it starts, what that takes, and whether there is a way back."""
    found = [block.upgrade for block in source.run.blocks if block.upgrade and block.block in _measured(source)]
    new, old = (markup.text(label) for label in reversed(comparison.labels))
    refused = [u.start[comparison.candidate].refused for u in found if _refused(u, comparison.candidate)]
    if refused:
        yield (
            f"**{new} does not start on the data that {old} has left**, in {len(refused)} of "
            f"{number_of(len(found), 'block')}: {markup.code(refused[0])}"
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
    down = [u.downgrade[comparison.candidate] for u in found if comparison.candidate in u.downgrade]
    if down:
        yield _back(down, old, new)


def _both(row: Row) -> str:
    """Return the candidate's value, and the baseline's in brackets; starts are told apart in steps of 50 ms."""
    baseline, candidate = row["baseline_median"], row["candidate_median"]
    unit, factor = numbers.scaled(row["unit"], max(baseline, candidate))
    return f"{numbers.number(candidate / factor, 2)} {unit} ({numbers.number(baseline / factor, 2)})"


def _back(down: list[Downgrade], old: str, new: str) -> str:
    """Say whether the baseline starts on what the candidate leaves, and whether it answers as before."""
    starts = [one for one in down if one.starts]
    of = f"in {len(starts)} of {number_of(len(down), 'block')}"
    if not starts:
        return f"**No way back**: {old} does not start on what {new} leaves: {markup.code(down[0].said)}"
    parts = []
    for window, title in WINDOWS.items():
        answers = [one for d in starts for one in d.answers if one.window == window]
        asked, same = sum(one.asked for one in answers), sum(one.same for one in answers)
        what = next((one.what for one in answers if one.what), "")
        if asked or what:
            differs = f" (e.g. {markup.code(what)})" if what else ""
            parts.append(f"of queries over {title} {same} of {asked} are answered the same{differs}")
    said = next((one.said for one in starts if one.said), "")
    complaint = f" It says: {markup.code(said)}" if said else ""
    # It may have left before it was asked anything.
    whole = bool(parts) and all(one.same == one.asked and not one.what for d in starts for one in d.answers)
    how = (
        "The way back loses answers"
        if not whole
        else OPEN
        if len(starts) == len(down)
        else "The way back fails at times"
    )
    answered = "; ".join(parts) or "no query was answered"
    return f"**{how}**: {old} starts on what {new} leaves, {of}; {answered}.{complaint}"


def _measured(source: Source) -> set[int]:
    return {block.block for block in source.run.blocks if block.kind != "warmup"}


def _refused(found: Upgrade, candidate: str) -> bool:
    return candidate in found.start and bool(found.start[candidate].refused)
