#!/usr/bin/env python3
"""Builds what a run needs into the cache of this machine, once, and records it in RUN/build/: see --help.

Called by the roles on the measured machine, which has a Python for Ansible: 3.9 and its standard library will do.
Prints `built` if something was. A build that fails ends with 2 and the last lines of its log, RUN/build/NAME.log.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROJECT = Path(__file__).resolve().parent.parent
CACHE = Path(os.path.abspath(os.environ.get("TSDUEL_CACHE") or PROJECT / ".cache"))  # noqa: PTH100 - links stay as they are
# Recorded: they decide which bytes are taken for a module, and what the compiler makes of them.
GO_SETTINGS = ("GOFLAGS", "GOSUMDB", "GONOSUMDB")
# On a rented machine (roles/host): what is built is somebody's candidate, and not to become root there.
BUILD_USER = os.environ.get("TSDUEL_BUILD_USER", "")
BUILD_APART = PROJECT / "ansible/roles/variant/files/build-apart"
LOG_LINES = 20
ENDINGS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class BuildError(Exception):
    """What a person can mend, in a sentence."""


class Builder:
    """One entry of the cache: made under its lock, published when it is whole, with a log of its own."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self.output: Any = None

    def run(self, *command: object, cwd: Path, capture: bool = False) -> str:
        """Run a command with its words in the log; it and all that it started end with us."""
        with subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else self.output,
            stderr=self.output,
            text=True,
            errors="surrogateescape",  # of names of files
            start_new_session=True,
            env={k: v for k, v in os.environ.items() if k not in {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}}
            | {"GIT_TERMINAL_PROMPT": "0"},
        ) as process:
            try:
                said = process.communicate()[0] or ""
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            raise BuildError(said.strip())
        return said

    def git(self, *words: object) -> str:
        """Run git, and return what it prints."""
        return self.run("git", *words, cwd=PROJECT, capture=True).rstrip("\n")

    def publish(self, directory: Path, is_whole: Callable[[Path], bool], make: Callable[[Path], None]) -> None:
        """Have ``make`` fill WORK/publish, which becomes the entry, unless it is whole. One at a time."""
        # It may be of a private checkout.
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            fcntl.flock(stack.enter_context(Path(f"{directory}.lock").open("a")), fcntl.LOCK_EX)
            if not is_whole(directory):
                # What a killed build left; the lock says that nobody is at it.
                for left in directory.parent.glob(f"{directory.name}.partial.*"):
                    remove(left)
                work = Path(tempfile.mkdtemp(prefix=f"{directory.name}.partial.", dir=directory.parent))
                stack.callback(remove, work)
                (work / "publish").mkdir(mode=0o755)
                self.output = stack.enter_context(self.log.open("a", encoding="utf-8"))
                try:
                    make(work)
                except BuildError as failure:
                    print(failure, file=self.output, flush=True)
                    last = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
                    words = f"{self.name}: the build failed; the last lines of {self.log}:\n" + "\n".join(last)
                    raise BuildError(words) from None
                remove(directory)
                # A power cut must not leave the name of an empty program.
                subprocess.run(["sync", "-f", work], check=True)
                (work / "publish").rename(directory)
                print("built", flush=True)
            # What was not used for longest is removed first from a cache that has become too large.
            (directory / ".used").touch()


def remove(path: Path) -> None:
    """Remove a tree, also one that a build has write-protected."""
    for directory, _, _ in os.walk(path):
        Path(directory).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def sha256(path: Path) -> str:
    """Return the checksum of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_json(path: Path) -> Any:
    """Return what a file holds; {} where it is missing or cut short."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def write_json(path: Path, value: object) -> None:
    """Write a file that is there whole or not at all, whatever ends us."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(json.dumps(value, indent=2) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


def with_go(minimum: str, toolchain: str = "local") -> tuple[str, ...]:
    """Return the words before a command that uses Go."""
    return (str(PROJECT / "scripts/with-go"), minimum, toolchain)


def go_record(minimum: str, toolchain: str = "local") -> dict[str, Any]:
    """Return what records of builds have of Go: its version, and the settings that shape what it builds."""
    command = [*with_go(minimum, toolchain), "go", "env", "-json", "GOVERSION", *GO_SETTINGS]
    done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"there is no Go {toolchain}: {done.stderr.strip()}")
    settings = json.loads(done.stdout)
    return {"go_version": settings.pop("GOVERSION"), "go_settings": settings}


def programs(directory: Path) -> dict[str, str]:
    """Return the checksum of each program in a directory of the cache."""
    return {path.name: sha256(path) for path in sorted(directory.glob("ts*")) if path.suffix != ".json"}


def build_go(
    kind: str, source: Path, key_of: Sequence[Path], packages: list[str], run: Path | None, *, program: str = ""
) -> dict[str, Any]:
    """Build programs of a module of ours into CACHE/KIND/KEY, CGO_ENABLED=0; return their record."""
    minimum = re.findall(r"^go (\S+)", (source / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)[0]
    machine, go = os.uname(), go_record(minimum)
    shaped = f"{go['go_version']} {machine.sysname} {machine.machine}\n".encode()
    key = hashlib.sha256(b"".join(path.read_bytes() for path in key_of) + shaped).hexdigest()[:16]
    directory = CACHE / kind / key
    builder = Builder(kind, run / f"build/{kind}.log" if run else Path(f"{directory}.log"))

    def make(work: Path) -> None:
        flags = ("-mod=readonly", "-o", f"{work}/publish/{program}", *packages)
        builder.run(*with_go(minimum), "env", "CGO_ENABLED=0", "go", "build", *flags, cwd=source)
        write_json(work / f"publish/{kind}.json", go | {"sha256": programs(work / "publish")})

    def is_whole(found: Path) -> bool:
        recorded = read_json(found / f"{kind}.json").get("sha256")
        return bool(recorded) and recorded == programs(found)

    builder.publish(directory, is_whole, make)
    # Where it lies now: a cache that was moved or is reached by another name is as good as before.
    return {"bin_dir": str(directory), **read_json(directory / f"{kind}.json")}


def agent(run: Path | None = None) -> None:
    """Build host/, the program that measures."""
    source = PROJECT / "host"
    files = sorted(
        path
        for path in source.rglob("*")
        if path.is_file() and not path.name.endswith("_test.go") and "testdata" not in path.parts
    )
    with contextlib.nullcontext() if run else contextlib.redirect_stdout(sys.stderr):
        record = build_go("agent", source, files, ["."], run, program="tsduel-host")
    binary = Path(record.pop("bin_dir")) / "tsduel-host"
    record |= {"version": binary.parent.name, "sha256": record["sha256"][binary.name], "binary": str(binary)}
    if run:
        write_json(run / "build/agent.json", record)
    else:
        print(binary)


def tsbs(run: Path, version: str) -> None:
    """Build TSBS's commands, as go.mod and go.sum of its role pin them."""
    source = PROJECT / "ansible/roles/tsbs/files"
    pinned = re.findall(r"^require github.com/timescale/tsbs (.*)", (source / "go.mod").read_text(), re.MULTILINE)[0]
    if version != pinned:
        raise BuildError(f"tsbs: version {version} is planned and {source}/go.mod pins {pinned}; plan again")
    packages = re.findall(r'_ "(.*)"', (source / "tools.go").read_text())
    key_of = tuple(source / name for name in ("go.mod", "go.sum", "tools.go"))
    write_json(run / "build/tsbs.json", {"version": version, **build_go("tsbs", source, key_of, packages, run)})


class Component:
    """One program of a variant, from a module, a git repository, a checkout or a file."""

    def __init__(self, spec: dict[str, Any], run: Path, builder: Builder) -> None:
        self.spec = spec
        self.builder = builder
        # What lay on the user's machine and was brought to this one, or where it lies here.
        brought = run / "sources" / spec["build_key"]
        self.path = brought if brought.is_file() else Path(spec["path"])

    def build(self) -> dict[str, Any]:
        """Build it unless it is in the cache; return its record."""
        directory = CACHE / "variants" / self.spec["build_key"]
        self.builder.publish(directory, self.is_whole, self.make)
        told = {name: self.spec[name] for name in ("role", "program", "ref", "version")}
        return {**read_json(directory / "build.json"), **told, "binary": str(directory / "binary")}

    def go(self) -> dict[str, Any]:
        """Return what is recorded of the Go that builds it; a ready binary says itself what built it."""
        if self.spec["source"] == "binary":
            return {"go_version": ""}
        return go_record(self.spec["go_minimum"], self.spec["go"])

    def is_whole(self, directory: Path) -> bool:
        """Return whether it need not be built; a Go that was updated since makes `go: local` mean something else."""
        record, binary = read_json(directory / "build.json"), directory / "binary"
        if not os.access(binary, os.X_OK) or record.get("sha256") != sha256(binary):
            return False
        wanted = self.go()["go_version"]
        return not wanted or record["go_version"] in {"", wanted}

    def make(self, work: Path) -> None:
        """Get the sources, build, and describe what came of it."""
        try:
            output = self._compile(work)
            binary = Path(shutil.copyfile(output, work / "publish/binary"))
        finally:
            if (work / "source/.git").is_file():
                self.builder.git("-C", work / "source", "worktree", "remove", "--force", work / "source")
        binary.chmod(0o755)
        # Go's own record in the binary: true of binaries from elsewhere, too. (None, for one that Go did not build.)
        spec = self.spec
        found = subprocess.run(
            [*with_go(spec["go_minimum"]), "go", "version", "-m", binary], capture_output=True, text=True, check=False
        ).stdout
        made_by = re.search(r": (go\S+)", found.partition("\n")[0])
        record = {
            **{name: spec[name] for name in ("target", "source", "revision", "build_key")},
            **self.go(),
            "go_version": made_by[1] if made_by else "",
            "built_by": BUILD_USER,
            "build_command": " ".join(spec["build_command"]),
            "cgo_enabled": "CGO_ENABLED=1" in found,
            "sha256": sha256(binary),
            "size_bytes": binary.stat().st_size,
        }
        write_json(work / "publish/build.json", record)

    def _compile(self, work: Path) -> Path:
        spec, output = self.spec, work / "output"
        sources: Path = getattr(self, f"_take_{spec['source']}")(work)
        words, go = spec["build_command"], (spec["go_minimum"], spec["go"])
        if words and BUILD_USER:
            print(f"+ {words} as {BUILD_USER}", file=self.builder.output, flush=True)
            apart = (BUILD_APART, BUILD_USER, sources, work, spec["output"], *go, *words)
            self.builder.run(*with_go(*go), *apart, cwd=sources)
        elif words:
            words = [word.replace("{project}", str(PROJECT)).replace("{output}", str(output)) for word in words]
            print(f"+ cd {sources}\n+ {words}", file=self.builder.output, flush=True)
            self.builder.run(*with_go(*go), *words, cwd=sources)
        for made in (output, sources / spec["output"]):
            if made.is_file():
                return made
        raise BuildError(f"the build command ended well but wrote no {spec['output']}")

    def _take_module(self, work: Path) -> Path:
        spec = self.spec
        wanted = f"{spec['module']}@{spec['version']}"
        command = (*with_go(spec["go_minimum"], spec["go"]), "go", "mod", "download", "-json", wanted)
        try:
            answer = json.loads(self.builder.run(*command, cwd=work, capture=True))  # outside any module
        except BuildError as failure:
            raise BuildError(json.loads(str(failure) or "{}").get("Error", "")) from None
        if spec["sum"] and spec["sum"] != answer["Sum"]:
            raise BuildError(f"{wanted} has checksum {answer['Sum']}, and the plan says {spec['sum']}")
        return Path(answer["Dir"])

    def _take_git(self, work: Path) -> Path:
        spec, git = self.spec, self.builder.git
        fetch = (PROJECT / "scripts/fetch-git", spec["repo"], spec["revision"])
        clone = self.builder.run(*fetch, cwd=PROJECT, capture=True).rstrip("\n")
        git("-C", clone, "worktree", "prune")
        git("-C", clone, "worktree", "add", "--quiet", "--force", "--detach", work / "source", spec["revision"])
        return work / "source"

    def _take_path(self, work: Path) -> Path:
        """Take a copy, changes and new files included, so that the build writes nothing into the checkout."""
        spec, git, path, copy = self.spec, self.builder.git, self.path, work / "source"
        if path.is_file():
            (work / "brought").mkdir()
            self.builder.run("tar", "-C", work / "brought", "-xzf", path, cwd=work)
            path = work / "brought"
        git("clone", "--quiet", "--shared", "--no-checkout", "--", path, copy)
        git("-C", copy, "reset", "--quiet", spec["revision"])
        # What git sees and is there: tracked files that are not deleted, and new ones that are not ignored.
        listed = git("-C", path, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        names = work / "names"
        names.write_text(
            "".join(f"{name}\0" for name in listed if name and os.path.lexists(path / name)), errors="surrogateescape"
        )
        self.builder.run(
            "sh",
            "-c",
            'tar -C "$1" --no-recursion --null --verbatim-files-from -T "$2" -cf - | tar -C "$3" -xf -',
            "-",
            path,
            names,
            copy,
            cwd=work,
        )
        git("-C", copy, "add", "--all")
        tree, dirty = git("-C", copy, "write-tree"), ""
        if tree != git("-C", copy, "rev-parse", "HEAD^{tree}"):
            dirty = hashlib.sha256(tree.encode()).hexdigest()
            self.builder.run(
                "git",
                "-C",
                copy,
                "diff",
                "--binary",
                "--cached",
                "HEAD",
                f"--output={work}/publish/source.diff",
                cwd=work,
            )
        git("-C", copy, "reset", "--quiet")
        if dirty != spec["dirty"]:
            raise BuildError(f"{spec['path']} changed since the plan was made; plan again")
        return copy

    def _take_binary(self, work: Path) -> Path:
        shutil.copyfile(self.path, work / "output")
        if f"sha256:{sha256(work / 'output')}" != self.spec["revision"]:
            raise BuildError(f"{self.spec['path']} changed since the plan was made; plan again")
        return work


def variant(run: Path, name: str) -> None:
    """Build every component of a variant."""
    # Read here, not through Ansible: a flag or a path may hold what Ansible takes for a template.
    found = next(v for v in read_json(run / "plan/ansible-vars.json")["variants"] if v["name"] == name)
    log = run / f"build/{name}.log"
    log.unlink(missing_ok=True)
    records = [Component(spec, run, Builder(f"variant {name}", log)).build() for spec in found["components"]]
    write_json(run / f"build/{name}.json", {"variant": name, "binary": records[0]["binary"], "components": records})


def main() -> int:
    """Do what is asked; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("agent", help="tsduel-host, of host/; without a run, print where it is").add_argument(
        "run", nargs="?"
    )
    for kind, word, text in (("tsbs", "version", "TSBS's commands"), ("variant", "name", "the programs of a variant")):
        own = kinds.add_parser(kind, help=text)
        own.add_argument("run")
        own.add_argument(word)
    asked = parser.parse_args()
    run = Path(asked.run).absolute() if asked.run else None

    def leave(number: int, _frame: object) -> None:
        # An ending Ansible sends its signal twice and no longer reads what is said: neither must end the cleaning.
        for each in ENDINGS:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in ENDINGS:
        signal.signal(number, leave)
    try:
        if run is None or asked.kind == "agent":
            agent(run)
        elif asked.kind == "tsbs":
            tsbs(run, asked.version)
        else:
            variant(run, asked.name)
    except BuildError as error:
        with contextlib.suppress(BrokenPipeError):
            print(error, file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
