"""A new search, or the one of RUN; what cannot be searched is refused before anything starts."""

import json
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tsduel.bisect.bisection import measured
from tsduel.core import runlock
from tsduel.core.errors import UserError
from tsduel.core.results import RUN_NAME
from tsduel.core.sections import MOST_BLOCKS
from tsduel.core.wording import allowed
from tsduel.places import place
from tsduel.places.place import PLACES
from tsduel.plan import resolve
from tsduel.question import knobs
from tsduel.question import read as question
from tsduel.question.experiments import find
from tsduel.worst.search import CONFIRM_BLOCKS, HOME, LEAST_CONFIRM, PROBE_S, Key, Worst

EXPERIMENT, SPACE = "experiments/worst.yml", "experiments/worst/space.yml"
OWN = ("METRIC", "TYPE", "THRESHOLD", "FOR", "MINUTES", "SPACE", "SEED")
METRICS = {"ingestion": "duel_load_cpu_us", "disk": "disk_bytes"}
"""Words of METRIC beside those of a bisection."""
MOST_SEED = 9999
RENTED = (
    "a search rents nothing: each probe would rent a machine, and MAX_COST holds for one of them. Search here or with "
    "TARGET=ssh, then measure what was found on types of machines, for one price: make tsbs TARGET=gcp MAX_COST= "
    'EXPERIMENT=results/worst/NAME/worst-1.yml SET="matrix.gcp.machine=[e2-standard-8,n2-standard-8]"'
)


def begun(name: str, environment: Mapping[str, str], results: Path) -> Path:
    """Return the directory of the study of RUN, which is begun if it is not there; every value is tried before."""
    if not RUN_NAME.fullmatch(name):
        raise UserError(f"RUN: {name!r} is no name; use letters, digits, dots, dashes and underscores")
    directory = results / HOME / name
    own = {knob: environment[knob].strip() for knob in OWN if environment.get(knob, "").strip()}
    typed = own | knobs.given(environment)
    if experiment := environment.get("EXPERIMENT", "").strip():
        typed["EXPERIMENT"] = experiment
    if (directory / Worst.FILE).exists():
        knobs_then = Worst.load(directory).given
        if changed := [
            knob for knob, value in typed.items() if knobs_then.get(knob, value) != value or knob not in knobs_then
        ]:
            raise UserError(f"{directory}: {', '.join(changed)} would change what is searched; start a new one")
        return directory
    study = _new(name, own, typed, environment)
    with runlock.claimed(directory, "worst", Worst.FILE):
        study.write(directory)
    return directory


def _new(name: str, own: Mapping[str, str], typed: Mapping[str, str], environment: Mapping[str, str]) -> Worst:
    wanted = own.get("FOR", "worse")
    if wanted not in {"worse", "better"}:
        raise UserError(f"FOR: {wanted!r} is neither worse nor better")
    passed = {**knobs.given(environment), "EXPERIMENT": environment.get("EXPERIMENT", "").strip() or EXPERIMENT}
    blocks = passed.pop("BLOCKS", str(CONFIRM_BLOCKS))
    if not (blocks.isdecimal() and LEAST_CONFIRM <= int(blocks) <= MOST_BLOCKS):
        raise UserError(f"BLOCKS: {LEAST_CONFIRM} to {MOST_BLOCKS}; so many blocks confirm what was found")
    metric = own.get("METRIC", "cpu")
    passed, what = measured("tsbs", {**environment, "METRIC": METRICS.get(metric, metric)}, passed, {})
    try:
        minutes = float(own.get("MINUTES", "60"))
    except ValueError:
        minutes = 0.0
    least = 5 * PROBE_S / 60
    if not least <= minutes <= 7 * 24 * 60:
        raise UserError(f"MINUTES: {own.get('MINUTES')!r} is no number from {least:g} (five probes) to a week")
    seed = own.get("SEED", "1")
    if not (seed.isdecimal() and 1 <= int(seed) <= MOST_SEED):
        raise UserError(f"SEED: {seed!r} is no whole number from 1 to {MOST_SEED}")
    read = question.read({**passed, "KIND": "tsbs"})
    # The commit where a checkout left its main branch may be another one tomorrow.
    passed = knobs.with_base(passed, read.source.written)
    space = read_space(find(own.get("SPACE", SPACE)), passed)
    sign = 1 if (what.higher_is_better == (wanted == "better")) else -1
    return Worst(
        name=name, created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), kind="tsbs", given=dict(typed),
        knobs=passed, written=read.source.written, fewest=resolve.fewest_blocks(read.asked, place.asked(passed)),
        space=space, followed=what, sign=sign, minutes=minutes, seed=int(seed),
        confirm_blocks=int(blocks),
    )  # fmt: skip


def read_space(path: Path, passed: Mapping[str, str]) -> dict[str, Key]:
    """Return what may be changed; a UserError for a field that is none, or a value that it cannot have."""
    declared = question.read_file(path)
    if not declared:
        raise UserError(
            f"{path}: write fields of an experiment, each like `workload.scale: {{values: [20, 400], usual: 100}}`"
        )
    renting = [name for name, kind in PLACES.items() if kind.rents]
    rents = [str(field) for field in declared if str(field).partition(".")[0] in renting]
    rents += [f"TARGET={name}" for name in renting if passed.get("TARGET") == name]
    if rents:
        raise UserError(f"{rents[0]}: {RENTED}")
    space, fixed = dict[str, Key](), knobs.fields_set(passed)
    for field, entry in json.loads(json.dumps(declared, default=str)).items():  # JSON has no times, YAML has
        if field in fixed:
            raise UserError(
                f"{path}: {field}: the search sets it, so {fixed[field]} would have no effect: take one away"
            )
        if not isinstance(entry, dict) or set(entry) != {"values", "usual"} or not isinstance(entry["values"], list):
            names = entry if isinstance(entry, dict) else {}
            wrong = next((name for name in names if name not in {"values", "usual"}), "")
            raise UserError(
                f"{path}: {field}: needs `values:`, a list, and `usual:`, one value"
                + (f"; unknown key {wrong}; {allowed(wrong, ['values', 'usual'])}" if wrong else "")
            )
        if not entry["values"]:
            raise UserError(f"{path}: {field}: values: the list is empty")
        space[field] = Key(values=tuple(entry["values"]), usual=entry["usual"])
        for value in space[field].every:
            words = shlex.join([f"{field}={json.dumps(value)}"])
            try:
                question.read({**passed, "KIND": "tsbs", "SET": f"{passed.get('SET', '')} {words}".strip()})
            except UserError as error:
                raise UserError(f"{path}: {field}: {value!r} does not go: {error}") from None
    return space
