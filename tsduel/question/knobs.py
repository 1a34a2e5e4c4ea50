"""The knobs of the Makefile, laid over an experiment: BASELINE, BLOCKS, SET, TSBS_SCALE and the rest.

Knobs come through the environment, so that no value of theirs is ever part of a shell command.
"""

import copy
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from tsduel.core.errors import UserError
from tsduel.places import place as places
from tsduel.workloads.experiment import Experiment

# Knob -> the fields it sets; the value is read as YAML. The TSBS_ ones are VictoriaMetrics' Makefile's.
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
_REVISION = ("ref", "repo", "path")
SIDES = {"BASELINE": "baseline", "CANDIDATE": "candidate"}
NAMES = (*SIDES, "VERSIONS", "ROLE", *FIELDS, "SET", "AA", *places.KNOBS)


def given(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the knobs that have a value."""
    return {name: environment[name].strip() for name in NAMES if environment.get(name, "").strip()}


def apply(data: dict[str, Any], knobs: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of an experiment's mapping with the knobs laid over it; SET last, then AA."""
    result = copy.deepcopy(data)
    for knob, variant in SIDES.items():
        if knob in knobs:
            _set_side(result, variant, knobs[knob], knob, role(data, knobs))
    if "VERSIONS" in knobs:
        _set_versions(result, knobs)
    for knob, fields in FIELDS.items():
        if knob in knobs:
            # A pattern is text, whatever YAML would make of it.
            value = knobs[knob] if knob in TEXTS else _value(knobs[knob], knob)
            benchmarks = knob == "PROFILE" and result.get("kind") == "gobench"
            for field in ("gobench.profile",) if benchmarks else fields:
                set_field(result, field, value, knob)
    for assignment in _words(knobs.get("SET", ""), "SET"):
        field, separator, value = assignment.partition("=")
        if not separator or not field:
            raise UserError(f'SET: {assignment!r} is not field=value; write SET="workload.scale=4000 design.blocks=6"')
        set_field(result, field, _value(value, f"SET {field}"), "SET")
    if knobs.get("AA", "0") not in {"0", "1"}:
        raise UserError(f"AA: {knobs['AA']!r} is neither 1 nor 0")
    return result


def _words(text: str, knob: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"{knob}: {error} in {text!r}") from None


def _value(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):  # the latter for a date like 2025-13-45
        raise UserError(f"{where}: {text!r} is not a value") from None


def fields_set(knobs: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that knobs set, each with its knob."""
    found = {field: knob for knob, fields in FIELDS.items() if knob in knobs for field in fields}
    return found | {one.partition("=")[0]: "SET" for one in _words(knobs.get("SET", ""), "SET")}


def set_field(data: dict[str, Any], field: str, value: Any, knob: str) -> None:
    """Set `workload.scale` of a mapping; a UserError with the knob's name where something above it is no section."""
    *path, last = field.split(".")
    place = data
    for part in path:
        inner = place.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UserError(f"{knob}: {field}: {part} holds no fields")
        place = inner
    place[last] = value


def _by_role(side: object) -> dict[str, dict[str, Any]]:
    """Return the components of a variant, as far as they are any; the short form is one itself."""
    listed = side.get("components", [side]) if isinstance(side, dict) else None
    parts = [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    return {str(part.get("role", "server")): part for part in parts}


def role(data: Mapping[str, Any], given: Mapping[str, str]) -> str | None:
    """Return whose revision a knob gives: ROLE, or the one component in whose revision baseline and candidate differ.

    Empty where every variant is of one component; None where ROLE has to say it.
    """
    variants, asked = data.get("variants"), given.get("ROLE", "")
    sides = variants if isinstance(variants, dict) else {}
    several = any(isinstance(side, dict) and "components" in side for side in sides.values())
    if asked and not several:
        raise UserError("ROLE: has no effect: no variant of this experiment is a list of `components:`")
    if asked and asked not in (known := _roles(sides)):
        raise UserError(f"ROLE: no variant of this experiment has a component {asked!r}; allowed: {', '.join(known)}")
    if asked or not several:
        return asked
    base, candidate = (_by_role(sides.get(side)) for side in SIDES.values())
    differ = [name for name in {**base, **candidate} if _revision(base, name) != _revision(candidate, name)]
    return differ[0] if len(differ) == 1 and differ[0] in base and differ[0] in candidate else None


def _roles(sides: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for side in sides.values() for name in _by_role(side)))


def _revision(parts: Mapping[str, Mapping[str, Any]], name: str) -> list[Any]:
    part = {"source": "module", **parts.get(name, {})}
    return [part.get(field) for field in ("source", *_REVISION)]


def _unsaid(sides: Mapping[str, Any]) -> UserError:
    return UserError(
        "ROLE is missing: variants of this experiment are made of components; say whose revision is given, "
        f"ROLE={' or ROLE='.join(_roles(sides))}"
    )


def _set_side(data: dict[str, Any], variant: str, text: str, knob: str, whose: str | None) -> None:
    """Take `v1.132.0`, `module:REF`, `git:REPO@REF`, `path:DIRECTORY` or `binary:FILE`, keeping flags and env.

    Of a variant of several components it is the revision of ``whose``.
    """
    variants = data.setdefault("variants", {})
    side = variants.get(variant, {}) if isinstance(variants, dict) else None
    if not isinstance(side, dict):
        raise UserError(f"{knob}: the experiment's variants.{variant} is not a mapping")
    if whose is None and "components" in side:
        raise _unsaid(variants)
    variants[variant] = side = copy.deepcopy(side)  # what YAML names twice is one object
    if whose and whose not in _by_role(side):
        raise UserError(f"{knob}: the experiment's {variant} has no component {whose!r} to be of that revision")
    if whose:
        side = _by_role(side)[whose]
    kind, separator, rest = text.partition(":")
    if not separator or kind not in SOURCES:
        # A plain revision keeps where the experiment takes its revisions from.
        if (source := side.get("source")) in {"path", "binary"}:
            raise UserError(
                f"{knob}: the experiment's {variant} comes from a {source}, which has no revisions; write "
                f"{knob}=module:{text}, git:REPO@{text}, path:DIRECTORY or binary:FILE"
            )
        side["ref"] = text
        return
    for field in _REVISION:
        side.pop(field, None)
    side["source"] = kind
    if kind == "git":
        repo, at, ref = rest.rpartition("@")
        if not at:
            raise UserError(f"{knob}: {text!r} names no revision; write git:REPO@REF")
        side.update(repo=repo, ref=ref)
    else:
        side["ref" if kind == "module" else "path"] = rest


def _set_versions(data: dict[str, Any], knobs: Mapping[str, str]) -> None:
    """Take several revisions, all with the flags and env of the baseline, which is the first of them.

    Where it has no component of that role, of the first variant that has.
    """
    given = _words(knobs["VERSIONS"], "VERSIONS")
    if named := [knob for knob in SIDES if knob in knobs]:
        raise UserError(f"VERSIONS: names every side, so {' and '.join(named)} would have no effect")
    if len(given) < 2:  # noqa: PLR2004 - a comparison needs two
        raise UserError('VERSIONS is not two versions or more: VERSIONS="v1.128.0 v1.129.0"')
    variants, whose = data.get("variants"), role(data, knobs)
    sides = variants if isinstance(variants, dict) else {}
    if whose is None:
        raise _unsaid(sides)
    of_all = sides.get("baseline", {})
    if whose and whose not in _by_role(of_all):
        of_all = next(side for side in sides.values() if whose in _by_role(side))
    names = ("baseline", "candidate", *(f"candidate-{number}" for number in range(2, len(given))))
    data["variants"] = dict.fromkeys(names, of_all)
    for name, text in zip(names, given, strict=False):
        _set_side(data, name, text, "VERSIONS", whose)


def refuse_without_effect(asked: Experiment, given: Mapping[str, str]) -> None:
    """Raise for a knob that this experiment has no use for: nobody is to believe that it did something."""
    why = {}
    if given.get("AA") == "1":
        why["CANDIDATE"] = "AA=1 compares the baseline with itself"
    queries = getattr(asked, "queries", None)
    if queries is not None and not queries.solo:
        why["TSBS_QUERIES"] = (
            'it counts queries of the closed loop, which this experiment has not: add SET="queries.solo=true"; '
            'how long the exchanges of a type last is SET="duel.seconds=2"'
        )
    if not {*SIDES, "VERSIONS"} & set(given):
        why["ROLE"] = "it says whose revision BASELINE, CANDIDATE or VERSIONS is, and none is given"
    for knob, field in (("PACKAGE", "package"), ("BENCH", "bench")):
        if all(getattr(variant, field) for variant in asked.variants.values()):
            why[knob] = f"every variant of this experiment has its own `{field}:`"
    for knob, reason in why.items():
        if knob in given:
            raise UserError(f"{knob}: has no effect: {reason}")
