"""Components on hosts of their own: what may be asked, which machines that needs, and at which address they listen."""

from __future__ import annotations

import json
import subprocess
import tarfile

import plans
import pytest

from tsduel.core.errors import UserError
from tsduel.core.plan import SshHost, SshPlace
from tsduel.core.rundir import open_run
from tsduel.places import lent, place
from tsduel.places.ssh import pack
from tsduel.places.ssh.ssh import Host
from tsduel.plan import topology
from tsduel.question.read import validate

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
    """By position, a role or several each; `server` is the host of what no other names."""
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
    """A sentence says what is wrong with them."""
    with pytest.raises(UserError) as refused:
        validate({"name": "x", "hosts": hosts} | more, "f")
    assert sentence in str(refused.value)


def test_machines_that_the_experiment_does_not_want():
    """As many as there are hosts, over SSH, one directory on all."""
    two = {"host1": ("client",), "host2": ("server",)}
    asked = {"TARGET": "ssh", "SSH_HOST": "a,b/10.0.0.5"}
    topology.refuse(two, place.asked(asked))
    assert place.asked(asked)["hosts"]["host2"]["private"] == "10.0.0.5"
    for given, sentence in (
        ({}, "are reached over SSH, private addresses between them: TARGET=ssh SSH_HOST=client,server, in this order"),
        (asked | {"SSH_HOST": "a,b,c"}, "wants 2 machines, and SSH_HOST names 3"),
        (asked | {"SPARE_HOSTS": "c"}, "no SPARE_HOSTS; a fleet of such groups is not to be had yet"),
        (asked | {"SSH_HOST": "me@a,you@b"}, "the same user on each, or REMOTE_DIR="),
    ):
        with pytest.raises(UserError) as refused:
            topology.refuse(two, place.asked(given))
        assert sentence in str(refused.value)


class FakeHost(Host):
    """One that says where it was reached, and which addresses it has."""

    def run(self, *_words, **_more):
        """Answer behind a login shell's greeting."""
        reached, addresses = self.address.split("|")
        said = f"welcome = hello\nreached=192.0.2.1 4711 {reached} 22\naddresses={addresses}\n"
        return subprocess.CompletedProcess([], 0, said, "")


@pytest.mark.parametrize(
    ("reached", "addresses", "given", "found"),
    [
        ("10.0.0.5", "10.0.0.5 172.17.0.1", None, "10.0.0.5"),
        ("8.8.8.8", "8.8.8.8 10.0.0.5 10.0.0.5 fd00::1", None, "10.0.0.5"),
        ("10.0.0.5", "10.0.0.5 10.9.0.5", "10.9.0.5", "10.9.0.5"),
    ],
)
def test_the_private_address(reached, addresses, given, found):
    """As named; else that by which we came, if it is private; else the only one."""
    assert lent.address(FakeHost(f"{reached}|{addresses}"), given) == found


@pytest.mark.parametrize(
    ("addresses", "given", "sentence"),
    [
        ("8.8.8.8", None, "(it has: none); name it: SSH_HOST=user@host/10.0.0.5"),
        ("8.8.8.8 10.0.0.5 172.17.0.1", None, "(it has: 10.0.0.5, 172.17.0.1); name it"),
        ("8.8.8.8 10.0.0.5", "8.8.8.8", "has no private address 8.8.8.8; it has: 10.0.0.5"),
    ],
)
def test_an_address_that_is_not_private(addresses, given, sentence):
    """It is never a public one."""
    with pytest.raises(UserError) as refused:
        lent.address(FakeHost(f"8.8.8.8|{addresses}"), given)
    assert sentence in str(refused.value)


def test_the_token_is_the_runs_own_and_for_nobody_else(tmp_path, monkeypatch):
    """Made once, readable by its user alone, here and in what is brought to the hosts."""
    of = {"user": None, "port": None, "directory": "/d"}
    hosts = {f"host{number}": SshHost(address=f"10.0.0.{number}|10.0.0.{number}", **of) for number in (1, 2)}
    where = SshPlace(config_file=None, hosts=hosts)
    plans.write(tmp_path, place=where, topology={"host1": ("client",), "host2": ("server",)})
    monkeypatch.setattr(lent, "Host", FakeHost)
    plan = open_run(tmp_path).plan
    (tmp_path / "host").mkdir()
    made = {name: {"address": host.address} for name, host in hosts.items()}
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
