"""The runs of a search: their knobs, how long their blocks may take, and what was found in them."""

import json
import math
import shlex
import sys
import time
from pathlib import Path

from tsduel.core import codes, files, rundir
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.places import place
from tsduel.question import knobs
from tsduel.question import read as question
from tsduel.question.experiments import find
from tsduel.stats.estimate import signed_rank_p
from tsduel.stats.verdict import FAILED
from tsduel.studies.study import Rule
from tsduel.worst.search import Point, Probe, Worst, blocks_anew, following

PROBE_BLOCKS, MORE_BLOCKS = 2, 4
STAGES = "plan provision build run give-back tidy compare"
"""Of a probe that chooses: whoever wants its report makes it (`make report RUN=`)."""
REFUSED = "it was refused"
BLOCK_SHARE, USUAL_SHARE, LEAST_BLOCK_S = 1 / 40, 1 / 10, 30
"""Of the time, the share that a block of the search may take, or of the usual load; the seconds that each may."""


def rule(directory: Path) -> Rule:
    """Yield the knobs of one probe after the other; results are written after each."""
    study = Worst.load(directory)
    while wanted := following(study):
        at, why = wanted
        blocks = blocks_anew(study) if why == "confirm" else PROBE_BLOCKS if why == "draw" else MORE_BLOCKS
        blocks = max(blocks, study.fewest)
        number = len(study.probes)
        probe = Probe(run=f"{study.name}-{number:03d}", at=at, blocks=blocks, why=why)
        begin = time.monotonic()
        knobs_of_probe = _knobs(study, probe, number)
        if changed := _changed(study):
            sys.stderr.write(f"tsduel: {changed}\n")
            return codes.USER
        try:
            question.read(knobs_of_probe)
        except UserError as error:  # each value goes, but not these together
            probe = probe.model_copy(update={"failed": str(error)})
        else:
            code = yield knobs_of_probe
            if code == codes.DEFECT or (code == codes.USER and not _has_news(study, at)):
                return code  # the same would come of every probe
            if other := _other_programs(study, probe, directory.parents[1]):
                sys.stderr.write(f"tsduel: {other}\n")
                return codes.USER
            run, seconds = directory.parents[1] / probe.run, time.monotonic() - begin
            refused = {"failed": f"{REFUSED}, see {run}/run.log", "seconds": seconds}
            probe = probe.model_copy(update=refused) if code == codes.USER else _read(study, probe, run, seconds)
        study = study.model_copy(update={"probes": (*study.probes, probe)})
        # A load that was refused is written with the next one that was not: it may be a disk that is full by now.
        if not probe.failed.startswith(REFUSED):
            study.write(directory)
        _say(study, probe)
    study.write(directory)
    return 0


def _changed(study: Worst) -> str:
    """Return a sentence if the experiment is not what it was: the file is another one, or is gone."""
    path = study.knobs["EXPERIMENT"]
    try:
        if not question.has_changed(path, study.written):
            return ""
    except UserError as error:
        return str(error)
    return (
        f"{path} has changed since the search of {study.name} began, and what two loads show is not one answer; start "
        "a new one, without RUN="
    )


def _has_news(study: Worst, at: Point) -> bool:
    """Return whether a load has a value that was not measured yet, by which it may be the load that is refused."""
    measured = [probe.at for probe in study.probes if probe.values]
    return bool(measured) and any(all(other[place] != value for other in measured) for place, value in enumerate(at))


def _other_programs(study: Worst, probe: Probe, results: Path) -> str:
    """Return a sentence if a probe measured other programs than the first: a checkout that is edited, or a branch."""
    # Other programs may be what is searched.
    if any(key.startswith(("variants.", "parameters.")) for key in study.space):
        return ""
    plans = [results / each.run for each in (*study.probes, probe) if (results / each.run / Plan.FILE).exists()]
    if len(plans) < 2:  # noqa: PLR2004 - the first, and this one
        return ""
    sides = [
        {(side.name, part.role): (part.label, part.build_key) for side in Plan.load(path).variants
         for part in side.components} for path in (plans[0], plans[-1])
    ]  # fmt: skip
    changed = next((key for key, side in sides[0].items() if sides[1].get(key) != side), None)
    if changed is None:
        return ""
    before, now = (side.get(changed, ("nothing", ""))[0] for side in sides)
    return (
        f"{probe.run}: the {changed[0]} is {now} by now, and was {before} when the search of {study.name} began: what "
        "two programs show is not one answer; start a new search, with a commit in place of a tree that is edited"
    )


def _knobs(study: Worst, probe: Probe, number: int) -> dict[str, str]:
    words = [f"{name}={json.dumps(value)}" for name, value in study.every(probe.at).items()]
    words += [f"design.seed={1000 * (study.seed - 1) + number + 1}", "design.spare_blocks=0"]
    if probe.why != "confirm":
        words += [f"watchdog.block_s={longest_block(study, probe.at)}", "design.max_failed_blocks=0"]
    own = {**study.knobs, "KIND": study.kind, "BLOCKS": str(probe.blocks), "RUN": probe.run, "FAIL_ON": ""}
    own |= {"TSDUEL_STAGES": STAGES} if probe.why != "confirm" else {}
    return own | {"SET": " ".join(filter(None, [study.knobs.get("SET", ""), shlex.join(words)]))}


def longest_block(study: Worst, at: Point) -> int:
    """Return the seconds after which a block of the search is ended, and its load left out.

    Twice as long as the usual load took is always allowed, so that a slow machine leaves out no more than another.
    """
    share = USUAL_SHARE if at == study.usual else BLOCK_SHARE
    usual = next((probe.block_s for probe in study.probes if probe.at == study.usual and probe.values), 0.0)
    return int(max(LEAST_BLOCK_S, share * 60 * study.minutes, 2 * usual))


def _read(study: Worst, probe: Probe, run: Path, seconds: float) -> Probe:
    path = run / "stats/comparison.json"
    row = study.followed.row(files.read_json(path), "candidate") if path.exists() else None
    blocks = rundir.open_run(run).blocks if (run / Plan.FILE).exists() else ()
    took = {"seconds": seconds, "block_s": max((block.ended - block.started for block in blocks), default=0.0)}
    if row is None or not row["differences"]:
        why = next((why for block in blocks for why in block.left_out), f"see {run}")
        return probe.model_copy(update={"failed": f"it has no {study.followed.name}: {why}", **took})
    if row.get("native"):
        return probe.model_copy(update={"failed": f"{study.followed.name} has a zero there, and no percent", **took})
    if row["verdict"] == FAILED:
        return probe.model_copy(update={"failed": row["warnings"] or "a check failed", **took})
    values = tuple(study.sign * value for value in row["differences"])
    # A comparison has no p where all blocks show the same.
    p = signed_rank_p(row["differences"]) if row["p"] is None else row["p"]
    return probe.model_copy(update={"values": values, "p": p, **took})


def _say(study: Worst, probe: Probe) -> None:
    change = f"{percent(study, probe.middle):+.1f} %" if probe.values else probe.failed
    load = ", ".join(f"{name}={value}" for name, value in study.fields(probe.at).items()) or "the usual load"
    sys.stderr.write(f"worst     {probe.why:8} {load}: {change}\n")


def percent(study: Worst, value: float) -> float:
    """Return a signed log ratio as the metric's own change in percent."""
    return 100 * math.expm1(study.sign * value)


def experiment(study: Worst, at: Point, number: int, directory: Path) -> str:
    """Return an experiment file that repeats a load with its two versions, for a place in ``directory``."""
    written = study.written or question.as_kept(question.read_file(find(study.knobs["EXPERIMENT"])))
    data = knobs.apply(written, study.knobs)
    for name, value in study.every(at).items():
        knobs.set_field(data, name, value, "SPACE")
    knobs.set_field(data, "design.blocks", max(blocks_anew(study), study.fewest), "BLOCKS")
    own = {key: value for key, value in data.items() if key != "name"}
    sections = "".join(f"{key}: {json.dumps(value, default=str)}\n" for key, value in own.items())
    typed = "".join(f" {k}={shlex.quote(v)}" for k, v in study.knobs.items() if k in {"AA", *place.KNOBS})
    return (
        f"# What {study.name} has found.\n#   make tsbs EXPERIMENT={directory / f'worst-{number}.yml'}{typed}\n"
        f"name: worst-{number}\n{sections}"
    )
