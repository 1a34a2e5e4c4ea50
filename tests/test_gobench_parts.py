"""What an experiment of Go benchmarks may say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tsduel.core.errors import UserError
from tsduel.plan import resolve as plan
from tsduel.question import knobs, read
from tsduel.workloads import WORKLOADS
from tsduel.workloads.gobench.schema import GoExperiment

PROJECT = Path(__file__).resolve().parent.parent
SIDES = {"baseline": {"ref": "v1"}, "candidate": {"ref": "v2"}}


def written(**parts):
    """Return a small experiment with these parts laid over it."""
    base = {"name": "x", "kind": "gobench", "variants": SIDES, "gobench": {"module": "example.org/m", "package": "./p"}}
    for section, fields in parts.items():
        base[section] = {**base.get(section, {}), **fields} if isinstance(fields, dict) else fields
    return base


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"gobench": {"package": "../other"}}, "gobench.package: '../other' is no package inside the module"),
        ({"gobench": {"package": "./a/../../b"}}, "is no package inside the module; write it like ./lib/storage"),
        ({"gobench": {"bench": "a\nb"}}, "gobench.bench: a pattern as -bench takes it, in one line"),
        ({"gobench": {"files": ["/etc/passwd"]}}, "gobench.files: '/etc/passwd' is no path inside the module"),
        ({"gobench": {"files": ["a/../../b"]}}, "is no path inside the module; write it like ./test/data"),
        ({"gobench": {"rename": [{}]}}, "gobench.rename.0: either `match:` with `to:`, or `drop:`"),
        ({"gobench": {"rename": [{"match": "("}]}}, "'(' is no regular expression"),
        ({"gobench": {"rename": [{"take": 1}]}}, "gobench.rename.0.take: unknown key; allowed here: drop, match, to"),
        ({"gobench": {"require": [{"output": "rows=[0-9]+"}]}}, "needs one group, around the number: rows=([0-9]+)"),
        ({"gobench": {"require": [{}]}}, "gobench.require.0: either `metric:`"),
        ({"gobench": {"units": {"rows/op": "up"}}}, "gobench.units.rows/op: input should be 'higher' or 'lower'"),
        ({"gobench": {"pivot": {"column": "k"}}}, "gobench.pivot: takes one variant"),
        ({"variants": {"candidate": "no"}}, "variants.candidate: input should be an object"),
        ({"variants": {"baseline": {"ref": "v1", "flags": ["-x"]}}}, "variants.baseline.flags"),
        ({"design": {"warmup_blocks": 0}}, "design.warmup_blocks: has to be 1"),
        ({"design": {"thresholds": {"ns/op": 5.0}}}, "time is called sec/op here"),
        (
            {"workload": {"scale": 1}},
            "workload: unknown key; allowed here: design, gcp, gobench, host, k8s, kind, matrix, name, noise",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(parts, sentence):
    """The file, the key, and what is allowed."""
    with pytest.raises(UserError) as caught:
        read.validate(written(**parts), "file.yml")
    assert str(caught.value).startswith("file.yml: ")
    assert sentence in str(caught.value)


def test_a_threshold_is_of_the_unit_as_benchstat_has_it():
    """As `units:` is: p99-ns is called p99-sec."""
    asked = read.validate(written(design={"thresholds": {"p99-ns": 10.0}}), "file.yml")
    assert asked.design.thresholds == {"p99-sec": 10.0}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"name": "x", "kind": "gobench", "variants": {"candidate": {"ref": "v1"}}, "gobench": {"package": "."}},
         "variants: `baseline` is needed (BASELINE=v1.2.3)"),
        ({"name": "x", "kind": "gobench", "variants": {"baseline": {"ref": "v1"}},
          "gobench": {"package": ".", "module": "m"}}, "variants: `candidate` is needed"),
        ({"name": "x", "kind": "gobench", "variants": SIDES, "gobench": {"package": "."}},
         "gobench.module: is needed where a variant comes from the module proxy"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(data, sentence):
    """What `make gobench` without knobs lacks."""
    with pytest.raises(UserError) as caught:
        read.validate(data, "make gobench")
    assert sentence in str(caught.value)


def test_knobs_ask_the_whole_question():
    """MODULE, PACKAGE and BENCH are text, whatever YAML would make of them."""
    given = {"MODULE": "example.org/m", "PACKAGE": "./p", "BENCH": "^B$/^[1]: x$"}
    given |= {"BASELINE": "v1", "CANDIDATE": "v2", "BLOCKS": "7"}
    asked = read.validate(knobs.apply(WORKLOADS["gobench"].unwritten, given), "make gobench")
    assert isinstance(asked, GoExperiment)
    assert (asked.gobench.bench, asked.design.blocks) == ("^B$/^[1]: x$", 7)
    assert set(WORKLOADS["gobench"].unwritten) == {"name", "kind", "noise"}


def test_an_experiment_of_the_other_kind_is_refused():
    """`make gobench` with an experiment of databases says which command it is for, and the other way round."""
    for name, kind, other in (("smoke", "tsbs", "gobench"), ("search-smoke", "gobench", "tsbs")):
        with pytest.raises(UserError, match=f"its kind is {kind}: run it with make {kind}"):
            read.read({"EXPERIMENT": str(PROJECT / f"experiments/{name}.yml"), "KIND": other})


def test_make_gobench_without_knobs_says_what_it_needs(tmp_path):
    """No file and nothing asked: the sentence names what is missing, and no run is left behind."""
    with pytest.raises(UserError, match="make gobench: variants: is needed"):
        plan.main(tmp_path / "results" / "r", {"KIND": "gobench"})
    assert not (tmp_path / "results").exists()


def test_a_pivot_has_no_comparison_with_itself(tmp_path):
    """AA=1 has no meaning where the columns are different benchmarks."""
    file = tmp_path / "pivot.yml"
    asked = written(gobench={"pivot": {"column": "k"}}) | {"variants": {"baseline": SIDES["baseline"]}}
    file.write_text(json.dumps(asked))
    with pytest.raises(UserError, match=r"AA=1: with gobench\.pivot there is one variant"):
        plan.main(tmp_path / "results" / "r", {"KIND": "gobench", "EXPERIMENT": str(file), "AA": "1"})


def test_several_numbers_of_cpus_are_settings_of_a_study():
    """As `go test -cpu 1,2`; a list in the place of one number is a sentence that says so."""
    data = {
        "name": "x", "kind": "gobench", "gobench": {"package": "./p"},
        "variants": {name: {"source": "git", "repo": "/r", "ref": name} for name in ("baseline", "candidate")},
    }  # fmt: skip
    found = read.expand(data | {"matrix": {"gobench.cpu": [1, 2]}}, "x.yml")
    assert [(each.name, each.asked.gobench.cpu) for each in found] == [("cpu=1", 1), ("cpu=2", 2)]
    with pytest.raises(UserError, match=r"matrix: \{gobench\.cpu: \[1, 2, 4\]\}"):
        read.expand(data | {"gobench": {"package": "./p", "cpu": [1, 2]}}, "x.yml")
