"""`make bisect`: the next duel, from the results of those before it. Each is an ordinary run in results/.

The question, the revisions and the steps are in results/bisect/NAME/bisect.json. Results are always read from the
stats/comparison.json of the runs, so a killed bisection goes on, and a finished one can be reported again.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from tsduel.bisect import posterior
from tsduel.bisect.bisection import HOME, Bisection, Step, begun, kept
from tsduel.bisect.metric import Followed
from tsduel.bisect.posterior import Posterior
from tsduel.build import built
from tsduel.core import files, rundir, runlock
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.core.results import RUN_NAME
from tsduel.core.wording import number_of
from tsduel.plan import sources
from tsduel.stats.estimate import hodges_lehmann, percent
from tsduel.stats.power import FEWEST_BLOCKS
from tsduel.studies.study import Rule
from tsduel.tidy.blocks import lacks_blocks

SIDE = "candidate"
"""The revision of a step, which is compared with GOOD; in the first step it is BAD."""


@dataclass(frozen=True)
class Measured:
    """The results of all steps: values of blocks by revision, as log ratios or, if `native`, in `unit`.

    `sign` times a value is the metric's own change; above zero is as BAD is, which is `better` or worse than GOOD.
    `runs`: names of the runs by revision.
    """

    seen: dict[int, list[float]]
    limit: float
    native: bool = False
    unit: str = ""
    runs: dict[int, list[str]] = field(default_factory=dict)
    sign: int = 1
    better: bool = False

    @property
    def side(self) -> str:
        """What is searched for: the first bad revision, or the first better one."""
        return "better" if self.better else "bad"

    def spread(self) -> tuple[float, int]:
        """Return the standard deviation of a block, pooled over all duels, and its degrees of freedom."""
        rows = [row for row in self.seen.values() if len(row) > 1]
        freedom = sum(len(row) - 1 for row in rows)
        left = sum((value - hodges_lehmann(row)) ** 2 for row in rows for value in row)
        return math.sqrt(left / freedom) if freedom else math.nan, freedom

    def interval(self, values: list[float]) -> tuple[float, float, float]:
        """Return estimate and 95 % interval of a revision, by the spread of all duels."""
        deviation, freedom = self.spread()
        at, reach = hodges_lehmann(values), float(stdtrit(freedom, 0.975)) * deviation / math.sqrt(len(values))
        return at, at - reach, at + reach

    def said(self, values: list[float]) -> str:
        """Return a revision's change of the metric in words."""
        if self.native:
            return "{:+.3g} {unit} ({:+.3g} to {:+.3g})".format(*self.shown(values), unit=self.unit)
        return "{:+.1f} % ({:+.1f} to {:+.1f} %)".format(*self.shown(values))

    def shown(self, values: list[float]) -> list[float]:
        """Return a revision's change of the metric with its interval, in percent or in `unit`."""
        at, *ends = (self.sign * value for value in self.interval(values))
        return [value if self.native else percent(value) for value in (at, *sorted(ends))]


def rule(environment: Mapping[str, str], results: Path) -> Rule:
    """Yield the knobs of one step after the other, until the answer is known."""
    code = ""
    while knobs := following(environment, results, code):
        code = str((yield knobs))
    return 0


def opened(environment: Mapping[str, str], results: Path) -> Bisection:
    """Return the bisection of RUN, which is begun if it is not there."""
    name = environment.get("RUN", "")
    if not RUN_NAME.fullmatch(name):
        raise UserError(f"RUN: {name!r} is no name of a bisection; use letters, digits, dots, dashes and underscores")
    directory = results / HOME / name
    # Without GOOD and BAD the name must be that of a bisection, if there is any.
    exists = (directory / Bisection.FILE).exists() or (
        not (environment.get("GOOD") or environment.get("BAD")) and any(directory.parent.glob(f"*/{Bisection.FILE}"))
    )
    if exists:
        return kept(directory, environment)
    bisection = begun(name, environment)
    with runlock.claimed(directory, "bisect", Bisection.FILE):
        bisection.write(directory)
    return bisection


def following(environment: Mapping[str, str], results: Path, code: str = "") -> dict[str, str]:
    """Return the knobs of the next step; nothing where the answer is known. ``code``: how the step before ended."""
    bisection = opened(environment, results)
    directory = results / HOME / bisection.name
    last = bisection.steps[-1]
    if not code and lacks_blocks(results / last.run) and _ref(bisection, last) not in bisection.skipped:
        # It was interrupted, and somebody has looked at its report: that decides nothing.
        sys.stderr.write(f"bisect    {bisection.name}: {last.run} goes on, which was interrupted\n")
        return {**bisection.environment(last.at, blocks=last.blocks), "RUN": last.run}
    bisection = _settled(bisection, results, code)
    measured = read(bisection, results)
    step: Step | None = bisection.steps[-1]
    if _ref(bisection, bisection.steps[-1]) in bisection.skipped or _compared(results, bisection.steps[-1]).exists():
        step = None
    while step is None:
        if measured:
            refuse_ends(bisection, measured)
        step = _following(bisection, measured)
        if step is None:
            bisection.write(directory)
            return {}
        if why := _refused(bisection, step):
            bisection, step = _without(bisection, step, why), None
        else:
            bisection = bisection.model_copy(update={"steps": (*bisection.steps, step)})
    bisection.refuse_other_experiment()
    bisection.write(directory)
    _say(bisection, measured, step)
    return {**bisection.environment(step.at, blocks=step.blocks), "RUN": step.run}


def _compared(results: Path, step: Step) -> Path:
    return results / step.run / "stats" / "comparison.json"


def _ref(bisection: Bisection, step: Step) -> str:
    return bisection.revisions[step.at].ref


def _settled(bisection: Bisection, results: Path, code: str) -> Bisection:
    """Note why the last step's revision has no figure; raise where the reason is not the revision."""
    step, what = bisection.steps[-1], bisection.followed
    if _ref(bisection, step) in bisection.skipped:
        return bisection
    row, why, first, failed = None, "", len(bisection.steps) == 1, code not in {"", "0"}
    if ended := _compared(results, step).exists():
        row = what.row(files.read_json(_compared(results, step)), SIDE)
        why = _without_figure(what, row)
    elif failed:
        if first and (log := built.why_none(results / step.run, "baseline")):
            raise UserError(f"GOOD={bisection.revisions[0].label} does not build: see {log}; give another GOOD")
        why = _failed(results / step.run)
    if why and first:
        raise UserError(
            f"BAD={bisection.revisions[-1].label}: {why}; there is nothing to search by: give another BAD, METRIC or "
            f"TYPE, see {results / step.run}"
        )
    if why:
        return _without(bisection, step, why)
    if row is not None and not row["differences"] and (first or code):
        again = "make bisect with its GOOD and BAD" if first else f"make bisect RUN={bisection.name}"
        raise UserError(f"no block of {step.run} counts, its report says why; on a quieter machine: {again}")
    if failed and not ended:
        raise UserError(
            f"{step.run} did not get to its end, see above; once that is mended: make bisect RUN={bisection.name}"
        )
    return bisection


def _without(bisection: Bisection, step: Step, why: str) -> Bisection:
    return bisection.model_copy(update={"skipped": bisection.skipped | {_ref(bisection, step): why}})


def _without_figure(what: Followed, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return f"neither side has {what.name} ({what.metric})"
    if row["verdict"] == "not comparable":
        return f"only {'GOOD' if row['candidate_median'] is None else 'it, and not GOOD,'} has {what.name}"
    return row["warnings"] or "a check failed" if row["verdict"] == "failed" else ""


def _failed(run_dir: Path) -> str:
    """Say how the candidate made a run end early; empty where the reason is something else."""
    if not (run_dir / Plan.FILE).exists():
        return ""
    if log := built.why_none(run_dir, SIDE):
        return f"it does not build: see {log}"
    run = rundir.open_run(run_dir)
    own = [failure.message for block in run.blocks for failure in block.failures if failure.variant == SIDE]
    others = any(failure.variant != SIDE for block in run.blocks for failure in block.failures)
    return own[0] if own and not others else ""


def read(bisection: Bisection, results: Path) -> Measured | None:
    """Return the results of the steps; None before the first has ended."""
    seen, runs = dict[int, list[float]](), dict[int, list[str]]()
    ends, sign = dict[str, Any](), 1
    for number, step in enumerate(bisection.steps):
        if _ref(bisection, step) in bisection.skipped or not _compared(results, step).exists():
            continue
        document, what = files.read_json(_compared(results, step)), bisection.followed
        row = what.row(document, SIDE)
        if row is None or not row["differences"]:
            continue
        if number == 0:
            ends = row
            sign = -1 if hodges_lehmann(row["differences"]) < 0 else 1
        values = _alike(row, native=ends.get("native") is not None)
        seen.setdefault(step.at, []).extend(sign * value for value in values)
        runs.setdefault(step.at, []).append(step.run)
    if bisection.last not in seen:
        return None
    native = ends["native"] is not None
    limit = ends["native"]["limit"] if native else math.log1p(bisection.followed.threshold_pct / 100)
    # No share of GOOD's zero is a size: halfway to BAD is.
    limit = limit or abs(hodges_lehmann(ends["differences"])) / 2
    better = (sign > 0) == bisection.followed.higher_is_better
    return Measured(seen, limit, native, ends["unit"], runs, sign, better)


def _alike(row: Mapping[str, Any], *, native: bool) -> list[float]:
    """Return the differences of a row as the first one has them: in its own unit, or as log ratios.

    A row has its own unit where a value is zero. As a ratio, such a zero is a thousandth of the other side.
    """
    values, base = row["differences"], row.get("baseline_pseudomedian") or 0.0
    if native == (row.get("native") is not None):
        return [*values]
    if native:
        return [base * math.expm1(value) for value in values]
    least = math.log(1e-3)
    return [
        math.log1p(max(value / base, math.expm1(least))) if base else math.copysign(-least, value) if value else 0.0
        for value in values
    ]


def refuse_ends(bisection: Bisection, measured: Measured) -> None:
    """Raise where there is nothing to search: BAD is like GOOD, or the machine is too noisy."""
    what, (good, bad) = bisection.followed, (bisection.revisions[0].label, bisection.revisions[-1].label)
    values, run = measured.seen[bisection.last], bisection.steps[0].run
    if len(values) < FEWEST_BLOCKS // 2:
        raise UserError(f"only {number_of(len(values), 'block')} of {run} count, too few to begin with: see its report")
    at, low, _ = measured.interval(values)
    seen = f"{bad} against {good} is {measured.said(values)} in {what.name}, {what.direction}"
    if low > 0 and at < measured.limit:
        raise UserError(f"BAD is not bad: {seen}: real, but below THRESHOLD={what.threshold_pct:g}; give a lower one")
    if at < measured.limit:
        raise UserError(
            f"BAD is neither worse nor better: {seen}, and {what.threshold_pct:g} % is asked; look at what did change "
            f"in results/{run}/report.md, give another METRIC or TYPE, or a GOOD before it"
        )
    if low <= 0:
        raise UserError(
            f"whether BAD is {measured.side} is open: {seen}; with more blocks (BLOCKS={2 * len(values)}) or on a "
            "quieter machine it would be known"
        )


def think(bisection: Bisection, measured: Measured) -> Posterior:
    """Return the posterior over the revisions after GOOD."""
    runs = {at: max(1, len(measured.runs.get(at, []))) for at in measured.seen}
    return posterior.posterior(bisection.last, measured.seen, measured.limit, runs)


def _following(bisection: Bisection, measured: Measured | None) -> Step | None:
    """Return the next step; None where the answer is sure or more blocks would not help."""
    if measured is None:
        return None
    belief, skipped = think(bisection, measured), bisection.left_out
    if posterior.answer(belief, skipped).chance >= posterior.SURE:
        return None
    at = posterior.following(belief, skipped, {i: len(values) for i, values in measured.seen.items()})
    if at is None:
        return None
    blocks = max(posterior.blocks_for(belief, len(measured.seen.get(at, []))), bisection.fewest)
    return Step(run=f"{bisection.name}-{len(bisection.steps):02d}", at=at, blocks=blocks)


def _refused(bisection: Bisection, step: Step) -> str:
    """Say why a revision does not resolve; raise where no revision does, since the network is down."""
    line = bisection.line()
    try:
        line.resolve(_ref(bisection, step), "revision")
    except sources.NoAnswerError:
        raise
    except UserError as error:
        line.between(bisection.revisions[0].ref, bisection.revisions[-1].ref)
        return str(error).partition(";")[0]
    return ""


def _say(bisection: Bisection, measured: Measured | None, step: Step) -> None:
    revision, blocks = bisection.revisions[step.at], number_of(step.blocks, "block")
    lines = [f"bisect    {bisection.name}: go on with make bisect RUN={bisection.name} (after an interruption)"]
    if measured is None:
        between = number_of(bisection.last - 1, "revision")
        lines += [f"          {between} between; first GOOD against BAD, {blocks}"]
    else:
        best = posterior.answer(think(bisection, measured), bisection.left_out)
        labels = " and ".join(bisection.revisions[last].label for _, last in best.steps)
        lines += [f"          so far {labels} with {100 * best.chance:.0f} %; now {revision.label}, {blocks}"]
    sys.stderr.write("\n".join(lines) + "\n")
