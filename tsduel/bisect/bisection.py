"""results/bisect/NAME/bisect.json: the question of a bisection, its revisions from GOOD to BAD, and its steps."""

import contextlib
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from tsduel.bisect.metric import Followed, followed
from tsduel.bisect.revisions import Line, Revision, named
from tsduel.core import hidden
from tsduel.core.errors import UserError
from tsduel.core.sections import MOST_BLOCKS, Part
from tsduel.core.wording import allowed
from tsduel.places import place
from tsduel.plan import resolve
from tsduel.question import knobs
from tsduel.question import read as question
from tsduel.question.experiments import find
from tsduel.stats.power import FEWEST_BLOCKS
from tsduel.studies.study import Study
from tsduel.workloads import DEFAULT_KIND, WORKLOADS
from tsduel.workloads.experiment import Component, Experiment
from tsduel.workloads.own.asked import is_own
from tsduel.workloads.tsbs import queries

HOME = "bisect"
EXPERIMENT = "experiments/bisect.yml"
ONE_TYPE_S = 3.0
"""`duel.seconds` where one query type is asked alone."""
IN_TURN = "duel.batches=true"
"""METRIC=load adds this to SET: batches in turn need far fewer blocks than loads alone."""
OWN = ("GOOD", "BAD", "METRIC", "TYPE", "THRESHOLD")
DECIDED = {
    "BASELINE": "GOOD is what all are compared with",
    "CANDIDATE": "the revisions between GOOD and BAD are",
    "PROFILE": "the two builds that it ends with are worth profiling",
    "AA": "the first step compares GOOD with itself anyway",
}


class Step(Part):
    """One run: `at` is the place of the revision that it compares with GOOD."""

    run: str
    at: int
    blocks: int


class Bisection(Study):
    """bisect.json; `knobs`: those of every step, `skipped`: ref of a revision -> why it has no figure.

    `written`: what its experiment's file had; `fewest`: the blocks of a step at least.
    """

    FILE: ClassVar[str] = "bisect.json"
    COMMAND: ClassVar[str] = "make bisect GOOD= BAD="

    knobs: dict[str, str]
    written: dict[str, Any] = {}
    fewest: int = 2
    followed: Followed
    repo: str
    revisions: tuple[Revision, ...]
    steps: tuple[Step, ...] = ()
    skipped: dict[str, str] = {}

    @property
    def last(self) -> int:
        """The place of BAD."""
        return len(self.revisions) - 1

    @property
    def left_out(self) -> set[int]:
        """Places of revisions without a figure."""
        return {at for at, revision in enumerate(self.revisions) if revision.ref in self.skipped}

    def line(self) -> Line:
        """Return the line of revisions that they come from."""
        experiment = question.read(self.environment()).asked
        role = searched(experiment, self.knobs.get("ROLE", "")).role
        program = WORKLOADS[self.kind].program(experiment, experiment.variants["baseline"], role)
        return Line(program, self.repo, tuple(self.given.get("VERSIONS", "").split()))

    def refuse_other_experiment(self) -> None:
        """Raise where the file of the experiment is another by now: steps of two loads are not one answer."""
        if question.has_changed(self.given.get("EXPERIMENT", ""), self.written):
            raise UserError(
                f"EXPERIMENT={self.given['EXPERIMENT']}: its file has changed since the search of {self.name} began, "
                "and what two loads show is not one answer; start a new one, without RUN="
            )

    def environment(self, *more: int, blocks: int = FEWEST_BLOCKS) -> dict[str, str]:
        """Return the knobs of a run that compares the revisions at these places (BAD if none is given) with GOOD."""
        versions = [named(self.repo, self.revisions[at].ref) for at in (0, *(more or (self.last,)))]
        return {**self.knobs, "KIND": self.kind, "VERSIONS": shlex.join(versions), "BLOCKS": str(blocks)}


def kept(directory: Path, environment: Mapping[str, str]) -> Bisection:
    """Return the bisection of a directory; a UserError for a knob that would change it."""
    bisection = Bisection.load(directory)
    values = {name: hidden.knob(environment.get(name, "").strip()) for name in (*OWN, "EXPERIMENT")}
    values |= knobs.given(environment)
    changed = [name for name, value in values.items() if value and bisection.given.get(name, "") != value]
    if changed:
        raise UserError(
            f"{directory}: {', '.join(changed)} would change what is searched; start a new one, without RUN="
        )
    return bisection


def begun(name: str, environment: Mapping[str, str]) -> Bisection:
    """Return a new bisection from GOOD, BAD and the other knobs, with its revisions and its first step."""
    own = {knob: hidden.knob(environment[knob].strip()) for knob in OWN if environment.get(knob, "").strip()}
    for side in ("GOOD", "BAD"):
        if side not in own:
            raise UserError(f"{side} is missing: make bisect GOOD=v1.131.0 BAD=v1.135.0, or GOOD=git:REPO@REF BAD=REF")
    passed = _passed(environment)
    kind, experiment = kind_of(environment, passed)
    repo, refs = _sides(own["GOOD"], own["BAD"])
    first, listed = passed.pop("BLOCKS", str(FEWEST_BLOCKS)), passed.pop("VERSIONS", "")
    if not (first.isdecimal() and FEWEST_BLOCKS <= int(first) <= MOST_BLOCKS):
        raise UserError(
            f"BLOCKS: the first duel needs {FEWEST_BLOCKS} to {MOST_BLOCKS}; those of other steps are calculated"
        )
    # A plain name takes its revisions from the source of the experiment.
    plain = not repo and not own["GOOD"].startswith("module:")
    versions = shlex.join(refs if plain else [named(repo, ref) for ref in refs])
    passed |= {"EXPERIMENT": experiment} if experiment else {}
    ends = {"KIND": kind, "VERSIONS": versions, "BLOCKS": first}
    read = question.read({**passed, **ends})
    if len(read.settings) > 1:
        raise UserError(
            f"{experiment} is a sweep, and one setting is searched: SET='matrix={{}}' with the fields of one setting"
        )
    role = knobs.role(read.source.written, passed) or ""
    passed |= {"ROLE": role} if role else {}
    typed = {**knobs.given(environment), **passed, "EXPERIMENT": experiment}
    passed, what = measured(kind, environment, passed, ends)
    settings = [passed.get("SET", ""), f"design.thresholds.{what.metric}={what.threshold_pct:.10g}"]
    if kind == "tsbs" and (query_type := own.get("TYPE")):
        asked: Any = read.asked
        if is_own(asked.queries):
            # All are asked as in any run: the mix has requests of all of them.
            if query_type not in asked.queries.types:
                raise UserError(f"TYPE: unknown query {query_type!r}; {allowed(query_type, asked.queries.types)}")
        else:
            try:
                queries.window_hours(query_type)
            except ValueError as error:
                raise UserError(f"TYPE: {error}") from None
            settings.append(f"queries.types=[{query_type}]")
            settings += [] if "duel.seconds" in knobs.fields_set(passed) else [f"duel.seconds={ONE_TYPE_S:g}"]
    bisection = Bisection(
        name=name,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        kind=kind,
        given={**own, **typed},
        knobs={**passed, "SET": " ".join(filter(None, settings))},
        written=read.source.written,
        fewest=resolve.fewest_blocks(read.asked, place.asked(passed)),
        followed=what,
        repo=searched(read.asked, role).repo if plain else repo,
        revisions=tuple(Revision(ref=ref, label=ref) for ref in refs),
    )
    if bisection.repo and listed:
        raise UserError("VERSIONS: commits are taken by first parents from GOOD to BAD, so it would have no effect")
    revisions = bisection.line().between(*refs)
    step = Step(run=f"{name}-00", at=len(revisions) - 1, blocks=int(first))
    return bisection.model_copy(update={"revisions": revisions, "steps": (step,)})


def _passed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the knobs of all steps; a UserError for a knob that a bisection cannot use."""
    passed = knobs.given(environment)
    for knob, why in DECIDED.items():
        if knob in passed:
            raise UserError(f"{knob}: has no use in a bisection: {why}")
    where = place.PLACES.get(passed.get("TARGET", ""))
    if where and where.rents:
        raise UserError(
            f"TARGET={passed['TARGET']}: every step would rent a machine of its own; rent one, and use "
            "TARGET=ssh SSH_HOST="
        )
    return passed


def measured(
    kind: str, environment: Mapping[str, str], passed: dict[str, str], ends: Mapping[str, str]
) -> tuple[dict[str, str], Followed]:
    """Return the knobs and the metric that is followed: for ingestion, batches in turn where they are possible."""
    experiment, environment = question.read({**passed, **ends}).asked, {**environment, **passed}
    wanted = followed(kind, environment, in_turn=True)
    names = [each.metric for each in (wanted, wanted.by) if each]
    if (
        any(name.startswith("duel_load_") for name in names)
        and not _in_turn(experiment)
        and "duel.batches" not in knobs.fields_set(passed)
    ):
        turned = {**passed, "SET": f"{passed.get('SET', '')} {IN_TURN}".strip()}
        with contextlib.suppress(UserError):  # a target that takes no lines over HTTP can only load alone
            experiment, passed = question.read({**turned, **ends}).asked, turned
    return passed, followed(kind, environment, in_turn=_in_turn(experiment))


def _in_turn(experiment: Experiment) -> bool:
    duel = getattr(experiment, "duel", None)
    return bool(duel and duel.enabled and (duel.batches or experiment.design.load == "in_turn"))


def searched(experiment: Experiment, role: str) -> Component:
    """Return the component whose revisions are searched."""
    return next(part for part in experiment.variants["baseline"].parts if role in {"", part.role})


def kind_of(environment: Mapping[str, str], passed: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind of run and the file of its experiment, empty where knobs ask for Go benchmarks."""
    kind, experiment = environment.get("KIND", ""), environment.get("EXPERIMENT", "")
    if experiment:
        kind = kind or str(question.read_file(find(experiment)).get("kind", DEFAULT_KIND))
    elif not kind:
        kind = "gobench" if {"MODULE", "PACKAGE", "BENCH"} & set(passed) else DEFAULT_KIND
    if kind not in WORKLOADS:
        raise UserError(f"KIND: {kind!r} is not known; {allowed(kind, WORKLOADS)}")
    return kind, experiment or ("" if kind == "gobench" else EXPERIMENT)


def _sides(good: str, bad: str) -> tuple[str, list[str]]:
    """Return the repository, empty for released versions, and the names of both revisions."""
    repos, refs = [], []
    for name, text in (("GOOD", good), ("BAD", bad)):
        kind, colon, rest = text.partition(":")
        if colon and kind in knobs.SOURCES - {"module", "git"}:
            raise UserError(f"{name}: a {kind} has no revisions before it; give a version, or git:REPO@REF")
        if kind == "git" and "@" not in rest:
            raise UserError(f"{name}: {text!r} names no revision; write git:REPO@REF")
        repo, _, ref = rest.rpartition("@") if kind == "git" else ("", "", rest if kind == "module" else text)
        repos.append(repo)
        refs.append(ref)
    if repos[1] and repos[0] != repos[1]:
        raise UserError("GOOD and BAD are of different repositories: one history has to hold both")
    return repos[0], refs
