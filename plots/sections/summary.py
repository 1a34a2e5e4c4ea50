"""The first screen: the answer in a sentence, what it stands on, one picture, its table, the checks."""

from typing import Any

import pandas as pd

from plots import markup, numbers, sentences
from plots.charts.forest import Change, caption, forest_of, shared_path
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.sections import checks, hosts, sides, soak, tables, upgrade
from plots.source import Source
from tsduel.core.metrics import GEOMEAN, UPGRADE_STATES
from tsduel.core.wording import number_of
from tsduel.stats import calibration as calibration_of
from tsduel.stats.power import FEWEST_BLOCKS

MOST_REASONS = 5
APART = (
    "\\* The two values are estimated each for its side, and their quotient is another one. The change is computed "
    "block by block: it is the result."
)
_GROUPS = (
    ({"failed"}, "✗ a check failed"),
    ({"regression", "worse"}, "**✗ worse** in something"),
    ({"improvement", "better"}, "**✓ better** in something, shown to be worse in nothing"),
)
_SHOWN_NOTHING = "neither better nor worse by more than chance and the threshold"


def section(source: Source, pictures: Pictures) -> str:
    """Return the first screen without the title: of many variants a matrix, and the answer of each folded."""
    picture, in_words = _picture(source, pictures), tables.each(source, lambda s: markup.items(sentences.answer(s)))
    if source.many:
        own, fold = (
            markup.table(*matrix(source)),
            markup.folded("Picture, and each in words", question(source), picture, *in_words),
        )
        first = (sides_of_all(source), stands(source))
        return markup.paragraphs(warned(source), *first, own, tables.MARKS, worth(source), fold)
    two = len(source.comparisons) > 1
    answers = (
        f"**Answer.** {f'{comparison.title}: ' if two else ''}{sentences.headline(comparison)}."
        for comparison in source.comparisons
    )
    rows = tables.each(source, table)
    fold = markup.folded("In words", question(source), *in_words)
    return markup.paragraphs(warned(source), *answers, stands(source), picture, *rows, fold, worth(source))


def table(comparison: Comparison) -> str:
    """Return a row for each subject: both values, the change with its interval, the verdict."""
    rows, apart = [], False
    for row in sentences.subjects(comparison):
        unit, values = numbers.sides(row)
        interval = numbers.interval(row)
        reach = f" ({interval})" if interval != numbers.MISSING else ""
        both, star = f"{' → '.join(values)} {unit}", "*" * numbers.apart(row)
        matters = numbers.MISSING if numbers.by_ratio(row) or row.get("native") else f"{row['threshold_pct']:g} %"
        apart = apart or bool(star)
        rows.append(
            [comparison.named(row), both, f"{numbers.changed(row)}{star}{reach}", matters, comparison.mark(row)]
        )
    kind = "ratio" if comparison.crosses else "change, %"
    heads = ["", " → ".join(map(markup.text, comparison.labels)), f"{kind} (95 % CI)", "matters from", "verdict"]
    return markup.paragraphs(markup.table(heads, rows, range(1, 4)), APART if apart else "") if rows else ""


def stands(source: Source) -> str:
    """Return what the answer stands on: blocks, the day, the CPUs, the data, the answers that were compared."""
    machine = dict(sides.machine(source))
    planned, few = source.plan.design.blocks, min(len(side.valid) for side in source.comparisons)
    of = f" of {planned}" if few < planned else ""
    made = {f"{number_of(len(side.valid), 'block')}{of}{side.on_hosts}" for side in source.comparisons}
    blocks = " and ".join(sorted(made))
    limits = source.plan.limits.words if source.plan.limits else ""
    held = f"each server held to {limits}" if limits else ""
    cpu = markup.text(machine.get("CPU", ""))
    pins, same = sides.cpus_of_servers(source), sides.in_common(source)
    pinned = f"each server on {number_of(pins, 'CPU')}" if pins else ""
    database, go = (markup.text(same.get(name, "")) for name in ("database", "Go"))
    facts = [database, blocks, source.plan.created[:10], cpu, pinned, held, go]
    measured = f"{', '.join(filter(None, facts))}."
    return " ".join(filter(None, [measured, sides.asked(source), compared_answers(source)]))


def matrix(source: Source) -> tuple[list[str], list[list[str]], range]:
    """Return the matrix of many variants: the baseline's values, then the changes of each candidate."""
    baseline = source.labels[source.baseline]
    sides = [(side.labels[1], side) for side in source.comparisons]
    head = source.changes if len({side.crosses for _, side in sides}) == 1 else "Change, % or ratio,"
    return tables.matrix(sides, f"{head} against {baseline}", baseline)


def sides_of_all(source: Source) -> str:
    """Return the answer of many variants in a sentence: which of them are worse or better in something."""
    order = [*(words for _, words in _GROUPS), _SHOWN_NOTHING, "? nothing was measured"]
    groups: dict[str, list[str]] = {}
    for side in source.comparisons:
        verdicts = {row["verdict"] for row in sentences.subjects(side)}
        none = _SHOWN_NOTHING if verdicts else order[-1]
        verdicts |= {row["verdict"] for row in side.rows} & {"regression", "worse"}
        words = next((words for of, words in _GROUPS if verdicts & of), none)
        groups.setdefault(words, []).append(markup.text(side.labels[1]))
    each = "; ".join(f"{words}: {', '.join(groups[words])}" for words in order if words in groups)
    first = "".join(f"{said}. " for side in source.comparisons if (said := sentences.before(side)))
    return f"**Answer.** {source.names} over {source.plan.design.blocks} planned blocks. {first}{each}."


def question(source: Source) -> str:
    """Return the question; empty without one."""
    return f"**Question.** {markup.text(source.plan.question)}" if source.plan.question else ""


def warned(source: Source) -> str:
    """Return the warnings about the whole run, quoted."""
    return markup.quoted(standing(source))


def worth(source: Source) -> str:
    """Return the sentences on checks that failed or were not made, on warnings, and on the calibration."""
    checked = checks.sentence(source)
    failed = "" if checked.endswith("none failed") else f"{checked}."
    return " ".join(filter(None, [failed, checks.counted(source), calibration(source)]))


def standing(source: Source) -> list[str]:
    """Return what holds of the whole run as lines of Markdown: a smoke run, what grows in a soak, a screen, A/A."""
    lines, blocks = list[str](), min(len(comparison.valid) for comparison in source.comparisons)
    if source.plan.smoke:
        lines.append("**This is not a result.** A smoke run shows that the machinery works; its figures mean nothing.")
    lines += (grown := soak.sentences(source))
    if blocks < FEWEST_BLOCKS:
        few = number_of(blocks, "valid block")
        what = "Block against block it is a first look" if grown else "This is a first look, not a result"
        lines.append(f"**{what}:** {few}; a result needs at least {FEWEST_BLOCKS}.")
    lines += deployments(source)
    if source.plan.design.judged == "work":
        lines.append(
            "**Judged by counted work alone**: time and CPU are shown. It does not see locks, caches of the CPU, false "
            "sharing, scheduling or sleep."
        )
    if source.plan.aa:
        same = "deployment" if source.plan.deployed else "binary"
        lines.append(f"Both sides are **the same {same}** (A/A): every difference below is noise of this machine.")
        verdict = source.document["aa"]
        lines.append(f"**A/A: {'passed' if verdict['passed'] else 'failed'}.** {_aa_means(verdict)}")
    return lines + hosts.standing(source) + upgrade.standing(source)


def _aa_means(verdict: dict[str, Any]) -> str:
    """Say what an A/A run has found, what it means for runs on this kind of machine, and what to do."""

    def told(found: list[str]) -> str:
        return "; ".join(markup.most([markup.text(each) for each in found], MOST_REASONS))

    also = f" Also seen, and in no estimate since the order is balanced: {told(verdict['notes'])}."
    also = also if verdict.get("notes") else ""
    if verdict["passed"]:
        return (
            "Nothing was called different, and no primary estimate is beyond half of its threshold: this run gives no "
            f"reason to doubt verdicts of runs like it on this kind of machine.{also}"
        )
    return (
        f"{told(verdict['reasons'])}. Until one passes, a difference of that size may be noise in a run like this one "
        f'here: take more blocks (`BLOCKS=`), longer phases (`SET="duel.seconds=4"`), or another machine.{also}'
    )


def deployments(source: Source) -> list[str]:
    """Return what a comparison of servers that ran already says, and what of them is not known; nothing of others."""
    if not source.plan.deployed:
        return []
    measured = set(source.table("measurements")["metric"])
    words = {"duel_cpu_us": "CPU", "duel_rss_bytes": "memory"}
    said = " and ".join(name for metric, name in words.items() if metric in measured)
    unknown = [name for metric, name in words.items() if metric not in measured]
    unknown += ["peak memory", "bytes on disk and written", "instructions", "how they start and stop"]
    theirs = f"Their {said} are what their own /metrics say. " if said else ""
    text = (
        "**These are deployments that ran already** (a `url:` each), and the verdict is about them, not about the code "
        "of two versions: versions, flags, data, caches, machines and other users of either may differ. tsduel has "
        f"started, stopped and wiped nothing. {theirs}Not known of them: {', '.join(unknown)}; nor what else their "
        "machines did."
    )
    return [text]


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
    ours = measured["variant"].isin([side.candidate for side in source.comparisons])
    allowed = measured[ours & (measured["check"] == "exchanges_empty") & (measured["ok"] == "true")]
    if empty := pd.to_numeric(allowed["actual"], errors="coerce").sum():
        shown += f"; {numbers.count(empty)} of them without data, as they may be"
    how = f" ({' | '.join(levels)})" if levels else ""
    return f"Compared {numbers.count(sums[0])} of {numbers.count(sums[1])} answers{how}, {shown}."


def calibration(source: Source) -> str:
    """Return a sentence on the A/A run of this kind of machine; empty of A/A runs and different databases."""
    if source.plan.aa or source.plan.crosses:
        return ""
    kept = _last_aa(source)
    if kept is None:
        return f"Uncalibrated: no A/A run on such a machine is known here (`make {source.plan.kind} AA=1`)."
    other = "" if kept["same_workload"] else ", of another experiment"
    by = f"Calibrated by the A/A run {kept['run']}{other}, which"
    if kept["passed"]:
        return f"{by} passed."
    more = len(kept["reasons"]) - 1
    others = f" (and {number_of(more, 'other reason')})" if more else ""
    return f"{by} **failed**: {markup.text(kept['reasons'][0])}{others}. A difference of that size may be noise here."


def _last_aa(source: Source) -> dict[str, Any] | None:
    machine = calibration_of.machine_kind(source.run)
    return calibration_of.find(source.run.path.resolve().parent, source.plan, machine)


def _picture(source: Source, pictures: Pictures) -> str:
    kept = None if source.plan.aa or source.plan.crosses else _last_aa(source)
    changes = [row for comparison in source.comparisons for row in _changes(comparison, source, kept)]
    wide, narrow = (forest_of(changes, source.labels, source.changes, narrow=narrow) for narrow in (False, True))
    alt = f"What the answer stands on, each change with its interval: {source.names}"
    without = [side.named(row) for side in source.comparisons for row in sentences.subjects(side) if row.get("native")]
    return pictures.show("change", "change", alt, caption(changes, without), wide, narrow=narrow)


def _changes(comparison: Comparison, source: Source, kept: dict[str, Any] | None) -> list[Change]:
    def change(row: Row, group: str, name: str) -> Change:
        floor = calibration_of.floor_pct(kept, row["metric"], row["query_type"], row["blocks"]) if kept else None
        # On an axis of ratios all are ratios.
        return Change.of(row | {"threshold_pct": 0.0} if source.plan.crosses else row, group, name, floor)

    subjects, types = sentences.subjects(comparison), source.query_types
    rows = [("subjects", comparison.named(row, brief=True), row) for row in subjects]
    mean = next((row["metric"] for row in subjects if row["query_type"] == GEOMEAN), "")
    if not source.many:
        # The query types of the first mean, without the common beginning of their names.
        by_type, shared = comparison.by_type(mean, types), shared_path(types)
        # An upgrade has a mean for each state: add the state to the names.
        state = [f", {short}" for at, (_, short, _) in UPGRADE_STATES.items() if mean.startswith(f"upgrade_{at}_")]
        rows += [("types", "".join([name[shared:], *state]), row) for name, row in by_type.items() if name in types]
    return [change(row, group, name) for group, name, row in rows if row["change_pct"] is not None]
