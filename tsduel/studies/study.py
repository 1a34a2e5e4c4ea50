"""A study: a directory of results/ whose file says what is asked, and the runs that are there for it."""

import os
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import ValidationError

from tsduel.core import files, secret_store
from tsduel.core.codes import INTERRUPTED, interrupted
from tsduel.core.errors import UserError
from tsduel.core.sections import Part

Rule = Generator[Mapping[str, str], int, int]
"""Yields the knobs of the run that comes next, gets its exit code, and returns that of all."""


class Study(Part):
    """What every study has in its file; `given`: the knobs that were typed."""

    FILE: ClassVar[str]
    COMMAND: ClassVar[str]
    """By which a new one is begun."""

    version: Literal[1] = 1
    name: str
    created: str
    kind: str
    given: dict[str, str]

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read the file of a study."""
        path, what = directory / cls.FILE, cls.__name__.lower()
        if not path.exists():
            names = ", ".join(sorted(p.parent.name for p in directory.parent.glob(f"*/{cls.FILE}"))[-5:])
            raise UserError(
                f"{directory}: no such {what}; there are: {names or 'none yet'}; a new one is begun by {cls.COMMAND}"
            )
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            raise UserError(
                f"{path}: no {what} as this version of tsduel has them ({error.errors()[0]['msg']}); start a new "
                "one, without RUN="
            ) from None

    def write(self, directory: Path) -> None:
        """Write the file of a study."""
        files.private_directory(directory)
        text = self.model_dump_json(indent=1) + "\n"
        secret_store.keep(os.environ, text)
        files.write(directory / self.FILE, text)


def drive(rule: Rule, compare: Callable[[dict[str, str]], int], environment: Mapping[str, str] = os.environ) -> int:
    """Make the runs of a rule by ``compare``, which gets the environment of each; return the exit code."""
    try:
        knobs = next(rule)
        # An interrupted run is no result, by which a rule could go on.
        while not interrupted(code := compare({**environment, **knobs})):
            knobs = rule.send(code)
    except StopIteration as end:
        return int(end.value)
    return INTERRUPTED
