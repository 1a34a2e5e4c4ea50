"""make uninstall: it removes all of ours, here and on another machine; results stay, and it prints what stays."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from housekeeping import KEY, NOBODY, PROJECT, call, clean_environment, fill, give_to, said, write
from test_remote import FAKE_SSH


def git(*words, cwd):
    """Run git in a directory and return its output."""
    name = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "safe.directory=*")
    return subprocess.run(["git", *name, *words], cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def clone(tmp_path):
    """Return a fresh clone of this checkout with its uncommitted changes."""
    files = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=PROJECT).split("\0")
    made = tmp_path / "a clone"
    for name in filter(None, files):
        if (PROJECT / name).is_file():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, made / name, follow_symlinks=False)
    git("init", "--quiet", cwd=made)
    git("add", "--all", cwd=made)
    git("commit", "--quiet", "-m", "as it is", cwd=made)
    return made


def use(clone):
    """Leave in a clone the files of a run and of the tests, by the real tools where these are quick."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "tsduel/core", "tests/reports.py"], cwd=clone, check=True)
    subprocess.run([clone / "scripts/mark-cache"], check=True, env=clean_environment())
    fill(clone / ".cache")
    write(clone / ".cache/installed-packages").write_text("zstd\nno-such-package\n$(touch pwned)\ntar\ntar\n")
    for name in (".mypy_cache/x", ".pytest_cache/x", ".ruff_cache/x", ".hypothesis/x"):
        write(clone / name)
    write(clone / "results/plot-load/load-rate.svg")
    write(clone / "results/20261121T000000Z-local/plan/experiment.json")


def make(clone, *words, user, code=0, **more):
    """Run make in a clone as its owner; return its output."""
    give_to(user, clone.parent)
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    return said([*become, "make", *words], code=code, cwd=clone, HOME=str(clone.parent / "home"), **more)


def left(clone):
    """Return the files of a clone that git does not track."""
    return git("status", "--porcelain", "--ignored", cwd=clone).splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become users without SSH sockets of their own")
class TestHere:
    """On this machine."""

    def test_a_clone_is_as_fresh_as_before_but_for_its_results(self, clone):
        """All but results/ is removed, SSH's sockets too; it prints how to remove results/."""
        use(clone)
        sockets = Path("/tmp") / f"tsduel-ssh-{NOBODY}"  # noqa: S108 - where they are
        write(sockets / "socket")
        give_to(NOBODY, sockets)
        before = left(clone)
        dry = make(clone, "uninstall", "DRY=1", user=NOBODY)
        assert left(clone) == before
        assert sockets.exists()
        assert (clone / ".cache/installed-packages").exists()
        told = make(clone, "uninstall", user=NOBODY)
        assert left(clone) == ["!! results/20261121T000000Z-local/"]
        assert not sockets.exists()
        for text in (dry, told):
            assert "  2.0 MB  workload/     data and query files\n" in text
            caches = ".mypy_cache .pytest_cache .ruff_cache .hypothesis"
            assert f"in the checkout: .venv {caches} results/plot-load tests/" in text
            assert "apt-get purge tar zstd" in text
            assert f"rm -rf '{clone}'/results" in text
        assert not (clone / "pwned").exists()
        # And once more, with nothing there.
        assert "apt-get" not in make(clone, "uninstall", user=NOBODY)

    def test_nothing_is_removed_while_a_run_is_going_on(self, clone):
        """A run in the clone's cache, or a TSDUEL_CACHE that is not ours, prevents any removal."""
        use(clone)
        before = left(clone)
        with (clone / ".cache/run.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert "a run is using " in make(clone, "uninstall", user=NOBODY - 1, code=2)
        assert left(clone) == before
        elsewhere = clone.parent / "else where"
        elsewhere.mkdir()
        make(clone, "uninstall", user=NOBODY - 1, TSDUEL_CACHE=str(elsewhere), code=2)
        assert left(clone) == before
        elsewhere.rmdir()
        make(clone, "uninstall", user=NOBODY - 1, TSDUEL_CACHE=str(elsewhere))
        assert left(clone) == ["!! results/20261121T000000Z-local/"]

    def test_a_rented_machine_and_another_machine_are_named(self, clone):
        """Neither is changed; the commands to type come last. A machine that was given back is not named."""
        bench, other = {"address": "bench", "user": None}, {"address": "bench", "user": "me", "port": 22}
        for run, outputs in (
            ("r-out", {"target": "gcp", "provisioned": True, "hosts": {"host1": {"instance": "tsduel-r-out"}}}),
            ("r-back", {"target": "gcp", "provisioned": False, "hosts": {}}),
            ("r-one", {"target": "ssh", "provisioned": False, "hosts": {"host1": bench}}),
            ("r-two", {"target": "ssh", "provisioned": False, "hosts": {"host1": bench, "host2": other}}),
        ):
            path = write(clone / "results" / run / "host/outputs.json")
            path.write_text(json.dumps(outputs, indent=2))
        write(clone / "results/r-half/host/terraform.tfstate")
        refused = make(clone, "uninstall", "TARGET=gcp", user=NOBODY - 2, code=2)
        assert "TARGET: nothing of ours is installed on 'gcp'" in refused
        told = make(clone, "uninstall", user=NOBODY - 2)
        assert "A RENTED MACHINE MAY STILL BE THERE and cost money: make destroy RUN=r-out\n" in told
        assert "make destroy RUN=r-half\n" in told
        assert "r-back" not in told
        assert told.count("what runs needed is still there, unless you have removed it") == 2
        assert "make uninstall TARGET=ssh SSH_HOST=bench (and " in told
        assert "make uninstall TARGET=ssh SSH_HOST=me@bench:22 (and " in told


def test_packages_are_written_down_with_what_came_with_them(tmp_path):
    """Packages from before are not listed; a second installation adds to the list."""
    tools = tmp_path / "tools"
    state = write(tmp_path / "state")
    state.write_text("installed base\nconfig-files jq\n")
    write(tools / "dpkg-query").write_text(f"#!/bin/sh\ncat '{state}'\n")
    write(tools / "apt-get").write_text(f"#!/bin/sh\nprintf 'installed %s\\n' base \"$WHAT\" lib-$WHAT >'{state}'\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    script = (PROJECT / "scripts/ensure-packages").read_text().replace("EUID", "FAKE_EUID")
    write(tmp_path / "scripts/ensure-packages").write_text(script)
    for what in ("jq", "zstd"):
        environment = {"PATH": f"{tools}:{os.environ['PATH']}", "WHAT": what, "FAKE_EUID": "0"}
        environment["TSDUEL_CACHE"] = str(tmp_path / "ca che")
        command = ["bash", tmp_path / "scripts/ensure-packages", f"-={what}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == f"{what}\n"
    assert (tmp_path / "ca che/installed-packages").read_text() == "jq\nlib-jq\nlib-zstd\nzstd\n"


class TestThere:
    """On another machine, by a fake ssh."""

    @pytest.fixture
    def there(self, tmp_path, monkeypatch):
        """Return our directory there, as a run leaves it."""
        ssh = write(tmp_path / "bin/ssh")
        ssh.write_text(FAKE_SSH)
        ssh.chmod(0o755)
        directory = tmp_path / "there"
        for name in ("plan/ansible-vars.json", "project/scripts/with-go", "raw/host1/001/block.json"):
            write(directory / "runs/r" / name)
        call("mark-cache", directory / "cache")
        fill(directory / "cache")
        directory.chmod(0o700)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setenv("FAKE_SSH", str(tmp_path))
        return directory

    @staticmethod
    def remove(there, *, code=0, **knobs):
        """Run the program of `make uninstall TARGET=ssh`."""
        named = {"TARGET": "ssh", "SSH_HOST": "me@bench", "REMOTE_DIR": str(there)} | knobs
        return said([sys.executable, "-m", "tsduel.places.uninstall"], code=code, **named)

    def test_our_directory_goes(self, there):
        """It lists and removes runs and cache; a second call finds nothing."""
        write(there / "cache/installed-packages").write_text("tar\n")
        dry = self.remove(there, DRY="1")
        assert (there / f"workload/{KEY}").parent.parent.exists()
        told = self.remove(there)
        assert not there.exists()
        for text in (dry, told):
            assert "  2.0 MB  workload/ " in text
            assert "runs/         1 runs in" in text
            assert "me@bench: these Debian packages were installed for us" in text
        assert "nothing of tsduel is there" in self.remove(there)

    def test_not_while_a_run_is_going_on_there(self, there):
        """A run there holds the lock."""
        with (there / "cache/run.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert "me@bench: tsduel: a run is using " in self.remove(there, code=2)
        assert (there / "runs/r/raw").exists()

    @pytest.mark.parametrize("word", ["exit", "pid"])
    def test_blocks_that_are_not_at_home_are_not_thrown_away(self, there, word):
        """YES=1 removes them."""
        write(there / "runs/r/control" / word)
        assert "the blocks of r were not all copied here: make tsbs RUN=r does it" in self.remove(there, code=2)
        assert (there / "runs/r/raw").exists()
        self.remove(there, YES="1")
        assert not there.exists()

    def test_what_is_not_ours_stays(self, there):
        """Other files, a directory without a plan, a directory that others may read, and a link stay."""
        write(there / "precious")
        write(there / "runs/mine/file")
        assert "kept, since it is not ours" in self.remove(there)
        assert sorted(path.name for path in there.rglob("*")) == ["file", "mine", "precious", "runs"]
        there.chmod(0o755)
        assert "is not a private directory that tsduel made" in self.remove(there, code=2)
        there.chmod(0o700)
        there.with_name("link").symlink_to(there)
        assert "is not a private directory that tsduel made" in self.remove(there.with_name("link"), code=2)

    def test_a_machine_that_is_away_is_a_sentence(self, there):
        """The error has no stack trace."""
        (there.parent / "away").touch()
        assert "tsduel: me@bench cannot be reached" in self.remove(there, code=2)
        assert (there / "runs/r").exists()
