#!/usr/bin/env python3
"""Builds what a run needs into the cache of this machine, once, and records it in RUN/build/: see --help.

The role `build` calls it on the measured machine. Python 3.9 with its standard library is enough. It prints `built`
if it built something; without a run it builds tsduel-host, and its last line is the path of that. A build that fails
ends with code 2 and the last lines of its log, RUN/build/NAME.log.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import checkout
from builder import GIT, PROJECT, Builder, BuildError
from wholefiles import read_json, sha256, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

CACHE = Path(os.path.abspath(os.environ.get("TSDUEL_CACHE") or PROJECT / ".cache"))  # noqa: PTH100 - links stay
# Settings that can change the bytes of a build; its record has them.
GO_SETTINGS = ("GOFLAGS", "GOSUMDB", "GONOSUMDB")
# On a rented machine this user builds the candidates, without a way to become root (roles/host).
BUILD_USER = os.environ.get("TSDUEL_BUILD_USER", "")
# The words of a build command that are settings stand before the others.
SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
BUILD_APART = PROJECT / "ansible/roles/build/files/build-apart"
STOP_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def with_go(minimum: str, toolchain: str = "local") -> tuple[str, ...]:
    """Return the words before a command that uses Go."""
    return (str(PROJECT / "scripts/with-go"), minimum, toolchain)


def go_record(minimum: str, toolchain: str = "local", *arguments: str) -> dict[str, Any]:
    """Return the version of Go and the settings that affect a build, for the build's record."""
    command = [*with_go(minimum, toolchain), *arguments, "go", "env", "-json", "GOVERSION", *GO_SETTINGS]
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
    named = (f"{path.relative_to(source)}\0".encode() + path.read_bytes() for path in key_of)
    key = hashlib.sha256(b"".join(named) + shaped).hexdigest()[:16]
    directory = CACHE / kind / key
    builder = Builder(kind, run / f"build/{kind}.log" if run else Path(f"{directory}.log"))

    def make(work: Path) -> None:
        flags = ("-mod=readonly", "-o", f"{work}/publish/{program}", *packages)
        builder.fetching(*with_go(minimum), "env", "CGO_ENABLED=0", "go", "build", *flags, cwd=source)
        write_json(work / f"publish/{kind}.json", go | {"sha256": programs(work / "publish")})

    def is_whole(directory: Path) -> bool:
        return bool(read_json(directory / f"{kind}.json").get("sha256") == programs(directory))

    builder.publish(directory, is_whole, make)
    # The path is not stored, so that a cache can be moved.
    return {"bin_dir": str(directory), **read_json(directory / f"{kind}.json")}


def agent(run: Path | None = None) -> Path:
    """Build host/, the program that measures; return the path of it."""
    source = PROJECT / "host"
    paths = (path for path in sorted(source.rglob("*")) if path.is_file() and "testdata" not in path.parts)
    files = [path for path in paths if not path.name.endswith("_test.go")]
    record = build_go("agent", source, files, ["."], run, program="tsduel-host")
    binary = Path(record.pop("bin_dir")) / "tsduel-host"
    record |= {"version": binary.parent.name, "sha256": record["sha256"][binary.name], "binary": str(binary)}
    if run:
        write_json(run / "build/agent.json", record)
    return binary


def tsbs(run: Path, version: str) -> None:
    """Build TSBS's commands in the version that go.mod and go.sum pin."""
    source = PROJECT / "ansible/roles/build/files/tsbs"
    pinned = re.findall(r"^require github.com/timescale/tsbs (.*)", (source / "go.mod").read_text(), re.MULTILINE)[0]
    if version != pinned:
        raise BuildError(f"tsbs: version {version} is planned and {source}/go.mod pins {pinned}; plan again")
    packages = re.findall(r'_ "(.*)"', (source / "tools.go").read_text())
    key_of = [source / name for name in ("go.mod", "go.sum", "tools.go")]
    write_json(run / "build/tsbs.json", {"version": version, **build_go("tsbs", source, key_of, packages, run)})


class Component:
    """One program of a variant, from a module, a git repository, a checkout or a file."""

    def __init__(self, spec: dict[str, Any], run: Path, builder: Builder) -> None:
        self.spec = spec
        self.builder = builder
        brought = run / "sources" / spec["build_key"]  # copied from the user's machine
        self.path = brought if brought.is_file() else Path(spec["path"])

    def build(self) -> dict[str, Any]:
        """Build it unless it is in the cache; return its record."""
        directory = CACHE / "variants" / self.spec["build_key"]
        self.builder.publish(directory, self.is_whole, self.make)
        planned = {name: self.spec[name] for name in ("role", "program", "ref", "version")}
        return {**read_json(directory / "build.json"), **planned, "binary": str(directory / "binary")}

    def go(self) -> dict[str, Any]:
        """Return the record of the Go that builds it; a ready binary names its own Go."""
        ready = self.spec["source"] == "binary"
        settings = [word for word in self.spec["build_command"] if SETTING.match(word)]
        return {"go_version": ""} if ready else go_record(self.spec["go_minimum"], self.spec["go"], *settings)

    def is_whole(self, directory: Path) -> bool:
        """Return whether the entry can be used. It cannot if `go: local`, or the C compiler, was updated since."""
        record, binary = read_json(directory / "build.json"), directory / "binary"
        if not os.access(binary, os.X_OK) or record.get("sha256") != sha256(binary):
            return False
        wanted = self.go()["go_version"]
        same_go = not wanted or record["go_version"] in {"", wanted}
        # Without a C compiler here nothing else could be built.
        return same_go and (not record.get("cc") or self.cc() in {"", record["cc"]})

    def cc(self) -> str:
        """Return the first line that the C compiler of a build says of itself; empty if it does not run."""
        settings = [word for word in self.spec["build_command"] if SETTING.match(word)]
        words = [*with_go(self.spec["go_minimum"], self.spec["go"]), *settings, "go", "env", "CC"]
        named = subprocess.run(words, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        with contextlib.suppress(OSError):
            asked = [*shlex.split(named.stdout), "--version"]
            return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.partition("\n")[0]
        return ""

    def make(self, work: Path) -> None:
        """Get the sources, build, and write the record."""
        binary = Path(shutil.copyfile(self._compile(work), work / "publish/binary"))
        binary.chmod(0o755)
        # Go's own record in the binary also describes binaries from elsewhere. Other compilers leave none.
        spec = self.spec
        words = [*with_go(spec["go_minimum"]), "go", "version", "-m", str(binary)]
        description = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        made_by = re.search(r": (go\S+)", description.partition("\n")[0])
        record = {
            **{name: spec[name] for name in ("target", "source", "revision", "build_key")},
            **self.go(),
            "go_version": made_by[1] if made_by else "",
            "built_by": BUILD_USER,
            "build_command": " ".join(spec["build_command"]),
            "cgo_enabled": "CGO_ENABLED=1" in description,
            "cc": self.cc() if "CGO_ENABLED=1" in description and spec["source"] != "binary" else "",
            "sha256": sha256(binary),
            "size_bytes": binary.stat().st_size,
        }
        write_json(work / "publish/build.json", record)

    def _compile(self, work: Path) -> Path:
        spec, output = self.spec, work / "output"
        sources: Path = getattr(self, f"_take_{spec['source']}")(work)
        words, go = spec["build_command"], (spec["go_minimum"], spec["go"])
        if words and (sources / "go.work").is_file() and not any(word.startswith("GOWORK=") for word in words):
            words = ["GOWORK=", *words]  # Go looks for it; without a go.work it is off, also one above the checkout
        if words and spec["source"] == "module" and (sources / "vendor").is_dir():
            # Its zip lists the vendored packages and has none. The last GOFLAGS= would count.
            own = next((word.partition("=")[2] for word in words if word.startswith("GOFLAGS=")), "")
            words = [f"GOFLAGS=-mod=readonly {own}".strip(), *(w for w in words if not w.startswith("GOFLAGS="))]
        if words and BUILD_USER:
            print(f"+ {words} as {BUILD_USER}", file=self.builder.output, flush=True)
            as_builder = (BUILD_APART, BUILD_USER, sources, work, spec["output"], *go, *words)
            self.builder.compiling(*with_go(*go), *as_builder, cwd=sources)
        elif words:
            words = [word.replace("{project}", str(PROJECT)).replace("{output}", str(output)) for word in words]
            print(f"+ cd {sources}\n+ {words}", file=self.builder.output, flush=True)
            self.builder.compiling(*with_go(*go), *words, cwd=sources)
        for made in (output, sources / spec["output"]):
            if made.is_file():
                return made
        raise BuildError(f"the build command ended well but wrote no {spec['output']}")

    def _take_module(self, work: Path) -> Path:
        spec = self.spec
        wanted = f"{spec['module']}@{spec['version']}"
        command = (*with_go(spec["go_minimum"], spec["go"]), "go", "mod", "download", "-json", wanted)
        try:
            answer = json.loads(self.builder.fetching(*command, cwd=work, capture=True))  # outside any module
        except BuildError as failure:
            raise BuildError(json.loads(str(failure) or "{}").get("Error", "")) from None
        if spec["sum"] and spec["sum"] != answer["Sum"]:
            raise BuildError(f"{wanted} has checksum {answer['Sum']}, and the plan says {spec['sum']}")
        return Path(answer["Dir"])

    def _take_git(self, work: Path) -> Path:
        spec, git = self.spec, self.builder.git
        if self.path.is_file():
            return self._unpacked(work)
        fetch = (PROJECT / "scripts/fetch-git", spec["repo"], spec["revision"])
        clone = self.builder.fetching(*fetch, cwd=PROJECT, capture=True).rstrip("\n")
        # What was checked out for earlier builds is gone by now.
        git("-C", clone, "worktree", "prune")
        # It may download what a clone without blobs has not got yet.
        tree = ("worktree", "add", "--quiet", "--force", "--detach", work / "source", spec["revision"])
        self.builder.fetching(GIT, "-C", clone, *tree, cwd=PROJECT)
        if (work / "source/.gitmodules").is_file():
            # Git takes submodules from this machine only if it is told to, and so the repository is.
            own = ("-c", "protocol.file.allow=always") if spec["repo"].startswith("/") else ()
            words = ("submodule", "--quiet", "update", "--init", "--recursive")
            try:
                self.builder.fetching(GIT, *own, "-C", work / "source", *words, cwd=PROJECT)
            except BuildError:
                what = f"the submodules of {spec['repo']} cannot be fetched (git's words are above)"
                raise BuildError(f"{what}; check the revision out and give path:DIRECTORY") from None
        return work / "source"

    def _take_path(self, work: Path) -> Path:
        """Copy the checkout with its changes and new files, so that the build writes nothing into the checkout."""
        spec, git, path, copy = self.spec, self.builder.git, self.path, work / "source"
        if path.is_file():
            self._unpacked(work)
        else:
            git("clone", "--quiet", "--shared", "--no-checkout", "--", path, copy)
            git("-C", copy, "reset", "--quiet", spec["revision"])
            try:
                changes = checkout.Checkout(path).take(copy)["changes"]
            except checkout.CheckoutError as error:
                raise BuildError(str(error)) from None
            if changes != spec["dirty"] or git("-C", path, "rev-parse", "HEAD") != spec["revision"]:
                raise BuildError(f"{spec['path']} changed since the plan was made; plan again")
        if spec["dirty"]:
            # Only shown: files of a submodule cannot be added to the repository around it.
            diff = ("diff", "--binary", "--no-ext-diff", "--cached", "HEAD", f"--output={work}/publish/source.diff")
            with contextlib.suppress(BuildError):
                git("-C", copy, "add", "--all", "--force")
                git("-C", copy, *diff)
            git("-C", copy, "reset", "--quiet")
        return copy

    def _unpacked(self, work: Path) -> Path:
        # Made, and compared with the plan, where the repository is.
        (copy := work / "source").mkdir()
        self.builder.run("tar", "-C", copy, "-xzf", self.path, cwd=work)
        self.builder.git("-C", copy, "reset", "--quiet")
        return copy

    def _take_binary(self, work: Path) -> Path:
        shutil.copyfile(self.path, work / "output")
        if f"sha256:{sha256(work / 'output')}" != self.spec["revision"]:
            raise BuildError(f"{self.spec['path']} changed since the plan was made; plan again")
        return work


def is_kept(run: Path, name: str) -> bool:
    """Return whether blocks were made with this program, and it is there: another Go would make another one."""
    record = read_json(run / f"build/{name}.json")
    sums = {Path(part["binary"]): part["sha256"] for part in record.get("components", [record]) if "binary" in part}
    sums = sums or {Path(record["bin_dir"]) / each: digest for each, digest in record.get("sha256", {}).items()}
    whole = sums and all(os.access(path, os.X_OK) and sha256(path) == digest for path, digest in sums.items())
    return bool(whole) and any(run.glob("raw/*/[0-9]*/block.json"))


def build(run: Path, names: Sequence[str]) -> None:
    """Build programs of a run by their names; without a name, all of them."""
    # Not passed through Ansible, since a flag or a path may look like a template.
    planned = read_json(run / "plan/ansible-vars.json")
    variants = {each["name"]: each["components"] for each in planned["variants"]}
    wanted = names or ("agent", *["tsbs"] * (planned["kind"] == "tsbs"), *variants)
    for name in [name for name in wanted if not is_kept(run, name)]:
        if name == "agent":
            agent(run)
        elif name == "tsbs":
            tsbs(run, planned["tsbs_version"])
        else:
            log = run / f"build/{name}.log"
            log.unlink(missing_ok=True)
            records = [Component(spec, run, Builder(f"variant {name}", log)).build() for spec in variants[name]]
            record = {"variant": name, "binary": records[0]["binary"], "components": records}
            write_json(run / f"build/{name}.json", record)


def main() -> int:
    """Parse the command line and build; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("run", nargs="?", help="directory of the run")
    parser.add_argument("names", nargs="*", metavar="name", help="agent (tsduel-host), tsbs, or a variant; else all")
    arguments = parser.parse_args()

    def leave(number: int, _frame: object) -> None:
        # Ansible sends its signal twice and stops reading: neither may interrupt the cleanup.
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in STOP_SIGNALS:
        signal.signal(number, leave)
    try:
        if arguments.run:
            build(Path(arguments.run).absolute(), arguments.names)
        else:
            print(agent())
    except (BuildError, OSError, subprocess.CalledProcessError) as error:
        # An OSError is the machine's, as a full disk, and says the file.
        with contextlib.suppress(BrokenPipeError):
            print(error, file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
