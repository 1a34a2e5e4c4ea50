"""`make bisect`: which duel comes next, from what those before it have shown. Each is an ordinary run in results/.

What is asked, the revisions and the steps are in results/bisect/NAME/bisect.json; what a step has shown is read from
its run's stats/comparison.json, so that a killed bisection goes on, and one that is over can be looked at again.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from tsduel.bisect import posterior
from tsduel.bisect.bisection import HOME, Bisection, Step, begun, kept
from tsduel.bisect.metric import Followed
from tsduel.bisect.posterior import Posterior
from tsduel.core import files, rundir
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.core.results import RUN_NAME
from tsduel.core.wording import number_of
from tsduel.stats.estimate import hodges_lehmann, percent
from tsduel.stats.power import FEWEST_BLOCKS

BAD, AGAIN = "candidate", "candidate-2"
"""Variants of the first step: BAD, and GOOD once more; of the others the revision is the candidate."""


@dataclass(frozen=True)
class Known:
    """What all steps have shown: values of blocks above zero are worse, log ratios or, `native`, in `unit`."""

    seen: dict[int, list[float]]
    again: list[float]
    limit: float
    native: bool
    unit: str
    runs: dict[int, list[str]]

    def spread(self) -> tuple[float, int]:
        """Return the standard deviation of a block from all duels together, and its degrees of freedom."""
        rows = [row for row in (self.again, *self.seen.values()) if len(row) > 1]
        freedom = sum(len(row) - 1 for row in rows)
        left = sum((value - hodges_lehmann(row)) ** 2 for row in rows for value in row)
        return math.sqrt(left / freedom) if freedom else math.nan, freedom

    def interval(self, values: list[float]) -> tuple[float, float, float]:
        """Return estimate and 95 % interval of a revision, by the spread of all duels."""
        deviation, freedom = self.spread()
        at, reach = hodges_lehmann(values), float(stdtrit(freedom, 0.975)) * deviation / math.sqrt(len(values))
        return at, at - reach, at + reach

    def said(self, values: list[float]) -> str:
        """Return a revision's change in words, + is worse."""
        found = self.interval(values)
        if self.native:
            return "{:+.3g} {unit} ({:+.3g} to {:+.3g})".format(*found, unit=self.unit)
        return "{:+.1f} % ({:+.1f} to {:+.1f} %)".format(*map(percent, found))


def main(environment: Mapping[str, str], results: Path) -> None:
    """Print the words of the next step's `make`, a line each; nothing where the answer is known.

    STEP_CODE is what the step before ended with.
    """
    name = environment.get("RUN", "")
    if not RUN_NAME.fullmatch(name):
        raise UserError(f"RUN: {name!r} is no name of a bisection; use letters, digits, dots, dashes and underscores")
    directory = results / HOME / name
    # Without GOOD and BAD one that is there was meant, if there is any.
    there = (directory / Bisection.FILE).exists() or (
        not (environment.get("GOOD") or environment.get("BAD")) and any(directory.parent.glob(f"*/{Bisection.FILE}"))
    )
    bisection = kept(directory, environment) if there else begun(name, environment)
    bisection = _settled(bisection, results, environment.get("STEP_CODE", ""))
    known = read(bisection, results)
    step = bisection.steps[-1] if _is_open(bisection, results) else None
    while step is None:
        if known:
            refuse_ends(bisection, known)
        step = _following(bisection, known)
        if step is None:
            bisection.write(directory)
            return
        if why := _refused(bisection, step):
            bisection, step = _without(bisection, step, why), None
        else:
            bisection = bisection.model_copy(update={"steps": (*bisection.steps, step)})
    bisection.write(directory)
    _say(bisection, known, step)
    sys.stdout.write("\n".join(_words(bisection, step)) + "\n")


def _is_open(bisection: Bisection, results: Path) -> bool:
    step = bisection.steps[-1]
    return _ref(bisection, step) not in bisection.skipped and not _compared(results, step).exists()


def _compared(results: Path, step: Step) -> Path:
    return results / step.run / "stats" / "comparison.json"


def _ref(bisection: Bisection, step: Step) -> str:
    return bisection.revisions[step.at].ref


def _settled(bisection: Bisection, results: Path, code: str) -> Bisection:
    """Note why the last step's revision has no figure, if that is how it ended; raise where that says nothing of it."""
    step, what = bisection.steps[-1], bisection.followed
    if _ref(bisection, step) in bisection.skipped:
        return bisection
    row, why, first = None, "", len(bisection.steps) == 1
    if ended := _compared(results, step).exists():
        row = what.row(files.read_json(_compared(results, step)), BAD)
        why = _without_figure(what, row)
    elif code not in {"", "0"}:
        if first and (log := _unbuilt(results / step.run, "baseline")):
            raise UserError(f"GOOD={bisection.revisions[0].label} does not build: see {log}; give another GOOD")
        why = _failed(results / step.run)
    noisy = row is not None and not why and not row["differences"]
    if why and first:
        raise UserError(
            f"BAD={bisection.revisions[-1].label}: {why}; there is nothing to search by: give another BAD, METRIC or "
            f"TYPE, see {results / step.run}"
        )
    if noisy and (first or code):
        again = "make bisect with its GOOD and BAD" if first else f"make bisect RUN={bisection.name}"
        raise UserError(f"no block of {step.run} counts, its report says why; on a quieter machine: {again}")
    if code not in {"", "0"} and not ended and not why:
        raise UserError(
            f"{step.run} did not get to its end, see above; once that is mended: make bisect RUN={bisection.name}"
        )
    return _without(bisection, step, why) if why else bisection


def _without(bisection: Bisection, step: Step, why: str) -> Bisection:
    return bisection.model_copy(update={"skipped": bisection.skipped | {_ref(bisection, step): why}})


def _without_figure(what: Followed, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return f"neither side has {what.name} ({what.metric})"
    if row["verdict"] == "not comparable":
        return f"only {'GOOD' if row['candidate_median'] is None else 'it, and not GOOD,'} has {what.name}"
    return row["warnings"] or "a check failed" if row["verdict"] == "failed" else ""


def _failed(run_dir: Path) -> str:
    """Say what was the matter with the candidate of a run that ended early; empty where it was something else."""
    if not (run_dir / Plan.FILE).exists():
        return ""
    if log := _unbuilt(run_dir, BAD):
        return f"it does not build: see {log}"
    run = rundir.open_run(run_dir)
    own = [failure.message for block in run.blocks for failure in block.failures if failure.variant == BAD]
    others = any(failure.variant != BAD for block in run.blocks for failure in block.failures)
    return own[0] if own and not others else ""


def _unbuilt(run_dir: Path, variant: str) -> str:
    """Return the log of a build that failed, here or on any host; empty where it did not."""
    for build in (run_dir / "build", *sorted(run_dir.glob("host/*/build"))):
        if (log := build / f"{variant}.log").exists() and not (build / f"{variant}.json").exists():
            return str(log)
    return ""


def read(bisection: Bisection, results: Path) -> Known | None:
    """Return what the steps have shown; None before the first has ended."""
    seen, runs = dict[int, list[float]](), dict[int, list[str]]()
    again, ends = list[float](), dict[str, Any]()
    for number, step in enumerate(bisection.steps):
        if _ref(bisection, step) in bisection.skipped or not _compared(results, step).exists():
            continue
        document, what = files.read_json(_compared(results, step)), bisection.followed
        sign = -1 if what.higher_is_better else 1
        row = what.row(document, BAD)
        if row is None or not row["differences"]:
            continue
        seen.setdefault(step.at, []).extend(sign * value for value in row["differences"])
        runs.setdefault(step.at, []).append(step.run)
        if number == 0:
            ends = row
            again = [sign * value for value in (what.row(document, AGAIN) or {}).get("differences", [])]
    if bisection.last not in seen:
        return None
    native = ends["native"] is not None
    limit = ends["native"]["limit"] if native else math.log1p(bisection.followed.threshold_pct / 100)
    return Known(seen, again, limit, native, ends["unit"], runs)


def refuse_ends(bisection: Bisection, known: Known) -> None:
    """Raise where there is nothing to search: BAD is not bad, GOOD is, or the machine cannot tell."""
    what, (good, bad) = bisection.followed, (bisection.revisions[0].label, bisection.revisions[-1].label)
    values, run = known.seen[bisection.last], bisection.steps[0].run
    if len(values) < FEWEST_BLOCKS // 2:
        raise UserError(f"only {number_of(len(values), 'block')} of {run} count, too few to begin with: see its report")
    at, low, high = known.interval(values)
    if known.again:
        same, below, above = known.interval(known.again)
        if abs(same) >= known.limit / 2 and not below <= 0 <= above:
            raise UserError(
                f"{good} differs from itself by {known.said(known.again)} in {what.name}: the machine, and not the "
                f"revision, is what is seen; see {run} and docs/operating.md"
            )
    seen = f"{bad} against {good} is {known.said(values)} in {what.name}, above zero is worse"
    if high < 0 and -at >= known.limit:
        raise UserError(
            f"GOOD is already bad: {seen}; give a GOOD before it, or another METRIC or TYPE: results/{run}/report.md"
        )
    if low > 0 and at < known.limit:
        raise UserError(f"BAD is not bad: {seen}: real, but below THRESHOLD={what.threshold_pct:g}; give a lower one")
    if at < known.limit:
        raise UserError(
            f"BAD is not bad, or GOOD is already as bad: {seen}, and {what.threshold_pct:g} % is asked; look at what "
            f"did change in results/{run}/report.md, give another METRIC or TYPE, or a GOOD before it"
        )
    if low <= 0:
        raise UserError(
            f"whether BAD is bad is open: {seen}; with more blocks (BLOCKS={2 * len(values)}) or on a quieter machine "
            "it would be known"
        )


def think(bisection: Bisection, known: Known) -> Posterior:
    """Return the posterior over the revisions behind GOOD."""
    return posterior.posterior(bisection.last, known.seen, known.again, known.limit)


def _following(bisection: Bisection, known: Known | None) -> Step | None:
    """Return the next step, None where the answer is sure or nothing would make it surer."""
    if known is None:
        return None
    found, skipped = think(bisection, known), bisection.left_out
    if posterior.answer(found.chance, skipped).chance >= posterior.SURE:
        return None
    at = posterior.following(found.chance, skipped, {i: len(values) for i, values in known.seen.items()})
    if at is None:
        return None
    blocks = posterior.blocks_for(found, known.limit, len(known.seen.get(at, [])))
    return Step(run=f"{bisection.name}-{len(bisection.steps):02d}", at=at, blocks=blocks)


def _refused(bisection: Bisection, step: Step) -> str:
    """Say why a revision cannot be had at all; raise where none can, since the network is down."""
    line, ends = bisection.line(), (bisection.revisions[0].ref, bisection.revisions[-1].ref)
    try:
        line.resolve(_ref(bisection, step), "revision")
    except UserError as error:
        line.between(*ends)
        return str(error).partition(";")[0]
    return ""


def _words(bisection: Bisection, step: Step) -> list[str]:
    more = (step.at, 0) if step == bisection.steps[0] else (step.at,)
    of = bisection.environment(*more, blocks=step.blocks)
    return [of.pop("KIND"), f"RUN={step.run}", *(f"{name}={value}" for name, value in of.items())]


def _say(bisection: Bisection, known: Known | None, step: Step) -> None:
    revision, blocks = bisection.revisions[step.at], number_of(step.blocks, "block")
    lines = [f"bisect    {bisection.name}: go on with make bisect RUN={bisection.name} (after an interruption)"]
    if known is None:
        between = number_of(bisection.last - 1, "revision")
        lines += [f"          {between} between; first GOOD against BAD and against itself, {blocks}"]
    else:
        chance = think(bisection, known).chance
        best = posterior.answer(chance, bisection.left_out)
        label = bisection.revisions[best.last].label
        lines += [f"          so far {label} with {100 * best.chance:.0f} %; now {revision.label}, {blocks}"]
    sys.stderr.write("\n".join(lines) + "\n")
