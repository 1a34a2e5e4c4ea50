"""Variants of several components: what may be asked, how they are called, and the way from a run to its report."""

from __future__ import annotations

import csv
import json

import pytest
from asking import FAKES, planned, written

from plots import report
from plots.exports import main as export
from tsduel.core.errors import UserError
from tsduel.core.target import Counter
from tsduel.question import read
from tsduel.stats import compare
from tsduel.tidy import tables as tidy
from tsduel.workloads.tsbs.exposition import parse_snapshots

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
        (parts(server=DIRECT, vmproxy=PROXY), "no component 'vmproxy'; allowed: vmauth, vmagent, server"),
        (parts(vmauth=PROXY), "components: 'server' is missing, and without it there is no victoriametrics"),
        (DIRECT | {"role": "vmauth"}, "components: 'server' is missing"),
        (parts(server=DIRECT) | {"flags": ["-a"]}, "either `components:` or `flags:`, which is of the short form"),
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


def test_a_counter_of_a_role_is_read_there_alone():
    """The same name may be in every component's counters."""
    text = '# snapshot 1.0 edge load begin\na{tsduel_role="vmauth"} 1\na{tsduel_role="server",x="y"} 2\n'
    text += '# snapshot 2.0 tick\na{tsduel_role="vmauth"} 3\na{tsduel_role="server",x="y"} 4\n'
    wanted = {"all": Counter(name="a"), "one": Counter(name="a", role="vmauth"), "none": Counter(name="a", role="x")}
    assert [one.values for one in parse_snapshots(text, wanted)] == [{"all": 3, "one": 1}, {"all": 7, "one": 3}]


def test_a_proxy_goes_the_whole_way_to_the_report(project):
    """Both sides' percentiles, the shift, what each component took; and the same for who tracks it."""
    plan = project.plan(
        variants={
            "baseline": DIRECT,
            "candidate": parts(server=DIRECT, vmauth=PROXY, vmagent=PROXY | {"files": {"relabel.yml": "[]\n"}}),
        },
        duel={"load": True},
        settle={"mode": "natural", "drain": False},
        queries={"max_count": 400},
    )
    project.run()
    (failures,) = [project.block(name)["failures"] for name in project.blocks()]
    assert failures == []
    tidy.main(project.run_dir)
    compare.main(project.run_dir)
    report.main(project.run_dir)
    assert export(project.run_dir)
    with (project.run_dir / "stats/comparison.csv").open(newline="") as stream:
        rows = {(row["metric"], row["query_type"]): row for row in csv.DictReader(stream)}
    for metric in (
        "duel_role_cpu_us",
        "duel_load_role_cpu_us",
        "load_role_cpu_us",
        "disk_role_bytes",
        "duel_role_rss_bytes",
    ):
        assert float(rows[metric, "server"]["baseline_median"]) > 0, metric
        # No query comes by the agent.
        for role in ("server", "vmauth", *(["vmagent"] if metric != "duel_role_cpu_us" else [])):
            assert float(rows[metric, role]["candidate_median"]) > 0, (metric, role)
        assert rows[metric, "vmauth"]["baseline_median"] == ""
    whole = float(rows["duel_cpu_us", "all"]["candidate_median"])
    by_role = [float(rows["duel_role_cpu_us", role]["candidate_median"]) for role in plan.roles]
    assert sum(by_role) == pytest.approx(whole)
    text = (project.run_dir / "report.md").read_text()
    kind = plan.query_types[0]
    for expected in (
        "## By component",
        f"{kind}, shift (95 % CI)",
        "stddev, ms",
        "vmagent: files",
        "vmagent acknowledges samples before",
    ):
        assert expected in text, expected
    found = json.loads((project.run_dir / "exports/smaller-is-better.json").read_text())
    values = {entry["name"]: (entry["unit"], entry["value"]) for entry in found}
    assert len(values) == len(found)
    for name in ("baseline", "candidate"):
        assert values[f"screen/fake/{name}/duel_p50_ms/{kind}"][0] == "ms"
    shift = values[f"screen/fake/candidate/duel_p50_ms/{kind}/shift"][1]
    assert shift == pytest.approx(
        values[f"screen/fake/candidate/duel_p50_ms/{kind}"][1] - values[f"screen/fake/baseline/duel_p50_ms/{kind}"][1]
    )
    assert values[f"screen/fake/candidate/duel_p50_ms/{kind}/change"][0] == "%"
