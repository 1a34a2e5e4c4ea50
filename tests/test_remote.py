"""Runs on another machine, with a fake ssh: knobs, files, errors, and the copying of blocks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import plans
import pytest
from fakeproject import FAKES, agent, wait_for
from gitrepo import Repository
from renting import HERE, named

from tsduel.build import ansible
from tsduel.core import codes, runlock
from tsduel.core import repository as repository_module
from tsduel.core.errors import UserError
from tsduel.core.place import SshHost, SshPlace
from tsduel.core.plan import Component, Variant
from tsduel.core.rundir import open_run
from tsduel.core.tsbs import OwnData
from tsduel.places import directories, hosts, place, provision
from tsduel.places.ssh import pack, probe
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import Host, NoConnectionError, RefusedError
from tsduel.rounds import attend, follow, remote
from tsduel.rounds.view import show
from tsduel.rounds.view.events import Tail

PROJECT = Path(__file__).resolve().parent.parent
# Runs the command on this machine; with the file `away` it fails like ssh.
FAKE_SSH = """#!/usr/bin/env bash
if [[ -e $FAKE_SSH/away ]]; then echo "ssh: connect to host there port 22: Connection timed out" >&2; exit 255; fi
exec sh -c "${@: -1}"
"""


class TestPlace:
    """TARGET, SSH_HOST, SSH_CONFIG and REMOTE_DIR."""

    def test_this_machine_unless_said_otherwise(self):
        """GCP_PROJECT and SSH_FROM may always be in the environment."""
        assert place.asked({}) == place.asked({"TARGET": "local"}) == place.asked(HERE) == {"kind": "local"}

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
        """User and port are optional; all files are in one directory of the user."""
        asked = place.asked({"TARGET": "ssh", "SSH_HOST": text})
        found = asked["hosts"]["host1"]
        assert (found["user"], found["address"], found["port"]) == (user, address, port)
        assert found["directory"].startswith("/var/tmp/tsduel-")  # noqa: S108 - a name, and nothing made there
        there = directories.on_host(plans.plan(place=SshPlace(**asked)), "host1")
        assert set(there.values()) == {f"{found['directory']}/{d}" for d in ("cache", "runs/r", "runs/r/project")}

    def test_several_hosts_and_spare_ones_have_names_in_order(self):
        """Each has the directory of its own user."""
        found = place.asked({"TARGET": "ssh", "SSH_HOST": "a@one, b@two:2222", "SPARE_HOSTS": "three"})["hosts"]
        assert {name: (of["user"], of["address"], of["spare"]) for name, of in found.items()} == {
            "host1": ("a", "one", False), "host2": ("b", "two", False), "host3": (None, "three", True),
        }  # fmt: skip
        assert found["host2"]["directory"].endswith("-b")

    @pytest.mark.parametrize(
        ("given", "sentence"),
        [
            ({"TARGET": "moon"}, "TARGET: 'moon' is no place for the blocks; allowed: local, ssh"),
            ({"TARGET": "ssh"}, "TARGET=ssh needs to know the machine: add SSH_HOST=user@host"),
            ({"SSH_HOST": "me@there"}, "SSH_HOST is for another machine; add TARGET=ssh, or leave SSH_HOST away"),
            ({"TARGET": "ssh", "SSH_HOST": "me@-oProxyCommand=x"}, "is no machine to log in to; write user@host"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there:99999"}, "'me@there:99999' is no machine to log in to"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there,"}, "SSH_HOST: '' is no machine to log in to"),
            ({"TARGET": "ssh", "SSH_HOST": "me@a,b,you@a:22"}, "SSH_HOST: you@a:22 is named twice"),
            ({"TARGET": "ssh", "SSH_HOST": "a,b", "SPARE_HOSTS": "b"}, "SPARE_HOSTS: b is named twice"),
            ({"SPARE_HOSTS": "b"}, "SPARE_HOSTS is for another machine; add TARGET=ssh"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there; touch x"}, "is no machine to log in to"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there", "SSH_CONFIG": "/no/such"}, "/no/such cannot be read"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there", "REMOTE_DIR": "/"}, "'/' is no directory of our own"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there", "REMOTE_DIR": "/a/../b"}, "is no directory of our own"),
            ({"TARGET": "ssh", "SSH_HOST": "me@there", "REMOTE_DIR": "/a/$(x)"}, "is no directory of our own"),
        ],
    )
    def test_what_is_no_place_is_refused(self, given, sentence):
        """The sentence names what is allowed."""
        with pytest.raises(UserError) as caught:
            place.asked(given)
        assert sentence in str(caught.value)


def test_host_files_say_how_ansible_and_ssh_reach_the_machine(tmp_path):
    """A rented host gets no access to the user's keys; for other hosts the user's ssh rules stay."""
    host = {"address": "10.0.0.2", "user": "me", "port": 2222, "key_file": "/k", "known_hosts_file": "/known"}
    plans.write(tmp_path, place=named("r"))
    provision.write(tmp_path, {"host1": host}, provisioned=True)
    outputs = {"target": "gcp", "provisioned": True, "hosts": {"host1": host}}
    assert json.loads((tmp_path / "host/outputs.json").read_text()) == outputs
    variables = json.loads((tmp_path / "host/inventory.json").read_text())["all"]["hosts"]["host1"]
    assert (variables["ansible_host"], variables["ansible_user"], variables["ansible_port"]) == ("10.0.0.2", "me", 2222)
    assert variables["home_run_dir"] == str(tmp_path)
    for option in (
        *("-F /dev/null", "IdentityFile=/k", "IdentityAgent=none", "ForwardAgent=no", "ClearAllForwardings=yes"),
        *("UserKnownHostsFile=/known", "GlobalKnownHostsFile=/dev/null", "StrictHostKeyChecking=yes", "ServerAlive"),
    ):
        assert option in variables["ansible_ssh_args"]
    assert 'IdentityFile="/my key/50%%"' in Host("there", key_file="/my key/50%").options()
    # A version that is measured there could use a forwarded agent; a build may need it.
    for words in (Host("there").command("true"), Host("there").interactive("true")):
        assert {"ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes"} < set(words)
    plain = " ".join(Host("there").options())
    assert "ForwardAgent" not in plain
    assert "StrictHostKeyChecking" not in plain
    assert "KnownHosts" not in plain
    assert "-F" not in plain


def test_a_run_that_is_moved_finds_its_key(tmp_path):
    """It lies in the run, or in the run of a study that rents; a user's own file stays where it is."""
    plans.write(tmp_path / "old/r", place=named("r"))
    (tmp_path / "old/r/host").mkdir()
    paths = {"key_file": str(tmp_path / "old/r/host/key"), "known_hosts_file": str(tmp_path / "old/first/host/known")}
    own = {"config_file": "/home/me/.ssh/config"}
    hosts.write(tmp_path / "old/r", {"host1": {"address": "a", **paths, **own}}, provisioned=True)
    assert hosts.known(tmp_path / "old/r")["host1"] == {"address": "a", **paths, **own}
    (tmp_path / "old").rename(tmp_path / "new")
    found = hosts.known(tmp_path / "new/r")["host1"]
    assert found == {"address": "a", **{of: path.replace("/old/", "/new/") for of, path in paths.items()}, **own}


def test_hosts_of_a_fleet_are_looked_at_beside_each_other():
    """One machine with two names is refused; shared machines and different CPUs give warnings."""
    facts = {
        "a": {"boot": "1", "inode": "8:1", "cpu": "Xeon"},
        "b": {"boot": "2", "inode": "8:1", "cpu": "Xeon"},
        "c": {"boot": "2", "inode": "8:2", "cpu": "EPYC"},
    }
    assert probe.compare({"a": facts["a"], "b": facts["b"]}) == []
    said = probe.compare(facts)
    assert said[0] == "b, c share a machine, and so disturb each other's blocks"
    assert said[1].endswith("(a, b: Xeon; c: EPYC)")
    with pytest.raises(UserError, match="a and z are the same machine by two names; name it once"):
        probe.compare({"a": facts["a"], "z": facts["a"]})


def test_all_hosts_of_a_fleet_are_asked_before_anything_begins(tmp_path, monkeypatch, capsys):
    """All errors are raised together; a continued run goes on without hosts that do not answer."""
    answers = {"c": {"cpu": "Xeon"}, "d": {"cpu": "Xeon"}}

    def check(host, _directory):
        if host.address not in answers:
            raise host.failure("ssh: Could not resolve hostname")
        return answers[host.address]

    monkeypatch.setattr(probe, "check", check)
    where = SshPlace(**place.asked({"TARGET": "ssh", "SSH_HOST": "a,b,c", "SPARE_HOSTS": "d"}))
    names = tuple(where.hosts)
    run_dir = tmp_path / "r"
    plans.write(run_dir, place=where, hosts=names[:3], spare_hosts=names[3:])
    with pytest.raises(UserError, match=r"a: there is no machine of this name.*\nb: there is no machine of this name"):
        provision.main(run_dir)
    assert not (run_dir / "host").exists()
    answers |= dict.fromkeys("ab", answers["c"])
    provision.main(run_dir)
    inventory = json.loads((run_dir / "host/inventory.json").read_text())["all"]["hosts"]
    assert set(inventory) == set(names)
    del answers["b"]
    capsys.readouterr()
    provision.main(run_dir)
    assert "b: there is no machine of this name" in (said := capsys.readouterr().err)
    assert "the others go on without host2" in said
    assert set(Link.all(run_dir)) == set(names)


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        ("me@there: Permission denied (publickey).", RefusedError, "there refuses the login"),
        ("ssh: Could not resolve hostname there: Name or service not known", RefusedError, "no machine of this name"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", RefusedError, "another host key than the one you"),
        ("ssh: connect to host there port 22: No route to host", NoConnectionError, "No route to host"),
        ("kex_exchange_identification: Connection closed by remote host", NoConnectionError, "see that this works"),
        ("", NoConnectionError, "no reason given"),
    ],
)
def test_what_ssh_says_becomes_a_sentence(said, kind, sentence):
    """Only errors that may pass are NoConnectionError, which is tried again."""
    error = Host("there").failure(said)
    assert type(error) is kind
    assert sentence in str(error)


def variant(name, source, **where):
    """Return a planned variant of one component."""
    component = Component(program="database", source=source, label="x", build_key=f"key-of-{name}", **where)
    return Variant(name=name, label="x", target="victoriametrics", components=(component,))


class TestPack:
    """The files for the other machine."""

    @staticmethod
    def run_of(directory, *variants):
        """Make a run with these variants."""
        (directory / "host").mkdir(parents=True)
        plans.write(directory, run="r", variants=variants)
        return directory

    def test_the_same_files_make_the_same_archive(self, tmp_path):
        """A second Ansible run finds no change; scripts stay executable."""
        packed = []
        for number in range(2):
            pack.main(self.run_of(tmp_path / str(number), variant("baseline", "module")))
            packed.append(tmp_path / str(number) / "host/project.tar.gz")
        assert packed[0].read_bytes() == packed[1].read_bytes()
        with tarfile.open(packed[0]) as archive:
            modes = {entry.name: entry.mode for entry in archive}
        assert modes["project/scripts/targets/victoriametrics/start"] == 0o755
        assert modes["project/host/main.go"] == 0o644
        assert {"plan/experiment.json", "plan/blocks.tsv", "project/ansible/build.py"} <= set(modes)

    def test_data_of_the_users_come_from_the_cache(self, tmp_path, monkeypatch):
        """Under their key, with their record; without them nothing begins there."""
        monkeypatch.setenv("TSDUEL_CACHE", str(tmp_path / "cache"))
        run = tmp_path / "run"
        (run / "host").mkdir(parents=True)
        work = plans.SMALL_WORKLOAD.model_copy(update={"own_data": OwnData(path="d.gz", holds="90 samples")})
        plans.write(run, run="r", workload=work, variants=(variant("baseline", "module"),))
        (key,) = {file.key for file in work.data}
        with pytest.raises(UserError, match=r"data\.zst: the data are no longer in the cache: start a new run"):
            pack.main(run)
        kept = tmp_path / "cache/workload" / key
        kept.mkdir(parents=True)
        for name in ("data.zst", "data.zst.json"):
            (kept / name).write_text(name)
        pack.main(run)
        assert (run / f"host/data/{key}/data.zst.json").read_text() == "data.zst.json"

    def test_a_checkout_comes_with_its_changes_and_one_commit(self, tmp_path):
        """Changed, new and deleted files arrive, so that the build there can compare them with the plan."""
        repository = Repository(tmp_path / "db")
        for name in ("kept", "changed", "deleted"):
            repository.write(name, name)
        repository.commit_all("first")
        repository.write("changed", "differently")
        repository.write("new", "new")
        (tmp_path / "db/deleted").unlink()
        dirty = repository_module.files_of(tmp_path / "db")["changes"]
        run = self.run_of(tmp_path / "run", variant("candidate", "path", path=str(tmp_path / "db"), dirty=dirty))
        pack.main(run)
        shutil.rmtree(tmp_path / "db")
        with tarfile.open(run / "host/sources/key-of-candidate") as archive:
            archive.extractall(tmp_path / "there", filter="data")
        git = ["git", "-C", tmp_path / "there"]
        subprocess.run([*git, "reset", "--quiet"], check=True)
        done = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
        assert sorted(done.stdout.split("\n")) == ["", " D deleted", " M changed", "?? new"]

    def test_a_binary_comes_as_it_is_and_of_a_repository_the_one_commit(self, tmp_path):
        """Also of one that is no branch's last."""
        (tmp_path / "server").write_bytes(b"\x7fELF")
        run = self.run_of(tmp_path / "run", variant("baseline", "binary", path=str(tmp_path / "server")))
        pack.main(run)
        assert (run / "host/sources/key-of-baseline").read_bytes() == b"\x7fELF"
        repository = Repository(tmp_path / "db")
        for text in ("old", "new"):
            repository.write("file", text)
            repository.commit_all(text)
        at = {"repo": str(repository.path), "revision": repository.git("rev-parse", "HEAD~1")}
        other = self.run_of(tmp_path / "other", variant("candidate", "git", **at))
        pack.main(other)
        with tarfile.open(other / "host/sources/key-of-candidate") as archive:
            archive.extractall(tmp_path / "there", filter="data")
        assert (tmp_path / "there/file").read_text() == "old"
        git = ["git", "-C", tmp_path / "there", "log", "--format=%s"]
        assert subprocess.run(git, capture_output=True, text=True, check=True).stdout == "old\n"
        gone = self.run_of(tmp_path / "gone", variant("candidate", "git", repo=at["repo"], revision="f" * 40))
        with pytest.raises(UserError, match=f"{'f' * 40} cannot be packed: "):
            pack.main(gone)


@pytest.fixture
def link(project, tmp_path, monkeypatch):
    """Return a function that makes a run of the fake database on 'another' machine, by a fake ssh."""
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin/ssh"
    ssh.write_text(FAKE_SSH)
    ssh.chmod(0o755)
    for name, value in (project.env | {"FAKE_SSH": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(attend, "LONGEST_PAUSE_S", 0.1)

    def make(**parts):
        # For short blocks.
        project.plan(**{"duel": {"enabled": False}} | parts)
        home = tmp_path / "home"
        shutil.copytree(project.run_dir, home)
        planned = frozenset(row.name for row in open_run(home).planned)
        return Link(home, Host("there"), agent(), str(project.cache), str(project.run_dir), planned)

    return make


def attendant(link, **more):
    """Return an attendant that prints plain lines."""
    return attend.Attendant(link, show.View({}, lambda _: None), **more)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("processor\t: 0\nmodel name\t: Fast CPU\nprocessor\t: 1\nmodel name\t: Fast CPU\n", "Fast CPU"),
        (
            (
                "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n"
                "CPU revision\t: 1\n\nprocessor\t: 1\nCPU implementer\t: 0x41\n"
            ),
            "0x41 8 0x3 0xd0c 1",
        ),
        ("", ""),
    ],
)
def test_the_cpu_of_a_host_has_a_name(tmp_path, text, found):
    """Arm machines have numbers and no name: two kinds of them are told apart all the same."""
    file = tmp_path / "cpuinfo"
    file.write_text(text)
    asked = probe.QUESTIONS.replace("/proc/cpuinfo", str(file))
    words = ["sh", "-s", "--", str(tmp_path), "look"]
    said = subprocess.run(words, input=asked, capture_output=True, text=True, check=True).stdout
    assert next(line for line in said.splitlines() if line.startswith("cpu=")).rstrip() == f"cpu={found}"


def test_a_greeting_in_another_encoding(monkeypatch):
    """What a login shell prints first is skipped, whatever bytes it has."""
    host = Host("bench")
    monkeypatch.setattr(Host, "command", lambda *_: ["printf", r"Willkommen, G\344ste\nboot=1\n"])
    assert host.run("true").stdout.splitlines()[-1] == "boot=1"


def test_a_run_takes_no_blocks_of_an_earlier_one_of_its_name(link, monkeypatch):
    """A run that was removed at home, or a colleague's with the same login; one without blocks is in nobody's way."""
    ours = link()
    there = Path(ours.there)
    block = there / "raw/host1/001/block.json"
    block.parent.mkdir(parents=True)
    block.touch()
    assert ansible._needs_build(ours)
    with monkeypatch.context() as patch:
        command = Host.command
        patch.setattr(Host, "command", lambda *of: ["sh", "-c", 'echo Welcome; exec "$@"', "sh", *command(*of)])
        assert ansible._needs_build(ours)
    (there / "plan/experiment.json").write_text("{}")
    with pytest.raises(UserError, match=rf"another run of the name home has left its blocks in {there}: begin a run"):
        ansible._needs_build(ours)
    block.unlink()
    assert ansible._needs_build(ours)


class TestAttendant:
    """A detached run with a fake database, and the real attendant."""

    def test_it_is_started_once_and_its_blocks_are_fetched_as_they_are_published(
        self, link, project, capsys, monkeypatch
    ):
        """All files come home unchanged, damaged ones again; a block that is not planned is refused."""
        monkeypatch.setenv("VIEW", "verbose")
        attended = link(design={"blocks": 2})
        assert attendant(attended).attend() == 0
        assert sorted(p.name for p in attended.raw.glob("[0-9]*")) == project.blocks() == ["001", "002"]
        assert attended.missing() == []
        said = capsys.readouterr().out
        for number in (1, 2):
            assert f"block {number} ok in " in said
            assert f"block {number} baseline load " in said
        assert attended.fetched.exists()
        assert attended.state().word == "none"
        assert project.alive() == []

        (attended.raw / "001/baseline/server.log").write_text("cut")
        (attended.run_dir / "raw/host1.json").unlink()
        profile = project.run_dir / "raw/host1/profiles/baseline.cpu.pprof"
        profile.parent.mkdir(parents=True)
        profile.write_bytes(b"pprof")
        wrong = ["host1.json", "host1/001/baseline/server.log", "host1/profiles/baseline.cpu.pprof"]
        assert sorted(attended.missing()) == wrong
        attended.bring_home()
        assert attended.missing() == []
        for name in ("007", "../../x"):
            with pytest.raises(UserError, match=r"that is not in plan/blocks\.tsv"):
                attended.fetch_block(name)

    def test_the_exit_code_and_the_last_words_come_home(self, link, capsys):
        """Too many failed blocks there give exit code 3 here, with the reason."""
        broken = {"source": "binary", "path": str(FAKES / "database"), "env": {"FAKE_MODE": "bad-flag"}}
        attended = link(variants={"baseline": broken, "candidate": broken}, design={"max_failed_blocks": 0})
        assert attendant(attended).attend() == 3
        assert "of the blocks failed (design.max_failed_blocks is 0): the run stops here" in capsys.readouterr().out
        assert not attended.fetched.exists()

    def test_a_machine_that_stays_away_is_given_up_with_the_way_back(self, link, tmp_path):
        """After a limited time; without a first contact at once."""
        attended = link()
        (tmp_path / "away").touch()
        follower = attendant(attended, patience_s=0.5)
        with pytest.raises(NoConnectionError, match="Connection timed out"):
            follower.attend()
        follower.heard = time.monotonic()
        with pytest.raises(UserError, match="To come back: make tsbs RUN=home"):
            follower.attend()

    def test_what_is_killed_or_stopped_there_leaves_nothing_and_is_gone_on_with(self, link, project):
        """A killed run is an error; stop waits for its driver and leaves nothing; the next command continues."""
        attended = link()
        attended.start()
        pid = int((Path(attended.there) / "control/pid").read_text().split()[0])
        (driver,) = (int(p) for of in Path(f"/proc/{pid}/task").glob("*/children") for p in of.read_text().split())
        os.kill(driver, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: attended.state().word == "lost")
        follower = attendant(attended)
        follower.started = True  # it was there when that happened
        with pytest.raises(UserError, match="ended unexpectedly"):
            follower.attend()
        threading.Timer(2, os.kill, (driver, signal.SIGCONT)).start()
        attended.ask("stop")
        assert project.alive() == []

        attended.start()
        wait_for(project.begun)
        assert re.fullmatch(r"after block \d\n", attended.ask("stop"))
        assert "stopped" in attended.ask("stop")
        assert project.alive() == []
        assert (attended.state().word, attended.state().code) == ("ended", 130)
        assert attendant(attended).attend() == 0

    def test_the_end_of_the_only_machine_is_the_end_of_the_run(self, link, tmp_path, capsys, monkeypatch):
        """What was killed there gives its exit code, an error is raised as it is, and no host is called lost."""
        attended = link()
        fleet = remote.Fleet(attended.run_dir, {"host1": attended}, lambda _: show.View({}, lambda _: None))
        with monkeypatch.context() as patch:
            patch.setattr(attend.Attendant, "attend", lambda _: 137)
            assert fleet.attend() == 137
        killed = "tsduel: what ran on there was killed (exit code 137); finished blocks are kept. To go on: make tsbs"
        assert f"{killed} RUN=home" in capsys.readouterr().err
        (tmp_path / "away").touch()
        with pytest.raises(NoConnectionError):
            fleet.attend()
        assert "is lost" not in capsys.readouterr().err
        assert not (attended.run_dir / remote.LOST).exists()

    def test_the_first_machines_builds_are_the_runs_and_another_ones_are_named(self, link, capsys):
        """Records and logs of the first machine are copied to build/; a program with another checksum is named."""
        first = link()
        links = {name: replace(first, name=name) for name in ("host1", "host2")}
        for name, one in links.items():
            (one.received / "build").mkdir(parents=True)
            (one.received / "build/agent.json").write_text(json.dumps({"sha256": "equal", "binary": name}))
            (one.received / "build/candidate.json").write_text(json.dumps({"sha256": name}))
        (first.received / "build/baseline.log").write_text("cannot compile")
        ansible.compare_builds(first.run_dir, links)
        assert json.loads((first.run_dir / "build/candidate.json").read_text()) == {"sha256": "host1"}
        assert (first.run_dir / "build/baseline.log").read_text() == "cannot compile"
        assert capsys.readouterr().err == (
            "candidate is not byte for byte the same on host2 as on host1 (another Go?): hosts are "
            "compared with care, see host/HOST/build/candidate.json\n"
        )

    def test_a_machine_that_is_lost_while_it_builds_is_done_without_if_another_is_whole(
        self, link, capsys, monkeypatch
    ):
        """It has some of its programs; alone it ends the command, so that the same one builds again."""
        first = link()
        links = {name: replace(first, name=name) for name in ("host1", "host2")}
        programs = ["agent", "baseline", "candidate"]
        monkeypatch.setattr(ansible, "_take_builds", lambda _: None)
        for name, built in (("host1", programs), ("host2", programs[:1])):
            (links[name].received / "build").mkdir(parents=True, exist_ok=True)
            for program in built:
                (links[name].received / f"build/{program}.json").write_text("{}")
        assert ansible._gather(first.run_dir, links, list(links), programs, ansible.UNREACHABLE) == 0
        assert "the others go on without host2, which could not be reached any more" in capsys.readouterr().err
        assert ansible._gather(first.run_dir, links, ["host2"], programs, ansible.UNREACHABLE) == codes.USER

    def test_records_of_builds_come_home_and_where_versions_ran_only_our_program_anew(self, link):
        """A version could write others there, whose checksum and revision are not those of what was built."""
        attended = link()
        there = Path(attended.there) / "build"
        there.mkdir(exist_ok=True)
        for name in ("agent", "candidate"):
            (there / f"{name}.json").write_text('{"sha256": "first"}')
        assert ansible._gather(attended.run_dir, {"host1": attended}, ["host1"], ["agent", "candidate"], 0) == 0
        attended.raw.mkdir(parents=True)
        for name in ("agent", "candidate"):
            (there / f"{name}.json").write_text('{"sha256": "second"}')
        ansible._gather(attended.run_dir, {"host1": attended}, ["host1"], ["agent", "candidate"], 0)
        said = [
            json.loads((attended.received / f"build/{name}.json").read_text())["sha256"]
            for name in ("agent", "candidate")
        ]
        assert said == ["second", "first"]

    def test_a_machine_where_nothing_is_built_runs_nothing(self, link):
        """Without a record of the build, or without the program there, nothing runs; but what ran is not forgotten."""
        attended = link()
        for missing in ("", "/no/such/tsduel-host"):
            assert replace(attended, agent=missing).state().word == "none"
        (Path(attended.there) / "raw").mkdir()
        with pytest.raises(UserError, match=r"/no/such/tsduel-host is gone, and what ran is still in .*: .make build"):
            replace(attended, agent="/no/such/tsduel-host").state()
        with pytest.raises(UserError, match="nothing is built for it: run 'make build RUN=home'"):
            replace(attended, agent="").ask("stop")


def test_a_host_that_no_zone_had_is_not_followed(link, monkeypatch):
    """A spare one runs its blocks."""
    monkeypatch.setattr(Link, "all", lambda _: {})
    run = open_run(link().run_dir)
    follow.Follower(run, "host9", SimpleNamespace(state=SimpleNamespace(over=False))).elsewhere()


class TestSecondView:
    """`make follow` of a run on another machine, which copies nothing home."""

    @staticmethod
    def follow(attended, tmp_path, capsys):
        """Follow the run at home and return the lines that were shown."""
        (attended.run_dir / "host").mkdir(exist_ok=True)
        outputs = {"hosts": {"host1": {"address": "there", "user": None, "port": None}}}
        (attended.run_dir / "host/outputs.json").write_text(json.dumps(outputs))
        host = SshHost(user=None, address="there", port=None, directory=str(tmp_path))
        place = SshPlace(config_file=None, hosts={"host1": host})
        open_run(attended.run_dir).plan.model_copy(update={"place": place}).write(attended.run_dir)
        (attended.run_dir / "plan/forecast.json").unlink(missing_ok=True)
        capsys.readouterr()
        assert follow.main(attended.run_dir, {"VIEW": "plain"}) == 0
        return capsys.readouterr().out.splitlines()

    @staticmethod
    def expected(attended):
        """Return all lines of a run that is over."""
        events = Tail(Path(attended.there) / "raw/host1/events.jsonl").read()
        return [line for event in events if (line := event.line())]

    def test_a_run_that_nobody_attends_is_followed_over_ssh(self, link, tmp_path, capsys, monkeypatch):
        """All lines are shown, nothing is written here, and a later attendant copies each line once."""
        monkeypatch.setenv("VIEW", "verbose")
        attended = link()
        monkeypatch.setattr(follow.Link, "all", lambda _: {"host1": attended})
        attended.start()
        said = self.follow(attended, tmp_path, capsys)
        assert said == self.expected(attended)
        assert said[-1].endswith("all blocks are run")
        assert not (attended.raw / "events.jsonl").exists()
        fleet = remote.Fleet(attended.run_dir, {"host1": attended}, lambda _: show.View({}, lambda _: None))
        assert fleet.attend() == 0
        there = Path(attended.there) / "raw/host1/events.jsonl"
        assert (attended.raw / "events.jsonl").read_bytes() == there.read_bytes()
        # The run is over, so the files here are shown.
        monkeypatch.setattr(follow.Link, "all", lambda _: pytest.fail("the other machine was asked"))
        assert self.follow(attended, tmp_path, capsys) == said

    def test_a_run_that_is_attended_is_followed_at_home(self, link, tmp_path, capsys, monkeypatch):
        """The other machine is not asked; a second attendant is refused, and told how to follow."""
        monkeypatch.setenv("VIEW", "verbose")
        attended = link()
        monkeypatch.setattr(follow.Link, "all", lambda _: pytest.fail("the other machine was asked"))

        def watch():
            with runlock.holding(attended.run_dir, "run"):
                attendant(attended).attend()

        thread = threading.Thread(target=watch)
        thread.start()
        wait_for(lambda: runlock.is_attended(attended.run_dir))
        refusal = "watch it with make follow RUN=home .each finished block is here at once"
        with pytest.raises(UserError, match=refusal), runlock.holding(attended.run_dir, "run"):
            pass
        said = self.follow(attended, tmp_path, capsys)
        thread.join()
        assert set(self.expected(attended)) <= set(said)
        assert not runlock.is_attended(attended.run_dir)
