"""results/bisect/NAME -> report.md, revisions.csv and course.{svg,png}: since when, how sure, and what was measured."""

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from plots import markup
from plots.charts.history import history
from plots.charts.style import save
from tsduel.bisect import posterior, steps
from tsduel.bisect.bisection import HOME, IN_TURN, OWN, Bisection
from tsduel.bisect.posterior import Answer, Posterior
from tsduel.bisect.revisions import named
from tsduel.bisect.steps import Known
from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.wording import number_of
from tsduel.stats.estimate import percent

MOST_SURE = 0.999
"""No chance is given as more: what it rests on is not known so well."""
COLUMNS = ("label", "ref", "change", "low", "high", "blocks", "chance", "run", "note")


def main(environment: Mapping[str, str], results: Path) -> str:
    """Write the report of a bisection, and return it."""
    directory = results / HOME / environment.get("RUN", "")
    bisection = Bisection.load(directory)
    known = steps.read(bisection, results)
    if known is None:
        raise UserError(f"{directory}: its first step has not ended; make bisect RUN={bisection.name} goes on")
    steps.refuse_ends(bisection, known)
    found = steps.think(bisection, known)
    table = revisions(bisection, known, found)
    table.to_csv(directory / "revisions.csv", index=False, lineterminator="\n")
    what = bisection.followed
    direction = "lower" if what.higher_is_better else "higher"
    save(
        history(
            table,
            f"{what.name}: change from {bisection.revisions[0].label} ({direction} is worse)",
            (-1 if what.higher_is_better else 1) * (known.limit if known.native else what.threshold_pct),
            known.unit if known.native else "%",
        ),
        directory / "course.svg",
    )
    text = report(bisection, known, found, table, results)
    files.write(directory / "report.md", text)
    return f"{text}\nKept in {directory}: report.md, revisions.csv, course.svg, course.png\n"


def revisions(bisection: Bisection, known: Known, found: Posterior) -> pd.DataFrame:
    """Return a line a revision, GOOD first: COLUMNS, changes as of the metric itself, in percent or its unit."""
    rows = []
    for at, revision in enumerate(bisection.revisions):
        values = known.seen.get(at, known.again if at == 0 else [])
        shown = [math.nan] * 3
        if values:
            sign = -1 if bisection.followed.higher_is_better else 1
            middle, *ends = (sign * value for value in known.interval(values))
            shown = [middle, *sorted(ends)]
        if values and not known.native:
            shown = [percent(value) for value in shown]
        chance = float(found.chance[at - 1]) if at else math.nan
        note = bisection.skipped.get(revision.ref, "")
        rows.append((revision.label, revision.ref, *shown, len(values), chance, " ".join(known.runs.get(at, [])), note))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def report(bisection: Bisection, known: Known, found: Posterior, table: pd.DataFrame, results: Path) -> str:
    """Return the report as Markdown."""
    answer, what = posterior.answer(found.chance, bisection.left_out), bisection.followed
    good, bad = bisection.revisions[0], bisection.revisions[-1]
    return (
        markup.paragraphs(
            f"# Since when? {markup.text(what.name)}, {markup.text(good.label)} to {markup.text(bad.label)}",
            _said(bisection, answer),
            _entry(bisection, answer),
            "![change over revisions](course.png)",
            markup.table(
                ["Revision", "", "Change", "95 % interval", "Blocks", "First bad", ""],
                [_row(bisection, known, row) for row in table.to_dict("records")],
                [2, 3, 4, 5],
            ),
            course(bisection, known, answer),
            _builds(bisection, known, answer, results),
            f"{number_of(len(bisection.steps), 'run')} against {markup.text(good.label)}, each with its report: "
            + ", ".join(markup.code(step.run) for step in bisection.steps)
            + f". A block scatters by {_amount(known, known.spread()[0])}; intervals are by the spread of all runs. "
            "How sure, and of what: docs/bisect.md.",
        )
        + "\n"
    )


def _amount(known: Known, value: float) -> str:
    return f"{value:.3g} {known.unit}" if known.native else f"{percent(value):.2g} %"


def _said(bisection: Bisection, answer: Answer) -> str:
    last, chance = bisection.revisions[answer.last], f"{100 * min(answer.chance, MOST_SURE):.3g} %"
    sure = "" if answer.chance >= posterior.SURE else " That is not sure: what would help is a quieter machine."
    if answer.first == answer.last:
        before = bisection.revisions[answer.last - 1].label
        named = f"{markup.code(last.label)} {markup.text(last.subject)}".strip()
        return f"**First bad: {named}**, with {chance}; {markup.text(before)} is the last good one then.{sure}"
    names = ", ".join(markup.code(r.label) for r in bisection.revisions[answer.first : answer.last + 1])
    return (
        f"**First bad: one of {names}**, with {chance}: those before the last of them have no figure, see below.{sure}"
    )


def _entry(bisection: Bisection, answer: Answer) -> str:
    line, revision = bisection.line(), bisection.revisions[answer.last]
    text = line.log(revision) or "no log entry: the module's changelog does not name this version"
    return markup.paragraphs(
        markup.block(text), markup.text(line.inside(revision, bisection.revisions[answer.last - 1]))
    )


def _row(bisection: Bisection, known: Known, row: dict[Any, Any]) -> list[str]:
    subject = next(r.subject for r in bisection.revisions if r.ref == row["ref"])
    unit = known.unit if known.native else "%"
    change = f"{row['change']:+.3g} {unit}" if row["blocks"] else ""
    interval = f"{row['low']:+.2f} to {row['high']:+.2f}" if row["blocks"] else ""
    percents = f"{100 * min(row['chance'], MOST_SURE):.1f}"
    chance = "good" if math.isnan(row["chance"]) else f"{'0' if percents == '0.0' else percents} %"
    return [row["label"], subject, change, interval, str(row["blocks"] or ""), chance, row["note"]]


def course(bisection: Bisection, known: Known, answer: Answer) -> str:
    """Say which measured revisions are neither as the good one nor as the bad one: there is more than one change."""
    end = known.interval(known.seen[bisection.last])[0]
    odd = []
    for at, values in sorted(known.seen.items()):
        value, low, high = known.interval(values)
        centre = 0.0 if at < answer.first else end if at >= answer.last else None
        if centre is not None and not low <= centre <= high and abs(value - centre) > known.limit / 2:
            odd.append(f"{markup.text(bisection.revisions[at].label)} is at {markup.text(known.said(values))}")
    if not odd:
        return ""
    good, bad = (markup.text(bisection.revisions[at].label) for at in (0, -1))
    return (
        f"More than one change may lie in the range: {', '.join(odd)} against {good}, and {bad} is at "
        f"{markup.text(known.said(known.seen[bisection.last]))}; above zero is worse. "
        "What is called first bad is where the threshold is passed to stay."
    )


def _builds(bisection: Bisection, known: Known, answer: Answer, results: Path) -> str:
    """Name both builds of the answer in the cache, and the command that compares them."""
    sides, role = (answer.first - 1, answer.last), bisection.knobs.get("ROLE", "")
    lines = []
    for at in sides:
        run, variant = (known.runs.get(at, [""])[0], steps.BAD) if at else (bisection.steps[0].run, "baseline")
        path = results / run / "build" / f"{variant}.json"
        parts = files.read_json(path).get("components", []) if run and path.exists() else []
        mine = [str(part["binary"]) for part in parts if role in {"", part["role"]}]
        built = ", ".join(path for path in mine if Path(path).exists())
        lines.append(
            f"{markup.text(bisection.revisions[at].label)}: {markup.code(built) if built else 'not in the cache'}"
        )
    base, candidate = (named(bisection.repo, bisection.revisions[at].ref) for at in sides)
    asked = {name: value for name, value in bisection.given.items() if name not in {*OWN, "BLOCKS"} and value}
    if IN_TURN in bisection.knobs["SET"] and IN_TURN not in asked.get("SET", ""):
        asked["SET"] = f"{asked.get('SET', '')} {IN_TURN}".strip()
    words = {**asked, "VERSIONS": f"{base} {candidate}"}  # as in the steps, both sides with the flags of one
    command = shlex.join(["make", bisection.kind, *(f"{name}={value}" for name, value in words.items())])
    return markup.paragraphs(
        "The builds before and after it:",
        markup.items(lines),
        "With all metrics, side by side:",
        markup.block(command, "shell"),
    )
