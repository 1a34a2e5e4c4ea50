"""What leaves a run of Go benchmarks: exports, the block for a pull request, pictures and the page."""

import csv
import json
import re

import jsonschema
import pytest
import synthetic_gobench as synthetic
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_exports import BENCHER, CUSTOM_BENCHMARKS

from plots import drawing, exports
from plots.exports.names import LONGEST, safe
from plots.gobench import comment, pictures, report
from plots.opened import open_report
from tsduel.stats import compare
from tsduel.tidy import tables as tidy

SPEC = synthetic.Spec()
OWN = {**synthetic.UNITS, "rows/op": 5.0, "hits": 3.0, "MB/s": 20.0, "ms/op": 7.0}
DIRECTED = synthetic.Spec(units=OWN, go={"units": {"rows/op": "higher"}})
TRACKERS = {"smaller-is-better.json", "bencher.json", "otava-candidate.csv", "otava.yaml"}
ALWAYS = {"baseline.bench.txt", "candidate.bench.txt", "openmetrics.txt"}
THREE = synthetic.Spec(variants=("baseline", "curr-pt", "pt-only"), factors={"pt-only": {"B/op": 1.2}})
PIVOT = synthetic.Spec(variants=("baseline",), columns=("1", "10"), factors={"10": {"allocs/op": 0.5}})


@pytest.fixture(autouse=True)
def _no_benchstat(monkeypatch):
    """Leave benchstat out, which has to be built; tests/test_gobench.py has the real one."""
    monkeypatch.setattr(report, "benchstat", lambda run: f"benchstat of {run.path.name}")


def made(path, spec=SPEC, **changes):
    """Write a run, and take it through tidy and compare."""
    run = synthetic.write_run(path / "20261120T140000Z-small", spec, **changes)
    tidy.main(run)
    compare.main(run)
    return run


def exported(path, spec=SPEC, **changes):
    """Do the same and export it; return the run, and which files there are."""
    run = made(path, spec, **changes)
    exports.main(run)
    return run, {file.name for file in (run / "exports").iterdir()}


def families(run):
    """Read the exposition with prometheus_client's own OpenMetrics parser."""
    found = text_string_to_metric_families((run / "exports/openmetrics.txt").read_text())
    return {family.name: family for family in found}


def test_a_result_has_every_export(tmp_path):
    """The same files as of a database; names hold the unit and the row, and no revision."""
    run, files = exported(tmp_path)
    assert files == ALWAYS | TRACKERS
    assert (run / "exports/candidate.bench.txt").read_bytes() == (run / "stats/candidate.bench.txt").read_bytes()
    entries = json.loads((run / "exports/smaller-is-better.json").read_text())
    jsonschema.validate(entries, CUSTOM_BENCHMARKS)
    by_name = {entry["name"]: entry for entry in entries}
    units, rows = ("sec/op", "B/op", "allocs/op"), (*SPEC.rows, "geomean")
    assert set(by_name) == {f"small/candidate/{unit}/{row}" for unit in units for row in rows}
    entry = by_name["small/candidate/B/op/Search/Names/100"]
    assert (entry["value"], entry["unit"]) == (pytest.approx(2048 * 1.1 * 2, rel=1e-5), "B/op")
    assert entry["extra"].splitlines() == [
        f"v1.1.0, revision {'candidate':0<40}",
        "median of 6 rounds",
        f"against v1.0.0, revision {'baseline':0<40}: +10.0 %, regression",
        "Intel(R) Xeon(R) CPU @ 2.20GHz; package ./p; run 20261120T140000Z-small",
    ]

    document = json.loads((run / "exports/bencher.json").read_text())
    jsonschema.validate(document, BENCHER)
    assert set(document) == {f"small/candidate/{row}" for row in rows}
    assert set(document["small/candidate/geomean"]) == {"sec-op", "b-op", "allocs-op"}
    with (run / "exports/otava-candidate.csv").open(newline="") as stream:
        (line,) = csv.DictReader(stream)
    assert line["commit"] == f"{'candidate':0<40}"
    assert float(line["allocs/op.Search/Data/100"]) == 100.0
    assert "sec/op.geomean" in line


def test_a_benchmark_s_own_metrics_are_exported_with_their_direction(tmp_path):
    """A unit that nobody has given a direction is tracked nowhere; OpenMetrics has them all."""
    run, files = exported(tmp_path, DIRECTED)
    assert "bigger-is-better.json" in files
    names = {entry["name"] for entry in json.loads((run / "exports/bigger-is-better.json").read_text())}
    assert names == {
        *(f"small/candidate/rows/op/{row}" for row in SPEC.rows),
        *(f"small/candidate/B/s/{row}" for row in (*SPEC.rows, "geomean")),
    }
    assert "hits" not in (run / "exports/smaller-is-better.json").read_text()
    found = families(run)
    units = {"seconds_per_op", "bytes_per_op", "allocs_per_op", "bytes_per_second", "rows_per_op", "hits", "ms_per_op"}
    assert set(found) == {"tsduel_variant", *(f"tsduel_bench_{unit}" for unit in units)}
    samples = found["tsduel_bench_seconds_per_op"].samples
    assert len(samples) == 2 * SPEC.blocks * len(SPEC.rows)
    assert {sample.labels["benchmark"] for sample in samples} == set(SPEC.rows)
    assert all(1e-5 < sample.value < 1e-3 for sample in samples)
    # Its own units are not converted: nobody knows what they mean.
    assert {sample.value for sample in found["tsduel_bench_ms_per_op"].samples} == {7.0, 14.0}


def test_names_that_another_tool_allows():
    """Any word may be a unit: what has no letters, is too long or would be another's gets a name of its own."""
    words = ["sec/op", "B/op", "b-op", "%", "µ", "x" * 99]
    found = safe({word: word for word in words}, "-")
    assert found["sec/op"] == "sec-op"
    assert re.fullmatch("b-op-[0-9a-f]{8}", found["B/op"])
    assert len(set(found.values())) == len(words)
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name) and len(name) <= LONGEST for name in found.values())
    assert safe({word: word for word in reversed(words)}, "-") == found


@pytest.mark.parametrize(("changes", "why"), [({"smoke": True}, "a smoke run"), ({"aa": True}, "an A/A run")])
def test_what_is_no_result_feeds_no_alert(tmp_path, changes, why):
    """As of a database."""
    run = made(tmp_path, **changes)
    assert f"(without those that feed alerts: {why}" in exports.main(run)
    assert {file.name for file in (run / "exports").iterdir()} == ALWAYS


def test_keys_as_columns_are_exported_as_one_revision(tmp_path):
    """A pivot has no candidate that a tracker could follow; its columns are variants to OpenMetrics."""
    run = made(tmp_path, PIVOT)
    assert "with a pivot there is one revision" in exports.main(run)
    assert {file.name for file in (run / "exports").iterdir()} == {"baseline.bench.txt", "openmetrics.txt"}
    found = families(run)
    assert {s.labels["variant"] for s in found["tsduel_bench_allocs_per_op"].samples} == {"1", "10"}
    assert {s.labels["revision"] for s in found["tsduel_variant"].samples} == {f"{'baseline':0<40}"}


def test_the_comment_begins_with_the_marks(tmp_path):
    """Time, memory and allocations, each with its mark and its medians; all else is folded."""
    text = comment.main(made(tmp_path))
    assert text == (tmp_path / "20261120T140000Z-small/comment.md").read_text()
    assert text.splitlines()[:2] == ["**v1.1.0 against v1.0.0** (6 blocks), `./p`:", ""]
    time, memory, allocs = text.splitlines()[2:5]
    assert re.match(
        r"- ✓ \*\*Time\*\* \(geometric mean\): (19|20)\.\d % faster \(95 % CI .*\): clear improvement; ", time
    )
    assert memory == (
        "- ✗ **Memory** (geometric mean): 10.0 % more (the same in each of 6 blocks): clear regression; "
        "2.828 KiB → 3.111 KiB. 2 of 2 rows worse, most Search/Data/100 (+10.0 %)"
    )
    assert allocs.startswith("- = **Allocs** (geometric mean): identical in every block (equivalent); 141.4 → 141.4")
    shown = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert "|" not in shown
    assert "make gobench" not in shown
    assert "make gobench PACKAGE=./p 'BENCH=a b'" in text
    assert text.count("<details>") == text.count("</details>") == 2
    assert "Which one? Checked 62 of 62, none failed." in shown


def test_the_comment_warns(tmp_path):
    """Toolchains that differ and a benchmark that one side lacks are said in sight; candidates one by one."""
    spec = synthetic.Spec(only={"Search/Names/100": "candidate"}, go_versions={"candidate": "go1.25.5"})
    text = comment.main(made(tmp_path / "one", spec))
    shown = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert "The toolchains differ (baseline go1.26.8, candidate go1.25.5): a difference may be the compiler's" in shown
    assert "Search/Names/100 exists in v1.1.0 only: it is shown, and not compared." in shown
    text = comment.main(made(tmp_path / "three", THREE))
    assert text.index("**v1.1.0 against v1.0.0**") < text.index("**v1.2.0 against v1.0.0**")


def drawn(run):
    """Draw the pictures; return the names of those that are there, in both formats."""
    found = pictures.draw(drawing.read(open_report(run)))
    names = {path.stem for path in run.glob("plots/*.svg")}
    assert names == {path.stem for path in run.glob("plots/*.png")} == {p.path[6:] for p in found if p.drawn}
    return names


@pytest.mark.parametrize("spec", [SPEC, THREE, DIRECTED, synthetic.Spec(blocks=2), synthetic.Spec(rows=("One",))])
def test_pictures_of_every_kind_of_run(tmp_path, spec):
    """Changes with their intervals, and the rounds; of one candidate or several, a screen or a result."""
    assert drawn(made(tmp_path, spec)) == {"change-in-time", "change-in-memory", "rounds"}


def test_a_picture_of_very_many_rows_can_be_read(tmp_path):
    """Those that moved most are drawn, the means in any case, and the caption says how many are left out."""
    rows = tuple(f"Search/Data/{number}" for number in range(60))
    run = made(tmp_path, synthetic.Spec(rows=rows, variants=THREE.variants, factors=THREE.factors))
    found = {picture.path: picture for picture in pictures.draw(drawing.read(open_report(run)))}
    assert "16 rows that moved less" in found["plots/change-in-time"].caption
    assert "76 rows that moved less" in found["plots/change-in-memory"].caption
    svg = (run / "plots/change-in-memory.svg").read_text()
    assert float(re.search(r'height="([0-9.]+)pt"', svg)[1]) < 72 * 20
    assert "Allocs, geometric mean" in svg


def test_pictures_of_a_pivot_and_of_nothing(tmp_path):
    """The columns of a pivot share their rounds; without a block that counts there is no change to draw."""
    assert drawn(made(tmp_path / "pivot", PIVOT)) == {"change-in-time", "change-in-memory"}
    failed = synthetic.write_run(tmp_path / "failed", SPEC)
    for path in failed.glob("raw/*-baseline/round.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "failed"}))
    tidy.main(failed)
    compare.main(failed)
    assert drawn(failed) == {"rounds"}
    report.main(failed)
    text = (failed / "report.md").read_text()
    assert "over 0 valid blocks of 6:" in text
    assert "Not drawn, since no valid block holds anything of it: change in time by benchmark, change in" in text


def test_a_run_that_has_measured_nothing_says_so(tmp_path):
    """Every round failed: report, comment and exports are made all the same, and hold no figure."""
    run = synthetic.write_run(tmp_path / "run", SPEC)
    for path in run.glob("raw/*/round.json"):
        failure = {"phase": "bench", "query_type": "x", "message": "it <broke>"}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "failed", "failure": failure}))
    tidy.main(run)
    compare.main(run)
    report.main(run)
    assert "no block counts" in exports.main(run)
    assert "- ? nothing was measured" in (run / "report.md").read_text()
    text = comment.main(run)
    assert "- ? nothing was measured" in text
    assert "it &lt;broke&gt;" in text
    assert list(families(run)) == ["tsduel_variant"]


def test_the_report_has_its_pictures_and_the_page_is_one_file(tmp_path):
    """Every link leads somewhere; the page has the pictures in it and refers to nothing."""
    run = made(tmp_path)
    report.main(run)
    text, html = ((run / f"report.{kind}").read_text() for kind in ("md", "html"))
    assert set(re.findall(r"\]\(([^)]+)\)", text)) == {str(p.relative_to(run)) for p in run.glob("plots/*")}
    assert text.index("## Time (sec/op)") < text.index("## Pictures") < text.index("## benchstat's view")
    assert html.count('src="data:image/') == 3
    assert not re.search(r'(src|href)="(?!data:)', html)
    assert "the experiment as it was read, before knobs" in text


def test_many_candidates_have_their_evidence_folded(tmp_path):
    """Each column has a change and a mark; intervals and p of each are one click away."""
    run = made(tmp_path, THREE)
    report.main(run)
    text = (run / "report.md").read_text()
    assert text.count("<summary>Intervals and p of these</summary>") == 3
    assert text.count("**v1.2.0 against v1.0.0**") == 3
    assert re.search(
        r"\| Search/Data/100 +\| +2 KiB \| +2 KiB \| +0\.0 \| = +\| +2\.4(00)? KiB \| +\+20\.0 \| ✗ +\|", text
    )
