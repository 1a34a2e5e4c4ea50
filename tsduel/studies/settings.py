"""The rule of `matrix:`: a run at each setting, all planned before the first one begins."""

import json
import random
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from tsduel.core import caches, codes, runlock
from tsduel.core.errors import UserError
from tsduel.core.place import Place
from tsduel.core.plan import Asked, Estimate, Plan
from tsduel.core.rundir import Run, open_run
from tsduel.core.sections import Part
from tsduel.core.wording import amount, lasting, number_of
from tsduel.places import hosts, place
from tsduel.places.provider import Needs
from tsduel.places.ssh import pack
from tsduel.plan import resolve
from tsduel.question import read as question
from tsduel.question.read import Question
from tsduel.studies.study import Rule, Study
from tsduel.tidy.blocks import lacks_blocks
from tsduel.workloads import WORKLOADS

REPORT = "report.md"
STAGES = "provision build run give-back tidy compare keep report"
"""Of a run that is planned, and whose price was agreed to with the study."""


class Step(Part):
    """The run at one setting; `set`: the fields that it sets."""

    run: str
    name: str
    set: dict[str, Any]


class Sweep(Study):
    """study.json of `matrix:`; `steps` are as in the matrix, `order` has their places as they are run."""

    FILE: ClassVar[str] = "study.json"
    COMMAND: ClassVar[str] = "make tsbs EXPERIMENT="

    asked: Asked
    steps: tuple[Step, ...]
    order: tuple[int, ...]

    @property
    def in_order(self) -> list[Step]:
        """The steps as they are run."""
        return [self.steps[at] for at in self.order]


def is_study(directory: Path) -> bool:
    """Return whether a directory of results/ is that of a study of settings."""
    return (directory / Sweep.FILE).exists()


def has_ended(run_dir: Path) -> bool:
    """Return whether a run of a study is whole; a report may be of blocks so far, by somebody who looked meanwhile."""
    return (run_dir / REPORT).exists() and not lacks_blocks(run_dir)


def runs(directory: Path) -> list[tuple[Step, Run]]:
    """Return the runs of a study as in its matrix, each with its step."""
    return [(step, open_run(directory.with_name(step.run))) for step in Sweep.load(directory).steps]


def now(directory: Path) -> Path:
    """Return the run that is going on or comes next; the last one if all have ended."""
    each = [directory.with_name(step.run) for step in Sweep.load(directory).in_order]
    # One that has failed has not ended either, and does not keep the others from running.
    held = next((run for run in each if runlock.holder(run)), None)
    return held or next((run for run in each if not has_ended(run)), each[-1])


def plan(run_dir: Path, environment: Mapping[str, str]) -> None:
    """Plan a run, or the study if the experiment has several settings; keep what is there already."""
    if is_study(run_dir):
        _keep(run_dir, environment)
    else:
        read = None if (run_dir / Plan.FILE).exists() else question.read(environment)
        if read is None or len(read.settings) == 1:
            resolve.main(run_dir, environment, read)
            return
        _begin(run_dir, read, environment)
    print("\n".join(described(run_dir)), flush=True)


def _keep(directory: Path, environment: Mapping[str, str]) -> None:
    resolve.refuse_changes(directory, Sweep.load(directory).asked, environment)
    gone = dict[str, Place]()
    for _, run in runs(directory):
        if not has_ended(run.path):
            pack.refuse_other_adapters(run.path)
            owner = run.path.with_name(run.plan.place.of("", "rented_by") or run.path.name)
            if run.plan.place.rented and not hosts.provisioned(owner):
                gone[run.plan.place.of("", "name")] = run.plan.place
    if gone:
        place.provider_of(next(iter(gone.values()))).agree([*gone.values()], environment)


def _begin(directory: Path, read: Question, environment: Mapping[str, str]) -> None:
    where, asked_knobs = place.asked(read.source.knobs), read.source.knobs
    for key in read.settings[0].set:
        if (section := key.partition(".")[0]) in place.PLACES and section != where["kind"]:
            raise UserError(f"matrix: {key} is about hosts that are made for a run: add TARGET={section}")
    provider = place.provider_of(where)
    if environment.get("KIND"):
        provider.refuse_if_busy(directory, environment["KIND"])
    caches.own(caches.directory(environment), environment)
    names = [f"{directory.name}-{number:02d}" for number in range(1, len(read.settings) + 1)]
    shared = _as_planned(directory, names, _rented(read, where, names))
    machines = [kept.name if kept else "" for kept in shared]
    # Drawn, so that what a machine drifts looks like no dose; those of one machine follow each other.
    coin = random.Random(read.asked.design.seed)  # noqa: S311 - a reproducible order, no secret
    drawn = coin.sample(range(len(names)), len(names))
    order = [at for name in dict.fromkeys(machines[at] for at in drawn) for at in drawn if machines[at] == name]
    owners = {machines[at]: names[at] for at in reversed(order)}
    if offered := [kept for kept, name in zip(shared, names, strict=True) if kept and owners[kept.name] == name]:
        provider.agree(offered, environment)
    study = Sweep(
        name=directory.name,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        kind=read.asked.kind,
        given=asked_knobs,
        asked=read.source,
        steps=tuple(Step(run=n, name=s.name, set=s.set) for n, s in zip(names, read.settings, strict=True)),
        order=tuple(order),
    )
    with runlock.claimed(directory, "plan", Sweep.FILE):
        for step, offer in zip(study.steps, shared, strict=True):
            own, run_dir = {**environment, **_knobs(step, asked_knobs)}, directory.with_name(step.run)
            if (run_dir / Plan.FILE).exists():  # killed before the study was whole
                resolve.refuse_changes(run_dir, Plan.load(run_dir).asked, own)
                continue
            owner = owners[offer.name] if offer else step.run
            kept = offer and offer.model_copy(update={"rented_by": owner if owner != step.run else ""})
            resolve.planned(run_dir, own, question.read(own), kept)
        study.write(directory)


def _knobs(step: Step, knobs: Mapping[str, str]) -> dict[str, str]:
    """Return the knobs of one setting: its values as SET has them."""
    words = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in step.set.items()]
    return {"SET": " ".join(filter(None, [knobs.get("SET", ""), "matrix={}", shlex.join(words)]))}


def _rented(read: Question, where: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """Return the place of each run on rented machines: the same for runs on the same machines, for the time of all."""
    found, provider = dict[str, Any](), place.provider_of(where)
    rents = place.PLACES[where["kind"]].rents
    kinds = [repr(getattr(setting.asked, where["kind"])) if rents else "" for setting in read.settings]
    for kind in dict.fromkeys(filter(None, kinds)):
        asked = [setting.asked for setting, own in zip(read.settings, kinds, strict=True) if own == kind]
        each = [WORKLOADS[one.kind].sections(one, len(one.variants)) for one in asked]
        times = [resolve.duration(one, own, where["each"]) for one, own in zip(asked, each, strict=True)]
        seconds = times[0].prepare_s + sum(own.total_s - own.prepare_s for own in times)
        needed = _together([own["estimate"] for own in each])
        first = names[kinds.index(kind)]
        needs = Needs(run=first, estimate=needed, seconds=seconds)
        found[kind] = provider.complete(where, getattr(asked[0], where["kind"]), needs)
    return [found.get(kind) for kind in kinds]


def _as_planned(directory: Path, names: Sequence[str], places: Sequence[Any]) -> list[Any]:
    """Return the places, with the names of those that were planned before the study was killed: names are drawn."""
    drawn = dict[str, str]()
    for name, offer in zip(names, places, strict=True):
        run_dir = directory.with_name(name)
        if offer and (run_dir / Plan.FILE).exists():
            drawn[offer.name] = Plan.load(run_dir).place.of("", "name")
    return [offer and offer.model_copy(update={"name": drawn.get(offer.name, offer.name)}) for offer in places]


def _together(estimates: list[Estimate]) -> Estimate:
    """Return the bytes of all runs: one at a time has its databases on the disk."""
    all_of = {name: sum(getattr(own, name) for own in estimates) for name in Estimate.model_fields}
    return Estimate(**{**all_of, "database_bytes": max(own.database_bytes for own in estimates)})


def described(directory: Path) -> list[str]:
    """Return the lines of the plan: settings, blocks, time, disk and price, and how long each run takes, roughly."""
    study, each = Sweep.load(directory), runs(directory)
    plans = {step.run: run.plan for step, run in each}
    seconds = {
        name: own.duration.total_s - own.duration.prepare_s for name, own in plans.items() if own.duration is not None
    }
    keys = ", ".join(dict.fromkeys(key for step in study.steps for key in step.set))
    parts = [
        f"{len(each)} settings ({keys})",
        number_of(sum(len(run.due) for _, run in each), "block"),
        f"about {lasting(sum(seconds.values()))}, roughly, and what is still to be built",
        f"up to {amount(_together([own.estimate for own in plans.values()]).total)} of disk",
    ]
    rented: list[Any] = [own.place for own in plans.values() if own.place.rented and not own.place.of("", "rented_by")]
    if rented:
        parts.append(f"about {sum(own.price.expected for own in rented):.2f} USD")
    lines = [f"study     {', '.join(parts)}", f"run       {directory}"]
    lines.append(f"go on     make {study.kind} RUN={study.name}  (after an interruption)")
    lines += resolve.sides(next(iter(plans.values())))
    for step in study.in_order:
        ended = ", ended" if has_ended(directory.with_name(step.run)) else ""
        lines.append(f"setting   {step.name}: {step.run}, about {lasting(seconds.get(step.run, 0))}{ended}")
    return lines


def rule(directory: Path) -> Rule:
    """Yield the knobs of each run that has not ended; return 3 if a setting failed, or the code that ended all."""
    study, failed = Sweep.load(directory), 0
    due = [step for step in study.in_order if not has_ended(directory.with_name(step.run))]
    places = {step.run: open_run(directory.with_name(step.run)).plan.place for step in due}
    machines = {name: own.of("", "name") or name for name, own in places.items()}
    last = {machine: name for name, machine in machines.items()}
    for step in due:
        report = directory.with_name(step.run) / REPORT
        is_last = last[machines[step.run]] == step.run
        own = {**study.given, **_knobs(step, study.given), "EXPERIMENT": study.asked.experiment, "FAIL_ON": ""}
        own |= {"RUN": step.run, "KIND": study.kind, "TSDUEL_STAGES": STAGES, "TSDUEL_SHARED": "" if is_last else "1"}
        code = yield own
        if code in {codes.DEFECT, codes.USER}:
            owner = directory.with_name(places[step.run].of("", "rented_by") or step.run)
            if not is_last or hosts.provisioned(owner):
                yield own | {"TSDUEL_SHARED": "", "TSDUEL_STAGES": "give-back", "TSDUEL_FAILED": str(code)}
            return code
        failed = failed or (0 if report.exists() else code)
    return failed
