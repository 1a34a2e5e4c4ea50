"""Changes between two revisions of a program: commits of a repository, or files of two modules."""

import filecmp
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tsduel.core import repository
from tsduel.core.errors import UserError
from tsduel.core.plan import Component
from tsduel.core.project import PROJECT
from tsduel.core.wording import last_line
from tsduel.plan import sources
from tsduel.targets.database import Program

_REQUIRED = re.compile(r"^(?:require )?\s*(\S+\.\S+) (v\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """One commit; `taken_back`: the baseline has it, and the candidate does not."""

    revision: str
    day: str
    subject: str
    taken_back: bool


@dataclass(frozen=True)
class Changes:
    """`commits`, newest first, or `files` by package; `modules`: other modules, old and new version.

    `why`: a sentence if the changes cannot be found.
    """

    commits: tuple[Commit, ...] = ()
    files: tuple[tuple[str, tuple[str, ...]], ...] = ()
    modules: tuple[tuple[str, str, str], ...] = ()
    why: str = ""


def between(program: Program, old: Component, new: Component, packages: Collection[str] = ()) -> Changes:
    """Return the changes between two revisions in these Go packages; without packages, all changes.

    ``packages``: import paths, also of other modules, which a repository may have in vendor/; `main`: the
    program's.
    """
    kinds = {old.source, new.source}
    try:
        if kinds == {"module"}:
            return _of_modules(program, old, new, packages)
        if kinds <= {"git", "path"}:
            return _of_git(program, old, new, packages)
    except UserError as error:
        return Changes(why=str(error))
    if "binary" in kinds:
        return Changes(why="a ready binary has no sources to look at")
    return Changes(why=f"a {old.source} and a {new.source} have no history in common")


def _of_git(program: Program, old: Component, new: Component, packages: Collection[str]) -> Changes:
    repo = new.repo or new.path
    if not repo.startswith("/"):
        fetched = repository.run([PROJECT / "scripts" / "fetch-git", repo, new.revision])
        if fetched.returncode != 0:
            return Changes(why=f"{repo} cannot be read: {last_line(fetched.stderr)}")
        repo = fetched.stdout.strip()
    go_mod = repository.git("-C", repo, "show", f"{new.revision}:go.mod").stdout.splitlines()
    module = next((line.split()[1] for line in go_mod if line.startswith("module ")), program.module)
    paths = [_directory(program, module, package) for package in packages]
    log = ("log", "--left-right", "--no-merges", "--format=%m%x09%H%x09%cs%x09%s")
    done = repository.git("-C", repo, *log, f"{old.revision}...{new.revision}", "--", *paths)
    if done.returncode != 0:
        return Changes(why=f"{repo} does not know both revisions: {last_line(done.stderr)}")
    lines = (line.split("\t", 3) for line in done.stdout.split("\n") if line)
    return Changes(commits=tuple(Commit(rev, day, subject, side == "<") for side, rev, day, subject in lines))


def _main(program: Program, module: str) -> str:
    return f"{module}/{program.package.removeprefix('./')}".removesuffix("/.")


def _directory(program: Program, module: str, package: str) -> str:
    """Return git's pattern for the files of a package, in the module or in vendor/."""
    package = _main(program, module) if package == "main" else package
    inside = package == module or package.startswith(f"{module}/")
    path = package[len(module) + 1 :] if inside else f"vendor/{package}"
    return f":(glob){path}/*" if path else ":(glob)*"


def _of_modules(program: Program, old: Component, new: Component, packages: Collection[str]) -> Changes:
    roots = []
    for part in (old, new):
        version = part.version or part.ref
        answer = sources.download(program, version)
        if "Dir" not in answer:
            return Changes(why=f"the sources of {program.module}@{version} cannot be had: {answer['Error']}")
        roots.append(Path(answer["Dir"]))
    wanted = {_main(program, program.module) if package == "main" else package for package in packages}
    differ: dict[str, list[str]] = {}
    for path in sorted({file.relative_to(root) for root in roots for file in root.rglob("*.go")}):
        package = f"{program.module}/{path.parent}".removesuffix("/.")
        if path.name.endswith("_test.go") or (wanted and package not in wanted):
            continue
        before, after = (root / path for root in roots)
        if not (before.exists() and after.exists() and filecmp.cmp(before, after, shallow=False)):
            differ.setdefault(package, []).append(path.name)
    was, now = (dict[str, str](_REQUIRED.findall((root / "go.mod").read_text(encoding="utf-8"))) for root in roots)
    modules = tuple(
        (name, was.get(name, ""), now.get(name, ""))
        for name in sorted({**was, **now})
        if was.get(name) != now.get(name)
        and (not wanted or any(package == name or package.startswith(f"{name}/") for package in wanted))
    )
    return Changes(files=tuple((package, tuple(names)) for package, names in differ.items()), modules=modules)
