"""Any bytes as a file of queries are queries, or a sentence with the file; what is written is read back the same."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsduel.core.errors import UserError
from tsduel.doctor import queries
from tsduel.workloads.own import grafana, logs, rules, written
from tsduel.workloads.own.requests import Data

DATA = Data(1749513600.0, 1749600000.0, "metricsql", labels={"job": ("a",)})
READERS = {"rules": rules.read, "dashboard": grafana.read, "log": logs.read, "file": written.read}
FEW = settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MOST_S = 10.0  # of CPU
KEYS = st.sampled_from(
    [
        *("groups", "rules", "expr", "alert", "record", "interval", "spec", "items", "data", "kind", "name", "query"),
        *("queries", "panels", "targets", "title", "type", "values", "params", "start", "end", "step", "time", "from"),
        *("to", "templating", "list", "datasource", "hide", "refId", "gridPos", "window", "weight", "empty"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(
    ["ConfigMap", "List", "1m", "now-6h", "any 1h", "sum(x)", "$host", "{{host}}", "label_values(x, job)", "1e999s"]
)  # fmt: skip
NESTED = st.recursive(
    SCALARS, lambda part: st.lists(part, max_size=4) | st.dictionaries(KEYS, part, max_size=5), max_leaves=25
)
NAMES = st.text(min_size=1, max_size=30)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="$[{\ufeff"), min_size=1).filter(
    lambda text: text.strip() and "\u2028" not in text and "\u2029" not in text and "\x85" not in text
)


def read(path, key):
    """Read a file, as rules or whatever it is; a sentence has its name."""
    with contextlib.suppress(UserError):
        queries.kind_of(str(path))
    found, said, begin = None, "", time.process_time()
    try:
        found = READERS[key](str(path), DATA)
    except UserError as error:
        said = str(error)
    assert time.process_time() - begin < MOST_S
    if found is None:
        assert str(path) in said
        assert "\0" not in said
        return
    names = [query.name for query in found.queries]
    assert len(set(names)) == len(names)
    for query in found.queries:
        assert query.where.startswith(f"{path}:")
        assert query.name.isprintable()
        assert "/" not in query.name
        assert len(query.name) < 60
        assert all(template.step_s > 0 <= template.length_s for template in query.templates)


@pytest.mark.parametrize("key", READERS)
@FEW
@given(content=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_queries_or_a_sentence(tmp_path, key, content):
    """In every reader, and for the check that tells the kind."""
    for name in ("f.yml", "f.log"):
        (tmp_path / name).write_bytes(content)
        read(tmp_path / name, key)


@pytest.mark.parametrize("key", READERS)
@FEW
@given(content=NESTED | st.dictionaries(KEYS, NESTED, min_size=1))
def test_any_values_under_the_keys_of_the_formats_are_queries_or_a_sentence(tmp_path, key, content):
    """In YAML, in JSON, and in a line of JSON."""
    (tmp_path / "f.yml").write_text(yaml.safe_dump(content, allow_unicode=True), errors="replace")
    (tmp_path / "f.json").write_text(json.dumps(content, indent="\t"))
    (tmp_path / "f.log").write_text(f"{json.dumps(content)}\n" * 2)
    for name in ("f.yml", "f.json", "f.log"):
        read(tmp_path / name, key)


@FEW
@given(asked=st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=5))
def test_what_is_written_is_read_back_the_same(tmp_path, asked):
    """The texts of queries, rules, a dashboard and a log, in their order, with the numbers of their lines."""
    texts = [text.strip() for _, text in asked]
    files = {
        "rules": yaml.safe_dump({"groups": [{"name": "g", "rules": [{"alert": n, "expr": t} for n, t in asked]}]}),
        "dashboard": json.dumps({"panels": [{"title": n, "targets": [{"expr": t}]} for n, t in asked]}, indent=1),
        "file": yaml.safe_dump({"queries": [{"name": f"q{at}", "query": t} for at, t in enumerate(texts)]}),
    }
    for key, text in files.items():
        path = tmp_path / f"{key}.yml"
        path.write_text(text)
        found = READERS[key](str(path), DATA)
        assert [query.templates[0].text for query in found.queries] == texts
        lines = [int(query.where.rpartition(":")[2]) for query in found.queries]
        assert lines == sorted(lines)
    line = json.dumps({"params": {"query": texts[0], "start": 1749513600, "end": 1749517200, "step": 60}})
    (tmp_path / "log").write_text(line + "\n")
    (one,) = logs.read(str(tmp_path / "log"), DATA).queries
    (template,) = one.templates
    assert (template.text, template.length_s, template.step_s) == (texts[0], 3600, 60)


@pytest.mark.parametrize("key", READERS)
@pytest.mark.parametrize("part", ["[", '{"panels":', '{"spec":', '{"variables":', '{"items":[', '{"log":"', "- "])
def test_a_file_that_is_nested_without_end_is_a_sentence(tmp_path, key, part):
    """As far as Python reads it, and further."""
    for times in (300, 900, 50_000):
        closing = "".join({"[": "]", "{": "}"}.get(sign, "") for sign in reversed(part)) * times
        (tmp_path / "f.yml").write_text(part * times + '{"expr":"x","groups":[]}' + closing)
        read(tmp_path / "f.yml", key)
