"""Variants of several components: what may be asked, and how they are called."""

from __future__ import annotations

import pytest
from asking import FAKES, planned, written

from tsduel.core.errors import UserError
from tsduel.question import read

DIRECT = {"source": "binary", "path": str(FAKES / "database")}
PROXY = {"source": "binary", "path": str(FAKES / "proxy")}
CLUSTER = {"target": "victoriametrics-cluster"}


def parts(**roles):
    """Return a variant of these components, in the order that they are named."""
    return {"components": [{"role": role} | fields for role, fields in roles.items()]}


def refused(variant):
    """Return the sentence with which a candidate is refused."""
    with pytest.raises(UserError) as caught:
        read.validate(written(variants={"candidate": variant}), "x.yml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("variant", "sentence"),
    [
        (parts(vmauth=PROXY), "components: 'server' is missing, and without it there is no victoriametrics"),
        (parts(server=DIRECT, vmagent=PROXY | {"flags": ["-remoteWrite.url=x"]}), "flags: -remoteWrite.url is ours"),
        (parts(server=DIRECT, vmagent=PROXY | {"files": {"../x": ""}}), "'../x' is not a plain name of a file"),
        (CLUSTER | {"ref": "v1", "flags": ["-a"]}, "flags: victoriametrics-cluster has several components"),
        (CLUSTER | parts(vmselect=PROXY, vminsert=PROXY), "components: 'vmstorage' is missing"),
        (parts(server=DIRECT, vmagent=PROXY | {"replicas": 2}), "replicas: of vmagent victoriametrics has one"),
        (CLUSTER | parts(vmselect=PROXY | {"replicas": 10}), "replicas: input should be less than or equal to 9"),
    ],
)  # fmt: skip
def test_components_that_cannot_be_are_refused(variant, sentence):
    """The sentence names the role and what is allowed."""
    assert sentence in refused(variant)


def test_what_clients_ask_first_stands_first():
    """However they are written; the short form of a cluster is all of its components."""
    asked = read.validate(written(variants={"candidate": parts(server=DIRECT, vmagent=PROXY, vmauth=PROXY)}), "x.yml")
    assert [part.role for part in asked.variants["candidate"].parts] == ["vmauth", "vmagent", "server"]
    short = CLUSTER | {"ref": "v1.133.0-cluster"}
    cluster = read.validate(written(variants={"baseline": short, "candidate": short}), "x.yml").variants["baseline"]
    assert [(part.role, part.ref) for part in cluster.parts] == [
        (role, "v1.133.0-cluster") for role in ("vmselect", "vminsert", "vmstorage")
    ]


def test_replicas_are_components_of_their_own():
    """Named by number, each with what is said of the role; what clients ask first still stands first."""
    several = CLUSTER | parts(vmstorage=PROXY | {"replicas": 2, "flags": ["-a"]}, vminsert=PROXY, vmselect=PROXY)
    one = read.validate(written(variants={"baseline": several, "candidate": several}), "x.yml").variants["candidate"]
    assert [part.role for part in one.parts] == ["vmselect", "vminsert", "vmstorage", "vmstorage-2"]
    assert one.parts[3].flags == ("-a",)
    plan = planned(variants={"baseline": several, "candidate": several})
    assert plan.roles[-1] == "vmstorage-2"
    assert plan.targets["victoriametrics-cluster"].ports["vmstorage-2"] == ("vminsert", "vmselect")


def test_variants_are_called_by_what_differs():
    """A proxy beside none is named with what it stands before; of two agents before the same server each by itself."""
    direct, proxied = planned(variants={"baseline": DIRECT, "candidate": parts(server=DIRECT, vmauth=PROXY)}).variants
    server, proxy = (part.label for part in (direct.components[0], proxied.components[0]))
    assert (direct.label, proxied.label) == (server, f"{server} + vmauth {proxy}")
    agents = {"baseline": parts(server=DIRECT, vmagent=DIRECT), "candidate": parts(server=DIRECT, vmagent=PROXY)}
    assert [one.label for one in planned(variants=agents).variants] == [f"vmagent {server}", f"vmagent {proxy}"]
    same = dict.fromkeys(agents, parts(server=DIRECT, vmauth=DIRECT))
    assert [one.label for one in planned(variants=same).variants] == [server, server]
