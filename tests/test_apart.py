"""Topologies: valid hosts, the machines they need, private addresses, and lent hosts."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile

import plans
import pytest
import renting

from tsduel.core.errors import UserError
from tsduel.core.place import SshHost, SshPlace
from tsduel.core.rundir import open_run
from tsduel.places import lent, place
from tsduel.places.ssh import pack
from tsduel.places.ssh.link import Link, State
from tsduel.places.ssh.ssh import Host, NoConnectionError
from tsduel.plan import topology
from tsduel.question.read import validate
from tsduel.rounds import control

CLUSTER = {
    "target": "victoriametrics-cluster",
    "components": [{"role": role, "source": "binary", "path": "/x"} for role in ("vmstorage", "vminsert", "vmselect")],
}
PROMETHEUS = {name: {"target": "prometheus", "ref": "v0.307.0"} for name in ("baseline", "candidate")}
PARTS = {"variants": {"baseline": CLUSTER, "candidate": CLUSTER}}


@pytest.mark.parametrize(
    ("hosts", "more", "found"),
    [
        ([], {}, {}),
        (["client", "server"], {}, {"host1": ("client",), "host2": ("server",)}),
        (["client", ["vmselect", "vminsert"], "server"], PARTS,
         {"host1": ("client",), "host2": ("vmselect", "vminsert"), "host3": ("vmstorage",)}),
        (["client", "client", "server"], {}, {"host1": ("client",), "host2": ("client",), "host3": ("server",)}),
        (["client", "server"], PARTS, {"host1": ("client",), "host2": ("vmselect", "vminsert", "vmstorage")}),
    ],
)  # fmt: skip
def test_who_runs_where(hosts, more, found):
    """Hosts by position, each with one or several roles; `server` has the roles that no other host names."""
    assert validate({"name": "x", "hosts": hosts} | more, "f").topology == found


@pytest.mark.parametrize(
    ("hosts", "more", "sentence"),
    [
        (["server", "client"], {}, "the client's comes first and does nothing else"),
        (["client"], {}, "the client's comes first and does nothing else"),
        ([["client", "server"], "vmauth"], {}, "the client's comes first and does nothing else"),
        (["client", "server", "client"], {}, "the client's comes first and does nothing else"),
        (
            ["client", "client", "server"],
            {"workload": {"scale": 51}},
            "51 cannot be shared evenly; allowed: multiples of 2",
        ),
        (
            ["client", "client", "server"],
            {"variants": PROMETHEUS, "queries": {"types": ["single-groupby-1-1-1"]}},
            "nothing keeps several clients that close together",
        ),
        (["client", "server", "server"], {}, "server is there twice"),
        (["client", "nobody"], {}, "no variant has a component 'nobody'; allowed: server"),
        (["client", "vmselect", "vminsert"], PARTS, "no host runs vmstorage; name it, or name `server`"),
        (["client", "server"], {"design": {"start_from": "baseline"}}, "needs all on one host"),
        (["client", "server"], {"host": {"pin": "off"}}, "nothing is pinned where the client has a host of its own"),
        (["client", "server"], {"host": {"port": 65500}}, "host.port: 65435 at most"),
        ("client", {}, "hosts: "),
        ([3], {}, "hosts"),
    ],
)
def test_hosts_that_cannot_be(hosts, more, sentence):
    """A sentence says what is wrong."""
    with pytest.raises(UserError) as refused:
        validate({"name": "x", "hosts": hosts} | more, "f")
    assert sentence in str(refused.value)


def test_machines_that_the_experiment_does_not_want():
    """As many machines as hosts: over SSH with one directory on all, or one rented group of one type."""
    two = {"host1": ("client",), "host2": ("server",)}
    asked = {"TARGET": "ssh", "SSH_HOST": "a,b/10.0.0.5"}
    gcp = {"TARGET": "gcp"} | renting.HERE
    named, rented = place.asked(asked), place.asked(gcp)
    assert topology.machines(two, named, port=8428, swept=["workload.scale"]) == named
    assert named["hosts"]["host2"]["private"] == "10.0.0.5"
    group = topology.machines(two, rented, port=8428, swept=[])
    assert group == rented | {"each": 2, "ports_between": "8428-8528"}
    with pytest.raises(UserError, match=r"yet: leave HOSTS and SPARE_HOSTS and matrix\.gcp\.machine out"):
        topology.machines(two, place.asked(gcp | {"SPARE_HOSTS": "1"}), port=8428, swept=["gcp.machine"])
    for given, sentence in (
        ({}, "TARGET=ssh SSH_HOST=client,server, in this order, or TARGET=gcp"),
        (gcp | {"HOSTS": "2"}, "TARGET=gcp rents the 2 machines of the experiment, all of one type, and a fl"),
        (asked | {"SSH_HOST": "a,b,c"}, "wants 2 machines, and SSH_HOST names 3"),
        (asked | {"SPARE_HOSTS": "c"}, "no SPARE_HOSTS; a fleet of such groups is not possible yet"),
        (asked | {"SSH_HOST": "me@a,you@b"}, "the same user on each, or REMOTE_DIR="),
    ):
        with pytest.raises(UserError) as refused:
            topology.machines(two, place.asked(given), port=8428, swept=[])
        assert sentence in str(refused.value)


class FakeHost(Host):
    """A host whose `address` is the address reached, a bar, and all its addresses; without any it has no `ip`."""

    def run(self, *_words, **_more):
        """Answer after a login shell's greeting."""
        reached, addresses = self.address.split("|")
        said = f"Welcome to a 3: word greeting\nreached 192.0.2.1 4711 {reached} 22\n"
        if not addresses:
            return subprocess.CompletedProcess([], 127, said, "sh: 1: ip: not found\n")
        said += "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever\n"
        cards = (f"2: eth0    inet {text}/24 brd 10.0.0.255 scope global eth0\n" for text in addresses.split())
        return subprocess.CompletedProcess([], 0, said + "".join(cards), "")


@pytest.mark.parametrize(
    ("reached", "addresses", "given", "found"),
    [
        ("10.0.0.5", "10.0.0.5 172.17.0.1", None, "10.0.0.5"),
        ("8.8.8.8", "8.8.8.8 10.0.0.5 10.0.0.5", None, "10.0.0.5"),
        ("10.0.0.5", "10.0.0.5 10.9.0.5", "10.9.0.5", "10.9.0.5"),
    ],
)
def test_the_private_address(reached, addresses, given, found):
    """The given one; else the one reached, if it is private; else the only one."""
    assert lent.address(FakeHost(f"{reached}|{addresses}"), given) == found


def test_ip_is_asked_and_where_there_is_none_hostname(tmp_path, monkeypatch):
    """Others than Debian have no `hostname -I`; where neither is, the script fails."""
    monkeypatch.setattr(lent, "ADDRESSES", lent.ADDRESSES.replace("/usr/sbin:/sbin", str(tmp_path / "sbin")))
    environment = {"PATH": str(tmp_path), "SSH_CONNECTION": "192.0.2.1 1 10.0.0.5 22"}

    def said():
        command = [shutil.which("sh"), "-c", lent.ADDRESSES]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert said().returncode == 127
    for name, script in (("hostname", '[ "$1" = -I ] && echo 10.0.0.1'), ("sbin/ip", 'echo "ip $*"')):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
        words = {"hostname": "10.0.0.1", "sbin/ip": "ip -o -4 addr"}[name]
        assert said().stdout == f"reached 192.0.2.1 1 10.0.0.5 22\n{words}\n"


def test_the_private_address_of_a_host_without_ip(monkeypatch):
    """A bare Debian has `hostname -I`."""
    said = "Welcome\nreached 192.0.2.1 4711 8.8.8.8 22\n8.8.8.8 10.0.0.5 fe80::1 \n"
    monkeypatch.setattr(FakeHost, "run", lambda *_: subprocess.CompletedProcess([], 0, said, ""))
    assert lent.address(FakeHost("|"), None) == "10.0.0.5"


@pytest.mark.parametrize(
    ("addresses", "given", "sentence"),
    [
        ("8.8.8.8", None, "(it has: none); name it: SSH_HOST=user@host/10.0.0.5"),
        ("", None, "its addresses are not known (sh: 1: ip: not found): install `ip` there"),
        ("8.8.8.8 10.0.0.5 172.17.0.1", None, "(it has: 10.0.0.5, 172.17.0.1); name it"),
        ("8.8.8.8 10.0.0.5", "8.8.8.8", "has no private address 8.8.8.8; it has: 10.0.0.5"),
    ],
)
def test_an_address_that_is_not_private(addresses, given, sentence):
    """A public address is refused."""
    with pytest.raises(UserError) as refused:
        lent.address(FakeHost(f"8.8.8.8|{addresses}"), given)
    assert sentence in str(refused.value)


def test_the_token_is_the_runs_own_and_for_nobody_else(tmp_path, monkeypatch):
    """It is made once, and only its user can read it, here and in the archive for the hosts."""
    of = {"user": None, "port": None, "directory": "/d"}
    hosts = {f"host{number}": SshHost(address=f"10.0.0.{number}|10.0.0.{number}", **of) for number in (1, 2)}
    where = SshPlace(config_file=None, hosts=hosts)
    plans.write(tmp_path, place=where, topology={"host1": ("client",), "host2": ("server",)})
    monkeypatch.setattr(lent, "Host", FakeHost)
    plan = open_run(tmp_path).plan
    (tmp_path / "host").mkdir()
    made = {name: {"address": host.address, "private": host.private} for name, host in hosts.items()}
    lent.write(tmp_path, plan, made)
    found = json.loads((tmp_path / lent.FILE).read_text())
    assert found["hosts"] == {"host1": "10.0.0.1", "host2": "10.0.0.2"}
    assert found["port"] == plan.host.port + 100
    assert len(found["token"]) == 64
    lent.write(tmp_path, plan, made)
    assert json.loads((tmp_path / lent.FILE).read_text()) == found
    pack.main(tmp_path)
    with tarfile.open(tmp_path / "host/project.tar.gz") as archive:
        assert archive.getmember("lent.json").mode == 0o600
    for name in (lent.FILE, "host/project.tar.gz"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
    with pytest.raises(UserError, match="host1 and host2 have one private address"):
        lent.write(tmp_path, plan, dict.fromkeys(made, made["host1"]))


class FakeLink(Link):
    """A host of a run that records its commands; ``fails``: the command that fails."""

    def __init__(self, run_dir, name, asked, word, fails=""):
        there = Host(f"{name}.example.org")
        super().__init__(run_dir, there, "agent", "/c", "/r", frozenset(), name=name)
        object.__setattr__(self, "told", (word, asked, fails))

    def state(self):
        """Return its state."""
        word, _, fails = self.told
        if fails == "state":
            raise NoConnectionError(f"{self.host.name} cannot be reached")
        return State(word, 0, ())

    def ask(self, command, *_arguments, **_more):
        """Record the command."""
        _, asked, fails = self.told
        asked.append(f"{self.name} {command}")
        if fails == command:
            raise NoConnectionError(f"{self.host.name} cannot be reached")
        return "stopped\n"


@pytest.fixture
def three(tmp_path, monkeypatch):
    """Return a function that gives three hosts their states, and the list of their commands."""
    asked = []
    hosts = {f"host{n}": SshHost(address=f"h{n}", user=None, port=None, directory="/d") for n in (1, 2, 3)}
    topology = {"host1": ("client",), "host2": ("server",), "host3": ("vmauth",)}
    plans.write(tmp_path, place=SshPlace(config_file=None, hosts=hosts), topology=topology)

    def hosts_that(*do):
        links = {f"host{n}": FakeLink(tmp_path, f"host{n}", asked, *of) for n, of in enumerate(do, 1)}
        monkeypatch.setattr(Link, "all", lambda _: {"host1": links["host1"]})
        monkeypatch.setattr(Link, "lent", lambda _: {name: links[name] for name in ("host2", "host3")})
        asked.clear()
        return tmp_path

    return hosts_that, asked


def test_a_host_that_will_not_be_lent_keeps_no_other_waiting(three):
    """The error is no lost connection, which would be tried again."""
    hosts_that, asked = three
    with pytest.raises(UserError, match=r"^host3.example.org cannot be reached$") as refused:
        lent.lend(hosts_that(("none",), ("running",), ("none", "lend")))
    assert type(refused.value) is UserError
    assert asked == ["host2 lend", "host3 lend", "host2 stop", "host2 collected"]


def test_what_is_lent_is_taken_back_from_every_host(three):
    """Also from a host whose program was killed, and from those after an unreachable one."""
    hosts_that, asked = three
    lent.take_back(hosts_that(("none",), ("lost",), ("none",)))
    assert asked == ["host2 stop", "host2 collected"]
    with pytest.raises(UserError, match=r"^host2.example.org cannot be reached; if it still waits for this run"):
        lent.take_back(hosts_that(("none",), ("running", "state"), ("running",)))
    assert asked == ["host3 stop", "host3 collected"]


def test_stop_and_status_name_hosts_that_are_lent(three, capsys):
    """The driver's state is printed even if another host is unreachable."""
    hosts_that, asked = three
    with pytest.raises(UserError, match=r"(?s)is stopped on host1.*\nhost2.example.org cannot be reached"):
        control.stop(hosts_that(("running",), ("running", "state"), ("running",)))
    assert asked == ["host1 stop", "host3 stop", "host3 collected"]
    control.status(hosts_that(("running",), ("running",), ("lost",)))
    said = capsys.readouterr().out
    assert "host2 on host2.example.org: lent to this run\nhost3 on host3.example.org: not lent" in said
