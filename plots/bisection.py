"""results/bisect/NAME -> report.md, revisions.csv and course.{svg,png}: the first bad revision and how sure it is."""

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
"""The largest chance that is printed: the model is not more exact."""
COLUMNS = ("label", "ref", "change", "low", "high", "blocks", "chance", "run", "note")


def main(environment: Mapping[str, str], results: Path) -> str:
    """Write the report of a bisection, and return it."""
    directory = results / HOME / environment.get("RUN", "")
    bisection = Bisection.load(directory)
    known = steps.read(bisection, results)
    if known is None:
        raise UserError(f"{directory}: its first step has not ended; make bisect RUN={bisection.name} goes on")
    steps.refuse_ends(bisection, known)
    belief = steps.think(bisection, known)
    table = revisions(bisection, known, belief)
    table.to_csv(directory / "revisions.csv", index=False, lineterminator="\n")
    what = bisection.followed
    limit, unit = (known.limit, known.unit) if known.native else (what.threshold_pct, "%")
    figure = history(table, what.name, limit, unit, higher_is_better=what.higher_is_better)
    save(figure, directory / "course.svg")
    text = report(bisection, known, belief, table, results)
    files.write(directory / "report.md", text)
    return f"{text}\nKept in {directory}: report.md, revisions.csv, course.svg, course.png\n"


def revisions(bisection: Bisection, known: Known, belief: Posterior) -> pd.DataFrame:
    """Return a row a revision, GOOD first, with COLUMNS; changes have the metric's sign, in percent or its unit."""
    rows, sign = [], -1 if bisection.followed.higher_is_better else 1
    for at, revision in enumerate(bisection.revisions):
        values = known.seen.get(at, known.again if at == 0 else [])
        shown = [math.nan] * 3
        if values:
            middle, *ends = (sign * value for value in known.interval(values))
            shown = [value if known.native else percent(value) for value in (middle, *sorted(ends))]
        chance = float(belief.chance[at - 1]) if at else math.nan
        note = bisection.skipped.get(revision.ref, "")
        rows.append((revision.label, revision.ref, *shown, len(values), chance, " ".join(known.runs.get(at, [])), note))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def report(bisection: Bisection, known: Known, belief: Posterior, table: pd.DataFrame, results: Path) -> str:
    """Return the report as Markdown."""
    answer, what = posterior.answer(belief.chance, bisection.left_out), bisection.followed
    good, bad, spread = bisection.revisions[0], bisection.revisions[-1], known.spread()[0]
    scatter = f"{spread:.3g} {known.unit}" if known.native else f"{percent(spread):.2g} %"
    return (
        markup.paragraphs(
            f"# Since when? {markup.text(what.name)}, {markup.text(good.label)} to {markup.text(bad.label)}",
            _first_bad(bisection, answer),
            _log_entry(bisection, answer),
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
            + f". A block scatters by {scatter}; intervals are by the spread of all runs. "
            "How sure, and of what: docs/bisect.md.",
        )
        + "\n"
    )


def _first_bad(bisection: Bisection, answer: Answer) -> str:
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


def _log_entry(bisection: Bisection, answer: Answer) -> str:
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
    """Return a warning if measured revisions differ from the good and the bad end: there are several changes."""
    end = known.interval(known.seen[bisection.last])[0]
    unlike = []
    for at, values in sorted(known.seen.items()):
        value, low, high = known.interval(values)
        centre = 0.0 if at < answer.first else end if at >= answer.last else None
        if centre is not None and not low <= centre <= high and abs(value - centre) > known.limit / 2:
            unlike.append(f"{markup.text(bisection.revisions[at].label)} is at {markup.text(known.said(values))}")
    if not unlike:
        return ""
    good, bad = (markup.text(bisection.revisions[at].label) for at in (0, -1))
    return (
        f"More than one change may lie in the range: {', '.join(unlike)} against {good}, and {bad} is at "
        f"{markup.text(known.said(known.seen[bisection.last]))}; above zero is worse. "
        "What is called first bad is where the threshold is passed to stay."
    )


def _builds(bisection: Bisection, known: Known, answer: Answer, results: Path) -> str:
    """Return the paths of both builds of the answer in the cache, and the command that compares them."""
    sides, role, lines = (answer.first - 1, answer.last), bisection.knobs.get("ROLE", ""), []
    for at in sides:
        run, variant = (known.runs.get(at, [""])[0], steps.BAD) if at else (bisection.steps[0].run, "baseline")
        path = results / run / "build" / f"{variant}.json"
        parts = files.read_json(path).get("components", []) if run and path.exists() else []
        mine = [str(part["binary"]) for part in parts if role in {"", part["role"]}]
        built = ", ".join(path for path in mine if Path(path).exists())
        place = markup.code(built) if built else "not in the cache"
        lines.append(f"{markup.text(bisection.revisions[at].label)}: {place}")
    base, candidate = (named(bisection.repo, bisection.revisions[at].ref) for at in sides)
    knobs = {name: value for name, value in bisection.given.items() if name not in {*OWN, "BLOCKS"} and value}
    if IN_TURN in bisection.knobs["SET"] and IN_TURN not in knobs.get("SET", ""):
        knobs["SET"] = f"{knobs.get('SET', '')} {IN_TURN}".strip()
    words = {**knobs, "VERSIONS": f"{base} {candidate}"}  # the steps give both sides the flags of one
    command = shlex.join(["make", bisection.kind, *(f"{name}={value}" for name, value in words.items())])
    return markup.paragraphs(
        "The builds before and after it:",
        markup.items(lines),
        "With all metrics, side by side:",
        markup.block(command, "shell"),
    )
