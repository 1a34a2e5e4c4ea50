"""The first screen: the question, the answer in a sentence, its lines with native values, one picture, the checks."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from plots import markup, numbers, sentences
from plots.charts.forest import READ, Change, forest_of, shared_path
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.sections import checks, hosts, upgrade
from plots.source import Source
from tsduel.core.metrics import GEOMEAN, UPGRADE_STATES
from tsduel.core.wording import number_of
from tsduel.stats import calibration as calibration_of
from tsduel.stats.power import FEWEST_BLOCKS

IMPORTED = (
    "**One run each: no verdict.** These are two logs of one run each, imported and not measured here; how much a "
    "difference is worth is not known. `make tsbs` repeats and interleaves, and gives an answer."
)
MOST_REASONS = 5
# What of a process is drawn beside the queries: what people ask about first.
_RESOURCES = ("load_rate", "load_cpu_seconds", "rss_peak_bytes", "disk_bytes")


def section(source: Source, pictures: Pictures) -> str:
    """Return all of it, without the title."""
    question = f"**Question.** {markup.text(source.plan.question)}" if source.plan.question else ""
    return markup.paragraphs(
        question,
        markup.quoted(standing(source)),
        *(
            f"**Answer.** {one.title}, over {number_of(len(one.valid), 'valid block')} of "
            f"{source.plan.design.blocks}: {sentences.headline(one)}."
            for one in source.comparisons
        ),
        _picture(source, pictures),
        *(
            markup.paragraphs(
                one.title + ":" if len(source.comparisons) > 1 else "", markup.items(sentences.answer(one))
            )
            for one in source.comparisons
        ),
        " ".join(filter(None, [compared_answers(source), f"{checks.sentence(source)}.", calibration(source)])),
    )


def standing(source: Source) -> list[str]:
    """Say what the whole is worth, before any figure; Markdown."""
    said = [IMPORTED] if source.plan.imported else []
    blocks = min(len(one.valid) for one in source.comparisons)
    if source.plan.smoke:
        said.append("**This is not a result.** A smoke run shows that the machinery works; its figures mean nothing.")
    if blocks < FEWEST_BLOCKS and not source.plan.imported:
        few = number_of(blocks, "valid block")
        said.append(f"**This is a screen, not a result:** {few}, and {FEWEST_BLOCKS} is the fewest for one.")
    if source.plan.aa:
        said.append("Both sides are **the same binary** (A/A): every difference below is noise of this machine.")
        found = source.document["aa"]
        reasons = [markup.text(reason) for reason in found["reasons"]]
        more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
        said.append(
            "**A/A: passed.**" if found["passed"] else f"**A/A: failed.** {'; '.join(reasons[:MOST_REASONS])}{more}."
        )
    return said + hosts.standing(source) + upgrade.standing(source)


def compared_answers(source: Source) -> str:
    """Say how many answers of the measured blocks were compared, and whether they were the same."""
    table = source.table("checks")
    measured = table[~table["block"].isin(source.run.warmups)]
    answered = measured[measured["check"] == "exchanges_answered"]
    if answered.empty:
        return ""
    sums = [pd.to_numeric(answered[name], errors="coerce").sum() for name in ("actual", "expected")]
    unlike = pd.to_numeric(measured["actual"][measured["check"] == "exchanges_same"], errors="coerce").sum()
    levels = dict.fromkeys(level for _, _, level, _ in checks.levels(source))
    # Whose series are compared may have other values.
    alike = "all the same" if set(levels) <= {"values"} else "all agree as far as that goes"
    same = f"**{numbers.count(unlike)} of them {'differs' if unlike == 1 else 'differ'}**" if unlike else alike
    shown = same if sums[0] else "**which shows nothing**"
    how = f" ({' | '.join(levels)})" if levels else ""
    return f"Compared {numbers.count(sums[0])} of {numbers.count(sums[1])} answers{how}, {shown}."


def calibration(source: Source) -> str:
    """Say whether a comparison of a binary with itself has shown what this kind of machine can tell apart."""
    if source.plan.aa or source.plan.imported or source.plan.crosses:
        return ""
    kept = _kept(source)
    if kept is None:
        return f"Uncalibrated: no A/A run on this kind of machine is known here (`make {source.plan.kind} AA=1`)."
    verdict = "passed" if kept["passed"] else f"FAILED ({number_of(len(kept['reasons']), 'reason')})"
    other = "" if kept["same_workload"] else ", of another experiment"
    return f"Calibrated by the A/A run {kept['run']}{other}, which {verdict}."


def _kept(source: Source) -> dict[str, Any] | None:
    machine = calibration_of.machine_kind(source.run)
    return calibration_of.look(source.run.path.resolve().parent, source.plan, machine)


def _picture(source: Source, pictures: Pictures) -> str:
    """Draw what the answer stands on: the primary rows, every query type, load, CPU, memory and disk."""
    bare = source.plan.aa or source.plan.imported or source.plan.crosses
    kept = None if bare else _kept(source)
    what = "Ratio" if all(comparison.apart for comparison in source.comparisons) else "Change, %"
    changes = [one for comparison in source.comparisons for one in _changes(comparison, source.query_types, kept)]
    wide, narrow = (
        forest_of(changes, source.labels, f"{what} (left is better)", narrow=narrow) for narrow in (False, True)
    )
    names = markup.text(" and ".join(source.labels.values()))
    figures = f"the figures have the metric's own sign. {READ}"
    if what == "Ratio":
        figures = "every doubling is as wide, and the figures are the candidate's over the baseline's."
    return pictures.show(
        "change", "change", f"What the answer stands on, each change with its 95 % interval: {names}",
        f"Worse is always to the right; {figures}", wide, narrow=narrow,
    )  # fmt: skip


def _changes(comparison: Comparison, query_types: Sequence[str], kept: dict[str, Any] | None) -> list[Change]:
    def change(row: Row, group: str, name: str) -> Change:
        floor = calibration_of.floor_pct(kept, row["metric"], row["query_type"], row["blocks"]) if kept else None
        return Change.of(row, group, name, floor)

    rows = [row for row in comparison.rows if row["family"] == "primary" and row["change_pct"] is not None]
    found = [change(row, "primary", comparison.named(row, brief=True)) for row in rows]
    # The query types behind the first mean over them, without what all of their names begin with.
    mean, shared = next((row["metric"] for row in rows if row["query_type"] == GEOMEAN), ""), shared_path(query_types)
    behind = {of: row for of, row in comparison.of(mean, query_types).items() if of in query_types}
    # An upgrade has several means: of which one these are has to stand beside them.
    states = [f", {short}" for state, (_, short, _) in UPGRADE_STATES.items() if mean.startswith(f"upgrade_{state}_")]
    of_type = [("".join([query_type[shared:], *states]), row) for query_type, row in behind.items()]
    less = {row["metric"] for row in rows} | comparison.answered_better
    single = [comparison.row(name) for name in _RESOURCES if name not in less]
    resources = [(comparison.named(row, brief=True), row) for row in single if row]
    for group, named in (("types", of_type), ("resources", resources)):
        found += [change(row, group, name) for name, row in named if row["change_pct"] is not None]
    return found
