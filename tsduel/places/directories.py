"""Where things lie on the machine where the blocks run."""

from pathlib import Path

from tsduel.core.plan import Plan


def here(*, run_dir: Path, cache: Path, project: Path) -> dict[str, str]:
    """Return the paths of project, cache and run on this machine, as Ansible is told them."""
    return {"project_dir": str(project), "cache_dir": str(cache), "run_dir": str(run_dir)}


def there(plan: Plan, host: str) -> dict[str, str]:
    """Return the same of another machine of a run, by its name in the plan.

    All of it lies in one directory, and each run has a copy of the project of its own: what runs there is not changed
    by a later run.
    """
    place = plan.place
    assert place.kind != "local"  # noqa: S101 - nobody asks
    directory = place.hosts[host].directory if place.kind == "ssh" else place.directory
    run_dir = f"{directory}/runs/{plan.run}"
    return {"project_dir": f"{run_dir}/project", "cache_dir": f"{directory}/cache", "run_dir": run_dir}
