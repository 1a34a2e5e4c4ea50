"""The directories on a machine where blocks run."""

from pathlib import Path

from tsduel.core.plan import Plan


def on_this_host(*, run_dir: Path, cache: Path, project: Path) -> dict[str, str]:
    """Return the paths of project, cache and run on this machine, as variables for Ansible."""
    return {"project_dir": str(project), "cache_dir": str(cache), "run_dir": str(run_dir)}


def on_host(plan: Plan, host: str) -> dict[str, str]:
    """Return the same paths on another machine of a run; ``host`` is its name in the plan.

    All are below one directory. Each run has its own copy of the project, which no later run changes.
    """
    directory = plan.place.of(host, "directory")
    run_dir = f"{directory}/runs/{plan.run}"
    return {"project_dir": f"{run_dir}/project", "cache_dir": f"{directory}/cache", "run_dir": run_dir}
