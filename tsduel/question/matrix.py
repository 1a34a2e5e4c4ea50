"""`matrix:` of an experiment: keys with lists of values; every combination is a cell, one setting of a sweep.

As in GitHub's workflows, its `exclude:` is a list of combinations that are left out.
"""

import itertools
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.place import GCP_SWEPT
from tsduel.core.plan import Cell
from tsduel.core.wording import number_of
from tsduel.workloads.experiment import Experiment

MOST_CELLS = 200
EXCLUDE = "exclude"
SWEPT = (*Cell.SECTIONS, "variants", "parameters")
"""Sections that may differ between cells."""
_WINDOW = ("workload.start", "workload.end")
_SHORT = {"batch_size": "batch", "data_kind": "data"}
_LONGEST = 24


@dataclass(frozen=True)
class AskedCell:
    """One combination: its name, the fields that it sets, and the experiment with these fields."""

    name: str
    set: dict[str, Any]
    asked: Experiment


def combinations(matrix: Any, where: str, known: Collection[str], *, many: bool) -> list[dict[str, Any]]:
    """Return the fields that each cell sets, the last key varying fastest; a UserError says what is wrong.

    ``known``: sections of an experiment of this kind; ``many``: allow more than MOST_CELLS.
    """
    if not isinstance(matrix, dict):
        raise UserError(f"{where}: matrix: keys with lists are needed: `matrix: {{workload.scale: [100, 1000]}}`")
    matrix = json.loads(json.dumps(matrix, default=str))
    axes = {key: _values(key, values, where, known) for key, values in _flat({**matrix, EXCLUDE: {}})}
    excluded = [_excluded(combination, axes, where) for combination in matrix.get(EXCLUDE) or []]
    product = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    wanted = (cell for cell in product if not any(combination.items() <= cell.items() for combination in excluded))
    cells = list(itertools.islice(wanted, None if many else MOST_CELLS + 1))
    if len(cells) > MOST_CELLS and not many:
        raise UserError(
            f"{where}: matrix: more than {MOST_CELLS} cells, each with all blocks of the design: "
            "shorten its lists or exclude some, or add YES=1 if it is meant"
        )
    if not cells:
        raise UserError(f"{where}: matrix: exclude leaves no cell")
    return cells


def _flat(matrix: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each key with its value, written as `workload.scale:` or as `workload: {scale:`."""
    for name, value in matrix.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _values(key: str, values: Any, where: str, known: Collection[str]) -> list[Any]:
    section = key.partition(".")[0]
    if section in known and section not in SWEPT and key not in GCP_SWEPT:
        raise UserError(
            f"{where}: matrix: {key} is the same for the whole run; what can be swept is in {', '.join(SWEPT)}, and "
            f"{' and '.join(GCP_SWEPT)}"
        )
    if not isinstance(values, list) or not values:
        raise UserError(f"{where}: matrix: {key}: a list of values is needed (it is {values!r})")
    for value in values:
        if values.count(value) > 1:
            raise UserError(f"{where}: matrix: {key}: {value!r} is there twice")
    return values


def _excluded(combination: Any, axes: Mapping[str, list[Any]], where: str) -> dict[str, Any]:
    if not isinstance(combination, dict) or not combination:
        raise UserError(f"{where}: matrix.exclude: a list of combinations is needed, each with keys and one value each")
    flat = dict(_flat(combination))
    for key, value in flat.items():
        if key not in axes:
            raise UserError(f"{where}: matrix.exclude: {key} is not swept; swept are {', '.join(axes)}")
        if value not in axes[key]:
            raise UserError(f"{where}: matrix.exclude: {value!r} is no value of {key} in the matrix")
    return flat


def name(cell: Mapping[str, Any], experiment: Experiment | None = None) -> str:
    """Return a cell's name: `scale=1000 batch=100`. If `asked` is given, the window's length stands for its ends."""
    ends = [key.rpartition(".")[2] for key in cell]
    parts = []
    for key, value in cell.items():
        if experiment is not None and key in _WINDOW:
            parts.append(f"window={getattr(experiment, 'workload').window_s / 3600:g}h")  # noqa: B009 - of databases only
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


def refuse_fixed(cells: list[dict[str, Any]], fixed: Mapping[str, str]) -> None:
    """Raise for a knob that sets a swept field; ``fixed``: field -> knob."""
    for key in cells[0]:
        if key in fixed:
            raise UserError(
                f"{fixed[key]}: has no effect: {key} is swept over {number_of(len(cells), 'cell')}; "
                f'SET="matrix.{key}=[...]" sweeps it over other values'
            )
