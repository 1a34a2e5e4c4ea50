"""The files of experiments by their names. No library is needed, so that a mistyped name is refused at once."""

import re
import textwrap
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.wording import did_you_mean

HOME = PROJECT / "experiments"


def find(text: str) -> Path:
    """Return the file of an experiment, from its path, or from the name of an experiment of ours, like `quick`."""
    ours = HOME / text.removeprefix("experiments/")
    named = ours.with_name(f"{ours.name.removesuffix('.yml')}.yml") if ours.name else ours
    try:
        if Path(text).is_file() or "\0" in text or not named.is_file():
            return Path(text)
    except OSError as error:
        raise unreadable(Path(text), error.strerror) from None
    return named.relative_to(Path.cwd()) if named.is_relative_to(Path.cwd()) else named


def unreadable(path: Path, why: object) -> UserError:
    """Return the sentence for a file that cannot be read, with the nearest name."""
    names = [str(ours.relative_to(HOME).with_suffix("")) for ours in HOME.rglob("*.yml")]
    typed = str(path).removeprefix("experiments/").removesuffix(".yml")
    return UserError(f"EXPERIMENT: {path}: {why}{did_you_mean(typed, names) or f'; those of ours are in {HOME}'}")


def listed() -> Iterator[tuple[str, str]]:
    """Yield the name of each experiment of ours, and the sentence that its file begins with."""
    for path in sorted(HOME.glob("*.yml")):
        lines = takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
        said = " ".join(line.strip("# ") for line in lines)
        yield path.stem, textwrap.shorten(re.split(r"(?<=[.?]) (?=[A-Z])", said)[0], 90, placeholder=" ...")


def refuse_missing(text: str) -> None:
    """Raise if there is no such file."""
    if text and not (path := find(text)).exists():
        raise unreadable(path, "No such file or directory")
