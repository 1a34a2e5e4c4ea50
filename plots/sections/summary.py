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

MOST_REASONS = 5
# People ask about these first.
_RESOURCES = ("load_rate", "load_cpu_seconds", "rss_peak_bytes", "disk_bytes")


def section(source: Source, pictures: Pictures) -> str:
    """Return the first screen without the title."""
    return markup.paragraphs(
        *question(source),
        *(
            f"**Answer.** {comparison.title}, over {number_of(len(comparison.valid), 'valid block')} of "
            f"{source.plan.design.blocks}: {sentences.headline(comparison)}."
            for comparison in source.comparisons
        ),
        _picture(source, pictures),
        *(
            text for comparison in source.comparisons for text in (
                f"{comparison.title}:" if source.several else "", markup.items(sentences.answer(comparison)),
            )
        ),
        worth(source),
    )  # fmt: skip


def question(source: Source) -> tuple[str, str]:
    """Return the question, and the warnings about the whole run."""
    text = f"**Question.** {markup.text(source.plan.question)}" if source.plan.question else ""
    return text, markup.quoted(standing(source))


def worth(source: Source) -> str:
    """Return how many answers were compared, the sentence on checks, and the calibration."""
    return " ".join(filter(None, [compared_answers(source), f"{checks.sentence(source)}.", calibration(source)]))


def standing(source: Source) -> list[str]:
    """Return warnings about the whole run as lines of Markdown: a smoke run, a screen, A/A."""
    lines = []
    blocks = min(len(comparison.valid) for comparison in source.comparisons)
    if source.plan.smoke:
        lines.append("**This is not a result.** A smoke run shows that the machinery works; its figures mean nothing.")
    if blocks < FEWEST_BLOCKS:
        few = number_of(blocks, "valid block")
        lines.append(f"**This is a screen, not a result:** {few}, and {FEWEST_BLOCKS} is the fewest for one.")
    if source.plan.aa:
        lines.append("Both sides are **the same binary** (A/A): every difference below is noise of this machine.")
        verdict = source.document["aa"]
        reasons = "; ".join(markup.most([markup.text(reason) for reason in verdict["reasons"]], MOST_REASONS))
        lines.append("**A/A: passed.**" if verdict["passed"] else f"**A/A: failed.** {reasons}.")
    return lines + hosts.standing(source) + upgrade.standing(source)


def compared_answers(source: Source) -> str:
    """Return a sentence: how many answers of the measured blocks were compared, and whether they were the same."""
    table = source.table("checks")
    measured = table[~table["block"].isin(source.run.warmups)]
    answered = measured[measured["check"] == "exchanges_answered"]
    if answered.empty:
        return ""
    sums = [pd.to_numeric(answered[name], errors="coerce").sum() for name in ("actual", "expected")]
    unlike = pd.to_numeric(measured["actual"][measured["check"] == "exchanges_same"], errors="coerce").sum()
    levels = dict.fromkeys(level for _, _, level, _ in checks.levels(source))
    # Where only series are compared, values may differ.
    alike = "all the same" if set(levels) <= {"values"} else "all agree as far as that goes"
    same = f"**{numbers.count(unlike)} of them {'differs' if unlike == 1 else 'differ'}**" if unlike else alike
    shown = same if sums[0] else "**which shows nothing**"
    how = f" ({' | '.join(levels)})" if levels else ""
    return f"Compared {numbers.count(sums[0])} of {numbers.count(sums[1])} answers{how}, {shown}."


def calibration(source: Source) -> str:
    """Return a sentence on the A/A run of this kind of machine; empty of A/A runs and different databases."""
    if source.plan.aa or source.plan.crosses:
        return ""
    kept = _last_aa(source)
    if kept is None:
        return f"Uncalibrated: no A/A run on this kind of machine is known here (`make {source.plan.kind} AA=1`)."
    verdict = "passed" if kept["passed"] else f"FAILED ({number_of(len(kept['reasons']), 'reason')})"
    other = "" if kept["same_workload"] else ", of another experiment"
    return f"Calibrated by the A/A run {kept['run']}{other}, which {verdict}."


def _last_aa(source: Source) -> dict[str, Any] | None:
    machine = calibration_of.machine_kind(source.run)
    return calibration_of.look(source.run.path.resolve().parent, source.plan, machine)


def _picture(source: Source, pictures: Pictures) -> str:
    """Draw the primary rows, every query type, load, CPU, memory and disk."""
    kept = None if source.plan.aa or source.plan.crosses else _last_aa(source)
    what = "Ratio" if all(comparison.apart for comparison in source.comparisons) else "Change, %"
    changes = [row for comparison in source.comparisons for row in _changes(comparison, source.query_types, kept)]
    wide, narrow = (
        forest_of(changes, source.labels, f"{what} (left is better)", narrow=narrow) for narrow in (False, True)
    )
    figures = f"the figures have the metric's own sign. {READ}"
    if what == "Ratio":
        figures = "every doubling is as wide, and the figures are the candidate's over the baseline's."
    return pictures.show(
        "change", "change", f"What the answer stands on, each change with its 95 % interval: {source.names}",
        f"Worse is always to the right; {figures}", wide, narrow=narrow,
    )  # fmt: skip


def _changes(comparison: Comparison, query_types: Sequence[str], kept: dict[str, Any] | None) -> list[Change]:
    def change(row: Row, group: str, name: str) -> Change:
        floor = calibration_of.floor_pct(kept, row["metric"], row["query_type"], row["blocks"]) if kept else None
        return Change.of(row, group, name, floor)

    rows = [row for row in comparison.primary if row["change_pct"] is not None]
    changes = [change(row, "primary", comparison.named(row, brief=True)) for row in rows]
    # The query types of the first mean, without the common beginning of their names.
    mean, shared = next((row["metric"] for row in rows if row["query_type"] == GEOMEAN), ""), shared_path(query_types)
    types = {name: row for name, row in comparison.by_type(mean, query_types).items() if name in query_types}
    # An upgrade has a mean for each state: add the state to the names.
    states = [f", {short}" for state, (_, short, _) in UPGRADE_STATES.items() if mean.startswith(f"upgrade_{state}_")]
    by_type = [("".join([name[shared:], *states]), row) for name, row in types.items()]
    less = {row["metric"] for row in rows} | comparison.answered_better
    single = comparison.rows_of(name for name in _RESOURCES if name not in less)
    resources = [(comparison.named(row, brief=True), row) for row in single]
    for group, named in (("types", by_type), ("resources", resources)):
        changes += [change(row, group, name) for name, row in named if row["change_pct"] is not None]
    return changes
