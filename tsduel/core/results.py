"""results/: the runs by name. No library is needed, since `make doctor` works on a fresh clone."""

import re
from pathlib import Path

from tsduel.core.errors import UserError

# A run's name is the name of a directory, and part of commands that users copy.
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def run_directory(name: str, *, must_exist: bool) -> Path:
    """Return results/RUN for the name of a run, `latest`, or a path that ends with one of them."""
    run_dir = Path("results") / Path(name).name
    if not RUN_NAME.fullmatch(run_dir.name):
        raise UserError(f"RUN: {name!r} is no name of a run; use letters, digits, dots, dashes and underscores")
    if run_dir.name == "latest" and (lost := lost_latest(run_dir)):
        raise UserError(lost)
    if (must_exist or run_dir.name == "latest") and not (run_dir / "plan" / "experiment.json").exists():
        runs = sorted({p.parent.parent.name for p in Path("results").glob("*/plan/experiment.json")} - {"latest"})
        raise UserError(f"{run_dir}: no such run; there are: {', '.join(runs[-5:]) or 'none yet (make tsbs)'}")
    return run_dir.resolve() if run_dir.name == "latest" else run_dir


def lost_latest(link: Path) -> str:
    """Return a sentence if results/latest leads to a run that was removed, else ""."""
    if not link.is_symlink() or link.exists():
        return ""
    removed = str(link.readlink())
    return f"{link} leads to {removed!r}, which is not there any more; name a run that is: RUN=NAME (make list)"
