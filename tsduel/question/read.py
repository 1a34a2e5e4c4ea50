"""What was asked: an experiment's file with the knobs laid over it, checked by the schema of its kind.

Every field but `name` has a default; unknown keys, wrong types and impossible values are refused with the file, the key
and a sentence that says what is allowed. Nothing here needs more than YAML and pydantic, so that it is quick.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tsduel.core.errors import UserError
from tsduel.question import knobs, matrix, refusals
from tsduel.question.matrix import AskedCell
from tsduel.workloads import DEFAULT_KIND, WORKLOADS
from tsduel.workloads.experiment import Experiment

DEFAULT_EXPERIMENT = "experiments/local.yml"


@dataclass(frozen=True)
class Question:
    """A validated experiment, the file it comes from (empty: none), what stands in that, and the knobs laid over it.

    `cells` are the settings of a sweep, each validated by itself; `asked` is the first of them.
    """

    cells: tuple[AskedCell, ...]
    path: str
    written: dict[str, Any]
    given: dict[str, str]

    @property
    def asked(self) -> Experiment:
        """Return the experiment: of a sweep its first cell."""
        return self.cells[0].asked


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
    cells = expand(data, where, given, many=environment.get("YES", "").strip() == "1")
    knobs.refuse_without_effect(cells[0].asked, given)
    return Question(cells, path, written, given)


def expand(
    data: Mapping[str, Any], where: str, given: Mapping[str, str] | None = None, *, many: bool = False
) -> tuple[AskedCell, ...]:
    """Return the cells of a mapping, one without a name where nothing is swept; a UserError names the cell it is of."""
    plain = {key: value for key, value in data.items() if key != "matrix"}
    kind = data.get("kind", DEFAULT_KIND)
    swept = data.get("matrix") or {}
    if not swept or kind not in WORKLOADS or "matrix" not in WORKLOADS[kind].experiment.model_fields:
        return (AskedCell("", {}, validate(dict(data), where)),)
    cells = matrix.combinations(swept, where, WORKLOADS[kind].experiment.model_fields, many=many)
    matrix.refuse_fixed(cells, knobs.fields_set(given or {}))
    found, wrong = list[AskedCell](), list[str]()
    for cell in cells:
        mine = copy.deepcopy(plain)
        for key, value in cell.items():
            knobs.set_field(mine, key, value, "matrix")
        try:
            asked = validate(mine, f"{where}: cell {matrix.name(cell)}")
        except UserError as error:
            wrong.append(str(error))
        else:
            found.append(AskedCell(matrix.name(cell, asked), cell, asked))
    if wrong:
        more = f"\n{where}: so are {len(wrong) - 1} more of {len(cells)} cells" if len(wrong) > 1 else ""
        raise UserError(f"{wrong[0]}{more}")
    if len(found) > 1 and found[0].asked.design.reload == "once":
        raise UserError(f"{where}: design.reload: once keeps the data of one setting, and each cell has its own")
    if len(found) > 1 and getattr(found[0].asked, "profile", None):
        raise UserError(f"{where}: profile: is of one setting: take a cell's into a run of its own, or leave it out")
    names = matrix.told_apart([cell.name for cell in found]) if len(found) > 1 else [""]
    return tuple(replace(cell, name=name) for cell, name in zip(found, names, strict=True))


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
