"""What people have: tests/corpus/FORMAT/ holds inputs made after public ones, each with what must come of it.

Beside each input stands INPUT.json: `source` (whose report or file it is made after), `stands_for`, and `comes`: what
the reader makes of it, or `error`, the sentence. `UPDATE_CORPUS=1` writes these anew; read the difference.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsduel.core.errors import UserError
from tsduel.workloads.gobench import parse
from tsduel.workloads.tsbs import logs

CORPUS = Path(__file__).resolve().parent / "corpus"


def gobench(path):
    """Return the results and the directions of units in the output of a test binary."""
    text = path.read_bytes().decode("utf-8", errors="replace")
    results = [[each.name, each.operations, each.values] for each in parse.results(text)]
    return {"results": results, "units": parse.units(text)}


def tsbs(path):
    """Return what is imported of a log of VictoriaMetrics' Makefile."""
    log = dataclasses.asdict(logs.read_log(path))
    log["load"]["intervals"] = len(log["load"]["intervals"])
    return {name: value for name, value in log.items() if name != "path"}


# Directory of the corpus -> its reader.
READERS = {"gobench": gobench, "tsbs": tsbs}
INPUTS = [path for path in sorted(CORPUS.glob("*/*")) if path.suffix != ".json" and path.parent.name in READERS]


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_must_come_of_an_input(path):
    """Read as its note says, or refused in a sentence that names the file and says what to do."""
    note = path.with_name(f"{path.name}.json")
    wanted = json.loads(note.read_text())
    assert wanted["source"]
    assert wanted["stands_for"]
    try:
        found = {"comes": json.loads(json.dumps(READERS[path.parent.name](path)))}
    except UserError as error:
        found = {"error": str(error).replace(str(path), path.name)}
    if os.environ.get("UPDATE_CORPUS"):
        kept = {name: wanted[name] for name in ("source", "stands_for")}
        note.write_text(json.dumps(kept | found, indent=1, ensure_ascii=False) + "\n")
    else:
        assert {name: wanted[name] for name in ("comes", "error") if name in wanted} == found


@pytest.mark.parametrize(("format_", "least"), [("gobench", 12), ("tsbs", 6)])
def test_the_corpus_has_enough_of_each_format(format_, least):
    """Every input has its note, and no note stands alone."""
    inputs = [path for path in INPUTS if path.parent.name == format_]
    assert len(inputs) >= least
    assert {f"{path.name}.json" for path in inputs} == {path.name for path in (CORPUS / format_).glob("*.json")}


LOGS = st.one_of(
    st.binary(max_size=400),
    # Whole logs with something foreign in the middle.
    st.tuples(
        st.sampled_from([path.read_bytes() for path in INPUTS if path.parent.name == "tsbs"]),
        st.integers(0, 2000),
        st.binary(max_size=20),
    ).map(lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] :]),
)


@settings(max_examples=150, deadline=None)
@given(LOGS)
def test_any_bytes_are_a_log_or_a_sentence(tmp_path_factory, content):
    """A log that cannot be imported is refused with its file; a line is named where one is wrong."""
    path = tmp_path_factory.mktemp("log") / "any.log"
    path.write_bytes(content)
    said = ""
    try:
        logs.read_log(path)
    except UserError as error:
        said = str(error)
    assert not said or said.startswith(f"{path}:")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200), st.integers(1, 10**12), st.floats(0, 1e15), st.text("[a-z=/#", min_size=1, max_size=20))
def test_a_result_behind_any_output_is_read(before, count, value, name):
    """What a benchmark prints without a newline does not hide its result."""
    last = (before.splitlines() or [""])[-1]
    line = f"{before}\nx{last}Benchmark{name}-8 \t{count}\t{value!r} ns/op"
    found = list(parse.results(line))
    assert any(each.operations == count and each.name.endswith(f"{name}-8") for each in found)
