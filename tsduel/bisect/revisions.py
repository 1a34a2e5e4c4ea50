"""The revisions from GOOD to BAD: released versions of a module, or commits by first parents; and their log."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from subprocess import CompletedProcess

from tsduel.core import repository
from tsduel.core.errors import UserError
from tsduel.core.plan import Component
from tsduel.core.project import PROJECT
from tsduel.core.sections import ComponentAsked, Part
from tsduel.core.wording import last_line
from tsduel.plan import sources
from tsduel.targets.database import Program

_FIELDS = "%H%x1f%P%x1f%s"
MOST_LINES = 30
"""Lines of a log entry that are shown."""


class Revision(Part):
    """A version, or a commit by its full hash; `merged`: the other parents of a merge."""

    ref: str
    label: str
    subject: str = ""
    merged: str = ""


def named(repo: str, ref: str) -> str:
    """Return a revision of a repository, or a released version without one, as BASELINE= takes it."""
    return f"git:{sources.absolute_location(repo)}@{ref}" if repo else f"module:{ref}"


@dataclass(frozen=True)
class Line:
    """The source of revisions: a module of the proxy, or a git repository.

    `listed`: the versions of a module in their order; if given, the proxy is not asked for them.
    """

    program: Program
    repo: str = ""
    listed: tuple[str, ...] = ()

    @cached_property
    def clone(self) -> str:
        """The directory of the repository, cloned if it is remote."""
        location = sources.absolute_location(self.repo)
        if location.startswith("/"):
            return location
        done = repository.run([PROJECT / "scripts" / "fetch-git", location])
        if done.returncode != 0:
            raise UserError(f"the repository {location} cannot be read: {last_line(done.stderr)}")
        return done.stdout.strip()

    def resolve(self, ref: str, name: str) -> Component:
        """Resolve a name of a revision."""
        asked = ComponentAsked(source="git" if self.repo else "module", ref=ref, repo=self.repo)
        return sources.resolve(self.program, name, asked)

    def between(self, good: str, bad: str) -> tuple[Revision, ...]:
        """Return all revisions from GOOD to BAD, both included."""
        first, last = self.resolve(good, "GOOD"), self.resolve(bad, "BAD")
        if first.revision == last.revision:
            raise UserError(f"GOOD and BAD are the same revision, {first.label}: there is nothing between them")
        if self.repo:
            return self._commits(good, first.revision, bad, last.revision)
        return self._versions(first.version, last.version)

    def _versions(self, good: str, bad: str) -> tuple[Revision, ...]:
        listed = list(self.listed) or self._released()
        for name, version in (("GOOD", good), ("BAD", bad)):
            if version not in listed:
                raise UserError(
                    f"{name}: {version} is not among the {len(listed)} versions of {self.program.module} that "
                    f"{'VERSIONS names' if self.listed else 'the Go module proxy lists'}; commits are searched in a "
                    "repository, with GOOD=git:REPO@REF"
                )
        if listed.index(good) > listed.index(bad):
            raise UserError(f"GOOD={good} is a later version than BAD={bad}: exchange them")
        # Skip release candidates, unless they are GOOD or BAD.
        taken = [v for v in listed[listed.index(good) : listed.index(bad) + 1] if "-" not in v or v in {good, bad}]
        return tuple(Revision(ref=version, label=version) for version in taken)

    def _released(self) -> list[str]:
        done = self._go("list", "-m", "-json", "-versions", self.program.module)
        if done.returncode != 0:
            raise UserError(
                f"the Go module proxy lists no versions of {self.program.module} ({last_line(done.stderr)}); name them "
                'yourself: VERSIONS="v1.131.0 v1.132.0 v1.133.0"'
            )
        versions: list[str] = json.loads(done.stdout).get("Versions", [])
        return versions

    def _commits(self, good: str, first: str, bad: str, last: str) -> tuple[Revision, ...]:
        base = self._git("merge-base", first, last)
        if base != first:
            if not base and (missing := repository.shallow(self.clone)):
                raise UserError(f"GOOD={good} and BAD={bad} have no common commit{missing}")
            raise UserError(
                f"GOOD={good} is no ancestor of BAD={bad}, so what is between them is no line of commits; their last "
                f"common commit is {base[: sources.SHOWN] or 'none'}: take that as GOOD"
            )
        log = self._git("log", "--first-parent", "--reverse", f"--format={_FIELDS}", f"{first}..{last}")
        commits = [line.split("\x1f", 2) for line in log.split("\n")]
        parent = commits[0][1].partition(" ")[0]
        if parent != first:
            raise UserError(
                f"GOOD={good} is not among the first parents of BAD={bad}: it came in by a merge, whose line leaves "
                f"the other at {parent[: sources.SHOWN]}; take that as GOOD, or a commit of the merged branch as BAD"
            )
        commits.insert(0, [first, "", self._git("log", "-1", "--format=%s", first)])
        return tuple(
            Revision(ref=ref, label=ref[: sources.SHOWN], subject=subject, merged=parents.partition(" ")[2])
            for ref, parents, subject in commits
        )

    def _git(self, *words: str) -> str:
        done = repository.git("-C", self.clone, *words)
        return done.stdout.strip() if done.returncode == 0 else ""

    def log(self, revision: Revision) -> str:
        """Return the message of a commit, or a version's section in the module's changelog; empty where it has none."""
        if self.repo:
            text = self._git("show", "--stat", "--first-parent", "--format=fuller", revision.ref)
        else:
            text = self._changelog(revision.ref)
        lines = text.strip().splitlines()
        more = [f"... and {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
        return "\n".join([*lines[:MOST_LINES], *more])

    def _changelog(self, version: str) -> str:
        done = self._go("mod", "download", "-json", f"{self.program.module}@{version}")
        if done.returncode != 0:
            return ""
        # The nearest to the root first: products inside a module have changelogs of their own.
        paths = sorted(Path(json.loads(done.stdout)["Dir"]).rglob("CHANGELOG*.md"), key=lambda p: (len(p.parts), p))
        heading = re.compile(rf"^(#+) .*(?<![\d.]){re.escape(version.removeprefix('v'))}(?![\d.]).*$", re.MULTILINE)
        for path in paths:
            text = path.read_text(encoding="utf-8", errors="replace")
            if begin := heading.search(text):
                end = re.compile(rf"^#{{1,{len(begin[1])}}} ", re.MULTILINE).search(text, begin.end())
                return text[begin.start() : end.start() if end else None]
        return ""

    def _go(self, *words: str) -> CompletedProcess[str]:
        return sources.with_go(self.program.go_minimum, "local", "go", *words, cwd=Path("/"))  # outside any module

    def inside(self, revision: Revision, parent: Revision) -> str:
        """Say how to search the commits of a merge; empty where the revision is none."""
        merged = revision.merged.partition(" ")[0]
        if not merged:
            return ""
        fork, commits = self._git("merge-base", parent.ref, merged), self._git("rev-list", f"{parent.ref}..{merged}")
        return (
            f"It is a merge of {len(commits.splitlines())} commits. To search them: make bisect "
            f"GOOD={named(self.repo, fork)} BAD={merged}"
        )
