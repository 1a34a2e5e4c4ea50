"""`make doctor`: does this machine, and the machine of the blocks, have all that a run needs? It changes nothing.

It runs on a fresh clone: it needs only Python itself, except to read an experiment. scripts/examine-host looks at the
measured machine, here or over SSH; this module collects and prints the lines.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tsduel.core import caches, hidden
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.results import is_there, run_directory
from tsduel.doctor import subject
from tsduel.doctor.subject import Subject
from tsduel.places import place
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
    """One thing, its state, and what to do if it is not right."""

    level: str
    what: str
    finding: str
    remedy: str = ""


def main(mode: str) -> int:
    """Look at everything (`full`), or for less than a second at errors only (`fast`); return 2 if there are errors."""
    fast = mode == "fast"
    lines = list(_here(os.environ, fast=fast))
    errors = sum(line.level == ERROR for line in lines)
    warnings = sum(line.level == WARNING for line in lines)
    for line in lines:
        if not fast or line.level != OK:
            remedy = f"\n{'':22} -> {line.remedy}" if line.remedy else ""
            text = f"{line.level:8} {line.what:13} {line.finding}{remedy}"
            print(text, file=sys.stderr if fast else sys.stdout)
    if not fast:
        way = f"{errors} in the way of a run" if errors else "nothing is in the way of a run"
        shows = f", {warnings} may show in its figures" if warnings else ""
        print(f"{way}{shows}; nothing was changed")
    elif errors:
        print("tsduel: nothing was started; 'make doctor' looks at all of it", file=sys.stderr)
    return 2 if errors else 0


def _here(environment: Mapping[str, str], *, fast: bool) -> Iterator[Line]:
    yield from _python()
    about, line = _subject(environment, fast=fast)
    if line:
        yield line
    if about is None:
        return
    # A planned run elsewhere may be finished and fetched. Its stages know what they still need.
    if not (fast and about.planned and "hosts" in about.place):
        yield from LOOKS[about.place["kind"]](about, environment, fast=fast)


def _python() -> Iterator[Line]:
    version = platform.python_version()
    if subject.is_readable():
        yield Line(OK, "python", f"{version} ({sys.executable})")
        return
    # scripts/bootstrap needs both modules to make .venv; Debian has them in a package of their own.
    done = subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True, check=False)
    if done.returncode == 0:
        yield Line(OK, "python", f"{version} ({sys.executable}); .venv is made when it is first needed")
    else:
        yield from _looked("ensure-packages", "--look", "-=python3-venv")


def _subject(environment: Mapping[str, str], *, fast: bool) -> tuple[Subject | None, Line | None]:
    """Return the needs that the machine is checked for, and a line about them."""
    name = environment.get("RUN", "")
    try:
        run_dir = run_directory(name, must_exist=not fast) if name else None
        if run_dir and is_there(run_dir):
            return subject.of_run(run_dir), Line(OK, "experiment", f"that of {run_dir}")
        if subject.is_readable():
            about = subject.of_question(environment)
            return about, Line(OK, "experiment", about.name)
        about = Subject(name="", place=place.asked(environment))
        return about, Line(OK, "experiment", "not read before there is .venv: port and limits are the defaults")
    except UserError as error:
        # In the fast look the next stage reports it.
        return None, None if fast else Line(ERROR, "experiment", str(error))
    except Exception as error:  # noqa: BLE001 - of ours, which the next stage says with its place
        return None, None if fast else Line(
            ERROR, "experiment", f"a defect of ours: {hidden.sentence(repr(error))}", "tell us"
        )


def _local(about: Subject, environment: Mapping[str, str], *, fast: bool) -> Iterator[Line]:
    cache = caches.directory(environment)
    if platform.system() != "Linux" or platform.machine() not in probe.ARCHITECTURES:
        what = f"this is {platform.system()} on {platform.machine()}; the blocks run on Linux on amd64 or arm64"
        yield Line(ERROR, "system", what, "run them elsewhere: TARGET=ssh SSH_HOST=user@host, TARGET=gcp or k8s")
        return
    yield from _building(fast=fast)
    cached = bool(about.data_keys) and all((cache / "workload" / key / "data.zst").exists() for key in about.data_keys)
    built = (cache / "tsbs").is_dir() or (cache / "variants").is_dir()
    words = about.asked(on_top_mib=0 if built else probe.LEAST_FREE_MIB, cached=cached)
    yield from _looked("examine-host", f"mode={'fast' if fast else 'full'}", f"dir={cache}", *words)


def _building(*, fast: bool) -> Iterator[Line]:
    """Look at what this machine needs to build the programs."""
    for program in ("git", "make"):
        yield from _program(program, ["--version"], f"install it (Debian: {program})", fast=fast)
    yield from _looked("ensure-packages", "--look")
    # Our own program needs the newest Go of all programs here.
    go = re.findall(r"^go (\S+)", (PROJECT / "host" / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    yield from _looked("ensure-go", "--look", go[0])


def _in_pods(about: Subject, _environment: Mapping[str, str], *, fast: bool) -> Iterator[Line]:
    """Check that the cluster answers, and that we may do there what a run needs; no pod is made."""
    yield from _building(fast=fast)
    if not subject.is_readable():
        yield Line(OK, "kubernetes", "not looked at before there is .venv")
        return
    from tsduel.places.k8s.cluster import RULES, cluster_of  # noqa: PLC0415 - a fresh clone has no library for it

    try:
        here = cluster_of(about.place)
        if fast:
            return
        version = here.ask("GET", "/version")["gitVersion"]
        yield Line(OK, "kubernetes", f"{here.context} answers ({version})")
        if lacking := ", ".join(here.lacking()):
            what = f"in the namespace {here.namespace} you may not: {lacking}"
            yield Line(ERROR, "rights", what, f"ask who administers it for the role in {RULES}")
        else:
            yield Line(OK, "rights", f"in the namespace {here.namespace} you may do all that a run needs")
    except UserError as error:
        yield Line(ERROR, "kubernetes", str(error))


def _ssh(about: Subject, _environment: Mapping[str, str], *, fast: bool) -> Iterator[Line]:
    yield from _client(fast=fast)
    for host in about.place["hosts"].values() if not fast else ():
        connection = Host.from_outputs(host | {"config_file": about.place["config_file"]})
        yield from _over_ssh(about, connection, host["directory"])


def _client(*, fast: bool) -> Iterator[Line]:
    yield from _program("ssh", ["-V"], "install it (Debian: openssh-client)", fast=fast)


def _over_ssh(about: Subject, host: Host, directory: str) -> Iterator[Line]:
    try:
        refused = probe.examine(host, directory)
        yield Line(OK, "ssh", f"{host.name} is reached; what follows is about that machine")
        yield from (Line(ERROR, "host", sentence) for sentence in refused)
        if any("has no bash" in sentence for sentence in refused):
            return
        yield from _there(host, _text("ensure-packages"), "--look")
        yield from _there(host, _text("examine-host"), "mode=full", f"dir={directory}", *about.asked())
    except UserError as error:
        yield Line(ERROR, "ssh", str(error))


def _rented(about: Subject, environment: Mapping[str, str], *, fast: bool) -> Iterator[Line]:
    """Check what this machine needs to rent machines; the rented machine does not exist yet."""
    where = about.place
    yield from _client(fast=fast)
    done = subprocess.run([SCRIPTS / "ensure-terraform", "--look"], capture_output=True, text=True, check=False)
    if done.returncode:
        yield Line(ERROR, "terraform", done.stderr.strip().removeprefix("ensure-terraform: "))
    elif path := done.stdout.strip():
        yield Line(OK, "terraform", path)
    else:
        waits = "no terraform 1.7 or tofu on PATH: OpenTofu is built once, in some minutes and 3 GB of disk"
        yield Line(WARNING, "terraform", waits, "nothing to do; or install terraform or tofu")
    if where["ssh_via"] == "iap" and not shutil.which("gcloud", path=environment.get("PATH")):
        what = "SSH_FROM=iap goes through gcloud's tunnel, and there is no gcloud on PATH"
        yield Line(ERROR, "gcloud", what, "install it")
    if fast:
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


LOOKS = {"local": _local, "ssh": _ssh, "gcp": _rented, "k8s": _in_pods}


def _program(name: str, words: list[str], remedy: str, *, fast: bool) -> Iterator[Line]:
    path = shutil.which(name)
    if path is None:
        yield Line(ERROR, name, "not on PATH", remedy)
    elif not fast:
        done = subprocess.run([path, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        version = re.search(r"[0-9]+(\.[0-9]+)+\w*", done.stdout + done.stderr)
        yield Line(OK, name, f"{version[0] if version else 'of an unknown version'} ({path})")


def _looked(script: str, *words: str) -> Iterator[Line]:
    """Run a script on this machine, and return its lines; a failure is a line, too."""
    command = [str(SCRIPTS / script), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        yield Line(WARNING, script, f"did not end in {PATIENCE_S} s", "see what holds it: a disk or a file system?")
    else:
        yield from _lines(script, done)


def _there(host: Host, text: str, *words: str) -> Iterator[Line]:
    """Run the text of a script on another machine, which needs no file of ours."""
    # Read the whole text first: otherwise a command in it could read the rest from stdin.
    command = ("bash", "-c", 'text=$(cat) && eval "$text" </dev/null', "look", *words)
    yield from _lines("host", host.run(*command, text=text))


def _lines(script: str, done: subprocess.CompletedProcess[str]) -> Iterator[Line]:
    for text in done.stdout.splitlines():
        level, *rest = text.split("\t")
        # A login shell may print a greeting.
        if level in LEVELS and rest:
            yield Line(level, *[*rest, "", ""][:3])
    if done.returncode:
        why = " ".join(done.stderr.split()[-40:]) or f"exit code {done.returncode}"
        yield Line(ERROR, script, f"the look at this machine broke off: {why}", "tell us: that is a fault of tsduel's")


def _text(name: str) -> str:
    return (SCRIPTS / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
