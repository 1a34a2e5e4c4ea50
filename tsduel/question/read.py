"""What was asked: an experiment's file with the knobs laid over it, checked by the schema of its kind.

Every field but `name` has a default; unknown keys, wrong types and impossible values are refused with the file, the key
and a sentence that says what is allowed. Nothing here needs more than YAML and pydantic, so that it is quick.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tsduel.core.errors import UserError
from tsduel.question import knobs, refusals
from tsduel.workloads import DEFAULT_KIND, WORKLOADS
from tsduel.workloads.experiment import Experiment

DEFAULT_EXPERIMENT = "experiments/local.yml"


@dataclass(frozen=True)
class Question:
    """A validated experiment, the file it comes from (empty: none), what stands in that, and the knobs laid over it."""

    asked: Experiment
    path: str
    written: dict[str, Any]
    given: dict[str, str]


def read(environment: Mapping[str, str]) -> Question:
    """Read the question that EXPERIMENT, KIND (what `make` was asked for) and the knobs ask."""
    given = knobs.given(environment)
    path, wanted = environment.get("EXPERIMENT", ""), environment.get("KIND", "")
    unwritten = WORKLOADS[wanted].unwritten if wanted in WORKLOADS else None
    if not path and unwritten is None:
        path = DEFAULT_EXPERIMENT
    written = read_file(Path(path)) if path else dict(unwritten or {})
    data = knobs.apply(written, given)
    origin = path or f"make {wanted}"
    where = f"{origin} with {' '.join(given)}" if given else origin
    refuse_other(data, wanted, where)
    asked = validate(data, where)
    knobs.refuse_without_effect(asked, given)
    return Question(asked, path, written, given)


def refuse_other(data: Mapping[str, Any], wanted: str, where: str) -> None:
    """Raise where `make gobench` is given an experiment of databases, or the other way round."""
    kind = data.get("kind", DEFAULT_KIND)
    if wanted and kind in WORKLOADS and kind != wanted:
        raise UserError(f"{where}: its kind is {kind}: run it with make {kind}")


def read_file(path: Path) -> dict[str, Any]:
    """Read an experiment file as a mapping, not yet validated."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        known = ", ".join(sorted(str(p) for p in Path("experiments").glob("*.yml")))
        raise UserError(f"{path}: {error.strerror}; experiments here: {known or 'none'}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from None
    try:
        data = yaml.safe_load(text)
    # PyYAML raises a bare ValueError for a date like 2025-13-45.
    except (yaml.YAMLError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise UserError(f"{path}{line}: not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: an experiment is a mapping that starts with `name:`")
    return data


def validate(data: dict[str, Any], where: str) -> Experiment:
    """Check a mapping against the schema of its kind; `where` names its origin in messages."""
    kind = data.get("kind", DEFAULT_KIND)
    if not isinstance(kind, str) or kind not in WORKLOADS:
        raise UserError(f"{where}: kind: {kind!r} is not known; allowed: {', '.join(WORKLOADS)}")
    model = WORKLOADS[kind].experiment
    try:
        # In JSON a list is as good as a tuple. YAML has times, JSON has not.
        plain = json.dumps(data, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{where}: not an experiment: {error}") from None
    for key, text in refusals.strings(data):
        # No file's name, flag or variable can hold one, and between flags it would be a separator.
        if "\0" in text:
            raise UserError(f"{where}: {key}: {text!r} contains a NUL character, which no program can be given")
    try:
        return model.model_validate_json(plain)
    except ValidationError as error:
        sentences = [refusals.sentence(item, model) for item in error.errors()]
        raise UserError("\n".join(f"{where}: {sentence}" for sentence in sentences)) from None
