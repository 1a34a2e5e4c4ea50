"""The corpus of queries and data: files made after those that people have, each read as its index says.

When somebody reports a file, it goes into tests/corpus/, with what must come of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tsduel.core.errors import UserError
from tsduel.core.sections import QuerySettings, WorkloadAsked
from tsduel.doctor import queries
from tsduel.targets import databases
from tsduel.workloads.own import asked as own
from tsduel.workloads.own import dump

CORPUS = Path(__file__).parent / "corpus"
KEYS = {"rules": "rules", "dashboards": "dashboard", "logs": "log"}
DATA = own.data_of(WorkloadAsked(scale=20), databases()["victoriametrics"].target)


def entries(directory):
    """Return the entries of a directory's index; every file has one."""
    listed = yaml.safe_load((CORPUS / directory / "index.yml").read_text())
    names = {path.name for path in (CORPUS / directory).iterdir()} - {"index.yml"}
    assert names == {entry["file"] for entry in listed}
    return listed


ASKED = [(directory, entry) for directory in KEYS for entry in entries(directory)]


@pytest.mark.parametrize(("directory", "entry"), ASKED, ids=lambda of: of if isinstance(of, str) else of["file"])
def test_queries_of_the_corpus_are_asked_or_left_out_with_their_line(directory, entry):
    """The check knows the file's kind by its content; what is asked has its name, what is not its line and reason."""
    path = str(CORPUS / directory / entry["file"])
    assert queries.kind_of(path) == KEYS[directory]
    found = own.settled(QuerySettings(**{KEYS[directory]: path}), DATA)
    assert [query.name for query in found.queries] == entry["asked"]
    for parts in entry.get("left_out", ()):
        assert any(all(part in sentence for part in parts) for sentence in found.left_out), found.left_out
    if "left_out" not in entry:
        assert found.left_out == ()
    templates = [template for query in found.queries for template in query.templates]
    assert [template.text for template in templates] == entry.get("texts", [one.text for one in templates])
    assert [template.step_s for template in templates] == entry.get("steps", [one.step_s for one in templates])


@pytest.mark.parametrize("entry", entries("data"), ids=lambda entry: entry["file"])
def test_data_of_the_corpus_are_counted_or_refused_in_a_sentence(entry):
    """By the agent, as when a run is planned."""
    path = str(CORPUS / "data" / entry["file"])
    if "refused" in entry:
        with pytest.raises(UserError) as caught:
            dump.read(path)
        assert all(part in str(caught.value) for part in (*entry["refused"], entry["file"])), caught.value
        return
    found = dump.read(path)
    for name in ("samples", "series", "numberless", "precision", "names"):
        if name in entry:
            value = getattr(found, name)
            assert (list(value) if isinstance(value, tuple) else value) == entry[name]
