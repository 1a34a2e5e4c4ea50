"""`make doctor`: is all here, and on the machine where the blocks will run, that a run needs? It changes nothing.

It runs on a fresh clone: nothing here needs more than Python itself, unless an experiment is to be read. What is about
the measured machine is asked by scripts/examine-host, here or over SSH; this module collects the lines and prints them.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tsduel.core import caches
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.results import run_directory
from tsduel.doctor import subject
from tsduel.doctor.subject import Subject
from tsduel.places.gcp import credentials, messages
from tsduel.places.gcp.api import Compute
from tsduel.places.ssh import probe
from tsduel.places.ssh.ssh import Host

SCRIPTS = PROJECT / "scripts"
OK, WARNING, ERROR = "ok", "warning", "error"
LEVELS = (OK, WARNING, ERROR)
PATIENCE_S = 60


@dataclass(frozen=True)
class Line:
    """One thing that was looked at: how it is, and what to do where it is not right."""

    level: str
    what: str
    finding: str
    remedy: str = ""


def main(mode: str) -> int:
    """Look (`full`), or look for less than a second at what stops a run (`fast`); return 2 where something does."""
    fast = mode == "fast"
    found = list(_here(os.environ, fast=fast))
    errors = sum(line.level == ERROR for line in found)
    warnings = sum(line.level == WARNING for line in found)
    for line in found:
        if not fast or line.level != OK:
            _print(line, sys.stderr if fast else sys.stdout)
    if not fast:
        print(_summary(errors, warnings))
    elif errors:
        print("tsduel: nothing was started; 'make doctor' looks at all of it", file=sys.stderr)
    return 2 if errors else 0


def _print(line: Line, stream: TextIO) -> None:
    print(f"{line.level:8} {line.what:13} {line.finding}", file=stream)
    if line.remedy:
        print(f"{'':22} -> {line.remedy}", file=stream)


def _summary(errors: int, warnings: int) -> str:
    way = f"{errors} in the way of a run" if errors else "nothing is in the way of a run"
    shows = f", {warnings} may show in its figures" if warnings else ""
    return f"{way}{shows}; nothing was changed"


def _here(environment: Mapping[str, str], *, fast: bool) -> Iterator[Line]:
    yield from _python()
    about, line = _subject(environment, fast=fast)
    if line:
        yield line
    if about is None:
        return
    kind = about.place["kind"]
    cache = caches.directory(environment)
    if kind == "local":
        yield from _local(about, cache, fast=fast)
        return
    # A run elsewhere that is gone on with may be over, and all of it at home: its stages know what they still need.
    if fast and about.planned:
        return
    yield from _program("ssh", ["-V"], "install it (Debian: openssh-client)", fast=fast)
    if kind == "gcp":
        yield from _rented(about.place, environment, fast=fast)
    elif not fast:
        yield from _over_ssh(about)


def _python() -> Iterator[Line]:
    version = platform.python_version()
    if subject.is_readable():
        yield Line(OK, "python", f"{version} ({sys.executable})")
        return
    # As scripts/bootstrap, which makes .venv: Debian has the two in a package of their own.
    done = subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True, check=False)
    if done.returncode == 0:
        yield Line(OK, "python", f"{version} ({sys.executable}); .venv is made when it is first needed")
    else:
        yield from _looked("ensure-packages", "--look", "-=python3-venv")


def _subject(environment: Mapping[str, str], *, fast: bool) -> tuple[Subject | None, Line | None]:
    """Return what the machine is looked at for, and a line about it."""
    name = environment.get("RUN", "")
    try:
        run_dir = run_directory(name, must_exist=not fast) if name else None
        if run_dir and (run_dir / "plan" / "experiment.json").exists():
            return subject.of_run(run_dir), Line(OK, "experiment", f"that of {run_dir}")
        if subject.is_readable():
            found = subject.of_question(environment)
            return found, Line(OK, "experiment", found.name)
        found = subject.of_nothing(environment)
        return found, Line(OK, "experiment", "not read before there is .venv: port and limits are the defaults")
    except UserError as error:
        # The stage that comes next says it in its own words.
        return None, None if fast else Line(ERROR, "experiment", str(error))


def _local(about: Subject, cache: Path, *, fast: bool) -> Iterator[Line]:
    if platform.system() != "Linux" or platform.machine() not in probe.ARCHITECTURES:
        what = f"this is {platform.system()} on {platform.machine()}; the blocks run on Linux on amd64 or arm64"
        yield Line(ERROR, "system", what, "run them elsewhere: TARGET=ssh SSH_HOST=user@host, or TARGET=gcp")
        return
    for program in ("git", "make"):
        yield from _program(program, ["--version"], f"install it (Debian: {program})", fast=fast)
    yield from _looked("ensure-packages", "--look")
    yield from _looked("ensure-go", "--look", _go_minimum())
    cached = bool(about.data_keys) and all((cache / "workload" / key / "data.zst").exists() for key in about.data_keys)
    built = (cache / "tsbs").is_dir() or (cache / "variants").is_dir()
    words = about.asked(on_top_mib=0 if built else probe.LEAST_FREE_MIB, cached=cached)
    yield from _looked("examine-host", f"mode={'fast' if fast else 'full'}", f"dir={cache}", *words)


def _go_minimum() -> str:
    """Return the Go that our own program needs, which is the newest that anything here does."""
    return str(re.findall(r"^go (\S+)", (PROJECT / "host" / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)[0])


def _over_ssh(about: Subject) -> Iterator[Line]:
    for of in about.place["hosts"].values():
        host = Host.from_outputs(of | {"config_file": about.place["config_file"]})
        yield from _one_over_ssh(about, host, of["directory"])


def _one_over_ssh(about: Subject, host: Host, directory: str) -> Iterator[Line]:
    try:
        refused = probe.look(host, directory)
        yield Line(OK, "ssh", f"{host.name} is reached; what follows is about that machine")
        yield from (Line(ERROR, "host", sentence) for sentence in refused)
        if any("has no bash" in sentence for sentence in refused):
            return
        yield from _there(host, _text("ensure-packages"), "--look")
        yield from _there(host, _text("examine-host"), "mode=full", f"dir={directory}", *about.asked())
    except UserError as error:
        yield Line(ERROR, "ssh", str(error))


def _rented(where: Mapping[str, Any], environment: Mapping[str, str], *, fast: bool) -> Iterator[Line]:
    """Look at what it takes here to rent a machine: there is none to be looked at yet."""
    done = subprocess.run([SCRIPTS / "ensure-terraform", "--look"], capture_output=True, text=True, check=False)
    if done.returncode:
        yield Line(ERROR, "terraform", done.stderr.strip().removeprefix("ensure-terraform: "))
    elif path := done.stdout.strip():
        yield Line(OK, "terraform", path)
    else:
        waits = "no terraform 1.7 or tofu on PATH: OpenTofu is built once, in some minutes and 3 GB of disk"
        yield Line(WARNING, "terraform", waits, "nothing to do; or install terraform or tofu")
    if where["ssh_via"] == "iap" and not shutil.which("gcloud", path=environment.get("PATH")):
        yield Line(
            ERROR, "gcloud", "SSH_FROM=iap goes through gcloud's tunnel, and there is no gcloud on PATH", "install it"
        )
    if fast:
        if not environment.get(credentials.TOKEN) and not shutil.which("gcloud", path=environment.get("PATH")):
            yield Line(ERROR, "credentials", "no token, and no gcloud to get one from", credentials.HOW)
        return
    try:
        credentials.token(environment)
        yield Line(OK, "credentials", "Google Cloud gives us a token")
        Compute(where["project"]).get("")
        yield Line(OK, "project", f"{where['project']} answers, and its Compute Engine API is enabled")
    except messages.CloudError as error:
        yield Line(ERROR, "project", messages.sentence(str(error), where["project"]))
    except UserError as error:
        yield Line(ERROR, "credentials", str(error))


def _program(name: str, words: list[str], remedy: str, *, fast: bool) -> Iterator[Line]:
    path = shutil.which(name)
    if path is None:
        yield Line(ERROR, name, "not on PATH", remedy)
    elif not fast:
        done = subprocess.run([path, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        version = re.search(r"[0-9]+(\.[0-9]+)+\w*", done.stdout + done.stderr)
        yield Line(OK, name, f"{version[0] if version else 'of an unknown version'} ({path})")


def _looked(script: str, *words: str) -> Iterator[Line]:
    """Run a script that looks here, and return its lines; one that fails is a line as well."""
    try:
        done = subprocess.run(
            [SCRIPTS / script, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        yield Line(WARNING, script, f"did not end in {PATIENCE_S} s", "see what holds it: a disk or a file system?")
        return
    yield from _lines(script, done)


def _there(host: Host, text: str, *words: str) -> Iterator[Line]:
    """Run the same on another machine, where nothing of ours has to lie: the script comes with the call."""
    # Read whole before it begins, since a command of its own could read the rest of it.
    yield from _lines(
        "host", host.run("bash", "-c", 'text=$(cat) && eval "$text" </dev/null', "look", *words, text=text)
    )


def _lines(script: str, done: subprocess.CompletedProcess[str]) -> Iterator[Line]:
    for text in done.stdout.splitlines():
        level, *rest = text.split("\t")
        # A login shell may greet.
        if level in LEVELS and rest:
            yield Line(level, *[*rest, "", ""][:3])
    if done.returncode:
        said = " ".join(done.stderr.split()[-40:]) or f"exit code {done.returncode}"
        yield Line(ERROR, script, f"the look at this machine broke off: {said}", "tell us: that is a fault of tsduel's")


def _text(name: str) -> str:
    return (SCRIPTS / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
