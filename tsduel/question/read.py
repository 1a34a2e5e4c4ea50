"""What was asked: an experiment's file with the knobs laid over it, checked by the schema of its kind.

Nothing here needs more than YAML and pydantic, so that it is quick: `make doctor` reads a question, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsduel.core.errors import UserError
from tsduel.question import experiment as schema
from tsduel.question import knobs
from tsduel.question.experiment import Experiment, validate_as
from tsduel.workloads.gobench.schema import GoExperiment

if TYPE_CHECKING:
    from collections.abc import Mapping

AnyExperiment = Experiment | GoExperiment
TSBS, GOBENCH = "tsbs", "gobench"
KINDS = (TSBS, GOBENCH)
DEFAULT_EXPERIMENT = "experiments/local.yml"
# What `make KIND` asks where no file is given; limits of noise as in experiments/local.yml, for a shared machine.
_SHARED = {"steal_pct": 30, "foreign_cpu_pct": 30, "canary_pct": None}
EMPTY: dict[str, dict[str, Any]] = {GOBENCH: {"name": "gobench", "kind": GOBENCH, "noise": _SHARED}}


@dataclass(frozen=True)
class Question:
    """A validated experiment, the file it comes from (empty: none), what stands in that, and the knobs laid over it."""

    asked: AnyExperiment
    path: str
    written: dict[str, Any]
    given: dict[str, str]


def read(environment: Mapping[str, str]) -> Question:
    """Read the question that EXPERIMENT, KIND (what `make` was asked for) and the knobs ask."""
    given = knobs.given(environment)
    path, wanted = environment.get("EXPERIMENT", ""), environment.get("KIND", "")
    if not path and wanted not in EMPTY:
        path = DEFAULT_EXPERIMENT
    written = schema.read(Path(path)) if path else EMPTY[wanted]
    data = knobs.apply(written, given)
    origin = path or f"make {wanted}"
    where = f"{origin} with {' '.join(given)}" if given else origin
    refuse_other(data, wanted, where)
    return Question(validate(data, where), path, written, given)


def validate(data: dict[str, Any], where: str) -> AnyExperiment:
    """Check a mapping against the schema of its kind; `where` names its origin in messages."""
    kind = data.get("kind", TSBS)
    if kind not in KINDS:
        raise UserError(f"{where}: kind: {kind!r} is not known; allowed: {', '.join(KINDS)}")
    if kind == GOBENCH:
        return validate_as(GoExperiment, data, where)
    return validate_as(Experiment, data, where)


def refuse_other(data: Mapping[str, Any], wanted: str, where: str) -> None:
    """Raise where `make gobench` is given an experiment of databases, or the other way round."""
    kind = data.get("kind", TSBS)
    if wanted and kind in KINDS and kind != wanted:
        raise UserError(f"{where}: its kind is {kind}: run it with make {kind}")
