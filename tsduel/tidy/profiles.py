"""Profiles that were taken behind the measured blocks: raw/profiles -> what each function costs."""

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tsduel.core.errors import UserError
from tsduel.core.rundir import Run

# Of Go's paths only those of its own library have no dot in their first element.
_OWN = re.compile(r"main\.|([A-Za-z0-9_-]+\.)+[A-Za-z0-9_-]+/")


@dataclass(frozen=True)
class Profile:
    """An entry of raw/profiles/profiles.json; `file` is empty where `why` says why there is none."""

    variant: str
    work: str
    role: str
    kind: str
    file: str
    operations: int
    seconds: float
    why: str


@dataclass(frozen=True)
class Stacks:
    """A profile by functions: of each stack, outermost first, places in `functions` and what it has of each sample."""

    period: int
    samples: tuple[str, ...]
    units: tuple[str, ...]
    functions: tuple[str, ...]
    stacks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def index(run: Run) -> list[Profile]:
    """Return what was to be had; nothing where no profiles were asked for."""
    return [Profile(**entry) for entry in run.json("raw/profiles/profiles.json").get("profiles") or ()]


def read(run: Run, profile: Profile) -> Stacks:
    """Read the stacks of a profile, or say that they are damaged."""
    path = run.path / f"raw/profiles/{profile.file}.stacks.json.gz"
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
        if not profile.file:
            yield *key, "", "", 0, profile.operations, "", 0, 0, profile.why
            continue
        stacks = read(run, profile)
        for column, (sample, unit) in enumerate(zip(stacks.samples, stacks.units, strict=True)):
            own, total = Counter[str](), Counter[str]()
            for places, values in stacks.stacks:
                names = [stacks.functions[place] for place in places]
                if names:
                    own[names[owner(names)]] += values[column]
                total.update(dict.fromkeys({"", *names}, values[column]))
            head = (*key, sample, unit, stacks.period, profile.operations)
            for name in sorted(total):
                if total[name]:
                    yield *head, name, own[name] if name else total[""], total[name], ""
