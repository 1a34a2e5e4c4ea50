"""Profiles that were taken behind the measured blocks: raw/profiles -> what each function costs."""

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.core.rundir import Run

# Of Go's paths only those of its own library have no dot in their first element.
_OWN = re.compile(r"main\.|([A-Za-z0-9_-]+\.)+[A-Za-z0-9_-]+/")


@dataclass(frozen=True)
class Profile:
    """What a component did at a work, of a fleet on several hosts: their `operations` and `paths` without endings.

    `missing`: why there is none, a sentence a host.
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
    """A profile by functions: of each stack, outermost first, places in `functions` and what it has of each sample."""

    period: int
    samples: tuple[str, ...]
    units: tuple[str, ...]
    functions: tuple[str, ...]
    stacks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def index(run: Run) -> list[Profile]:
    """Return what was to be had; nothing where no profiles were asked for.

    A host on which any variant has none is left out for all of them, unless that is every host: work is to be equal.
    """
    entries = [
        (host, entry)
        for host in run.plan.every_host
        for entry in run.of_host(host, "profiles/profiles.json").get("profiles") or ()
    ]
    found = []
    for key in dict.fromkeys((of["variant"], of["work"], of["role"], of["kind"]) for _, of in entries):
        alike = [(host, of) for host, of in entries if (of["work"], of["role"], of["kind"]) == key[1:]]
        lacking = {host for host, of in alike if not of["file"]}
        added = {host for host, _ in alike} - lacking or {alike[0][0]}
        mine = [(host, of) for host, of in alike if of["variant"] == key[0]]
        had = [(host, of) for host, of in mine if of["file"] and host in added]
        paths = tuple(run.path / run.place_of(host, f"profiles/{of['file']}") for host, of in had)
        left_out = ", which is left out" if added - lacking else ""
        missing = (f"{f'on {host}{left_out}: ' * run.plan.is_fleet}{of['why']}" for host, of in mine if not of["file"])
        found.append(Profile(*key, sum(of["operations"] for _, of in had), paths, tuple(missing)))
    return found


def read(profile: Profile) -> Stacks:
    """Read the stacks of a profile, or say that they are damaged."""
    first, *others = (_stacks(path.with_name(f"{path.name}.stacks.json.gz")) for path in profile.paths)
    for other in others:
        begin = len(first.functions)
        moved = tuple((tuple(begin + place for place in places), values) for places, values in other.stacks)
        first = replace(first, functions=first.functions + other.functions, stacks=first.stacks + moved)
    return first


def _stacks(path: Path) -> Stacks:
    try:
        found = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"{path}: no stacks of a profile ({error}); the run directory is not whole") from None
    stacks = tuple((tuple(one["of"]), tuple(one["values"])) for one in found["stacks"] or ())
    samples, units, functions = (tuple(found[name] or ()) for name in ("values", "units", "functions"))
    return Stacks(found["period"], samples, units, functions, stacks)


def owner(functions: Sequence[str]) -> int:
    """Return the place in a stack of who its cost is put down to: the innermost that is not of Go's own library.

    Where there is none, as in garbage collection, the outermost.
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
