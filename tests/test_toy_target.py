"""docs/adding-a-database.md, followed to the letter: its files and commands add a toy, from nothing to a report."""

from __future__ import annotations

import re

import pytest
from asking import rows
from checkout import QUIET, Checkout
from fakeproject import PROJECT, free_port

import tsduel.targets
from tsduel.core.errors import UserError
from tsduel.question import read

PAGE = (PROJECT / "docs/adding-a-database.md").read_text()
FILES = dict(re.findall(r"^`([^`\n]+)`\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
(COMMANDS,) = re.findall(r"^```shell\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
VERBS = {"start", "ready", "endpoints", "metrics", "load", "settle", "query", "forget", "size", "stop"}
RUN = "toy"


def save(directory):
    """Save the page's files below a directory."""
    for name, text in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def test_every_database_has_a_module_and_an_adapter():
    """As many as there are directories, each with every verb or those of another one, which the page has, too."""
    directories = {path.name: {verb.name for verb in path.iterdir()} for path in PROJECT.glob("scripts/targets/*")}
    databases = tsduel.targets.databases()
    assert set(directories) == set(databases)
    for name, verbs in directories.items():
        verbs.update(directories.get(databases[name].target.adapter, set()))
    directories["toy"] = {name.rpartition("/")[2] for name in FILES if name.startswith("scripts/targets/toy/")}
    assert {frozenset(verbs) for verbs in directories.values()} == {frozenset(VERBS)}


def test_what_it_cannot_do_is_refused(tmp_path, monkeypatch):
    """Its module says what it can be asked, and which flags are ours."""
    save(tmp_path)
    monkeypatch.setattr(tsduel.targets, "__path__", [*tsduel.targets.__path__, str(tmp_path / "tsduel/targets")])
    tsduel.targets.databases.cache_clear()
    try:
        data = read.read_file(tmp_path / "experiments/toy.yml")
        read.validate(data, "toy.yml")
        side = data["variants"]["baseline"]
        for changes, sentence in (
            (
                {"queries": {"types": ["double-groupby-1"]}},
                "it cannot be asked double-groupby-1; allowed: cpu-max-all-1, single-groupby-1-1-1",
            ),
            (
                {"variants": {"baseline": side, "candidate": side | {"flags": ["--port=1"]}}},
                "flags: --port is ours",
            ),
            ({"profile": "cpu"}, "toy has no pprof endpoint, and nothing else says here where its time goes"),
        ):
            with pytest.raises(UserError) as caught:
                read.validate(data | changes, "toy.yml")
            assert sentence in str(caught.value)
    finally:
        tsduel.targets.databases.cache_clear()


@pytest.mark.slow
@pytest.mark.xdist_group("real")
def test_the_page_is_followed_to_a_report(tmp_path):
    """Every file is saved, every command is typed: the toy is loaded, asked in turn, and reported like any database."""
    checkout = Checkout(tmp_path / "checkout", ansible=False)
    save(checkout.path)
    settings = f"SET=host.port={free_port()} {QUIET}"
    for line in COMMANDS.splitlines():
        if line.startswith("make "):
            checkout.make(*line.split()[1:], f"RUN={RUN}", settings)
        else:
            checkout.type(line)
    run_dir = checkout.results(RUN)
    checks = rows(run_dir / "tidy/checks.csv")
    assert [check for check in checks if check["ok"] != "true"] == []
    stored = {check["actual"] for check in checks if check["check"] == "samples_stored"}
    assert {float(actual) for actual in stored} == {108_000.0}
    assert {"samples_inserted", "rows_read", "exchanges_same", "exchanges_empty"} <= {
        check["check"] for check in checks
    }
    report = (run_dir / "report.md").read_text()
    for expected in ("Does the greeting make it slower?", f"Checked {len(checks)} of {len(checks)}, none"):
        assert expected in report
    assert not re.search(r"\bnan\b|\bNone\b|VictoriaMetrics|vm_", report)
    assert (run_dir / "raw/host1/001/candidate/server.log").read_text() == "good evening\n"

    said = checkout.make("tsbs", "EXPERIMENT=experiments/toy.yml", f"{settings} queries.types=[lastpoint]", expect=2)
    assert "it cannot be asked lastpoint; allowed: cpu-max-all-1, single-groupby-1-1-1" in said
