"""Reads an experiment: its file, with the fields that knobs set, checked by the schema of its kind.

Every field but `name` has a default. Unknown keys, wrong types and impossible values are refused with the file, the key
and a sentence that says what is allowed. Only YAML and pydantic are needed, so that it is quick.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tsduel.core import files, hidden, yamls
from tsduel.core.errors import UserError
from tsduel.core.plan import Asked
from tsduel.question import knobs, like, matrix, parameters, refusals
from tsduel.question.experiments import find, unreadable
from tsduel.question.matrix import Setting
from tsduel.workloads import DEFAULT_KIND, WORKLOADS
from tsduel.workloads.experiment import Experiment

DEFAULT_EXPERIMENT = "experiments/local.yml"
_MOST = 4 << 20  # of a file of YAML, also unpacked


@dataclass(frozen=True)
class Question:
    """A validated experiment, and what it was made from.

    `settings` are those of a study, each validated by itself; without a study there is one without a name.
    """

    settings: tuple[Setting, ...]
    source: Asked

    @property
    def asked(self) -> Experiment:
        """Return the experiment; of a study its first setting."""
        return self.settings[0].asked


def read(environment: Mapping[str, str]) -> Question:
    """Read the experiment of EXPERIMENT, KIND (the target of `make`) and the knobs."""
    path, wanted = environment.get("EXPERIMENT", ""), environment.get("KIND", "")
    path = path and str(find(path))
    unwritten = WORKLOADS[wanted].unwritten if wanted in WORKLOADS else None
    if not path and unwritten is None:
        path = str(find(DEFAULT_EXPERIMENT))
    written = read_file(Path(path)) if path else dict(unwritten or {})
    typed = knobs.with_base(knobs.given(environment), written)
    data = knobs.apply(written, typed)
    origin = path or f"make {wanted}"
    where = f"{origin} with {' '.join(typed)}" if typed else origin
    kind = str(data.get("kind", DEFAULT_KIND))
    if wanted and kind in WORKLOADS and kind != wanted:
        raise UserError(f"{where}: its kind is {kind}: run it with make {kind}")
    settings = expand(data, where, typed, many=environment.get("YES", "").strip() == "1")
    knobs.refuse_without_effect(settings[0].asked, typed)
    return Question(settings, Asked(experiment=path, written=as_kept(written), knobs=typed))


def as_kept(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a plan keeps of an experiment's file: JSON, which has no times, with names in place of secrets."""
    kept: dict[str, Any] = json.loads(json.dumps(hidden.experiment(dict(written)), default=str))
    return kept


def has_changed(experiment: str, written: Mapping[str, Any]) -> bool:
    """Return whether an experiment's file is another than a plan has kept; a UserError if it is gone, or none any more.

    Of Go benchmarks without a file, and of plans that kept nothing, it is never.
    """
    return bool(experiment and written) and as_kept(read_file(find(experiment))) != written


def expand(
    data: Mapping[str, Any], where: str, changes: Mapping[str, str] | None = None, *, many: bool = False
) -> tuple[Setting, ...]:
    """Return the settings of a mapping: one without a name if nothing is swept. A UserError names its setting."""
    data = hidden.experiment(dict(data), templates=bool(data.get(parameters.SECTION)))
    plain = {key: value for key, value in data.items() if key != "matrix"}
    kind = str(data.get("kind", DEFAULT_KIND))
    swept = data.get("matrix") or {}
    if not swept or kind not in WORKLOADS:
        return (Setting("", {}, validate(dict(data), where)),)
    settings = matrix.combinations(swept, where, many=many)
    matrix.refuse_fixed(settings, knobs.fields_set(changes or {}))
    valid, wrong = list[Setting](), list[str]()
    for setting in settings:
        base = copy.deepcopy(plain)
        for key, value in setting.items():
            knobs.set_field(base, key, value, "matrix")
        try:
            asked = validate(base, f"{where}: setting {matrix.name(setting)}")
        except UserError as error:
            wrong.append(str(error))
        else:
            valid.append(Setting(matrix.name(setting, asked), setting, asked))
    if wrong:
        more = f"\n{where}: so are {len(wrong) - 1} more of {len(settings)} settings" if len(wrong) > 1 else ""
        raise UserError(f"{wrong[0]}{more}")
    if len(valid) == 1:
        return (replace(valid[0], name=""),)
    names = [setting.name for setting in valid]
    # Long values are cut, so that names may be equal: then they get a number.
    numbered = [f"{name} #{names[: at + 1].count(name)}" for at, name in enumerate(names)]
    unique = [name if names.count(name) == 1 else other for name, other in zip(names, numbered, strict=True)]
    return tuple(replace(setting, name=name) for setting, name in zip(valid, unique, strict=True))


def read_file(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read an experiment file as a mapping, with the fields of its `like:`, not yet validated.

    ``above``: the files that are like this one.
    """
    own = _mapping(path)
    if like.KEY not in own:
        return own
    base = like.path(own.pop(like.KEY), path)
    if base in above:
        raise UserError(f"{path}: {like.KEY}: {base.stem} is like this experiment itself")
    return like.merged(read_file(base, (*above, path)), own)


def _mapping(path: Path) -> dict[str, Any]:
    try:
        text = files.text_of(path, most=_MOST)
    except OSError as error:
        raise unreadable(path, error.strerror) from None
    data = yamls.load(text, str(path))
    if not isinstance(data, dict):
        raise UserError(f"{path}: an experiment is a mapping that starts with `name:`")
    return data


def validate(data: dict[str, Any], where: str) -> Experiment:
    """Check a mapping against the schema of its kind; `where` names its origin in messages."""
    kind = data.get("kind", DEFAULT_KIND)
    if not isinstance(kind, str) or kind not in WORKLOADS:
        raise UserError(f"{where}: kind: {kind!r} is not known; allowed: {', '.join(WORKLOADS)}")
    model = WORKLOADS[kind].experiment
    data = hidden.experiment(parameters.filled(data, where))
    try:
        # From JSON pydantic takes a list for a tuple. JSON has no times, YAML has.
        plain = json.dumps(data, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{where}: not an experiment: {error}") from None
    for key, text in refusals.strings(data):
        # No file name, flag or variable can contain it, and between flags it would be a separator.
        if "\0" in text:
            raise UserError(f"{where}: {key}: {text!r} contains a NUL character, which no program can be given")
    try:
        return model.model_validate_json(plain)
    except ValidationError as error:
        # A default that is made of a wrong value is no mistake of its own.
        wrong = [item for item in error.errors() if item["type"] != "default_factory_not_called"]
        sentences = [refusals.sentence(item, model) for item in wrong]
        raise UserError("\n".join(f"{where}: {sentence}" for sentence in sentences)) from None
