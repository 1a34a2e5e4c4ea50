"""The project as people install it: a wheel in an environment of its own, typed in an empty directory."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata

import pytest
from checkout import BUILDS, PROJECT, QUIET, share
from fakeproject import free_port
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]


def said(command, **more):
    """Run a command and return its output; it has to work."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout
    return done.stdout


def depended(names, found):
    """Add the distributions of .venv with these names to those that are found, and all that they depend on."""
    for name in set(map(canonicalize_name, names)) - set(found):
        found[name] = metadata.distribution(name)
        asked = map(Requirement, found[name].requires or ())
        depended([one.name for one in asked if not one.marker or one.marker.evaluate({"extra": ""})], found)
    return found.values()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the programs of an environment that has the wheel and what it depends on.

    To install that again would take a minute, so the files of .venv are linked.
    """
    home = tmp_path_factory.mktemp("wheel")
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    said([sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", home, PROJECT])
    said([sys.executable, "-m", "venv", home / "venv"])
    programs = home / "venv/bin"
    (wheel,) = home.glob("*.whl")
    said([programs / "python", *pip, "install", "--no-deps", wheel])
    (packages,) = home.glob("venv/lib/python*/site-packages")
    (ours,) = metadata.distributions(name="tsduel", path=[str(packages)])
    needed = depended([Requirement(line).name for line in ours.requires], {})
    linked = {one.locate_file(file.parts[0]) for one in needed for file in one.files}
    for path in linked:
        if path.name not in {"..", "__pycache__"}:
            (packages / path.name).symlink_to(path)
    (programs / "ansible-playbook").symlink_to(PROJECT / ".venv/bin/ansible-playbook")
    return programs


def test_an_installed_tsduel_runs_the_smoke_experiment_from_an_empty_directory(installed, tmp_path):
    """Its caches and results lie as XDG says, the directory stays empty, and sentences name commands of tsduel."""
    empty, home = tmp_path / "empty", tmp_path / "home"
    empty.mkdir()
    share(home / "cache/tsduel", *BUILDS)
    clean = {k: v for k, v in os.environ.items() if k not in {"TSDUEL_CACHE", "PYTHONPATH", "VIRTUAL_ENV"}}
    xdg = {"HOME": str(home), "XDG_CACHE_HOME": f"{home}/cache", "XDG_DATA_HOME": f"{home}/data"}
    words = ["tsbs", "EXPERIMENT=smoke", "RUN=smoke", f"SET=host.port={free_port()} {QUIET}"]
    output = said([installed / "tsduel", *words], cwd=empty, env=clean | xdg)
    run_dir = home / "data/tsduel/results/smoke"
    assert (run_dir / "report.html").exists()
    assert "answers, all the same." in output
    assert "go on     tsduel tsbs RUN=smoke" in output
    assert "tsduel comment RUN=smoke" in output
    assert not list(empty.iterdir())
    assert "smoke" in said([installed / "tsduel", "list"], cwd=empty, env=clean | xdg)
