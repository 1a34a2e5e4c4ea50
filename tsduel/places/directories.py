"""Where things lie on the machine where the blocks run."""

from pathlib import Path

from tsduel.core.plan import Plan


def of(plan: Plan, *, run_dir: Path, cache: Path, project: Path) -> dict[str, str]:
    """Return the absolute paths of project, cache and run on the machine where the blocks run.

    ``run_dir``, ``cache`` and ``project`` are those of this machine. On another one all of it lies in one directory,
    and each run has a copy of the project of its own: what runs there is not changed by a later run.
    """
    if plan.place.kind == "local":
        return {"project_dir": str(project), "cache_dir": str(cache), "run_dir": str(run_dir)}
    there = f"{plan.place.directory}/runs/{plan.run}"
    return {"project_dir": f"{there}/project", "cache_dir": f"{plan.place.directory}/cache", "run_dir": there}
