"""The rounds on another machine, without one: knobs, what is written, and what is done when it goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest
from fakeproject import wait_for
from gitrepo import Repository

from tsduel.core.errors import UserError
from tsduel.places import place, provision
from tsduel.places.ssh import pack, stream
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import Host, NoConnectionError, RefusedError
from tsduel.rounds import attend as rounds
from tsduel.rounds.view import follow, lines
from tsduel.rounds.view.events import Tail

PROJECT = Path(__file__).resolve().parent.parent
# Does here, in a shell, what it is told to do there; fails as ssh does where a file says so.
FAKE_SSH = """#!/usr/bin/env bash
if [[ -e $FAKE_SSH/away ]]; then echo "ssh: connect to host there port 22: Connection timed out" >&2; exit 255; fi
exec sh -c "${@: -1}"
"""


class TestPlace:
    """TARGET, SSH_HOST, SSH_CONFIG and REMOTE_DIR."""

    def test_this_machine_unless_said_otherwise(self):
        """Nothing given is local; a plan without a place was local, too."""
        assert place.asked({}) == place.asked({"TARGET": "local"}) == {"kind": "local"}
        assert place.is_local({})

    @pytest.mark.parametrize(
        ("text", "user", "address", "port"),
        [
            ("me@bench.example.org", "me", "bench.example.org", None),
            ("me@10.0.0.2:2222", "me", "10.0.0.2", 2222),
            ("root@[fd00::2]:22", "root", "fd00::2", 22),
            ("bench", None, "bench", None),
        ],
    )
    def test_a_host_is_user_host_and_port(self, text, user, address, port):
        """User and port may be left to ssh's own configuration; everything lies in one directory of the user's."""
        found = place.asked({"TARGET": "ssh", "SSH_HOST": text})
        assert (found["user"], found["address"], found["port"]) == (user, address, port)
        assert found["directory"].startswith("/var/tmp/tsduel-")  # noqa: S108 - a name, and nothing made there
        plan = {"run": "r", "place": found}
        there = place.directories(plan, run_dir=Path("x"), cache=Path("x"), project=Path("x"))
        assert set(there.values()) == {f"{found['directory']}/{d}" for d in ("cache", "runs/r", "runs/r/project")}

    @pytest.mark.parametrize(
        ("given", "sentence"),
        [
            ({"TARGET": "moon"}, "TARGET: 'moon' is no place for the rounds; there are: local, ssh"),
            ({"TARGET": "ssh"}, "TARGET=ssh needs to know the machine: add SSH_HOST=user@host"),
            ({"SSH_HOST": "me@there"}, "SSH_HOST is for another machine; add TARGET=ssh, or leave SSH_HOST away"),
            ({"TARGET": "ssh", "SSH_HOST": "me@-oProxyCommand=x"}, "is no machine to log in to; write user@host"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there:99999"}, "'me@there:99999' is no machine to log in to"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there; touch x"}, "is no machine to log in to"),
            (
                {"TARGET": "ssh", "SSH_HOST": "me@there", "SSH_CONFIG": "/no/such"},
                "/no/such is no file that can be read",
            ),
            ({"TARGET": "ssh", "SSH_HOST": "me@there", "REMOTE_DIR": "/"}, "'/' is no directory of our own"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there", "REMOTE_DIR": "/a/../b"}, "is no directory of our own"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there", "REMOTE_DIR": "/a/$(x)"}, "is no directory of our own"),
        ],
    )
    def test_what_is_no_place_is_refused(self, given, sentence):
        """One sentence with what is allowed."""
        with pytest.raises(UserError) as caught:
            place.asked(given)
        assert sentence in str(caught.value)


def test_host_files_say_how_ansible_and_ssh_reach_the_machine(tmp_path):
    """A host with a key and a record of its own learns the host key once; the user's own rules are left alone."""
    host = {"address": "10.0.0.2", "user": "me", "port": 2222, "key_file": "/k", "known_hosts_file": "/known"}
    provision.write(tmp_path, kind="gcp", host=host, provisioned=True)
    assert json.loads((tmp_path / "host/outputs.json").read_text()) == {
        "target": "gcp",
        "provisioned": True,
        "host": host,
    }
    variables = json.loads((tmp_path / "host/inventory.json").read_text())["all"]["hosts"]["measured"]
    assert (variables["ansible_host"], variables["ansible_user"], variables["ansible_port"]) == ("10.0.0.2", "me", 2222)
    assert variables["home_run_dir"] == str(tmp_path)
    for option in ("IdentityFile=/k", "UserKnownHostsFile=/known", "StrictHostKeyChecking=accept-new", "ServerAlive"):
        assert option in variables["ansible_ssh_args"]
    plain = " ".join(Host("there").options())
    assert "StrictHostKeyChecking" not in plain
    assert "KnownHosts" not in plain


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        ("me@there: Permission denied (publickey).", RefusedError, "there refuses the login"),
        ("ssh: Could not resolve hostname there: Name or service not known", RefusedError, "no machine of this name"),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @",
            RefusedError,
            "another host key than the one you have",
        ),
        ("ssh: connect to host there port 22: No route to host", NoConnectionError, "No route to host"),
        ("kex_exchange_identification: Connection closed by remote host", NoConnectionError, "see that this works"),
        ("", NoConnectionError, "no reason given"),
    ],
)
def test_what_ssh_says_becomes_a_sentence(said, kind, sentence):
    """Only what may pass is a broken connection, which is tried again."""
    error = Host("there").failure(said)
    assert type(error) is kind
    assert sentence in str(error)


def variant(name, source, **where):
    """Return what pack reads of a planned variant."""
    return {"name": name, "source": source, "repo": "", "path": "", **where}


class TestPack:
    """What is brought to the other machine."""

    @staticmethod
    def run_of(directory, *variants):
        """Make a run with these variants."""
        for name in ("plan", "host"):
            (directory / name).mkdir(parents=True)
        (directory / "plan/experiment.json").write_text(json.dumps({"variants": list(variants)}))
        return directory

    def test_the_same_files_make_the_same_archive(self, tmp_path):
        """Else a second Ansible run would find it changed; scripts stay executable."""
        packed = []
        for number in range(2):
            pack.main(self.run_of(tmp_path / str(number), variant("baseline", "module")))
            packed.append(tmp_path / str(number) / "host/project.tar.gz")
        assert packed[0].read_bytes() == packed[1].read_bytes()
        with tarfile.open(packed[0]) as archive:
            modes = {entry.name: entry.mode for entry in archive}
        assert modes["project/scripts/run-rounds"] == 0o755
        assert modes["project/scripts/lib/common.sh"] == 0o644
        assert {"plan/experiment.json", "project/ansible/roles/variant/files/build-variant"} <= set(modes)

    def test_a_checkout_comes_with_its_changes_and_is_built_there(self, tmp_path):
        """Changed, new and deleted files arrive; take_path there finds the changes that the plan was made with."""
        repository = Repository(tmp_path / "db")
        for name in ("kept", "changed", "deleted"):
            repository.write(name, name)
        revision = repository.commit_all("first")
        repository.write("changed", "differently")
        repository.write("new", "new")
        (tmp_path / "db/deleted").unlink()
        run = self.run_of(tmp_path / "run", variant("candidate", "path", path=str(tmp_path / "db")))
        pack.main(run)
        there = tmp_path / "there"
        shutil.move(run / "host/sources", there / "sources")
        shutil.rmtree(tmp_path / "db")
        script = """set -Eeuo pipefail; run=$1 name=candidate project=/nowhere work=$1/work
        field() { [[ $1 != revision ]] || echo "$revision"; }; mkdir -p "$work/publish"
        . "$2"; take_path || true; git -C "$work/source" status --porcelain"""
        sources = PROJECT / "ansible/roles/variant/files/sources.sh"
        done = subprocess.run(
            ["bash", "-c", script, "bash", there, sources],
            env=os.environ | {"revision": revision},
            capture_output=True,
            text=True,
            check=True,
        )
        assert sorted(done.stdout.split("\n")) == ["", " D deleted", " M changed", "?? new"]
        # Without the hash of the changes that the plan has, it is refused.
        assert "changed since the plan was made; plan again" in done.stderr

    def test_a_binary_comes_as_it_is_and_a_repository_on_this_machine_does_not(self, tmp_path):
        """Nothing is built from what cannot be brought whole."""
        (tmp_path / "server").write_bytes(b"\x7fELF")
        run = self.run_of(tmp_path / "run", variant("baseline", "binary", path=str(tmp_path / "server")))
        pack.main(run)
        assert (run / "host/sources/baseline").read_bytes() == b"\x7fELF"
        other = self.run_of(tmp_path / "other", variant("candidate", "git", repo="/src/db"))
        with pytest.raises(UserError, match="variant candidate: /src/db lies on this machine"):
            pack.main(other)


@pytest.fixture
def link(project, tmp_path, monkeypatch):
    """Give a run of the fake database whose other machine is this one, behind a fake ssh."""
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin/ssh"
    ssh.write_text(FAKE_SSH)
    ssh.chmod(0o755)
    for name, value in (project.env | {"FAKE_SSH": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(rounds, "LONGEST_PAUSE_S", 0.1)

    def make(**parts):
        project.plan(**parts)
        home = tmp_path / "home"
        shutil.copytree(project.run_dir, home)
        planned = tuple(project.order())
        return Link(home, Host("there"), str(project.root), str(project.cache), str(project.run_dir), planned)

    return make


class TestFollower:
    """Rounds that run detached, with a fake database, and are followed by the real code."""

    def test_rounds_are_started_once_and_fetched_as_they_are_published(self, link, project, capsys):
        """All files come home as they are; the exit code is that of the rounds; a second look starts nothing."""
        attended = link(design={"blocks": 2})
        assert rounds.Follower(attended).attend() == 0
        names = sorted(project.order())
        assert sorted(p.name for p in attended.raw.glob("[0-9]*")) == names
        assert attended.missing() == []
        said = capsys.readouterr().out
        assert [f"{name} ok in " in said for name in names] == [True] * 4
        assert [f"{name} load " in said for name in names] == [True] * 4
        assert rounds.is_home(attended.run_dir)
        assert attended.state().word == "none"
        assert project.alive() == []

    def test_the_exit_code_and_the_last_words_come_home(self, link, capsys):
        """Too many failed rounds there are exit code 3 here, with the reason."""
        binary = {"source": "binary", "path": str(Path(__file__).parent / "fakes" / "database")}
        variants = {name: binary | {"env": {"FAKE_MODE": "bad-flag"}} for name in ("baseline", "candidate")}
        attended = link(variants=variants, design={"max_failed_rounds": 0})
        assert rounds.Follower(attended).attend() == 3
        assert "rounds have failed (design.max_failed_rounds is 0): the run stops here" in capsys.readouterr().err
        assert not rounds.is_home(attended.run_dir)

    def test_a_machine_that_stays_away_is_given_up_with_the_way_back(self, link, tmp_path):
        """Bounded; at the first contact there is no patience at all."""
        attended = link()
        (tmp_path / "away").touch()
        follower = rounds.Follower(attended, patience_s=0.5)
        with pytest.raises(NoConnectionError, match="Connection timed out"):
            follower.attend()
        follower.heard = rounds.time.monotonic()
        with pytest.raises(UserError, match="To come back: make tsbs RUN=home"):
            follower.attend()

    def test_rounds_that_are_killed_there_leave_nothing_and_are_gone_on_with(self, link, project):
        """`kill -9` of the driver ends what it started and is no success; the next command does what is missing."""
        attended = link()
        attended.start()
        pid = int((Path(attended.there) / "control/pid").read_text().split()[0])
        os.kill(pid, 9)
        wait_for(lambda: attended.state().word == "lost")
        follower = rounds.Follower(attended)
        follower.started = True  # it was there when that happened
        with pytest.raises(UserError, match="ended without a last word"):
            follower.attend()
        attended.ask("stop")
        assert project.alive(patience_s=20) == []
        assert rounds.Follower(attended).attend() == 0

    def test_rounds_that_were_stopped_are_gone_on_with(self, link, project):
        """Asked twice, nothing is left; the next command starts again and does not tell once more of the stop."""
        attended = link()
        attended.start()
        wait_for(lambda: list(attended.raw.parent.parent.glob("results/r/raw/[0-9]*.partial")))
        assert attended.ask("stop") == f"after {project.order()[0]}\n"
        assert "stopped" in attended.ask("stop")
        assert project.alive() == []
        assert (attended.state().word, attended.state().code) == ("ended", 130)
        assert rounds.Follower(attended).attend() == 0

    def test_a_file_that_arrives_damaged_is_fetched_again(self, link):
        """Every checksum is compared at the end; what differs is brought again."""
        attended = link()
        attended.start()
        rounds.Follower(attended).attend()
        damaged = attended.raw / attended.planned[0] / "server.log"
        damaged.write_text("cut")
        (attended.raw / "host.json").unlink()
        assert sorted(attended.missing()) == [f"{attended.planned[0]}/server.log", "host.json"]
        rounds.bring_home(attended)
        assert attended.missing() == []

    def test_profiles_come_home_beside_the_rounds(self, link, project):
        """What lies below raw/ and is no round is brought file by file; a directory nobody asked for is refused."""
        attended = link()
        attended.start()
        rounds.Follower(attended).attend()
        profile = project.run_dir / "raw/profiles/baseline.cpu.pprof"
        profile.parent.mkdir(parents=True)
        profile.write_bytes(b"pprof")
        assert attended.missing() == ["profiles/baseline.cpu.pprof"]
        rounds.bring_home(attended)
        assert (attended.raw / "profiles/baseline.cpu.pprof").read_bytes() == b"pprof"
        profile.parent.rename(project.run_dir / "raw/other")
        with pytest.raises(UserError, match="'other' that is not in plan/rounds"):
            rounds.bring_home(attended)

    def test_a_round_that_was_not_planned_is_not_taken(self, link):
        """The other machine does not choose what is written here."""
        with pytest.raises(UserError, match=r"'\.\./\.\./x' that is not in plan/rounds\.tsv"):
            link().fetch_round("../../x")


class TestSecondView:
    """`make follow` of rounds on another machine: it reads, and never writes what comes home."""

    @staticmethod
    def follow(attended, tmp_path, capsys):
        """Follow the run at home and return the lines that were shown."""
        (attended.run_dir / "host").mkdir(exist_ok=True)
        outputs = {"host": {"address": "there", "user": None, "port": None}}
        (attended.run_dir / "host/outputs.json").write_text(json.dumps(outputs))
        plan = attended.run_dir / "plan/experiment.json"
        plan.write_text(
            json.dumps(json.loads(plan.read_text()) | {"place": {"kind": "ssh", "directory": str(tmp_path)}})
        )
        capsys.readouterr()
        assert follow.main(attended.run_dir, {"VIEW": "plain"}) == 0
        return capsys.readouterr().out.splitlines()

    @staticmethod
    def expected(attended):
        """Return all lines of a run that is over."""
        events = Tail(Path(attended.there) / "raw/events.jsonl").read()
        return [line for event in events if (line := lines.plain(event))]

    def test_a_run_that_nobody_attends_is_followed_over_ssh(self, link, tmp_path, capsys, monkeypatch):
        """All is shown, nothing is written at home, and who attends it later brings home each line once."""
        attended = link()
        monkeypatch.setattr(follow.Link, "open", lambda _: attended)
        attended.start()
        said = self.follow(attended, tmp_path, capsys)
        assert said == self.expected(attended)
        assert said[-1].endswith("all rounds are run")
        assert not (attended.raw / "events.jsonl").exists()
        assert rounds.Follower(attended).attend() == 0
        there = Path(attended.there) / "raw/events.jsonl"
        assert (attended.raw / "events.jsonl").read_bytes() == there.read_bytes()
        # It is over: shown from what is here.
        monkeypatch.setattr(follow.Link, "open", lambda _: pytest.fail("the other machine was asked"))
        assert self.follow(attended, tmp_path, capsys) == said

    def test_a_run_that_is_attended_is_followed_at_home(self, link, tmp_path, capsys, monkeypatch):
        """The other machine is not asked; a second one that would attend is refused with how to watch."""
        attended = link()
        monkeypatch.setattr(follow.Link, "open", lambda _: pytest.fail("the other machine was asked"))

        def attend():
            with stream.attending(attended.run_dir):
                rounds.Follower(attended).attend()

        thread = threading.Thread(target=attend)
        thread.start()
        wait_for(lambda: stream.is_attended(attended.run_dir))
        with (
            pytest.raises(
                UserError, match="is attended already, in another terminal; to watch it here, too: make follow"
            ),
            stream.attending(attended.run_dir),
        ):
            pass
        said = self.follow(attended, tmp_path, capsys)
        thread.join()
        assert set(self.expected(attended)) <= set(said)
        assert not stream.is_attended(attended.run_dir)
