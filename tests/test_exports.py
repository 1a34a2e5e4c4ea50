"""exports/: every format is what its own reader takes, holds the figures of the run, and is never taken for more."""

import csv
import json
import math
import shutil
from datetime import datetime

import jsonschema
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from reports import compared, edit_plan

from plots import exports
from plots.exports.openmetrics import name_of
from tsduel.core.metrics import METRICS
from tsduel.stats import compare

SPEC = {"query_types": ("cpu-max-all-8", "double-groupby-1"), "load_s": 6.0, "exchanges": 60}
TRACKERS = {"smaller-is-better.json", "bigger-is-better.json", "bencher.json", "otava-candidate.csv", "otava.yaml"}
ALWAYS = {"baseline.bench.txt", "candidate.bench.txt", "openmetrics.txt"}
# As github-action-benchmark's README describes the custom tools: name, unit and value, and two texts that may be there.
CUSTOM_BENCHMARKS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {key: {"type": "string", "minLength": 1} for key in ("name", "unit")}
        | {"value": {"type": "number"}}
        | {key: {"type": "string"} for key in ("range", "extra")},
        "required": ["name", "unit", "value"],
        "additionalProperties": False,
    },
}
# As Bencher documents its format, and its limits: 1024 characters for a benchmark's name, 64 for a measure's slug.
BENCHER = {
    "type": "object",
    "minProperties": 1,
    "propertyNames": {"minLength": 1, "maxLength": 1024},
    "additionalProperties": {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 64},
        "additionalProperties": {
            "type": "object",
            "properties": {key: {"type": "number"} for key in ("value", "lower_value", "upper_value")},
            "required": ["value"],
            "additionalProperties": False,
        },
    },
}


def made(path, edit=None, **spec):
    """Write a run, take it through tidy and compare, and export it."""
    run = compared(path, edit, **(SPEC | spec))
    exports.main(run)
    return run


def read(run, name):
    """Return an export as JSON."""
    return json.loads((run / "exports" / name).read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Write one run that several tests look at."""
    return made(tmp_path_factory.mktemp("exports"))


def comparison(run):
    """Return the rows of comparison.json by metric and query type."""
    rows = json.loads((run / "stats/comparison.json").read_text())["rows"]
    return {(row["metric"], row["query_type"]): row for row in rows}


def test_a_result_has_every_format(run):
    """All files, and none that is half written; those of Go benchmarks are the ones that test_benchstat.py reads."""
    assert {path.name for path in (run / "exports").iterdir()} == ALWAYS | TRACKERS
    assert not (run / "exports.partial").exists()
    for exported in run.glob("exports/*.bench.txt"):
        assert exported.read_bytes() == (run / "stats" / exported.name).read_bytes()


def test_github_action_benchmark(run):
    """Two arrays by direction, each figure the candidate's median, revisions in `extra` and not in a name."""
    rows, names = comparison(run), []
    for file, better in (("smaller-is-better.json", "lower"), ("bigger-is-better.json", "higher")):
        entries = read(run, file)
        jsonschema.validate(entries, CUSTOM_BENCHMARKS)
        for entry in entries:
            series, variant, metric, *rest = entry["name"].split("/")
            row = rows[metric, rest[0] if rest else ""]
            assert (series, variant, row["better"], entry["unit"]) == ("synthetic", "candidate", better, row["unit"])
            assert entry["value"] == pytest.approx(row["candidate_median"], rel=1e-9)
            assert f"revision {'candidate':0<40}" in entry["extra"]
            assert f"revision {'baseline':0<40}" in entry["extra"]
            assert run.name in entry["extra"]
            assert " to " in entry["range"]
        names += [entry["name"] for entry in entries]
    assert len(set(names)) == len(names)
    assert {"synthetic/candidate/load_rate", "synthetic/candidate/duel_typical_ms/geomean"} <= set(names)
    assert not any(word in name for name in names for word in (run.name, "v1.13", "0000"))


def test_names_are_stable_over_runs(run, tmp_path):
    """Another run of the experiment, another revision: the same names everywhere; its label comes back as it was."""
    label = 'größer "als" \\ vorher\nund so'

    def newer(plan):
        plan["variants"][1]["label"] = label
        plan["variants"][1]["components"][0] |= {"revision": "f" * 40, "dirty": "abcdef0123456789"}

    other = made(tmp_path, lambda run: edit_plan(run, newer), seed=2)
    for file in ("smaller-is-better.json", "bigger-is-better.json"):
        assert [e["name"] for e in read(run, file)] == [e["name"] for e in read(other, file)]
        assert f"revision {'f' * 40}+abcdef012345" in read(other, file)[0]["extra"]
    one, two = ({k: list(v) for k, v in read(of, "bencher.json").items()} for of in (run, other))
    assert one == two
    assert list(csv_lines(run)[0]) == list(csv_lines(other)[0])
    assert csv_lines(other)[0]["version"] == label
    info = next(family for family in families(other) if family.name == "tsduel_variant")
    assert {s.labels["variant"]: s.labels["label"] for s in info.samples}["candidate"] == label
    assert (run / "exports/otava.yaml").read_text() == (other / "exports/otava.yaml").read_text()


def test_bencher_metric_format(run):
    """The documented schema; the value lies between the least and the largest block."""
    document = read(run, "bencher.json")
    jsonschema.validate(document, BENCHER)
    assert set(document) == {
        f"synthetic/candidate{t}" for t in ("", "/cpu-max-all-8", "/double-groupby-1", "/geomean", "/all")
    }
    rows = comparison(run)
    for benchmark, measures in document.items():
        for slug, metric in measures.items():
            row = rows[slug.replace("-", "_"), benchmark.removeprefix("synthetic/candidate").lstrip("/")]
            assert metric["value"] == pytest.approx(row["candidate_median"], rel=1e-9)
            assert metric["lower_value"] <= metric["value"] <= metric["upper_value"]
            # What is shown only, as percentiles of few exchanges are, alerts nobody.
            assert row["family"] != "shown" or slug == "query-rate"
    load = document["synthetic/candidate"]["load-rate"]
    assert load["lower_value"] < load["upper_value"]


def families(run):
    """Read the exposition with prometheus_client's own OpenMetrics parser."""
    return list(text_string_to_metric_families((run / "exports/openmetrics.txt").read_text()))


def test_openmetrics_is_read_by_its_own_parser(run):
    """Names with units, one sample a block that counts, at the end of its phase; EOF last."""
    assert (run / "exports/openmetrics.txt").read_text().endswith("\n# EOF\n")
    found = {family.name: family for family in families(run)}
    assert found["tsduel_load_rate_samples_per_second"].unit == "samples_per_second"
    assert found["tsduel_query_mean_seconds"].unit == "seconds"
    assert found["tsduel_bytes_per_sample"].unit == "bytes_per_sample"
    revisions = {s.labels["variant"]: s.labels["revision"] for s in found["tsduel_variant"].samples}
    assert revisions == {"baseline": f"{'baseline':0<40}", "candidate": f"{'candidate':0<40}"}
    blocks = {path.parent.name: json.loads(path.read_text()) for path in run.glob("raw/*/*/block.json")}
    measured = {
        (line["block"], line["variant"], line["query_type"]): float(line["value"])
        for line in csv.DictReader((run / "tidy/measurements.csv").read_text().splitlines())
        if line["metric"] == "query_mean_ms"
    }
    values = {
        (line["metric"], line["block"], line["variant"], line["query_type"]): float(line["value"])
        for line in csv.DictReader((run / "tidy/measurements.csv").read_text().splitlines())
    }
    for metric, name, factor in (("duel_cpu_us", "duel_cpu_seconds", 1e-6), ("disk_bytes", "disk_bytes", 1)):
        (first, *_) = found[f"tsduel_{name}"].samples
        key = [first.labels.get(label, "") for label in ("block", "variant", "query_type")]
        assert first.value == pytest.approx(values[metric, *key] * factor)
    samples = found["tsduel_query_mean_seconds"].samples
    assert len(samples) == 2 * 6 * len(SPEC["query_types"])
    for sample in samples:
        labels = sample.labels
        assert set(labels) == {"run", "experiment", "standing", "variant", "query_type", "block"}
        assert (labels["run"], labels["standing"]) == (run.name, "result")
        key = (labels["block"], labels["variant"], labels["query_type"])
        assert sample.value == pytest.approx(measured[key] / 1000)
        phases = blocks[f"{int(labels['block']):03}"]["phases"]
        ends = {(p["variant"], p["phase"], p["query_type"]): p["end"] for p in phases}
        assert float(sample.timestamp) == pytest.approx(ends[key[1], "query", key[2]], abs=0.001)
    for sample in found["tsduel_rss_peak_bytes"].samples:
        phases = blocks[f"{int(sample.labels['block']):03}"]["phases"]
        ends = [p["end"] for p in phases if p["variant"] == sample.labels["variant"]]
        assert float(sample.timestamp) == pytest.approx(max(ends), abs=0.001)


def test_every_metric_has_a_name_of_its_own():
    """No two metrics of the registry share a series, and each name ends with its unit."""
    names = [name_of(metric) for metric in METRICS.values()]
    assert len({name for name, _ in names}) == len(names)
    assert all(name.endswith(f"_{unit}") for name, unit in names)


def csv_lines(run, name="otava-candidate.csv"):
    """Read an Otava file as Otava does."""
    return list(csv.DictReader((run / "exports" / name).read_text().splitlines(keepends=True)))


def test_otava(run):
    """One line, a time with its zone, a number in every metric's column, and a configuration that names columns."""
    (line,) = csv_lines(run)
    tests = yaml.safe_load((run / "exports/otava.yaml").read_text())["tests"]
    test = tests["synthetic.candidate"]
    assert test["file"] == "otava-candidate.csv"
    assert {test["time_column"], *test["attributes"], *test["metrics"]} <= set(line)
    assert (line["run"], line["commit"], line["baseline"]) == (run.name, f"{'candidate':0<40}", "v1.132.0")
    began = min(p["begin"] for p in json.loads((run / "raw/host1/001/block.json").read_text())["phases"])
    assert datetime.fromisoformat(line["time"]).timestamp() == int(began)
    rows = comparison(run)
    for column, how in test["metrics"].items():
        metric, _, query_type = column.partition(".")
        row = rows[metric, query_type]
        assert how == {"direction": {"higher": 1, "lower": -1}[row["better"]]}
        assert float(line[column]) == pytest.approx(row["candidate_median"], rel=1e-9)


def test_lines_of_several_runs_go_into_one_file(run, tmp_path):
    """A metric that one run does not have keeps its column, as a number that is none."""
    other = made(tmp_path)
    path = other / "tidy/measurements.csv"
    path.write_text("".join(x for x in path.read_text().splitlines(keepends=True) if ",drain_seconds," not in x))
    compare.main(other)
    exports.main(other)
    (line,) = csv_lines(other)
    assert list(line) == list(csv_lines(run)[0])
    assert math.isnan(float(line["drain_seconds"]))
    metrics = yaml.safe_load((other / "exports/otava.yaml").read_text())["tests"]["synthetic.candidate"]["metrics"]
    assert "drain_seconds" not in metrics


@pytest.mark.parametrize(("field", "why"), [("smoke", "a smoke run"), ("aa", "an A/A run")])
def test_what_is_no_result_feeds_no_alert(run, tmp_path, field, why):
    """A smoke run, an A/A run: nothing for trackers, even where an earlier export has left it."""
    run = shutil.copytree(run, tmp_path / run.name)
    edit_plan(run, lambda plan: plan.update({field: True}))
    assert f"(without those that feed alerts: {why}" in exports.main(run)
    assert {path.name for path in (run / "exports").iterdir()} == ALWAYS
    assert {s.labels["standing"] for family in families(run) for s in family.samples} == {field}


def test_a_screen_never_joins_the_results(tmp_path):
    """Fewer than six blocks have series of their own, in every tracker."""
    run = made(tmp_path, blocks=2)
    entries = read(run, "smaller-is-better.json") + read(run, "bigger-is-better.json")
    assert all(entry["name"].startswith("screen/synthetic/") for entry in entries)
    assert all("median of 2 blocks, a screen" in entry["extra"] for entry in entries)
    assert all(name.startswith("screen/synthetic/") for name in read(run, "bencher.json"))
    assert csv_lines(run, "otava-screen-candidate.csv")
    assert list(yaml.safe_load((run / "exports/otava.yaml").read_text())["tests"]) == ["screen.synthetic.candidate"]


def test_a_failed_check_keeps_its_figures_out(tmp_path):
    """What a failed check touches is of no use, and no tracker gets it; a file without a figure is not written."""
    run = made(tmp_path / "lost", wrong={3: ("load_retries", "candidate", "", "the loader retried")})
    assert {row["verdict"] for row in comparison(run).values() if row["family"] == "primary"} == {"failed"}
    assert not (run / "exports/bigger-is-better.json").exists()
    run = made(tmp_path / "unlike", wrong={3: ("exchanges_same", "", "cpu-max-all-8", "an answer differs")})
    names = [entry["name"] for entry in read(run, "smaller-is-better.json")]
    assert "synthetic/candidate/duel_typical_ms/double-groupby-1" in names
    assert "synthetic/candidate/duel_typical_ms/cpu-max-all-8" not in names


def test_blocks_that_do_not_count_are_left_out(tmp_path):
    """Warm-up blocks and failed ones are not in the exposition; without a block nothing is tracked."""
    run = made(tmp_path / "one", failed={2: ("baseline", "solo", "it died")})
    rate = next(family for family in families(run) if family.name.startswith("tsduel_load_rate"))
    assert {sample.labels["block"] for sample in rate.samples} == {"1", "3", "4", "5", "6"}
    run = made(tmp_path / "all", failed=dict.fromkeys(range(1, 7), ("baseline", "solo", "it died")))
    assert {path.name for path in (run / "exports").iterdir()} == ALWAYS
    assert [family.name for family in families(run)] == ["tsduel_variant"]
