"""The knobs of the Makefile, which change fields of an experiment: BASELINE, BLOCKS, SET, TSBS_SCALE and others.

Knobs come from the environment, so that no value is ever part of a shell command.
"""

import copy
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from tsduel.core import files, hidden, repository, yamls
from tsduel.core.errors import UserError
from tsduel.core.wording import did_you_mean
from tsduel.places import place as places
from tsduel.workloads.experiment import REVISION, Experiment

# Knob -> the fields that it sets; the value is YAML. VictoriaMetrics' Makefile has the same TSBS_ knobs.
FIELDS = {
    "BLOCKS": ("design.blocks",),
    "CACHE_LIMIT": ("host.cache_limit_gb",),
    "MODULE": ("gobench.module",),
    "PACKAGE": ("gobench.package",),
    "BENCH": ("gobench.bench",),
    "PROFILE": ("profile",),
    "TSBS_SCALE": ("workload.scale",),
    "TSBS_START": ("workload.start",),
    "TSBS_END": ("workload.end",),
    "TSBS_STEP": ("workload.interval",),
    "TSBS_QUERIES": ("queries.count",),
    "TSBS_WORKERS": ("workload.workers", "queries.workers"),
}
TEXTS = {"MODULE", "PACKAGE", "BENCH", "PROFILE"}
SOURCES = {"module", "git", "path", "binary"}
SIDES = {"BASELINE": "baseline", "CANDIDATE": "candidate"}
NAMES = (*SIDES, "VERSIONS", "ROLE", *FIELDS, "SET", "AA", *places.KNOBS)


def given(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the knobs that have a value, with names in place of secrets."""
    found = {name: environment[name].strip() for name in NAMES if environment.get(name, "").strip()}
    return {name: _hidden_set(value) if name == "SET" else hidden.knob(value) for name, value in found.items()}


def with_base(knobs: Mapping[str, str], data: Mapping[str, Any]) -> dict[str, str]:
    """Return the knobs with a BASELINE beside a lone CANDIDATE=path:CHECKOUT: where it left the main branch.

    ``data``: the experiment, whose baseline may lack the component that is the checkout's.
    """
    kind, _, path = knobs.get("CANDIDATE", "").partition(":")
    alone = kind == "path" and not {"BASELINE", "VERSIONS", "AA"} & set(knobs)
    top = files.from_home(path)
    if not alone or not repository.answer(top, "rev-parse", "--show-toplevel"):
        return dict(knobs)
    if (component := role(data, knobs)) and component not in by_role(_sides(data).get("baseline")):
        return dict(knobs)
    base = repository.merge_base(top, f"BASELINE=git:{path}@HEAD~1 or BASELINE=v1.132.0")
    return {**knobs, "BASELINE": f"git:{path}@{base}"}


def _hidden_set(text: str) -> str:
    words = []
    for word in _words(text, "SET"):
        field, separator, value = word.partition("=")
        part = _value(value, f"SET {field}") if separator else None
        shown = hidden.field(field, part)
        words.append(word if shown == part else f"{field}={json.dumps(shown)}")
    return text if words == _words(text, "SET") else shlex.join(words)


def apply(data: dict[str, Any], knobs: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of an experiment's mapping with the fields that the knobs set; SET comes last."""
    result = copy.deepcopy(data)
    _set_revisions(result, knobs)
    for knob, fields in FIELDS.items():
        if knob in knobs:
            # A pattern is text, even if YAML would read something else.
            value = knobs[knob] if knob in TEXTS else _value(knobs[knob], knob)
            of_go = knob == "PROFILE" and result.get("kind") == "gobench"
            for field in ("gobench.profile",) if of_go else fields:
                set_field(result, field, value, knob)
    for assignment in _words(knobs.get("SET", ""), "SET"):
        field, separator, value = assignment.partition("=")
        if not separator or not field:
            raise UserError(f'SET: {assignment!r} is not field=value; write SET="workload.scale=4000 design.blocks=6"')
        set_field(result, field, _value(value, f"SET {field}"), "SET")
    if knobs.get("AA", "0") not in {"0", "1"}:
        raise UserError(f"AA: {knobs['AA']!r} is neither 1 nor 0")
    return result


def _set_revisions(data: dict[str, Any], knobs: Mapping[str, str]) -> None:
    """Set the sides that knobs name; the experiment's question is about the versions that it names itself."""
    component = role(data, knobs) if {*SIDES} & set(knobs) else None
    for knob, variant in SIDES.items():
        if knob in knobs:
            _set_side(data, variant, knobs[knob], knob, component)
    if "VERSIONS" in knobs:
        _set_versions(data, knobs)
    if {*SIDES, "VERSIONS"} & set(knobs):
        data.pop("question", None)


def _words(text: str, knob: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"{knob}: {error} in {text!r}") from None


def _value(text: str, where: str) -> Any:
    if text == "-":  # a list with nothing in YAML, and stdin here
        return text
    try:
        value = yamls.load(text, where)
    except UserError:
        if re.match(r"\d{4}-\d", text):  # YAML reads a date that is none; who uses it says how it is written
            return text
        raise UserError(f"{where}: {text!r} is not a value") from None
    if type(value) is int and re.fullmatch(r"[-+]?(0[\d_]+|[\d_]+(:\d+)+)", text):
        raise UserError(
            f"{where}: YAML reads a number like this in base 8 or 60: write it without leading zeros and colons, or a "
            """text in quotes of both kinds, '"010"'"""
        )
    return value


def fields_set(knobs: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that knobs set, each with its knob."""
    fields = {field: knob for knob, fields in FIELDS.items() if knob in knobs for field in fields}
    return fields | {word.partition("=")[0]: "SET" for word in _words(knobs.get("SET", ""), "SET")}


def set_field(data: dict[str, Any], field: str, value: Any, knob: str) -> None:
    """Set a field like `workload.scale` of a mapping; a UserError names the knob if part of its path is no section."""
    *path, last = field.split(".")
    section = data
    for part in path:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            raise UserError(f"{knob}: {field}: {part} holds no fields")
    section[last] = value


def _sides(data: Mapping[str, Any]) -> dict[str, Any]:
    variants = data.get("variants")
    return variants if isinstance(variants, dict) else {}


def by_role(side: object) -> dict[str, dict[str, Any]]:
    """Return the components of a variant, not yet validated; the short form is a component itself."""
    listed = side.get("components", [side]) if isinstance(side, dict) else None
    parts = [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    return {str(part.get("role", "server")): part for part in parts}


def role(data: Mapping[str, Any], knobs: Mapping[str, str]) -> str | None:
    """Return the component whose revision a knob sets: ROLE, or the only one whose revision differs between the sides.

    Empty if every variant has one component; None if ROLE is needed.
    """
    sides, wanted = _sides(data), knobs.get("ROLE", "")
    several = any(isinstance(side, dict) and "components" in side for side in sides.values())
    if wanted and not several:
        raise UserError("ROLE: has no effect: no variant of this experiment is a list of `components:`")
    if wanted and wanted not in (roles := _roles(sides)):
        raise UserError(f"ROLE: no variant of this experiment has a component {wanted!r}; allowed: {', '.join(roles)}")
    if wanted or not several:
        return wanted
    base, candidate = (by_role(sides.get(side)) for side in SIDES.values())
    differ = [name for name in {**base, **candidate} if _revision(base, name) != _revision(candidate, name)]
    return differ[0] if len(differ) == 1 and differ[0] in base and differ[0] in candidate else None


def _roles(sides: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for side in sides.values() for name in by_role(side)))


def _revision(parts: Mapping[str, Mapping[str, Any]], name: str) -> list[Any]:
    part = {"source": "module", **parts.get(name, {})}
    return [part.get(field) for field in ("source", *REVISION)]


def _missing_role(sides: Mapping[str, Any]) -> UserError:
    return UserError(
        "ROLE is missing: variants of this experiment are made of components; say whose revision is given, "
        f"ROLE={' or ROLE='.join(_roles(sides))}"
    )


def _set_side(data: dict[str, Any], variant: str, text: str, knob: str, component: str | None) -> None:
    """Set `v1.132.0`, `module:REF`, `git:REPO@REF`, `path:DIRECTORY` or `binary:FILE`, and keep flags and env.

    ``component``: see role().
    """
    variants = data.setdefault("variants", {})
    side = variants.get(variant, {}) if isinstance(variants, dict) else None
    if not isinstance(side, dict):
        raise UserError(f"{knob}: the experiment's variants.{variant} is not a mapping")
    if component is None and "components" in side:
        raise _missing_role(variants)
    variants[variant] = side = copy.deepcopy(side)  # an anchor of YAML makes two variants one object
    if component:
        if component not in (parts := by_role(side)):
            raise UserError(f"{knob}: the experiment's {variant} has no component {component!r} to be of that revision")
        side = parts[component]
    kind, separator, rest = text.partition(":")
    if separator and (kind not in SOURCES or not rest):
        forms = "VERSION, module:VERSION, git:REPO@REF, path:DIRECTORY or binary:FILE"
        raise UserError(f"{knob}: {text!r} names nothing to build; write {forms}{did_you_mean(kind, SOURCES)}")
    if not separator:
        # A plain revision keeps the source of the experiment.
        if (source := side.get("source")) in {"path", "binary"}:
            raise UserError(
                f"{knob}: the experiment's {variant} comes from a {source}, which has no revisions; write "
                f"{knob}=module:{text}, git:REPO@{text}, path:DIRECTORY or binary:FILE"
            )
        side["ref"] = text
        return
    for field in REVISION:
        side.pop(field, None)
    repo, at, ref = rest.rpartition("@")
    if kind == "git" and not at:
        raise UserError(f"{knob}: {text!r} names no revision; write git:REPO@REF")
    where = {"module": {"ref": rest}, "git": {"repo": repo, "ref": ref}}.get(kind, {"path": rest})
    side.update(where, source=kind)


def _set_versions(data: dict[str, Any], knobs: Mapping[str, str]) -> None:
    """Make a variant of each revision; the first is the baseline.

    All have the flags and env of the baseline, or of the first variant with a component of that role.
    """
    versions = _words(knobs["VERSIONS"], "VERSIONS")
    if sides := [knob for knob in SIDES if knob in knobs]:
        raise UserError(f"VERSIONS: names every side, so {' and '.join(sides)} would have no effect")
    if len(versions) < 2:  # noqa: PLR2004 - a comparison needs two
        raise UserError('VERSIONS is not two versions or more: VERSIONS="v1.128.0 v1.129.0"')
    variants, component = _sides(data), role(data, knobs)
    if component is None:
        raise _missing_role(variants)
    template = variants.get("baseline", {})
    if component and component not in by_role(template):
        template = next(side for side in variants.values() if component in by_role(side))
    names = ("baseline", "candidate", *(f"candidate-{number}" for number in range(2, len(versions))))
    data["variants"] = dict.fromkeys(names, template)
    for name, version in zip(names, versions, strict=False):
        _set_side(data, name, version, "VERSIONS", component)


def refuse_without_effect(experiment: Experiment, knobs: Mapping[str, str]) -> None:
    """Raise for a knob without effect on this experiment, so that the user does not rely on it."""
    why = {}
    if knobs.get("AA") == "1":
        why["CANDIDATE"] = "AA=1 compares the baseline with itself"
    queries = getattr(experiment, "queries", None)
    if queries is not None and not queries.solo:
        solo = "queries.solo=true"
        if experiment.design.load == "in_turn":  # without a solo part
            solo += " design.load=solo workload.solo_scale=null"
        why["TSBS_QUERIES"] = (
            f'it counts queries of the closed loop, which this experiment has not: add SET="{solo}"; '
            'how long the exchanges of a type last is SET="duel.seconds=2"'
        )
    if not {*SIDES, "VERSIONS"} & set(knobs):
        why["ROLE"] = "it says whose revision BASELINE, CANDIDATE or VERSIONS is, and none is given"
    for knob, field in (("PACKAGE", "package"), ("BENCH", "bench")):
        if all(getattr(variant, field) for variant in experiment.variants.values()):
            why[knob] = f"every variant of this experiment has its own `{field}:`"
    for knob, reason in why.items():
        if knob in knobs:
            raise UserError(f"{knob}: has no effect: {reason}")
