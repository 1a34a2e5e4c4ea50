"""A run shows its files to nobody else, and listens to nobody else."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest
from fakeproject import marked, wait_for
from listening import listeners, not_loopback

from tsduel.core.errors import UserError
from tsduel.plan import resolve as plan


def mode(path):
    """Return the permissions of a path."""
    return stat.S_IMODE(path.stat().st_mode)


class TestPrivate:
    """Only the user can read a run's directories, with any umask."""

    def test_a_run_and_its_scratch_are_the_user_s_alone(self, project):
        """New directories are private; an existing directory keeps its mode."""
        before = os.umask(0)
        try:
            project.plan(duel={"enabled": False})
            project.run()
        finally:
            os.umask(before)
        assert [mode(path) for path in (project.run_dir, project.cache / "scratch")] == [0o700] * 2
        # A database's own files are closed too, wherever the scratch directory lies.
        assert mode(project.cache / "scratch/data") == 0o700
        project.run_dir.chmod(0o755)
        project.run()
        assert mode(project.run_dir) == 0o755

    def test_the_cache_is_made_for_its_user_alone(self, tmp_path, monkeypatch):
        """The first stage makes it private, since it may hold a private repository."""
        monkeypatch.chdir(tmp_path)
        variant = {"source": "binary", "path": "/no/such"}
        asked = tmp_path / "asked.yml"
        asked.write_text(json.dumps({"name": "asked", "variants": {"baseline": variant, "candidate": variant}}))
        environment = os.environ | {"TSDUEL_CACHE": str(tmp_path / "a/cache"), "EXPERIMENT": str(asked)}
        with pytest.raises(UserError, match="/no/such"):
            plan.main(tmp_path / "results/r", environment)
        assert mode(tmp_path / "a/cache") == 0o700


def test_a_run_listens_on_the_loopback_alone_and_goes_on_after_a_stop_of_the_terminal(project):
    """Its servers and the driver; ^Z would leave a server held."""
    project.plan(duel={"enabled": False})
    process = project.start(FAKE_LOAD_S="3")
    try:
        wait_for(project.loads)
        ours = [process.pid, *marked(project.cache / "scratch")]
        assert listeners(ours)
        assert not_loopback(ours) == set()
        process.send_signal(signal.SIGTSTP)
        time.sleep(0.3)
        assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T"
    finally:
        process.send_signal(signal.SIGCONT)
        said = project.end(process)
    assert process.returncode == 0, said


def test_the_test_of_listening_sees_who_listens():
    """It finds a listener on all interfaces, and ignores 127.0.0.1."""
    with socket.create_server(("", 0)) as open_to_all, socket.create_server(("127.0.0.1", 0)) as ours:
        found = not_loopback([os.getpid()])
        assert f"0.0.0.0:{open_to_all.getsockname()[1]}" in found
        assert f"127.0.0.1:{ours.getsockname()[1]}" in listeners([os.getpid()]) - found
