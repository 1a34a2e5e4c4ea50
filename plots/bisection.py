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
from tsduel.bisect.steps import Measured
from tsduel.core import files, tables
from tsduel.core.errors import UserError
from tsduel.core.wording import number_of
from tsduel.stats.estimate import percent

MOST_SURE = 0.999
"""The largest chance that is printed: the model is not more exact."""
MOST_OTHERS = 0.05
"""From this chance on another step is told."""
COLUMNS = ("label", "ref", "change", "low", "high", "blocks", "chance", "run", "note")


def main(environment: Mapping[str, str], results: Path) -> str:
    """Write the report of a bisection, and return it."""
    directory = results / HOME / environment.get("RUN", "")
    bisection = Bisection.load(directory)
    measured = steps.read(bisection, results)
    if measured is None:
        raise UserError(f"{directory}: its first step has not ended; make bisect RUN={bisection.name} goes on")
    steps.refuse_ends(bisection, measured)
    belief = steps.think(bisection, measured)
    table = revisions(bisection, measured, belief)
    files.write(directory / "revisions.csv", tables.csv_of(table))
    what = bisection.followed
    limit, unit = (measured.limit, measured.unit) if measured.native else (what.threshold_pct, "%")
    # The line of the threshold is on the side where BAD is.
    figure = history(
        table, what.name, limit, unit, higher_is_better=what.higher_is_better, searched_better=measured.better
    )
    save(figure, directory / "course.svg")
    text = report(bisection, measured, belief, table, results)
    files.write(directory / "report.md", text)
    return f"{text}\nKept in {directory}: report.md, revisions.csv, course.svg, course.png\n"


def revisions(bisection: Bisection, measured: Measured, belief: Posterior) -> pd.DataFrame:
    """Return a row a revision, GOOD first, with COLUMNS; changes have the metric's sign, in percent or its unit."""
    rows = []
    for at, revision in enumerate(bisection.revisions):
        values = measured.seen.get(at, [])
        shown = measured.shown(values) if values else [math.nan] * 3
        chance = float(belief.chance[at - 1]) if at else math.nan
        note = bisection.skipped.get(revision.ref, "")
        rows.append(
            (revision.label, revision.ref, *shown, len(values), chance, " ".join(measured.runs.get(at, [])), note)
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def report(bisection: Bisection, measured: Measured, belief: Posterior, table: pd.DataFrame, results: Path) -> str:
    """Return the report as Markdown."""
    answer, what = posterior.answer(belief, bisection.left_out), bisection.followed
    good, bad, spread = bisection.revisions[0], bisection.revisions[-1], measured.spread()[0]
    step = f"First {measured.side}" if len(answer.steps) == 1 else "A step"
    heads = ["Revision", "", "Change", "95 % interval", "Blocks", step, ""]
    scatter = f"{spread:.3g} {measured.unit}" if measured.native else f"{percent(spread):.2g} %"
    return (
        markup.paragraphs(
            f"# Since when? {markup.text(what.name)}, {markup.text(good.label)} to {markup.text(bad.label)}",
            found(bisection, measured, answer, belief),
            *(_log_entry(bisection, last) for _, last in answer.steps),
            "![change over revisions](course.png)",
            markup.table(heads, [_row(bisection, measured, row) for row in table.to_dict("records")], [2, 3, 4, 5]),
            *(_builds(bisection, measured, step, results) for step in answer.steps),
            f"{number_of(len(bisection.steps), 'run')} against {markup.text(good.label)}, each with its report: "
            + ", ".join(markup.code(step.run) for step in bisection.steps)
            + f". A block scatters by {scatter}; intervals are by the spread of all runs. "
            "How sure, and of what: docs/bisect.md.",
        )
        + "\n"
    )


def found(bisection: Bisection, measured: Measured, answer: Answer, belief: Posterior) -> str:
    """Return the answer: the first bad or better revision, or the steps if there are several, and how sure it is."""
    chance = f"{100 * min(answer.chance, MOST_SURE):.3g} %"
    sure = "" if answer.chance >= posterior.SURE else " That is not sure: what would help is a quieter machine."
    several = 1 - sum(own for case, (own, _) in belief.cases.items() if len(case) == 1)
    if len(answer.steps) > 1:
        steps = ", and another step at ".join(
            f"{_named(bisection, step)} ({_level(measured, before)} → {_level(measured, after)})"
            for step, before, after in zip(answer.steps, answer.levels, answer.levels[1:], strict=False)
        )
        return f"**{len(answer.steps)} steps: {steps}**, with {chance} together; {bisection.followed.direction}.{sure}"
    first, last = answer.steps[0]
    text = f"**First {measured.side}: {_named(bisection, (first, last))}**, with {chance}"
    if first == last:
        before = markup.text(bisection.revisions[last - 1].label)
        text += f"; {before} is the last {'one before it' if measured.better else 'good one'} then"
    else:
        text += ": those before the last of them have no figure, see below"
    more = f" With {100 * several:.2g} % there is another step in the range." if several > MOST_OTHERS else ""
    return f"{text}.{sure}{more}"


def _named(bisection: Bisection, step: tuple[int, int]) -> str:
    first, last = step
    if first == last:
        revision = bisection.revisions[last]
        return f"{markup.code(revision.label)} {markup.text(revision.subject)}".strip()
    return f"one of {', '.join(markup.code(r.label) for r in bisection.revisions[first : last + 1])}"


def _level(measured: Measured, level: float) -> str:
    value = measured.sign * level
    return f"{value:+.3g} {measured.unit}" if measured.native else f"{percent(value):+.1f} %"


def _log_entry(bisection: Bisection, last: int) -> str:
    line, revision = bisection.line(), bisection.revisions[last]
    text = line.log(revision) or "no log entry: the module's changelog does not name this version"
    return markup.paragraphs(markup.block(text), markup.text(line.inside(revision, bisection.revisions[last - 1])))


def _row(bisection: Bisection, measured: Measured, row: dict[Any, Any]) -> list[str]:
    subject = next(r.subject for r in bisection.revisions if r.ref == row["ref"])
    unit = measured.unit if measured.native else "%"
    change = f"{row['change']:+.3g} {unit}" if row["blocks"] else ""
    interval = f"{row['low']:+.2f} to {row['high']:+.2f}" if row["blocks"] else ""
    percents = f"{100 * min(row['chance'], MOST_SURE):.1f}"
    chance = "good" if math.isnan(row["chance"]) else f"{'0' if percents == '0.0' else percents} %"
    return [row["label"], subject, change, interval, str(row["blocks"] or ""), chance, row["note"]]


def _builds(bisection: Bisection, measured: Measured, step: tuple[int, int], results: Path) -> str:
    sides, role, lines = (step[0] - 1, step[1]), bisection.knobs.get("ROLE", ""), []
    for at in sides:
        run, variant = (measured.runs.get(at, [""])[0], steps.SIDE) if at else (bisection.steps[0].run, "baseline")
        path = results / run / "build" / f"{variant}.json"
        parts = files.read_json(path).get("components", []) if run and path.exists() else []
        binaries = [str(part["binary"]) for part in parts if role in {"", part["role"]}]
        built = ", ".join(path for path in binaries if Path(path).exists())
        program = markup.code(built) if built else "not in the cache"
        lines.append(f"{markup.text(bisection.revisions[at].label)}: {program}")
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
