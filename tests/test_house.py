"""make clean-cache: what is said, what is removed, what is refused, and that nothing else is touched."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess

import pytest
from housekeeping import KEY, MARKER, NOBODY, PROJECT, SCRIPTS, call, fill, give_to, said, write


@pytest.fixture
def cache(tmp_path):
    """Return a full cache that is marked as ours."""
    made = tmp_path / "cache"
    call("mark-cache", made)
    return fill(made)


class TestCleanCache:
    """What a cache holds is said, then it is gone."""

    def test_every_part_is_said_and_everything_goes(self, cache):
        """In units that people read, the sum last; afterwards there is no directory."""
        told = call("clean-cache", cache)
        assert "  2.0 MB  workload/     data and query files\n" in told
        assert "  go/           Go's modules and build cache\n" in told
        assert told.index("go/") < told.index("variants/") < told.index("workload/") < told.index(str(cache))
        assert not cache.exists()
        assert "there is no cache" in call("clean-cache", cache)

    def test_dry_says_the_same_and_removes_nothing(self, cache):
        """DRY=1; another value than 0 or 1 is refused."""
        before = sorted(cache.rglob("*"))
        dry = call("clean-cache", cache, DRY="1")
        assert "nothing was removed (DRY=1)" in dry
        assert sorted(cache.rglob("*")) == before
        assert "DRY: 'yes' is neither 1 nor 0" in call("clean-cache", cache, DRY="yes", code=2)
        assert call("clean-cache", cache).splitlines() == [w for w in dry.splitlines() if "DRY" not in w]

    @pytest.mark.parametrize("name", ["a b * q\"u'o`te $(touch pwned) back\\slash\nends in newline\n", "*", "-rf"])
    def test_a_path_is_a_path_whatever_is_in_its_name(self, tmp_path, name):
        """Also through make; what lies beside, under a name that an expansion would give, stays."""
        beside = [write(tmp_path / other / "precious") for other in ("a", "ends in newline", "rf", "other")]
        made = tmp_path / name
        call("mark-cache", made)
        fill(made)
        said(["make", "clean-cache"], TSDUEL_CACHE=str(made))
        assert not made.exists()
        assert all(path.exists() for path in beside)
        assert not (PROJECT / "pwned").exists()

    def test_a_relative_path_and_one_that_is_a_word_of_cd(self, tmp_path):
        """`-` is a directory's name here and not the one before."""
        for name in ("-", "--", "plain"):
            call("mark-cache", name, cwd=tmp_path)
            fill(tmp_path / name)
            call("clean-cache", name, cwd=tmp_path)
            assert not (tmp_path / name).exists()

    def test_what_is_no_cache_of_ours_is_not_touched(self, tmp_path):
        """The home directory, what is above it or the checkout, and any other directory without our marker."""
        home = tmp_path / "home"
        write(home / "precious")
        write(home / "go/src/mine")
        other = tmp_path / "project"
        write(other / "src/main.go")
        for path, why in (
            (home, f"it is, or holds, {home}"),
            (tmp_path, f"it is, or holds, {home}"),
            ("/", "it is, or holds, "),
            (PROJECT, f"it is, or holds, {PROJECT}"),
            (home / "go", f"it has no marker of tsduel ({MARKER})"),
            (other, f"it has no marker of tsduel ({MARKER})"),
            ("/usr/lib", f"it has no marker of tsduel ({MARKER}) and holds "),
        ):
            told = call("clean-cache", path, code=2, HOME=str(home))
            assert f"'{path}' is not a cache that we have made: {why}" in told
            assert "nothing was removed" in told
        assert (home / "precious").exists()
        assert (home / "go/src/mine").exists()
        assert (other / "src/main.go").exists()

    def test_planning_with_a_foreign_directory_does_not_make_it_ours(self, tmp_path):
        """It is used, but nothing of it is ever removed: neither now nor after a run has filled it."""
        write(tmp_path / "home/precious")
        call("mark-cache", tmp_path / "home")
        fill(tmp_path / "home")
        call("mark-cache", tmp_path / "home")
        assert not (tmp_path / "home" / MARKER).exists()
        call("clean-cache", tmp_path / "home", code=2)
        assert (tmp_path / "home/go/mod/m/file").exists()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
    def test_another_users_directory_in_one_of_all_users_is_no_cache(self, tmp_path):
        """As in /var/tmp: that user could change the programs that we build there, and run."""
        (tmp_path / "tmp").mkdir()
        (tmp_path / "tmp").chmod(0o1777)
        theirs = tmp_path / "tmp/tsduel"
        theirs.mkdir()
        give_to(NOBODY, theirs)
        for made in (theirs, theirs / "a/cache"):
            told = call("mark-cache", made, code=2)
            assert f"TSDUEL_CACHE: {theirs} belongs to another user, who could change what is built there" in told
        call("mark-cache", tmp_path / "tmp/ours")
        assert (tmp_path / "tmp/ours" / MARKER).exists()

    def test_a_marker_that_is_a_link_or_says_something_else_does_not_count(self, tmp_path, cache):
        """Only ours does."""
        foreign = tmp_path / "foreign"
        write(foreign / "precious")
        (foreign / MARKER).symlink_to(cache / MARKER)
        call("clean-cache", foreign, code=2)
        (foreign / MARKER).unlink()
        write(foreign / MARKER, 5)
        call("clean-cache", foreign, code=2)
        assert (foreign / "precious").exists()

    def test_a_link_to_a_cache_is_emptied_and_stays(self, tmp_path, cache):
        """It was made by the user; a link to anything else is refused like that itself."""
        (tmp_path / "link").symlink_to(cache)
        call("clean-cache", tmp_path / "link")
        assert not cache.exists()
        write(tmp_path / "elsewhere/src/main.go")
        (tmp_path / "other").symlink_to(tmp_path / "elsewhere")
        call("clean-cache", tmp_path / "other", code=2)
        assert (tmp_path / "elsewhere/src/main.go").exists()

    def test_what_is_not_ours_in_our_cache_stays(self, cache):
        """Somebody's file, and what rounds wipe, without the marker beside it; it says so."""
        write(cache / "notes.txt")
        (cache / "scratch/data.tsduel-data").unlink()
        write(cache / "scratch/bench/mine")
        write(cache / "scratch/feed.lines")
        assert "'scratch/data' 'scratch/bench' 'notes.txt'" in call("clean-cache", cache)
        left = [path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.is_file()]
        assert sorted(left) == [MARKER, "notes.txt", "run.lock", "scratch/bench/mine", "scratch/data/x"]

    def test_links_are_removed_and_not_what_they_lead_to(self, cache, tmp_path):
        """A part may lie elsewhere."""
        write(tmp_path / "elsewhere/file")
        shutil.rmtree(cache / "go")
        (cache / "go").symlink_to(tmp_path / "elsewhere")
        (cache / f"variants/{KEY}/link").symlink_to(tmp_path / "elsewhere")
        call("clean-cache", cache)
        assert not cache.exists()
        assert (tmp_path / "elsewhere/file").exists()

    def test_a_user_can_remove_what_go_has_made_read_only(self, cache):
        """Go writes its modules without the right to write for anybody; root would not notice."""
        if os.geteuid() != 0:
            pytest.skip("needs root, to become another user")
        module = cache / "go/mod/m"
        write(module / "deep/er/file")
        for path in (module / "deep/er/file", module / "deep/er", module / "deep", module):
            path.chmod(0o555)
        give_to(NOBODY, cache)
        shutil.copytree(SCRIPTS, cache.parent / "scripts")
        command = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", cache.parent / "scripts" / "clean-cache"]
        said(command, cwd=cache.parent, TSDUEL_CACHE=str(cache))
        assert list(cache.iterdir()) == []

    def test_not_while_a_run_uses_it(self, cache):
        """A real process holds the lock; the sentence says which. When it is gone the cache can be."""
        (cache / "run.lock").write_text("pid 4711, /results/r, since 2026-11-21T00:00:00Z\n")
        with (cache / "run.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            told = call("clean-cache", cache, code=2)
            assert "a run is using " in told
            assert "pid 4711, /results/r, since" in told
            assert (cache / f"workload/{KEY}/data.zst").exists()
        call("clean-cache", cache)
        assert not cache.exists()

    def test_not_while_something_is_built_in_it(self, cache):
        """Builds hold a lock of their own, without a run's."""
        with (cache / f"tsbs/{KEY}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert f"something is being built in {cache} (tsbs/{KEY}.lock is held)" in call(
                "clean-cache", cache, code=2
            )
        assert (cache / "go").exists()

    def test_a_removal_that_is_killed_leaves_nothing_that_looks_whole(self, cache, tmp_path):
        """Everything is out of its place before the first byte goes; the next call removes the rest."""
        tools = tmp_path / "tools"
        write(tools / "rm").write_text("#!/bin/sh\nkill -KILL $PPID\n")
        (tools / "rm").chmod(0o755)
        call("clean-cache", cache, code=-9, PATH=f"{tools}:{os.environ['PATH']}")
        assert [path.name[:8] for path in cache.iterdir() if path.is_dir()] == ["removed."]
        assert "what a killed build or removal has left" in call("clean-cache", cache)
        assert not cache.exists()

    def test_a_database_that_a_killed_run_has_left_is_ended_first(self, cache):
        """It would write on into what is being removed."""
        stray = subprocess.Popen(
            ["sleep", "300"], env={"TSDUEL_SCRATCH": f"{cache}/scratch", "PATH": os.environ["PATH"]}
        )
        assert f"ending what an interrupted run left behind: sleep 300  (pid {stray.pid})" in call("clean-cache", cache)
        assert stray.wait(10) == -9
