"""From a component of an experiment to one exact revision, before anything is built."""

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tsduel.core import files, gobuild, hidden, secret_store
from tsduel.core.errors import UserError
from tsduel.core.plan import Component
from tsduel.core.project import PROJECT
from tsduel.core.repository import IS_NONE, files_of, git, is_cluster, module_of, run, says, shallow
from tsduel.core.sections import ComponentAsked
from tsduel.core.wording import did_you_mean, last_line, printable
from tsduel.targets import databases
from tsduel.targets.database import Program
from tsduel.workloads import deployments

FULL_HASH = re.compile(r"[0-9a-f]{40}")
SHORT_HASH = re.compile(r"[0-9a-f]{7,40}")
PROMETHEUS = "github.com/prometheus/prometheus"
_ANSWER = re.compile(r"unknown revision|not found|no matching version|: (403|404|410) ", re.IGNORECASE)
"""What Go says of a version that is not there, or that a proxy does not give."""
SHOWN = 12  # digits of a hash that a label shows


class NoAnswerError(UserError):
    """Whether there is such a version is not known: Go says nothing of it, but of a network or a disk."""


def with_go(
    go_minimum: str, toolchain: str, *command: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in the project's Go environment."""
    return run([PROJECT / "scripts" / "with-go", go_minimum, toolchain, *command], cwd=cwd)


def go_version(go_minimum: str, toolchain: str = "local") -> str:
    """Return the version of the toolchain for ``go: local`` or ``go: go1.25.5``, as go1.26.8."""
    done = with_go(go_minimum, toolchain, "go", "env", "GOVERSION", cwd=Path("/"))
    if done.returncode != 0:
        raise UserError(f"no Go toolchain for 'go: {toolchain}': {last_line(done.stderr)}")
    return done.stdout.strip()


def absolute_location(location: str) -> str:
    """Return an absolute path for a path, and a URL (or user@host:path) unchanged."""
    location = hidden.repository(location)
    if "://" in location or re.match(r"[^/]+@[^/]+:", location):
        return location
    return str(files.from_home(location).absolute())


def _check_ref(ref: str, variant: str) -> None:
    if not ref or ref.startswith(("-", "=", "+", "@")) or any(c.isspace() or not c.isprintable() for c in ref):
        raise UserError(
            f"variant {variant}: ref {ref!r} is no name of a revision; give a tag, a branch or a commit, "
            "which never begins with - = + @ or has spaces"
        )


def download(program: Program, version: str) -> dict[str, Any]:
    """Return Version, Sum, Dir and Origin as `go mod download -json` prints them, or Error, and all that Go `said`."""
    with tempfile.TemporaryDirectory() as outside_any_module:
        command = ("go", "mod", "download", "-json", f"{program.module}@{version}")
        done = with_go(program.go_minimum, "local", *command, cwd=Path(outside_any_module))
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        answer = {}
    if done.returncode != 0 or "Sum" not in answer:
        said = str(answer.get("Error") or done.stderr)
        return {"Error": last_line(said), "said": said}
    return answer


def _module(program: Program, variant: str, asked: ComponentAsked) -> dict[str, str]:
    ref = asked.ref
    _check_ref(ref, variant)
    if "@" in ref:
        raise UserError(f"variant {variant}: ref {ref!r} must be the version alone, without '@'")
    if re.fullmatch(r"\d+\.\d+\.\d+\S*", ref):
        raise UserError(f"variant {variant}: '{ref}' is no version of {program.module}; did you mean v{ref}?")
    answer = download(program, ref)
    if "Sum" not in answer:
        named = re.fullmatch(r"v([23])\.(\d+)\.(\d+)(\S*)", ref)
        if named and program.module == PROMETHEUS:  # its releases have other names as a module
            minor = int(named[2]) + (300 if named[1] == "3" else 0)
            raise UserError(
                f"variant {variant}: the Go module of Prometheus {ref} is called v0.{minor}.{named[3]}{named[4]}: "
                f"name that, or git:REPO@{ref}"
            )
        kind = UserError if _ANSWER.search(answer["said"]) else NoAnswerError
        raise kind(
            f"variant {variant}: '{ref}' does not resolve for module {program.module} ({answer['Error']}); "
            "with 'source: module' only tags, branches and commits that the Go module proxy resolves work, "
            "for any other use 'source: git' with 'repo:'"
        )
    version, checksum = answer["Version"], answer["Sum"]
    # A proxy need not name the commit of a version; the checksum is as exact.
    revision = (answer.get("Origin") or {}).get("Hash") or checksum
    return {"revision": revision, "label": version, "version": version, "sum": checksum}


def _git_label(ref: str, revision: str) -> str:
    if revision.startswith(ref):
        return revision[:SHOWN]
    return ref if re.fullmatch(r"v?\d+(\.\d+)+\S*", ref) else f"{ref}@{revision[:SHOWN]}"


def _rev_parse(directory: str, ref: str) -> str:
    done = git("-C", directory, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    return done.stdout.strip() if done.returncode == 0 else ""


def _remote_revision(repo: str, ref: str, variant: str) -> str:
    done = git(*secret_store.login(os.environ, repo), "ls-remote", "--", repo)
    if done.returncode != 0:
        reason = last_line(done.stderr)
        raise UserError(f"variant {variant}: the repository {repo} cannot be read ({reason}); look at 'repo:'")
    revisions = {name: revision for revision, name in (line.split("\t", 1) for line in done.stdout.split("\n") if line)}
    # In git's own order; NAME^{} is the commit of an annotated tag.
    full = ("", "refs/tags/", "refs/heads/", "refs/")
    found = {prefix: revisions.get(f"{prefix}{ref}^{{}}") or revisions.get(f"{prefix}{ref}", "") for prefix in full}
    _check_one(ref, found["refs/tags/"], found["refs/heads/"], variant)
    if revision := next(filter(None, found.values()), ""):
        return revision
    if not SHORT_HASH.fullmatch(ref):
        return ""
    # Only a clone knows a commit by its hash. The build needs a clone anyway.
    done = run([PROJECT / "scripts" / "fetch-git", repo, ref])
    return _rev_parse(done.stdout.strip(), ref) if done.returncode == 0 else ""


def _check_one(ref: str, tag: str, branch: str, variant: str) -> None:
    """Raise if a name is that of a tag and of a branch at another commit: git takes the tag."""
    if tag and branch and tag != branch:
        raise UserError(
            f"variant {variant}: '{ref}' is a tag ({tag[:SHOWN]}) and a branch ({branch[:SHOWN]}): write tags/{ref} or "
            f"heads/{ref}"
        )


def _names(location: str) -> list[str]:
    """Return the tags and branches of a repository on this machine."""
    if not location.startswith("/"):
        return []
    return git("-C", location, "for-each-ref", "--format=%(refname:lstrip=2)").stdout.split()


def _git(_: Program, variant: str, asked: ComponentAsked) -> dict[str, str]:
    ref, repo = asked.ref, asked.repo
    _check_ref(ref, variant)
    location = absolute_location(repo)
    is_path = location.startswith("/")
    if is_path and (there := git("-C", location, "rev-parse", "--git-dir")).returncode != 0:
        why = "" if IS_NONE in there.stderr else f" ({says(there.stderr)})"
        raise UserError(f"variant {variant}: {location} is no git repository that can be read{why}; look at 'repo:'")
    if is_path:
        _check_one(ref, _rev_parse(location, f"refs/tags/{ref}"), _rev_parse(location, f"refs/heads/{ref}"), variant)
    revision = _rev_parse(location, ref) if is_path else _remote_revision(location, ref, variant)
    if not FULL_HASH.fullmatch(revision):
        raise UserError(
            f"variant {variant}: '{ref}' does not resolve in {location}"
            + (
                shallow(location)
                or did_you_mean(ref, _names(location))
                or "; give a branch, a tag or a commit that is there"
            )
        )
    label = _git_label(ref, revision)
    return {"revision": revision, "label": label, "version": label}


def _path(program: Program, variant: str, asked: ComponentAsked) -> dict[str, str]:
    checkout = Path(absolute_location(asked.path))
    if not checkout.is_dir():
        beside = [entry.name for entry in checkout.parent.glob("*") if entry.is_dir()]
        what = "is no directory" if checkout.exists() else f"no such directory{did_you_mean(checkout.name, beside)}"
        raise UserError(f"variant {variant}: {checkout}: {what}")
    top = git("-C", checkout, "rev-parse", "--show-toplevel")
    if top.returncode != 0 and IS_NONE not in top.stderr:
        raise UserError(f"variant {variant}: git reads nothing in {checkout}: {says(top.stderr)}")
    revision = _rev_parse(str(checkout), "HEAD")
    if top.returncode != 0 or not revision or not checkout.samefile(top.stdout.rstrip("\n")):
        raise UserError(
            f"variant {variant}: {checkout} is not the top of a git checkout with a commit; look at 'path:', "
            "or make it one with 'git init' and a commit"
        )
    _check_module(program, variant, checkout)
    _check_workspace(variant, checkout, asked)
    found = files_of(checkout)
    for note in (*found["notes"], *_workspace_elsewhere(checkout, asked)):
        said = printable(f"variant {variant}: {checkout}: {note}")
        print(said, file=sys.stderr)  # noqa: T201 - beside the plan that is printed
    dirty = str(found["changes"])
    label = f"{checkout.name}@{revision[:SHOWN]}" + (f"+{dirty[:8]}" if dirty else "")
    return {"revision": revision, "label": label, "version": label, "dirty": dirty}


def _check_module(program: Program, variant: str, checkout: Path) -> None:
    """Raise if a checkout is of another database, or of VictoriaMetrics' other version, than the experiment's."""
    module = module_of(checkout)
    others = {part.module for database in databases().values() for part in database.programs.values()}
    if module in others - {program.module}:
        raise UserError(f"variant {variant}: {checkout} is of {module}, and {program.name} of {program.module}")
    if is_cluster(checkout) and program.name == "victoria-metrics":
        raise UserError(
            f"variant {variant}: {checkout} is VictoriaMetrics' cluster version: type `tsduel` in it, or take "
            "EXPERIMENT=experiments/cluster.yml"
        )


def _check_workspace(variant: str, checkout: Path, asked: ComponentAsked) -> None:
    """Raise if `go` in the checkout uses a go.work that git ignores, so that a build would not have it."""
    taken = ("ls-files", "--cached", "--others", "--exclude-standard", "--", "go.work")
    if "GOWORK" not in asked.env and (checkout / "go.work").exists() and not git("-C", checkout, *taken).stdout:
        raise UserError(
            f"variant {variant}: git ignores {checkout}/go.work, so a build would not have it, and `go` there "
            'does: add it (git add --force go.work), or build all without: SET="variants.baseline.env.GOWORK=off '
            'variants.candidate.env.GOWORK=off"'
        )


def _workspace_elsewhere(checkout: Path, asked: ComponentAsked) -> Iterator[str]:
    """Yield a note where `go` in the checkout uses a go.work that is not of it."""
    above = next((here / "go.work" for here in checkout.parents if (here / "go.work").exists()), None)
    where = os.environ.get("GOWORK") or above
    if where and where != "off" and "GOWORK" not in asked.env:
        yield f"it is built without {where}, which `go` there uses"


def _binary(_: Program, variant: str, asked: ComponentAsked) -> dict[str, str]:
    file = Path(absolute_location(asked.path))
    if not file.is_file() or not os.access(file, os.X_OK):
        raise UserError(
            f"variant {variant}: '{asked.path}' is no executable file; 'source: binary' needs 'path:' of one"
        )
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    label = f"{file.name}@{digest[:SHOWN]}"
    return {"revision": f"sha256:{digest}", "label": label, "version": label}


def _url(_: Program, __: str, asked: ComponentAsked) -> dict[str, str]:
    return {"source": "url", "label": deployments.label(asked.url)}


FOUND = {"module": _module, "git": _git, "path": _path, "binary": _binary, "url": _url}
"""What each source finds of a component: `revision`, `label`, `version`, and `sum` or `dirty`."""


@functools.cache
def _found(program: Program, variant: str, asked: str) -> dict[str, str]:
    """Find each revision once: a branch that moves meanwhile is the same in all runs that are planned."""
    part = ComponentAsked.model_validate_json(asked)
    return FOUND["url" if part.url else part.source](program, variant, part)


def resolve(program: Program, variant: str, asked: ComponentAsked) -> Component:
    """Return a component from its exact revision, still without `build_key`; a UserError says what does not exist.

    Its `repo` and `path` may be relative to the working directory; see absolute_location.
    """
    fields: dict[str, Any] = {name: getattr(asked, name) for name in ComponentAsked.model_fields}
    fields |= {name: absolute_location(fields[name]) for name in ("repo", "path") if fields[name]}
    started = {"role", "flags", "files"}
    sought = ComponentAsked(**{name: getattr(asked, name) for name in set(ComponentAsked.model_fields) - started})
    fields |= _found(program, variant, sought.model_dump_json())
    return Component(program=program.name, **fields)


def platform() -> str:
    """Return the platform of binaries that are built on this machine, as linux/x86_64."""
    machine = os.uname()
    return f"{machine.sysname.lower()}/{machine.machine}"


def build_command(program: Program, component: Component) -> tuple[str, ...]:
    """Return the command of a build behind its settings, as NAME=VALUE; empty for a ready binary."""
    command = program.build_command(component.source, component.version)
    own = gobuild.words(component.env)
    # Who sets a variable that our command sets, too, wants theirs.
    ours = [
        word for word in command if not word.startswith(tuple(f"{name}=" for name in gobuild.of_build(component.env)))
    ]
    return (*own, *ours) if command else ()


def build_key(program: Program, component: Component) -> str:
    """Return 16 hex digits over everything that changes the binary."""
    source, command = component.source, build_command(program, component)
    if source == "url":  # nothing is built
        return hashlib.sha256(component.url.encode()).hexdigest()[:16]
    scripts = [PROJECT / word.removeprefix("{project}/") for word in command if word.startswith("{project}/")]
    parts = {
        "source": source,
        # Of a path only its commit and changes count.
        "location": {"module": program.module, "git": component.repo}.get(source, ""),
        "revision": component.revision,
        "sum": component.sum,
        "dirty": component.dirty,
        "go": "" if source == "binary" else go_version(program.go_minimum, component.go),
        # The command has the version that the binary prints.
        "command": command,
        **({"scripts": [hashlib.sha256(path.read_bytes()).hexdigest() for path in scripts]} if scripts else {}),
        "output": program.output,
        "platform": platform(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
