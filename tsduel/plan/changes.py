"""What lies between two revisions of a program: commits of a git repository, or files that differ in two modules."""

import filecmp
import json
import re
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tsduel.core.plan import Component
from tsduel.core.project import PROJECT
from tsduel.core.wording import last_line
from tsduel.plan.sources import TIMEOUT_S
from tsduel.targets.database import Program

_REQUIRED = re.compile(r"^(?:require )?\s*(\S+\.\S+) (v\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """One commit; `taken_back`: it is in the baseline, and not in the candidate."""

    revision: str
    day: str
    subject: str
    taken_back: bool


@dataclass(frozen=True)
class Changes:
    """`commits`, newest first, or `files` that differ, by package; `modules`: other modules' old and new version.

    `why` is a sentence where neither can be said.
    """

    commits: tuple[Commit, ...] = ()
    files: tuple[tuple[str, tuple[str, ...]], ...] = ()
    modules: tuple[tuple[str, str, str], ...] = ()
    why: str = ""


def between(program: Program, one: Component, other: Component, packages: Collection[str] = ()) -> Changes:
    """Return what lies between two revisions and touches these Go packages; without any, all of it.

    ``packages``: import paths, also of other modules, which a repository may hold in vendor/; `main` is the program's.
    """
    sources = {one.source, other.source}
    if sources == {"module"}:
        return _of_modules(program, one, other, packages)
    if sources <= {"git", "path"}:
        return _of_git(program, one, other, packages)
    if "binary" in sources:
        return Changes(why="a ready binary has no sources to look at")
    return Changes(why=f"a {one.source} and a {other.source} have no history in common")


def _said(*command: str | Path) -> tuple[bool, str]:
    """Return whether a program did it, and what it said."""
    try:
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return done.returncode == 0, done.stderr if done.returncode else done.stdout


def _of_git(program: Program, one: Component, other: Component, packages: Collection[str]) -> Changes:
    where = other.repo or other.path
    if not where.startswith("/"):
        fetched, said = _said(PROJECT / "scripts" / "fetch-git", where, other.revision)
        if not fetched:
            return Changes(why=f"{where} cannot be read: {last_line(said)}")
        where = said.strip()
    git = ("git", "-C", where)
    _, go_mod = _said(*git, "show", f"{other.revision}:go.mod")
    module = next((line.split()[1] for line in go_mod.splitlines() if line.startswith("module ")), program.module)
    paths = [_directory(program, module, package) for package in packages]
    log = (*git, "log", "--left-right", "--no-merges", "--format=%m%x09%H%x09%cs%x09%s")
    read, said = _said(*log, f"{one.revision}...{other.revision}", "--", *paths)
    if not read:
        return Changes(why=f"{where} does not know both revisions: {last_line(said)}")
    lines = (line.split("\t", 3) for line in said.splitlines())
    return Changes(commits=tuple(Commit(rev, day, subject, side == "<") for side, rev, day, subject in lines))


def _directory(program: Program, module: str, package: str) -> str:
    """Return the place of a package in a repository: it and not what lies below it, in the module or in vendor/."""
    if package == "main":
        package = f"{module}/{program.package.removeprefix('./')}".removesuffix("/.")
    inside = package == module or package.startswith(f"{module}/")
    path = package[len(module) + 1 :] if inside else f"vendor/{package}"
    return f":(glob){path}/*" if path else ":(glob)*"


def _of_modules(program: Program, one: Component, other: Component, packages: Collection[str]) -> Changes:
    found = []
    for part in (one, other):
        name = f"{program.module}@{part.version or part.ref}"
        with_go = (PROJECT / "scripts" / "with-go", program.go_minimum, "local")
        had, said = _said(*with_go, "go", "mod", "download", "-json", name)
        if not had:
            return Changes(why=f"the sources of {name} cannot be had: {last_line(said)}")
        found.append(Path(json.loads(said)["Dir"]))
    main = f"{program.module}/{program.package.removeprefix('./')}".removesuffix("/.")
    wanted = {main if package == "main" else package for package in packages}
    differ: dict[str, list[str]] = {}
    for path in sorted({file.relative_to(root) for root in found for file in root.rglob("*.go")}):
        package = f"{program.module}/{path.parent}".removesuffix("/.")
        if path.name.endswith("_test.go") or (wanted and package not in wanted):
            continue
        before, after = (root / path for root in found)
        if not (before.exists() and after.exists() and filecmp.cmp(before, after, shallow=False)):
            differ.setdefault(package, []).append(path.name)
    versions = [dict(_REQUIRED.findall((root / "go.mod").read_text(encoding="utf-8"))) for root in found]
    modules = tuple(
        (name, old, new)
        for name in sorted({**versions[0], **versions[1]})
        if (old := versions[0].get(name, "")) != (new := versions[1].get(name, ""))
        and (not wanted or any(package == name or package.startswith(f"{name}/") for package in wanted))
    )
    return Changes(files=tuple((package, tuple(names)) for package, names in differ.items()), modules=modules)
