"""What a run must never do: show its files to others, listen for others, wipe what is not ours."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess

import pytest
from listening import listeners, not_loopback

from tsduel.core.errors import UserError
from tsduel.plan import resolve as plan


def mode(path):
    """Return the permissions of a path."""
    return stat.S_IMODE(path.stat().st_mode)


class TestPrivate:
    """Directories of a run are their user's alone, however generous his umask is."""

    def test_a_run_and_its_scratch_are_the_user_s_alone(self, project):
        """What lies in them is closed with them; a directory that was there is as its user left it."""
        before = os.umask(0)
        try:
            project.plan()
            project.run()
        finally:
            os.umask(before)
        assert [mode(path) for path in (project.run_dir, project.cache, project.cache / "scratch")] == [0o700] * 3
        # What is in them is open, so that one chmod shares a run.
        assert mode(project.run_dir / "raw") == 0o777
        project.run_dir.chmod(0o755)
        project.run()
        assert mode(project.run_dir) == 0o755

    def test_the_cache_is_made_for_its_user_alone(self, tmp_path, monkeypatch):
        """By the first stage already, which may put a private repository into it."""
        monkeypatch.chdir(tmp_path)
        variant = {"source": "binary", "path": "/no/such"}
        asked = tmp_path / "asked.yml"
        asked.write_text(json.dumps({"name": "asked", "variants": {"baseline": variant, "candidate": variant}}))
        environment = os.environ | {"TSDUEL_CACHE": str(tmp_path / "a/cache"), "EXPERIMENT": str(asked)}
        with pytest.raises(UserError, match="/no/such"):
            plan.main(tmp_path / "results/r", environment)
        assert mode(tmp_path / "a/cache") == 0o700


class TestWipe:
    """Only a plain directory of ours, with our marker beside it, is wiped."""

    @pytest.fixture
    def precious(self, project):
        """Return a file outside, which nothing may touch."""
        file = project.root / "elsewhere" / "data" / "precious"
        file.parent.mkdir(parents=True)
        file.write_text("mine")
        yield file
        assert file.read_text() == "mine"

    @pytest.mark.parametrize("name", ["data", "bench"])
    def test_a_link_is_not_followed(self, project, precious, name):
        """Not even with a marker beside it, as after an earlier run."""
        project.plan()
        scratch = project.cache / "scratch"
        scratch.mkdir(parents=True)
        (scratch / f"{name}.tsduel-data").touch()
        (scratch / name).symlink_to(precious.parent)
        said = project.run(expect=2)
        assert f"{scratch}/{name} is a link, and is not followed: remove it" in said
        if name == "data":
            assert "is a link" in project.round_alone()["failure"]["message"]

    @pytest.mark.parametrize("name", ["data", "bench"])
    def test_what_has_no_marker_is_not_wiped(self, project, name):
        """A directory of the same name that somebody has put there."""
        project.plan()
        file = project.cache / "scratch" / name / "precious"
        file.parent.mkdir(parents=True)
        file.write_text("mine")
        assert f"{name} is not marked as ours ({name}.tsduel-data beside it)" in project.run(expect=2)
        (file.parent.parent / f"{name}.tsduel-data").symlink_to("/etc/hostname")
        assert "is not marked as ours" in project.run(expect=2)
        assert file.read_text() == "mine"

    def test_a_scratch_that_leads_elsewhere_is_looked_at_there(self, project, precious):
        """TSDUEL_CACHE may be, or hold, a link; what it leads to has no marker."""
        project.plan()
        project.cache.mkdir()
        (project.cache / "scratch").symlink_to(precious.parent.parent)
        assert "is not marked as ours" in project.run(expect=2)

    def test_links_in_a_directory_of_ours_are_removed_and_not_followed(self, project, precious):
        """A database or a benchmark may leave any."""
        project.plan()
        data = project.cache / "scratch" / "data"
        data.mkdir(parents=True)
        (project.cache / "scratch" / "data.tsduel-data").touch()
        (data / "link").symlink_to(precious.parent)
        closed = data / "closed"
        closed.mkdir()
        (closed / "link").symlink_to(precious)
        closed.chmod(0o500)
        project.run()
        assert not (data / "link").is_symlink()

    def test_another_disk_is_not_wiped(self, project):
        """A marker beside a mount point says nothing of what is mounted."""
        if os.geteuid() != 0:
            pytest.skip("mounting a disk needs root")
        project.plan()
        data = project.cache / "scratch" / "data"
        data.mkdir(parents=True)
        (project.cache / "scratch" / "data.tsduel-data").touch()
        words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tsduel-test", data]
        if subprocess.run(words, check=False, capture_output=True).returncode != 0:
            pytest.skip("no disk can be mounted here")
        try:
            (data / "precious").write_text("mine")
            assert f"{data} is a disk of its own, so it is not wiped" in project.run(expect=2)
            assert (data / "precious").read_text() == "mine"
        finally:
            subprocess.run(["umount", data], check=False)


def test_the_test_of_listening_sees_who_listens():
    """An address of all interfaces is found, 127.0.0.1 is not."""
    with socket.create_server(("", 0)) as open_to_all, socket.create_server(("127.0.0.1", 0)) as ours:
        found = not_loopback([os.getpid()])
        assert f"0.0.0.0:{open_to_all.getsockname()[1]}" in found
        assert f"127.0.0.1:{ours.getsockname()[1]}" in listeners([os.getpid()]) - found
