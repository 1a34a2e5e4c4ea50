"""`like:` of an experiment: the name of another experiment, whose fields it takes unless it gives its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.wording import did_you_mean
from tsduel.question import experiments
from tsduel.question.knobs import by_role

KEY = "like"
_WHOLE = ("matrix",)
"""Sections that are replaced, since a key of them cannot be taken away."""


def path(name: object, file: Path) -> Path:
    """Return the experiment of this name beside a file, else that of ours; a UserError if there is none."""
    if not isinstance(name, str):
        raise UserError(f"{file}: {KEY}: {name!r} is no name of an experiment; write it like `{KEY}: quick`")
    places = [directory / f"{name.removesuffix('.yml')}.yml" for directory in (file.parent, experiments.HOME)]
    there = [directory for directory in places if directory.is_file() and not directory.samefile(file)]
    if not there:
        names = {other.stem for directory in places for other in directory.parent.glob("*.yml")} - {file.stem}
        near = did_you_mean(name, names)
        raise UserError(f"{file}: {KEY}: no experiment {name!r} beside it or in {experiments.HOME}{near}")
    return there[0]


def merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an experiment, and those of `base` that it does not give, but for name and question.

    Sections are merged key by key. Variants are merged by name, and their components by role, field by field.
    """
    result = {key: value for key, value in base.items() if key not in {"name", "question"}}
    for key, value in own.items():
        before = base.get(key)
        if not isinstance(value, dict) or not isinstance(before, dict) or key in _WHOLE:
            result[key] = value
        elif key == "variants":
            result[key] = before | {name: _side(before.get(name), side) for name, side in value.items()}
        else:
            result[key] = before | value
    return result


def _side(before: Any, side: Any) -> Any:
    if not all(isinstance(variant, dict) and isinstance(variant.get("components"), list) for variant in (before, side)):
        return side
    parts = by_role(before)
    parts |= {role: parts.get(role, {}) | part for role, part in by_role(side).items()}
    return {**side, "components": list(parts.values())}
