"""`make queries-check`: the kind of a file, the small run that it makes of any experiment, and what it prints."""

from __future__ import annotations

import re

import pytest
import synthetic

from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.doctor import queries
from tsduel.question import read


@pytest.mark.parametrize("name", [path.stem for path in sorted((PROJECT / "experiments").glob("*.yml"))])
def test_a_file_is_checked_with_any_experiment_of_one_database(tmp_path, name):
    """It takes the place of all queries; what is only of these, and of a whole run, is set aside."""
    asked = read.read_file(PROJECT / f"experiments/{name}.yml")
    if asked.get("kind", "tsbs") != "tsbs":
        pytest.skip("of Go benchmarks")
    refused = []
    for text in ("max({{metric}})", "SELECT mean(usage_user) FROM cpu"):
        (tmp_path / "q.txt").write_text(f"{text}\n")
        words = [*queries._load(asked), *queries._SMALL, f"queries.file={tmp_path}/q.txt"]
        words += [] if queries._names_data(asked) else [queries._SCALE]
        try:
            read.read({"EXPERIMENT": name, "SET": " ".join(words)})
        except UserError as error:
            refused.append(str(error))
    assert len(refused) < 2 or "compare versions of one database" in refused[0]


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.yml", "# mine\ngroups:\n- name: a\n", "rules"),
        ("a.yml", "queries:\n- {name: a, query: x}\n", "file"),
        ("a.log", '{"params": {"query": "up"}}\n', "log"),
        ("a.txt", "/api/v1/query?query=up\n", "log"),
        ("a.txt", "sum(x)\n", "file"),
    ],
)
def test_a_check_tells_the_kind_of_file_by_its_content(tmp_path, name, text, kind):
    """Rules, a log, or queries."""
    path = tmp_path / name
    path.write_text(text)
    assert queries.kind_of(str(path)) == kind


def test_a_check_says_why_its_run_ended(tmp_path, monkeypatch):
    """The last line of the stage, whatever a library wrote to standard error before it."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho INFO: no pressure here >&2; echo the run has stopped: no data; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(queries.sys, "executable", str(program))
    assert queries._stage("run", "check", {}) == (1, "the run has stopped: no data")


def test_a_check_prints_the_time_of_each_query(tmp_path):
    """In ms, of the first side's `duel_typical_ms`; of the real table that tsduel-host writes."""
    told, _ = queries._table(synthetic.tidied(synthetic.write_run(tmp_path / "r", synthetic.Spec(blocks=1))))
    assert re.search(r"^cpu-max-all-8 +0 +0 +[1-9]\.\d\d +both", told, re.MULTILINE), told
