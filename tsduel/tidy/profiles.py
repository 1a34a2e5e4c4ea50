"""Profiles that were taken after the measured blocks: raw/HOST/profiles -> the cost of each function."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tsduel.core import files
from tsduel.core.rundir import Run

# A host sends no stack of more functions.
_DEEPEST = 500
# Functions outside Go's own library: only the library's paths have no dot in their first element.
_OWN = re.compile(r"main\.|([A-Za-z0-9_-]+\.)+[A-Za-z0-9_-]+/")


@dataclass(frozen=True)
class Profile:
    """The profile of a component at a work; of a fleet, from several hosts: `operations` are their sum.

    `paths` are without endings. `missing`: why a host has none, a sentence each.
    """

    variant: str
    work: str
    role: str
    kind: str
    operations: int
    paths: tuple[Path, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Stacks:
    """A profile by functions. A stack has places in `functions`, outermost first, and a value of each sample."""

    period: int
    samples: tuple[str, ...]
    units: tuple[str, ...]
    functions: tuple[str, ...]
    stacks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def index(run: Run) -> list[Profile]:
    """Return the profiles of a run, as its hosts have listed them."""
    with files.reading(run.path / "raw/HOST/profiles/profiles.json", "list of profiles"):
        return _listed(run)


def _listed(run: Run) -> list[Profile]:
    """Return the profiles of a run; nothing where no profiles were asked for.

    A host that lacks the profile of a variant is left out for all variants, since they need equal work; where every
    host lacks it, the first one stays.
    """
    entries = [
        (host, entry)
        for host in run.plan.every_host
        for entry in run.of_host(host, "profiles/profiles.json").get("profiles") or ()
    ]
    profiles = []
    for key in dict.fromkeys((entry["variant"], entry["work"], entry["role"], entry["kind"]) for _, entry in entries):
        alike = [(host, entry) for host, entry in entries if (entry["work"], entry["role"], entry["kind"]) == key[1:]]
        lacking = {host for host, entry in alike if not entry["file"]}
        added = {host for host, _ in alike} - lacking or {alike[0][0]}
        of_variant = [(host, entry) for host, entry in alike if entry["variant"] == key[0]]
        taken = [(host, entry) for host, entry in of_variant if entry["file"] and host in added]
        # A host names a file beside the record, and no other one.
        paths = tuple(run.path / f"raw/{host}/profiles" / Path(entry["file"]).name for host, entry in taken)
        left_out = ", which is left out" if added - lacking else ""
        missing = tuple(
            (f"on {host}{left_out}: " if run.plan.named(host) else "") + entry["why"]
            for host, entry in of_variant
            if not entry["file"]
        )
        profiles.append(Profile(*key, sum(entry["operations"] for _, entry in taken), paths, missing))
    return profiles


def read(profile: Profile) -> Stacks:
    """Read the stacks of a profile, or say that they are damaged."""
    first, *others = (_stacks(path.with_name(f"{path.name}.stacks.json.gz")) for path in profile.paths)
    for other in others:
        begin = len(first.functions)
        moved = tuple((tuple(begin + place for place in places), values) for places, values in other.stacks)
        first = replace(first, functions=first.functions + other.functions, stacks=first.stacks + moved)
    return first


def _stacks(path: Path) -> Stacks:
    with files.reading(path, "stacks of a profile"):
        profile = json.loads(files.content(path))
        stacks = tuple((tuple(stack["of"]), tuple(stack["values"])) for stack in profile["stacks"] or ())
        samples, units, functions = (tuple(map(str, profile[name] or ())) for name in ("values", "units", "functions"))
        for places, values in stacks:
            if len(values) != len(samples) or not all(0 <= place < len(functions) for place in places):
                raise ValueError("a stack of functions or values that are not there")
            if len(places) > _DEEPEST or any(value < 0 for value in values):
                raise ValueError("a stack that is too deep, or of a value below 0")
        if not 0 < profile["period"] < math.inf:
            raise ValueError(f"a period of {profile['period']}")
        return Stacks(profile["period"], samples, units, functions, stacks)


def owner(functions: Sequence[str]) -> int:
    """Return the place in a stack of the function that owns its cost: the innermost that is not Go's own library.

    Where there is none, as in garbage collection, it is the outermost.
    """
    return next((at for at in reversed(range(len(functions))) if _OWN.match(functions[at])), 0)


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    """Yield the rows of tidy/profiles.csv."""
    for profile in index(run):
        key = (profile.variant, profile.work, profile.role, profile.kind)
        for why in profile.missing:
            yield *key, "", "", 0, 0, 0, "", 0, 0, why
        if not profile.paths:
            continue
        stacks = read(profile)
        for column, (sample, unit) in enumerate(zip(stacks.samples, stacks.units, strict=True)):
            own, total = Counter[str](), Counter[str]()
            for places, values in stacks.stacks:
                names = [stacks.functions[place] for place in places]
                if names:
                    own[names[owner(names)]] += values[column]
                total.update(dict.fromkeys({"", *names}, values[column]))
            head = (*key, sample, unit, stacks.period, profile.operations, len(profile.paths))
            for name in sorted(total):
                if total[name]:
                    yield *head, name, own[name] if name else total[""], total[name], ""
