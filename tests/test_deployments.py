"""Servers that run already: what may be asked of them, what a plan has of them, and what a report says first."""

from __future__ import annotations

import json

import pytest
import reports

from tsduel.core import hidden
from tsduel.core.errors import UserError
from tsduel.plan import resolve
from tsduel.question import read

OLD, NEW = "http://old.example:8428", "http://new.example:8428"
SIDES = {"baseline": {"url": OLD}, "candidate": {"url": NEW}}


def planned(variants=SIDES, where=None, **parts):
    """Return the plan of such an experiment."""
    return resolve.resolve(read.validate({"name": "x", "variants": variants, **parts}, "x.yml"), run="r", where=where)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            {"variants": {"baseline": {"url": OLD}, "candidate": {"ref": "v1"}}},
            "either all of them run already and have",
        ),
        ({"variants": {**SIDES, "baseline": {"url": "https://old.example"}}}, "url: https is not spoken to servers"),
        ({"variants": {**SIDES, "baseline": {"url": "old.example:8428"}}}, "url: write it like http://HOST:PORT"),
        ({"variants": {**SIDES, "baseline": {"url": f"{OLD}/?a=b"}}}, "url: write it like http://HOST:PORT"),
        ({"variants": {**SIDES, "baseline": {"url": OLD, "ref": "v1"}}}, "ref: what has a `url:` runs already"),
        ({"variants": {**SIDES, "baseline": {"url": OLD, "flags": ["-a"]}}}, "flags: what has a `url:` runs already"),
        (
            {"variants": {**SIDES, "baseline": {"url": OLD, "target": "victoriametrics-cluster"}}},
            "url: victoriametrics-cluster has several components; say in `components:` whose it is",
        ),
        ({"queries": {"solo": True}}, "queries.solo: true: servers that run already"),
        ({"queries": {"cache": "cold"}}, "queries.cache: servers that run already"),
        ({"duel": {"batches": True}}, "duel.batches: servers that run already"),
        ({"duel": {"enabled": False}}, "duel.enabled: false: servers that run already"),
        ({"capacity": {"rates": [1, 2], "within_ms": 5}}, "capacity: servers that run already"),
        ({"limits": {"cpus": 1}}, "limits: servers that run already"),
        ({"profile": ["cpu"]}, "profile: servers that run already"),
        (
            {"hosts": ["client", "server"]},
            "hosts: components are not started on hosts of their own any more: start them",
        ),
    ],
)
def test_what_does_not_go_with_them_is_refused(data, sentence):
    """In a sentence that names the key."""
    with pytest.raises(UserError) as error:
        read.validate({"name": "x", "variants": SIDES, **data}, "x.yml")
    assert sentence in str(error.value)


def test_nothing_is_built_held_or_started_afresh():
    """The plan says so to all that read it; without a load no data are made."""
    plan = planned()
    assert (plan.deployed, plan.loads, plan.measures("solo")) == (True, False, False)
    assert (plan.duel.hold, plan.duel.sittings, plan.host.pin) == (False, 1, "off")
    assert [variant.label for variant in plan.variants] == ["old.example:8428", "new.example:8428"]
    assert plan.estimate.data_bytes == plan.estimate.database_bytes == 0
    assert resolve.ansible_vars(plan, run_dir=resolve.Path("/r"), cache=resolve.Path("/c"))["variants"] == []
    # What else uses the CPU of this host is known only if the servers are elsewhere.
    assert plan.noise.foreign_cpu_pct
    assert planned({name: {"url": "http://localhost:8428"} for name in SIDES}).noise.foreign_cpu_pct is None
    assert planned(design={"load": "in_turn"}).estimate.data_bytes > 0


def test_several_hosts_do_not_ask_at_once():
    """Then queries would not go to one deployment at a time."""
    host = {"user": None, "port": None, "directory": "/var/tmp/x"}  # noqa: S108
    hosts = {name: {"address": name, **host} for name in ("host1", "host2")}
    with pytest.raises(UserError, match="several hosts would ask them at once"):
        planned(where={"kind": "ssh", "config_file": None, "hosts": hosts})


def test_queries_over_data_that_nobody_knows_are_asked(tmp_path):
    """No name is refused, and hosts of TSBS's are no values of a placeholder."""
    asked = tmp_path / "q.yml"
    asked.write_text("queries:\n- {name: own, query: 'sum(rate(requests_total[5m]))', window: any 1h, step: 60s}\n")
    assert [kind.name for kind in planned(queries={"file": str(asked)}).queries.types] == ["own"]
    asked.write_text("queries:\n- {name: own, query: 'x{host=\"{{host}}\"}', window: any 1h, step: 60s}\n")
    with pytest.raises(UserError, match=r"has the placeholder .*host.* without values"):
        planned(queries={"file": str(asked)})


def test_a_login_stands_in_no_plan():
    """Its name does, by which the host finds it."""
    plan = planned({**SIDES, "baseline": {"url": "http://me:a-long-password@old.example:8428"}})
    text = plan.model_dump_json()
    assert "a-long-password" not in text
    (name,) = set(hidden.NAME.findall(text))
    assert hidden.known[name] == "a-long-password"
    assert plan.variants[0].server.url == f"http://me:{name}@old.example:8428"
    assert plan.variants[0].label == "old.example:8428"


def test_the_report_says_first_what_the_verdict_is_about(tmp_path):
    """And what is not known."""

    def deployed(run):
        def ours(plan):
            for side, url in zip(plan["variants"], (OLD, NEW), strict=True):
                side["components"][0] |= {"url": url, "source": "url"}
            plan["design"]["reload"] = "once"

        reports.edit_plan(run, ours)
        for path in run.glob("build/[bc]*.json"):
            path.unlink()
        for path in run.glob("raw/*/*/block.json"):
            block = json.loads(path.read_text())
            path.write_text(json.dumps(block | {"solo": {}}))

    run = reports.made(tmp_path, deployed)
    text = reports.text(run)
    first = text[: text.index("**Answer.**")]
    assert "**These are deployments that ran already**" in first
    assert (
        "Their CPU and memory are what their own /metrics say. Not known of them: peak memory, bytes on disk" in first
    )
    assert "## Load\n" not in text
    assert OLD in reports.section(run, "What differs")
    assert "The servers ran already: service times contain the network" in text
