"""`matrix:` of an experiment: keys with lists of values; every combination is a setting, a run of a study.

As in GitHub's workflows, its `exclude:` is a list of combinations that are left out.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.wording import number_of
from tsduel.workloads.experiment import Experiment

MOST_SETTINGS = 200
EXCLUDE = "exclude"
FIXED = ("name", "question", "kind", "matrix", "like")
"""What makes it one study."""
_WINDOW = ("workload.start", "workload.end")
_SHORT = {"batch_size": "batch", "data_kind": "data"}
_LONGEST = 24
_LISTED = "{}: matrix.exclude: a list of combinations is needed, each with keys and one value each"


@dataclass(frozen=True)
class Setting:
    """One combination: its name, the fields that it sets, and the experiment with these fields."""

    name: str
    set: dict[str, Any]
    asked: Experiment


def combinations(matrix: Any, where: str, *, many: bool) -> list[dict[str, Any]]:
    """Return the fields that each setting has, the last key varying fastest; a UserError says what is wrong.

    ``many``: allow more than MOST_SETTINGS.
    """
    if not isinstance(matrix, dict):
        raise UserError(f"{where}: matrix: keys with lists are needed: `matrix: {{workload.scale: [100, 1000]}}`")
    matrix = json.loads(json.dumps(_named(matrix), default=str))
    axes = {key: _values(key, values, where) for key, values in _flat({**matrix, EXCLUDE: {}})}
    if not isinstance(excludes := matrix.get(EXCLUDE) or [], list):
        raise UserError(_LISTED.format(where))
    excluded = [_excluded(combination, axes, where) for combination in excludes]
    product = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    wanted = (each for each in product if not any(combination.items() <= each.items() for combination in excluded))
    settings = list(itertools.islice(wanted, None if many else MOST_SETTINGS + 1))
    if len(settings) > MOST_SETTINGS and not many:
        raise UserError(
            f"{where}: matrix: more than {MOST_SETTINGS} settings, each a run with all blocks of the design: "
            "shorten its lists or exclude some, or add YES=1 if it is meant"
        )
    if not settings:
        raise UserError(f"{where}: matrix: exclude leaves no setting")
    return settings


def _named(value: Any) -> Any:
    """Return a value of YAML, where a date or a number may be a key, with words for keys."""
    return {str(key): _named(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def _flat(matrix: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each key with its value, written as `workload.scale:` or as `workload: {scale:`."""
    for name, value in matrix.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _values(key: str, values: Any, where: str) -> list[Any]:
    if key.partition(".")[0] in FIXED:
        raise UserError(f"{where}: matrix: {key} is the same for the whole study; any other field can be swept")
    if not isinstance(values, list) or not values:
        raise UserError(f"{where}: matrix: {key}: a list of values is needed (it is {values!r})")
    for value in values:
        if values.count(value) > 1:
            raise UserError(f"{where}: matrix: {key}: {value!r} is there twice")
    return values


def _excluded(combination: Any, axes: Mapping[str, list[Any]], where: str) -> dict[str, Any]:
    if not isinstance(combination, dict) or not combination:
        raise UserError(_LISTED.format(where))
    flat = dict(_flat(combination))
    for key, value in flat.items():
        if key not in axes:
            raise UserError(f"{where}: matrix.exclude: {key} is not swept; swept are {', '.join(axes)}")
        if value not in axes[key]:
            raise UserError(f"{where}: matrix.exclude: {value!r} is no value of {key} in the matrix")
    return flat


def name(setting: Mapping[str, Any], experiment: Experiment | None = None) -> str:
    """Return a setting's name: `scale=1000 batch=100`. If `asked` is given, the window's length stands for its ends."""
    ends = [key.rpartition(".")[2] for key in setting]
    parts = []
    for key, value in setting.items():
        if experiment is not None and key in _WINDOW:
            asked = getattr(experiment, "workload")  # noqa: B009 - of databases only
            parts.append(f"window={asked.window_s / 3600:g}h")
            continue
        *_, section, last = ["", *key.split(".")]
        short = _SHORT.get(last, last) if ends.count(last) == 1 else f"{section}.{last}"
        parts.append(f"{short}={_text(value)}")
    return " ".join(dict.fromkeys(parts))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        value = [f"{key}={inner}" for key, inner in value.items()]
    if isinstance(value, list):
        value = ",".join(map(str, value)) or "none"
    text = "_".join(str(value).lower().split() if isinstance(value, bool) else str(value).split()) or "none"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def refuse_fixed(settings: list[dict[str, Any]], fixed: Mapping[str, str]) -> None:
    """Raise for a knob that sets a swept field; ``fixed``: field -> knob."""
    for key in settings[0]:
        if key in fixed:
            raise UserError(
                f"{fixed[key]}: has no effect: {key} is swept over {number_of(len(settings), 'setting')}; "
                f'SET="matrix.{key}=[...]" sweeps it over other values'
            )
