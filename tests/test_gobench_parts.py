"""The parts of Go benchmarks that need no Go: what an experiment may say, the text format, rows, units."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plots.gobench.tables import value
from tsduel.core.errors import UserError
from tsduel.plan import resolve as plan
from tsduel.question import experiment, knobs
from tsduel.workloads import kinds
from tsduel.workloads.gobench import parse, units
from tsduel.workloads.gobench import plan as go_plan
from tsduel.workloads.gobench.schema import GoExperiment

PROJECT = Path(__file__).resolve().parent.parent
SIDES = {"baseline": {"ref": "v1"}, "candidate": {"ref": "v2"}}


def written(**parts):
    """Return a small experiment with these parts laid over it."""
    base = {"name": "x", "kind": "gobench", "variants": SIDES, "gobench": {"module": "example.org/m", "package": "./p"}}
    for section, fields in parts.items():
        base[section] = {**base.get(section, {}), **fields} if isinstance(fields, dict) else fields
    return base


@pytest.mark.parametrize("name", ["partition-index-search", "search-smoke"])
def test_experiments_in_the_project_are_valid(name):
    """Each file in experiments/ of this kind can be planned."""
    asked = kinds.validate(experiment.read(PROJECT / "experiments" / f"{name}.yml"), name)
    assert isinstance(asked, GoExperiment)
    assert asked.gobench.rename[0].drop == 2


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"kind": "gobenchmark"}, "kind: 'gobenchmark' is not known; allowed: tsbs, gobench"),
        ({"gobench": {"package": "../other"}}, "gobench.package: '../other' is no package inside the module"),
        ({"gobench": {"package": "./a/../../b"}}, "is no package inside the module; write it like ./lib/storage"),
        ({"gobench": {"package": "-o"}}, "is no package inside the module"),
        ({"gobench": {"bench": ""}}, "gobench.bench: a pattern as -bench takes it"),
        ({"gobench": {"bench": "a\nb"}}, "gobench.bench: a pattern as -bench takes it, in one line"),
        ({"gobench": {"seconds": 0}}, "gobench.seconds: input should be greater than 0"),
        ({"gobench": {"cpu": 0}}, "gobench.cpu: input should be greater than or equal to 1"),
        ({"gobench": {"files": ["/etc/passwd"]}}, "gobench.files: '/etc/passwd' is no path inside the module"),
        ({"gobench": {"files": ["a/../../b"]}}, "is no path inside the module; write it like ./test/data"),
        ({"gobench": {"rename": [{}]}}, "gobench.rename.0: either `match:` with `to:`, or `drop:`"),
        ({"gobench": {"rename": [{"match": "("}]}}, "'(' is no regular expression"),
        ({"gobench": {"rename": [{"drop": 0}]}}, "gobench.rename.0.drop: input should be greater than or equal to 1"),
        ({"gobench": {"rename": [{"take": 1}]}}, "gobench.rename.0.take: unknown key; allowed here: drop, match, to"),
        ({"gobench": {"require": [{"output": "rows=[0-9]+"}]}}, "needs one group, around the number: rows=([0-9]+)"),
        ({"gobench": {"require": [{}]}}, "gobench.require.0: either `metric:`"),
        ({"gobench": {"units": {"rows/op": "up"}}}, "gobench.units.rows/op: input should be 'higher' or 'lower'"),
        ({"gobench": {"pivot": {"column": "k"}}}, "gobench.pivot: takes one variant"),
        ({"variants": {"candidate": "no"}}, "variants.candidate: input should be a valid dictionary"),
        ({"variants": {"baseline": {"ref": ""}}}, "variants.baseline: source module needs `ref:`"),
        ({"variants": {"baseline": {"ref": "v1", "flags": []}}}, "variants.baseline.flags: unknown key"),
        (
            {"variants": {"baseline": {"ref": "v1", "env": {"a b": ""}}}},
            "'a b' is not a name of an environment variable",
        ),
        ({"variants": {"A": {"ref": "v1"}}}, "'A': a variant's name is lower-case letters"),
        ({"design": {"warmup_blocks": 0}}, "design.warmup_blocks: has to be 1"),
        ({"design": {"thresholds": {"ns/op": 5.0}}}, "time is called sec/op here"),
        (
            {"workload": {"scale": 1}},
            "workload: unknown key; allowed here: design, gcp, gobench, host, kind, name, noise",
        ),
        ({"host": {"port": 1}}, "host.port: unknown key"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(parts, sentence):
    """The file, the key, and what is allowed."""
    with pytest.raises(UserError) as caught:
        kinds.validate(written(**parts), "file.yml")
    assert str(caught.value).startswith("file.yml: ")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"name": "x", "kind": "gobench"}, "variants: is needed"),
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
        kinds.validate(data, "make gobench")
    assert sentence in str(caught.value)


def test_knobs_ask_the_whole_question():
    """MODULE, PACKAGE and BENCH are text, whatever YAML would make of them."""
    given = {
        "MODULE": "example.org/m",
        "PACKAGE": "./p",
        "BENCH": "^B$/^[1]: x$",
        "BASELINE": "v1",
        "CANDIDATE": "v2",
        "BLOCKS": "7",
    }
    asked = kinds.validate(knobs.apply(kinds.EMPTY["gobench"], given), "make gobench")
    assert isinstance(asked, GoExperiment)
    assert (asked.gobench.bench, asked.design.blocks) == ("^B$/^[1]: x$", 7)
    assert set(kinds.EMPTY["gobench"]) == {"name", "kind", "noise"}


def test_an_experiment_of_the_other_kind_is_refused():
    """`make gobench` with an experiment of databases says which command it is for, and the other way round."""
    with pytest.raises(UserError, match="its kind is tsbs: run it with make tsbs"):
        kinds.refuse_other({"name": "x"}, "gobench", "file.yml")
    with pytest.raises(UserError, match="its kind is gobench: run it with make gobench"):
        kinds.refuse_other(written(), "tsbs", "file.yml")


def test_make_gobench_without_knobs_says_what_it_needs(tmp_path):
    """No file and nothing asked: the sentence names what is missing, and no run is left behind."""
    with pytest.raises(UserError, match="make gobench: variants: is needed"):
        plan.main(tmp_path / "results" / "r", {"KIND": "gobench"})
    assert not (tmp_path / "results").exists()


def test_a_pivot_has_no_comparison_with_itself():
    """AA=1 has no meaning where the columns are different benchmarks."""
    asked = kinds.validate(
        written(variants=None, gobench={"pivot": {"column": "k"}}) | {"variants": {"baseline": SIDES["baseline"]}}, "x"
    )
    with pytest.raises(UserError, match=r"AA=1: with gobench\.pivot there is one variant"):
        go_plan.part(asked, aa=True)


def calibrate(results, **go):
    """Run calibrate.jq as the script does; return the calibration, or what it says."""
    rule = {"match": "", "to": "", "drop": None}
    go = {"rename": [rule | r for r in go.pop("rename", [])], "pivot": None} | go
    done = subprocess.run(
        [
            "jq",
            "-s",
            "--argjson",
            "cpu",
            "2",
            "--argjson",
            "go",
            json.dumps(go),
            "-f",
            PROJECT / "scripts/lib/calibrate.jq",
        ],
        input="".join(json.dumps({"variant": v, "name": n, "count": c}) for v, n, c in results),
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def test_the_operations_of_a_row_are_those_of_its_fastest_variant():
    """Every variant does as many as the one that does most in the time."""
    found = calibrate(
        [("baseline", "BenchmarkS/x", 10), ("candidate", "BenchmarkS/x", 12), ("baseline", "BenchmarkS/y", 3)]
    )
    assert [(r["row"], r["count"], sorted(r["names"])) for r in found["rows"]] == [
        ("S/x", 12, ["baseline", "candidate"]),
        ("S/y", 3, ["baseline"]),
    ]


@pytest.mark.parametrize(
    ("rules", "row"),
    [
        ([{"drop": 1}], "Search/CurrOnly/100"),
        ([{"drop": 2}], "Search/Data/100"),
        ([{"drop": 9}], "Search/Data/CurrOnly/100"),
        ([{"match": "/Curr(Only)/(.*)", "to": "/$2/$1$1"}], "Search/Data/100/OnlyOnly"),
        ([{"match": "nothing", "to": "x"}], "Search/Data/CurrOnly/100"),
        ([{"match": "^BenchmarkSearch", "to": "Find"}, {"drop": 1}], "Find/CurrOnly/100"),
        ([{"match": "l", "to": "L"}], "Search/Data/CurrOnLy/100"),
    ],
)
def test_rules_take_names_to_rows(rules, row):
    """The first match is exchanged, $1 to $9 stand for its groups; `drop:` counts from the first element below."""
    assert calibrate([("baseline", "BenchmarkSearch/Data/CurrOnly/100", 1)], rename=rules)["rows"][0]["row"] == row


KEYS = [("baseline", f"BenchmarkG/series={s}/noise={n}/batch={b}", b) for s in (1, 2) for n in (1,) for b in (1, 10)]


def test_a_pivot_makes_cells():
    """Columns in the order they were printed; one number of operations a row; only the keys that are asked for."""
    found = calibrate(KEYS, pivot={"rows": ["series"], "column": "batch"})
    assert found["columns"] == ["1", "10"]
    assert [(r["cell"]["row"], r["cell"]["column"], r["count"]) for r in found["rows"]] == [
        ("G/series=1", "1", 10), ("G/series=1", "10", 10), ("G/series=2", "1", 10), ("G/series=2", "10", 10),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pivot", "sentence"),
    [
        ({"rows": [], "column": "size"}, "fewer than two values of size=, as in G/series=1/noise=1/batch=1"),
        ({"rows": [], "column": "noise"}, "fewer than two values of noise="),
        ({"rows": ["noise"], "column": "batch"}, "would be one cell: name more keys in gobench.pivot.rows"),
    ],
)
def test_a_pivot_that_cannot_be_made_is_refused(pivot, sentence):
    """Before anything is measured."""
    assert sentence in calibrate(KEYS, pivot=pivot)


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (745.1e-6, "sec/op", "745.1 µs"),
        (0.0236, "sec/op", "23.60 ms"),
        (3.2e-10, "sec/op", "0.32 ns"),
        (5.708 * 2**20, "B/op", "5.708 MiB"),
        (0.0, "B/op", "0 B"),
        (11450.0, "allocs/op", "11.45 k"),
        (1577.0, "allocs/op", "1,577"),
        (2.5e6, "B/s", "2.384 MiB/s"),
        (None, "sec/op", "–"),  # noqa: RUF001 - numbers.MISSING
    ],
)
def test_values_are_printed_with_the_prefix_that_suits_them(number, unit, text):
    """As benchstat does."""
    assert value(number, unit) == text
