"""From GOOD to BAD: released versions of a module, or commits of a repository by first parents; and their log."""

import json
import re
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.sections import Part
from tsduel.core.wording import last_line
from tsduel.plan import sources
from tsduel.targets.database import Program

_FIELDS = "%H%x1f%P%x1f%s"
MOST_LINES = 30
"""Of a log entry."""


class Revision(Part):
    """A version, or a commit by its full hash; `merged` is the other parent of a merge."""

    ref: str
    label: str
    subject: str = ""
    merged: str = ""


def named(repo: str, ref: str) -> str:
    """Return a revision of a repository, or without one a released version, as BASELINE= takes it."""
    return f"git:{sources.absolute_location(repo)}@{ref}" if repo else f"module:{ref}"


@dataclass(frozen=True)
class Line:
    """Where revisions come from: a module of the proxy, or a git repository, whose history lies in `clone`.

    `listed`: the versions of a module in their order, where its proxy is not to be asked for them.
    """

    program: Program
    repo: str = ""
    listed: tuple[str, ...] = ()

    @cached_property
    def clone(self) -> str:
        """The directory that git is asked in."""
        location = sources.absolute_location(self.repo)
        if location.startswith("/"):
            return location
        done = sources.run([PROJECT / "scripts" / "fetch-git", location])
        if done.returncode != 0:
            raise UserError(f"the repository {location} cannot be read: {last_line(done.stderr)}")
        return done.stdout.strip()

    def resolve(self, ref: str, name: str) -> sources.ResolvedSource:
        """Return what a name of a revision means."""
        kind = "git" if self.repo else "module"
        return sources.resolve(self.program, variant=name, source=kind, ref=ref, repo=self.repo)

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
        # What was only a candidate for a release is none, unless it is what was named.
        taken = [v for v in listed[listed.index(good) : listed.index(bad) + 1] if "-" not in v or v in {good, bad}]
        return tuple(Revision(ref=version, label=version) for version in taken)

    def _released(self) -> list[str]:
        with tempfile.TemporaryDirectory() as outside:
            command = ("go", "list", "-m", "-json", "-versions", self.program.module)
            done = sources.with_go(self.program.go_minimum, "local", *command, cwd=Path(outside))
        if done.returncode != 0:
            raise UserError(
                f"the Go module proxy lists no versions of {self.program.module} ({last_line(done.stderr)}); name them "
                'yourself: VERSIONS="v1.131.0 v1.132.0 v1.133.0"'
            )
        found: list[str] = json.loads(done.stdout).get("Versions", [])
        return found

    def _commits(self, good: str, first: str, bad: str, last: str) -> tuple[Revision, ...]:
        base = self._git("merge-base", first, last)
        if base != first:
            raise UserError(
                f"GOOD={good} is no ancestor of BAD={bad}, so what is between them is no line of commits; their last "
                f"common commit is {base[: sources.SHOWN] or 'none'}: take that as GOOD"
            )
        lines = self._git("log", "--first-parent", "--reverse", f"--format={_FIELDS}", f"{first}..{last}").split("\n")
        found = [tuple(line.split("\x1f")) for line in lines]
        parent = found[0][1].partition(" ")[0]
        if parent != first:
            raise UserError(
                f"GOOD={good} is not among the first parents of BAD={bad}: it came in by a merge, whose line leaves "
                f"the other at {parent[: sources.SHOWN]}; take that as GOOD, or a commit of the merged branch as BAD"
            )
        subject = self._git("log", "-1", "--format=%s", first)
        return (
            Revision(ref=first, label=first[: sources.SHOWN], subject=subject),
            *(
                Revision(ref=h, label=h[: sources.SHOWN], subject=said, merged=" ".join(parents.split(" ")[1:]))
                for h, parents, said in found
            ),
        )

    def _git(self, *words: str) -> str:
        done = sources.run(["git", "-C", self.clone, *words])
        return done.stdout.strip() if done.returncode == 0 else ""

    def log(self, revision: Revision) -> str:
        """Return a revision's log entry: of a commit its message, of a version what the module's changelog says.

        Empty where a module has none that names the version.
        """
        text = self._git("show", "--stat", "--first-parent", "--format=fuller", revision.ref) if self.repo else ""
        if not self.repo:
            text = self._changelog(revision.ref)
        lines = text.strip().splitlines()
        more = [f"... and {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
        return "\n".join([*lines[:MOST_LINES], *more])

    def _changelog(self, version: str) -> str:
        with tempfile.TemporaryDirectory() as outside:
            command = ("go", "mod", "download", "-json", f"{self.program.module}@{version}")
            done = sources.with_go(self.program.go_minimum, "local", *command, cwd=Path(outside))
        if done.returncode != 0:
            return ""
        # The nearest to the root first: products inside a module have changelogs of their own.
        found = sorted(Path(json.loads(done.stdout)["Dir"]).rglob("CHANGELOG*.md"), key=lambda p: (len(p.parts), p))
        heading = re.compile(rf"^(#+) .*(?<![\d.]){re.escape(version.removeprefix('v'))}(?![\d.]).*$", re.MULTILINE)
        for path in found:
            text = path.read_text(encoding="utf-8", errors="replace")
            if there := heading.search(text):
                entry = text[there.start() :]
                end = re.search(rf"^#{{1,{len(there[1])}}} ", entry[there.end() - there.start() :], re.MULTILINE)
                return entry[: there.end() - there.start() + end.start()] if end else entry
        return ""

    def inside(self, revision: Revision, parent: Revision) -> str:
        """Say how the commits of a merge are searched; empty where it is none."""
        merged = revision.merged.partition(" ")[0]
        if not merged:
            return ""
        fork, commits = self._git("merge-base", parent.ref, merged), self._git("rev-list", f"{parent.ref}..{merged}")
        return (
            f"It is a merge of {len(commits.splitlines())} commits. To search them: make bisect "
            f"GOOD={named(self.repo, fork)} BAD={merged}"
        )
