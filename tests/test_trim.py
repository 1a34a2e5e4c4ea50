"""scripts/trim-cache: what was not used for longest goes first, never what a run needs, and nothing goes by halves."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time

import pytest
from fakeproject import PROJECT, wait_for
from housekeeping import MARKER, call, write

from tsduel.core.errors import UserError
from tsduel.question import experiment, knobs
from tsduel.workloads import kinds

DAY = 86_400
MB = 1_000_000


def key(number):
    """Return a key as entries of the cache have it."""
    return f"{number:016x}"


def entry(project, kind, number, *, days, size=MB, stamp=True):
    """Put an entry of some size into the cache that was last used so many days ago; return its directory."""
    directory = project.cache / kind / (key(number) + (".git" if kind == "src" else ""))
    write(directory / "content", size)
    used = write(directory / ".used") if stamp else directory
    when = time.time() - days * DAY
    os.utime(used, (when, when))
    return directory


def trim(project, *, limit_mb, **more):
    """Trim to so many megabytes, and return what was said; `more` are sections of the experiment."""
    if not (project.run_dir / "plan").exists():
        project.plan(host={"cache_limit_gb": None if limit_mb is None else limit_mb / 1000}, **more)
        (project.run_dir / "raw").mkdir()
    return call("trim-cache", project.cache, project.run_dir)


@pytest.fixture
def full(project):
    """Return entries of every kind, used 9, 8 ... days ago, a megabyte each."""
    kinds = ("workload", "variants", "src", "tsbs", "workload", "variants")
    return [entry(project, kind, number, days=9 - number) for number, kind in enumerate(kinds)]


def there(entries):
    """Return the numbers of the entries that are there."""
    return [number for number, directory in enumerate(entries) if directory.exists()]


class TestWhatGoes:
    """The order, and the one line that says it."""

    def test_the_least_recently_used_goes_first_until_it_fits(self, project, full):
        """Of all kinds alike, whole entries, and no more than need be; Go's own counts and stays."""
        write(project.cache / "go/build/x", 2 * MB)
        said = trim(project, limit_mb=6.5)
        assert there(full) == [2, 3, 4, 5]
        assert (project.cache / "go/build/x").exists()
        assert said.count("\n") == 1
        when = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 9 * DAY))
        assert "with the data of this run, and its limit is 6.5 MB (CACHE_LIMIT): removed what was not used" in said
        assert f": workload/{key(0)} (1.0 MB, last used {when}), variants/{key(1)} (1.0 MB, last used " in said
        assert "stay" not in said
        assert json.loads((project.run_dir / "raw/events.jsonl").read_text())["message"] + "\n" == said

    def test_below_the_limit_and_without_one_nothing_is_said_or_done(self, project, full):
        """`null` is no limit."""
        assert trim(project, limit_mb=100) == ""
        assert there(full) == [0, 1, 2, 3, 4, 5]
        assert not (project.run_dir / "raw/events.jsonl").exists()

    def test_null_is_no_limit(self, project, full):
        """And a plan from before there was one has none."""
        assert trim(project, limit_mb=None) == ""
        assert there(full) == [0, 1, 2, 3, 4, 5]

    def test_an_entry_without_a_stamp_is_as_old_as_its_directory(self, project):
        """It is from before there were stamps."""
        old = entry(project, "variants", 1, days=8, stamp=False)
        new = entry(project, "variants", 2, days=7, stamp=True)
        trim(project, limit_mb=1.5)
        assert (old.exists(), new.exists()) == (False, True)

    def test_room_is_made_for_the_data_that_is_going_to_be_made(self, project, full):
        """The plan's estimate of it counts before it is there."""
        resolved = project.plan(host={"cache_limit_gb": 7 / 1000}, workload={"scale": 1000, "interval": "1m"})
        (project.run_dir / "raw").mkdir()
        assert resolved["estimate"]["data_bytes"] > 7 * MB
        said = call("trim-cache", project.cache, project.run_dir)
        assert there(full) == []
        assert " stay: 0 B are Go's own" in said
        assert "a larger CACHE_LIMIT" in said

    def test_what_is_not_ours_or_not_whole_is_left_alone(self, project, tmp_path):
        """Another name, a partial, a link, a part that is a link to a shared one."""
        kept = [
            write(project.cache / "variants/mine/x", MB),
            write(project.cache / f"variants/{key(1)}.partial.abc/x", MB),
            write(tmp_path / f"shared/{key(2)}/x", MB),
            write(project.cache / "notes/x", MB),
        ]
        (project.cache / "tsbs").symlink_to(tmp_path / "shared")
        (project.cache / f"variants/{key(2)}").symlink_to(tmp_path / "shared")
        trim(project, limit_mb=0.1)
        assert all(path.exists() for path in kept)


class TestWhatStays:
    """What a run needs, or may be about to."""

    def test_what_this_run_uses_stays_and_counts_as_used_now(self, project):
        """However old it is: its data, its binaries, its TSBS."""
        resolved = project.plan(host={"cache_limit_gb": 1e-6})
        (project.run_dir / "raw").mkdir()
        mine = [project.cache / "variants" / resolved["variants"][0]["build_key"]]
        mine += [project.cache / "workload" / resolved["workload"]["data_key"], project.cache / "tsbs" / key(7)]
        (project.run_dir / "build/tsbs.json").write_text(json.dumps({"bin_dir": str(mine[2])}))
        for directory in mine:
            write(directory / "x", MB)
            used = write(directory / ".used")
            os.utime(used, (0, 0))
        other = entry(project, "variants", 1, days=1)
        said = call("trim-cache", project.cache, project.run_dir)
        assert all(directory.exists() for directory in mine)
        assert not other.exists()
        assert all((directory / ".used").stat().st_mtime > time.time() - 60 for directory in mine)
        assert "; 3.0 MB stay: 0 B are Go's own, the rest is this run's" in said

    def test_what_was_used_within_the_hour_stays(self, project):
        """Another run may have been built a minute ago, and begin when this one has ended."""
        fresh = entry(project, "variants", 1, days=0.5 / 24)
        old = entry(project, "variants", 2, days=1.5 / 24)
        trim(project, limit_mb=0.001)
        assert (fresh.exists(), old.exists()) == (True, False)

    @pytest.mark.parametrize("kind", ["variants", "tsbs", "src"])
    def test_what_is_being_built_stays(self, project, kind):
        """Its builder holds a lock; the next in age goes."""
        held = entry(project, kind, 1, days=9)
        other = entry(project, "workload", 2, days=8)
        with (project.cache / kind / f"{key(1)}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            trim(project, limit_mb=0.001)
        assert (held.exists(), other.exists()) == (True, False)

    def test_a_clone_stays_while_anything_is_built(self, project):
        """A build has its work tree from it, under another lock."""
        clone = entry(project, "src", 1, days=9)
        with write(project.cache / f"variants/{key(2)}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            trim(project, limit_mb=0.001)
            assert clone.exists()
        call("trim-cache", project.cache, project.run_dir)
        assert not clone.exists()


class TestKilled:
    """A removal that is killed."""

    def test_nothing_that_looks_whole_is_left_and_the_next_one_finishes_it(self, project, tmp_path):
        """The entry is out of its place before its first byte goes."""
        gone = entry(project, "variants", 1, days=9)
        begun = tmp_path / "begun"
        tool = write(tmp_path / "tools/rm")
        tool.write_text(f'#!/bin/sh\ntouch "{begun}"\nexec sleep 60\n')
        tool.chmod(0o755)
        project.plan(host={"cache_limit_gb": 0.0001})
        (project.run_dir / "raw").mkdir()
        with subprocess.Popen(
            [PROJECT / "scripts/trim-cache", project.run_dir],
            env=project.env | {"PATH": f"{tool.parent}:{os.environ['PATH']}"},
            start_new_session=True,
        ) as process:
            wait_for(begun.exists)
            os.killpg(process.pid, signal.SIGKILL)
        assert not gone.exists()
        left = project.cache / f"variants/.removed.{key(1)}"
        assert left.exists()
        call("trim-cache", project.cache, project.run_dir)
        assert not left.exists()


class TestInARun:
    """Called by run-rounds, which holds the lock."""

    def test_a_run_trims_before_its_rounds_and_marks_the_cache(self, project):
        """The limit comes with the plan, so it holds on another machine as well."""
        old = entry(project, "variants", 1, days=9)
        project.plan(host={"cache_limit_gb": 0.0005})
        said = project.run()
        assert f"removed what was not used for longest: variants/{key(1)}" in said
        assert not old.exists()
        assert (project.cache / MARKER).exists()

    def test_a_run_that_may_not_begin_trims_nothing(self, project):
        """Another one has the lock, and may be using it."""
        old = entry(project, "variants", 1, days=9)
        project.plan(host={"cache_limit_gb": 0.0005})
        with (project.cache / "run.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            project.run(expect=2)
        assert old.exists()

    def test_the_knob_is_a_field_of_the_plan(self):
        """In GB; what is none is refused with a sentence."""
        asked = knobs.apply({"name": "x"}, {"CACHE_LIMIT": "7.5"})
        assert experiment.validate(asked, "test").host.cache_limit_gb == 7.5
        assert experiment.validate({"name": "x"}, "test").host.cache_limit_gb == 20
        go = kinds.EMPTY["gobench"] | {"gobench": {"module": "m.example/m", "package": "./p"}}
        go |= {"variants": {"baseline": {"ref": "v1"}, "candidate": {"ref": "v2"}}}
        assert kinds.validate(knobs.apply(go, {"CACHE_LIMIT": "null"}), "test").host.cache_limit_gb is None
        for wrong in ("0", "-1", "20GB", "lots", "[]"):
            with pytest.raises(UserError, match=r"host\.cache_limit_gb: "):
                experiment.validate(knobs.apply({"name": "x"}, {"CACHE_LIMIT": wrong}), "test")
