"""Commands of several stages, each a program of its own: a comparison, a bisection, a calibration."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tsduel.cli.home import words_to_knobs
from tsduel.core import caches, children, results, runlock
from tsduel.core.errors import UserError
from tsduel.core.project import IS_INSTALLED, PROJECT

INTERRUPTED = 128 + signal.SIGINT
BEFORE, MEASURED, AFTER = ("plan", "provision"), ("build", "run"), ("give-back", "tidy", "compare", "keep", "report")


def tsbs() -> int:
    """Compare two versions of a database."""
    return compare(os.environ | {"KIND": "tsbs"})


def gobench() -> int:
    """Compare Go benchmarks."""
    return compare(os.environ | {"KIND": "gobench"})


def history() -> int:
    """Compare all versions in one run, and draw a metric over them."""
    environment = {**os.environ, "RUN": os.environ.get("RUN") or new_run(os.environ, "history")}
    return compare(environment) or _stage("history-of", environment)


def compare(environment: Mapping[str, str]) -> int:
    """Run all stages; return the first exit code that is not 0. A failure gives rented machines back."""
    known = dict(environment)
    known["RUN"] = known.get("RUN") or new_run(known, known["KIND"])
    looked = known.pop("TSDUEL_LOOKED", "")  # by make, before there was a .venv
    if not looked and (code := _stage("look", known)):
        return code
    if code := _stage("plan", known):
        return code
    run_dir = results.run_directory(known["RUN"], must_exist=True)
    with runlock.holding(run_dir, known.get("KIND") or "history") as lock:
        for stage in (*BEFORE[1:], *MEASURED, *AFTER):
            if stage == "keep" and known.get("AA") != "1":
                continue
            if code := _stage(stage, known, lock):
                return _stage("give-back", known | {"TSDUEL_FAILED": str(code)}, lock) if stage in MEASURED else code
    return 0


def new_run(environment: Mapping[str, str], command: str) -> str:
    """Return the name of a new run: the time in UTC, and what is asked."""
    given = environment.get("EXPERIMENT") or ("local" if command in {"plan", "tsbs"} else command)
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{re.sub(r'[^A-Za-z0-9._-]', '-', Path(given).stem[:60])}"


def bisect() -> int:
    """Make one run after the other until the first bad revision is known; then say what was found."""
    known = {**os.environ, "RUN": os.environ.get("RUN") or new_run({}, "bisect")}
    directory = results.home() / "bisect" / known["RUN"]
    # The first step makes the directory, and fails if another command does.
    step = "" if directory.is_dir() else _output("tsduel", "bisection-step", environment=known)
    with runlock.holding(directory, "bisect"):
        while step := step or _output("tsduel", "bisection-step", environment=known):
            kind, *words = step.splitlines()
            # A step has its own knobs.
            code = compare(os.environ | words_to_knobs(words) | {"KIND": kind})
            if code == INTERRUPTED:
                return code  # an interrupted step is not a bad revision
            known["STEP_CODE"], step = str(code), ""
        return _stage("bisection", known)


def calibrate() -> int:
    """Compare a version with itself, an old file of it with a fresh copy, and the version with a slower one."""
    given = {**os.environ, "KIND": "tsbs", "EXPERIMENT": "quick"}
    name, home = new_run({}, "calibrate"), results.home()
    planted = _output("tsduel.calibrate.planted").strip()
    same, stale, slow = f"{name}-same", f"{name}-stale", f"{name}-slow-5"
    base = {"BASELINE": f"git:{planted}@base"}
    runs: list[tuple[str, dict[str, str]]] = [
        (same, base | {"AA": "1"}), (stale, {}), (slow, base | {"CANDIDATE": f"git:{planted}@slow-5"}),
    ]  # fmt: skip
    for run, sides in runs:
        known = given | sides | {"RUN": run}
        if run == stale:
            known |= words_to_knobs(_output("tsduel.calibrate.stale", "twins", str(home / same)).splitlines())
            for stage in (*BEFORE, "build"):
                if code := _stage(stage, known):
                    return code
            sys.stdout.write(_output("tsduel.calibrate.stale", "age", str(home / stale)))
        code = compare(known)
        # A verdict that fails the run is a result too.
        if code and not (home / run / "stats/comparison.json").exists():
            return code
    return children.call([sys.executable, "-m", "tsduel.calibrate.page", *(str(home / run) for run, _ in runs)], given)


def benchstat() -> int:
    """Print benchstat's table of a run."""
    run_dir = results.run_directory(os.environ.get("RUN") or "latest", must_exist=True)
    return children.call([PROJECT / "scripts/benchstat", run_dir], os.environ)


def clean_cache() -> int:
    """Remove the cache."""
    return children.call(
        [PROJECT / "scripts/clean-cache"], os.environ | {"TSDUEL_CACHE": str(caches.directory(os.environ))}
    )


def uninstall() -> int:
    """Remove what is ours on this machine, or on the one of SSH_HOST."""
    if not IS_INSTALLED:
        return children.call([PROJECT / "scripts/uninstall"], os.environ)
    if os.environ.get("TARGET", "local") == "local":
        raise UserError("this is a package: `tsduel clean-cache` removes what it made, `pipx uninstall tsduel` itself")
    return children.call([sys.executable, "-m", "tsduel.places.uninstall"], os.environ)


def _stage(name: str, environment: Mapping[str, str], lock: int | None = None) -> int:
    """Run a stage; ``lock``: that of its run, if we hold it."""
    command = [sys.executable, "-m", "tsduel", name]
    if lock is None:
        return children.call(command, environment)
    return children.call(command, runlock.passed_on(lock, environment), keep=(lock,))


def _output(module: str, *words: str, environment: Mapping[str, str] = os.environ) -> str:
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise EndedError(done.returncode)
    return done.stdout


class EndedError(UserError):
    """A program of ours ended with this exit code, and has said why."""

    def __init__(self, code: int) -> None:
        super().__init__("")
        self.code = code
