"""Commands of several stages, each a program of its own: a comparison, a bisection, a calibration."""

import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tsduel.core import caches, children, codes, results, runlock
from tsduel.core.errors import UserError
from tsduel.core.project import IS_INSTALLED, PROJECT

BEFORE, MEASURED, AFTER = ("plan", "provision"), ("build", "run"), ("give-back", "tidy", "compare", "keep", "report")


def tsbs() -> int:
    """Compare two versions of a database."""
    return compare(os.environ | {"KIND": "tsbs"})


def gate() -> int:
    """Compare what two versions do for an answer; what got worse is an error."""
    asked = {"EXPERIMENT": "gate", "FAIL_ON": "regression"}
    return compare({**asked, **{name: value for name, value in os.environ.items() if value}, "KIND": "tsbs"})


def gobench() -> int:
    """Compare Go benchmarks."""
    return compare(os.environ | {"KIND": "gobench"})


def history() -> int:
    """Compare all versions in one run, and draw a metric over them."""
    from tsduel.bisect.bisection import kind_of
    from tsduel.bisect.metric import followed
    from tsduel.core.plan import Plan
    from tsduel.question import knobs

    run = os.environ.get("RUN", "")
    planned = run and (results.run_directory(run, must_exist=False) / Plan.FILE).exists()
    kind = (
        Plan.load(results.run_directory(run, must_exist=True)).kind if planned
        else kind_of(os.environ, knobs.given(os.environ))[0]
    )  # fmt: skip
    # What would be refused after the last block is refused before the first.
    if followed(kind, os.environ, in_turn=True).by:
        raise UserError("METRIC: A:B is followed by bisect and worst; a history is of one metric")
    environment = {**os.environ, "RUN": os.environ.get("RUN") or new_run(os.environ, "history")}
    code = compare(environment)
    return (_stage("history-of", environment) or code) if code in codes.REPORTED else code


def compare(environment: Mapping[str, str]) -> int:
    """Run all stages of a run, or of TSDUEL_STAGES, or the runs of a study; a failure gives rented machines back.

    Return the first exit code that is not 0.
    """
    knobs = dict(environment)
    knobs["RUN"] = knobs.get("RUN") or new_run(knobs, knobs["KIND"])
    looked = knobs.pop("TSDUEL_LOOKED", "")  # by make, before there was a .venv
    stages = knobs.pop("TSDUEL_STAGES", "").split()
    if not (looked or stages) and (code := _stage("look", knobs)):
        return code
    if (not stages or "plan" in stages) and (code := _stage("plan", knobs)):
        return code
    run_dir = results.run_directory(knobs["RUN"], must_exist=True)
    if not stages and (run_dir / results.STUDY).exists():
        return sweep(run_dir, knobs)
    with runlock.holding(run_dir, knobs.get("KIND") or "history") as lock:
        for stage in (*BEFORE[1:], *MEASURED, *AFTER):
            if (stages and stage not in stages) or (stage == "keep" and knobs.get("AA") != "1"):
                continue
            if code := _stage(stage, knobs, lock):
                return _stage("give-back", knobs | {"TSDUEL_FAILED": str(code)}, lock) if stage in MEASURED else code
    return 0


def new_run(environment: Mapping[str, str], command: str) -> str:
    """Return the name of a new run: the time in UTC, and what is asked."""
    experiment = environment.get("EXPERIMENT") or ("local" if command in {"plan", "tsbs"} else command)
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{re.sub(r'[^A-Za-z0-9._-]', '-', Path(experiment).stem[:60])}"


def bisect() -> int:
    """Make one run after the other until the first bad revision is known; then say what was found."""
    from tsduel.bisect import bisection, steps
    from tsduel.studies.study import drive

    knobs = {**os.environ, "RUN": os.environ.get("RUN") or new_run({}, "bisect")}
    directory = results.home() / bisection.HOME / knobs["RUN"]
    # Also of a search that was killed while it began; where another one runs, the lock below says so.
    if not (directory / bisection.Bisection.FILE).exists() and runlock.holder(directory) is None:
        steps.opened(knobs, results.home())
    with runlock.holding(directory, "bisect"):
        return drive(steps.rule(knobs, results.home()), compare) or _stage("bisection", knobs)


def worst() -> int:
    """Search for the load in which the candidate loses most; then measure what was found anew, and say it."""
    from tsduel.studies.study import drive
    from tsduel.worst import begin, probes
    from tsduel.worst.search import Worst, best_of

    knobs = {**os.environ, "RUN": os.environ.get("RUN") or new_run({}, "worst")}
    directory = begin.begun(knobs["RUN"], knobs, results.home())
    with runlock.holding(directory, "worst"):
        code = drive(probes.rule(directory), compare)
        if code == codes.INTERRUPTED or (code and best_of(Worst.load(directory)) is None):
            return code
        said = _stage("worst-of", knobs)  # also where a full disk, or a defect, has ended the search
        return code or said


def calibrate() -> int:
    """Compare a version with itself, an old file of it with a fresh copy, and the version with a slower one."""
    from tsduel.calibrate import page
    from tsduel.studies.study import drive

    return drive(page.rule(results.home() / (os.environ.get("RUN") or new_run({}, "calibrate"))), compare)


def sweep(directory: Path, environment: Mapping[str, str]) -> int:
    """Make the runs of a study of settings that have not ended, and report it."""
    from tsduel.studies import settings
    from tsduel.studies.study import drive

    with runlock.holding(directory, environment.get("KIND") or "history") as lock:
        code = drive(settings.rule(directory), compare, environment)
        if code in {codes.DEFECT, codes.USER, codes.INTERRUPTED}:
            return code
        results.point_latest(directory)
        return _stage("compare", environment, lock) or _stage("report", environment, lock) or code


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
