"""The project as people install it: a wheel in an environment of its own, typed in an empty directory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from checkout import BUILDS, PROJECT, QUIET, share
from fakeproject import free_port

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]


def said(command, **more):
    """Run a command and return its output; it has to work."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the programs of an environment that has the wheel and what it depends on."""
    home = tmp_path_factory.mktemp("wheel")
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    said([sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", home, PROJECT])
    said([sys.executable, "-m", "venv", home / "venv"])
    (wheel,) = home.glob("*.whl")
    said([home / "venv/bin/python", *pip, "install", wheel])
    return home / "venv/bin"


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
