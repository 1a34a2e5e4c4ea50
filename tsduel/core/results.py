"""results/: the runs by name. No library is needed, since `make doctor` works on a fresh clone."""

import os
import re
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.core.wording import did_you_mean

STUDY = "study.json"
"""The file of a study of settings, in place of a plan."""
PLANNED = ("plan/experiment.json", STUDY)
# A run's name is the name of a directory, and part of commands that users copy.
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def home() -> Path:
    """Return the directory of all runs: TSDUEL_RESULTS, else results/ of the working directory."""
    return Path(os.environ.get("TSDUEL_RESULTS") or "results")


def run_directory(name: str, *, must_exist: bool) -> Path:
    """Return results/RUN for a run's name, for `latest`, or for a path that ends with a name."""
    run_dir = home() / Path(name).name
    if not RUN_NAME.fullmatch(run_dir.name):
        raise UserError(f"RUN: {name!r} is no name of a run; use up to 100 letters, digits, dots, dashes, underscores")
    if run_dir.name == "latest" and (lost := lost_latest(run_dir)):
        raise UserError(lost)
    if (must_exist or run_dir.name == "latest") and not is_there(run_dir):
        runs = sorted({path.name for path in _planned()} - {"latest"})
        there = f"there are: {', '.join(runs[-5:]) or 'none yet (make tsbs)'}"
        if run_dir.name == "latest":
            raise UserError(f"{run_dir}: no run has come to its end here; {there}")
        near = did_you_mean(run_dir.name, [*runs, "latest"])
        raise UserError(f"{run_dir}: no such run; {there}{near}")
    return run_dir.resolve() if run_dir.name == "latest" else run_dir


def is_there(run_dir: Path) -> bool:
    """Return whether a directory is a run or a study."""
    return any((run_dir / name).exists() for name in PLANNED)


def newest_plan() -> str:
    """Return the name of the run or study that was planned last, begun or not; latest if there is none."""
    planned = {path: time for path, time in _planned().items() if path.name != "latest"}
    return max(planned, key=planned.__getitem__).name if planned else "latest"


def _planned() -> dict[Path, float]:
    """Return the runs and studies, each with the time of its plan."""
    found = [path for name in PLANNED for path in home().glob(f"*/{name}")]
    return {home() / path.relative_to(home()).parts[0]: path.stat().st_mtime for path in found}


def point_latest(run_dir: Path) -> None:
    """Let results/latest lead to a run that is compared; one that does not lie among the runs leaves it."""
    if run_dir.resolve().parent != home().resolve():
        return
    link = run_dir.parent / f".latest.{os.getpid()}"
    link.symlink_to(run_dir.name)
    link.rename(run_dir.parent / "latest")


def lost_latest(link: Path) -> str:
    """Return a sentence if results/latest leads to a run that was removed, else ""."""
    if not link.is_symlink() or link.exists():
        return ""
    removed = str(link.readlink())
    return f"{link} leads to {removed!r}, which is not there any more; name a run that is: RUN=NAME (make list)"
