"""The report of any run is made, says what it is worth, and looks the same for the same data."""

import json
import re
import shutil

import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from reports import SPEC, edit_plan, golden, made, text

from plots import numbers, pictures, report
from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS


@pytest.fixture
def no_pictures(monkeypatch):
    """Leave the pictures out where a test is about words: they take longer than all the rest."""
    monkeypatch.setattr(pictures, "draw", lambda data: [])  # noqa: ARG005 - as its original


def test_report_and_summary_are_as_recorded(tmp_path, capsys):
    """The whole report and the terminal's table, to be looked at in review."""
    run = made(tmp_path)
    golden("report.md", text(run))
    report.print_summary(run)
    golden("summary.txt", capsys.readouterr().out.replace(str(run), "RUN"))


def test_same_data_same_bytes(tmp_path):
    """The same data gives the same report, page and pictures, byte for byte, and no date is in them."""
    one, two = made(tmp_path / "a"), made(tmp_path / "b")
    drawn = sorted(path.relative_to(one) for path in one.glob("plots/*"))
    assert len(drawn) == 2 * 6
    for name in ("report.md", "report.html", *drawn):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert not any("<dc:date>" in path.read_text() for path in one.glob("plots/*.svg"))


def test_every_link_is_there_and_no_number_is_long(tmp_path):
    """Links are relative and lead somewhere, every picture is linked; no figure has digits that nobody needs."""
    run = made(tmp_path)
    links = re.findall(r"\]\(([^)]+)\)", text(run))
    assert all((run / link).exists() for link in links)
    assert {run / link for link in links} == set(run.glob("plots/*"))
    assert not re.search(r"\d\.\d{6}", text(run))


SECTIONS = (
    "What was compared", "Load", "Process and database metrics", "Queries", "Pictures", "Checks",
    "Noise and blocks left out", "How it was measured", "How to reproduce", "Limitations",
)  # fmt: skip


@pytest.mark.usefixtures("no_pictures")
def test_order_of_the_report(tmp_path):
    """The answer comes first, then the tables, the pictures, what makes them doubtful, and how to do it again."""
    found = text(made(tmp_path))
    assert tuple(re.findall(r"^## (.*)$", found, re.MULTILINE)) == SECTIONS
    assert found.index("**Question.**") < found.index("**Answer.**") < found.index("## What was compared")


@pytest.mark.usefixtures("no_pictures")
def test_smoke_and_screen_say_so(tmp_path):
    """A smoke run is not a result; less than 6 blocks are a screen."""
    run = made(tmp_path, synthetic.Spec(**(vars(SPEC) | {"blocks": 2})), lambda run: edit_plan(run, smoke=True))
    assert "This is not a result" in text(run)
    assert "a screen, not a result" in text(run)
    assert "a screen, not a result" not in text(made(tmp_path / "full"))


@pytest.mark.usefixtures("no_pictures")
def test_aa_tells_the_sides_apart(tmp_path):
    """The same binary twice has two columns with two names."""

    def same(run):
        plan = json.loads((run / "plan/experiment.json").read_text())
        for variant in plan["variants"]:
            variant.update(label="v1.132.0", version="v1.132.0", revision="r" * 40)
        edit_plan(run, variants=plan["variants"], aa=True)
        shutil.copy(run / "build/baseline.json", run / "build/candidate.json")

    found = text(made(tmp_path, edit=same))
    assert "the same binary" in found
    assert "v1.132.0 (baseline)" in found
    assert "v1.132.0 (candidate)" in found
    assert "The variants do not differ." in found


@pytest.mark.usefixtures("no_pictures")
def test_flags_of_variants_are_side_by_side(tmp_path):
    """What differs is in the table of differences, what does not is said once."""

    def flagged(run):
        plan = json.loads((run / "plan/experiment.json").read_text())
        plan["variants"][1].update(flags=["-search.disableCache", "-x=a|b"], env={"GOGC": "50"})
        edit_plan(run, variants=plan["variants"])

    found = text(made(tmp_path, edit=flagged))
    assert re.search(r"\| flags +\| none +\| `-search\.disableCache", found)
    assert re.search(r"\| environment +\| none +\| `GOGC=50`", found)
    assert re.search(r"\| Go +\| go1\.25\.5 +\|\n", found)


@pytest.mark.usefixtures("no_pictures")
def test_marks_follow_the_metrics_direction(tmp_path):
    """More of what should be less is worse; below the threshold it is negligible."""
    factors = {"rate": 1.2, "query_rate": 0.8, "bytes": 1.02, "rss": 1.3}
    found = text(made(tmp_path, synthetic.Spec(**(vars(SPEC) | {"factors": factors, "noise": 0.0}))))
    assert re.search(r"cpu-max-all-1 .*-20\.0 \|.*\| ✗ clearly worse", found)
    assert re.search(r"Peak RSS .*\+30\.0 \|.*\| ✗ clearly worse", found)
    assert re.search(r"Bytes on disk .*\+2\.0 \|.*\| ≈ negligible", found)
    assert "I.e. v1.133.0 was 20.0 % faster" in found


@pytest.mark.usefixtures("no_pictures")
def test_failed_round_and_failed_checks_are_sentences(tmp_path):
    """A crash is reported, a failed check is in the answer, and the report is made all the same."""

    def broken(run):
        path = next(run.glob("raw/02-*-candidate")) / "round.json"
        failure = {"phase": "load", "message": "the server was killed by signal 9 <html>"}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "failed", "failure": failure}))
        (next(run.glob("raw/03-*-candidate")) / "load.stderr").write_text("Retrying... HTTP status 503\n")

    found = text(made(tmp_path, edit=broken))
    assert "candidate failed in phase load: the server was killed by signal 9 &lt;html&gt;" in found
    assert "Block 2 does not count" in found
    assert re.search(r"Ingestion: \*\*failed\*\*", found)
    assert "✗ check failed" in found
    assert "FAILED" in found
    assert "503" in found


def test_a_killed_run_has_a_report(tmp_path):
    """After one block there is a report that says how far it came."""

    def killed(run):
        for path in [*run.glob("raw/0[23456]-*"), *run.glob("raw/01-2-*")]:
            path.rename(path.with_name(path.name + ".partial"))

    found = text(made(tmp_path, edit=killed))
    assert "0 valid blocks of 6" in found
    assert "checked 3 of 14" in found
    assert found.count("No valid block has any of this.") == 4
    assert "## Pictures" in found
    assert "no valid block has a load" in found


def test_only_warmup_or_no_curve(tmp_path):
    """Without a measured round there is no picture, and the report says so."""

    def nothing(run):
        for path in run.glob("raw/0[123456]-*"):
            path.rename(path.with_name(path.name + ".partial"))

    assert "There is nothing to draw" in text(made(tmp_path, edit=nothing))


def test_html_and_strange_names_do_no_harm(tmp_path):
    """HTML in a question is text; long and odd revisions make a table and a picture."""

    def odd(run):
        plan = json.loads((run / "plan/experiment.json").read_text())
        plan["variants"][0]["label"] = "feature/" + "x" * 60 + "_$a$"
        plan["variants"][1]["label"] = "_größer|als"
        edit_plan(run, variants=plan["variants"], question="<script>alert(1)</script> Größer?")

    found = text(made(tmp_path, edit=odd))
    assert "<script>" not in found
    assert "&lt;script&gt;" in found
    assert "Größer?" in found
    assert "größer\\|als" in found
    assert "&#36;a&#36;" in found


@pytest.mark.usefixtures("no_pictures")
def test_missing_host_and_builds_are_left_out(tmp_path):
    """What was not recorded is not invented."""

    def bare(run):
        for path in [run / "raw/host.json", run / "raw/workload.json", *run.glob("build/*.json")]:
            path.unlink()

    assert "| kernel" not in text(made(tmp_path, edit=bare))


def test_report_before_compare_is_a_sentence(tmp_path):
    """What to do first is said."""
    run = synthetic.write_run(tmp_path / "run", SPEC)
    with pytest.raises(UserError, match="make compare"):
        report.main(run)


@pytest.mark.usefixtures("no_pictures")
def test_the_command_repeats_the_knobs(tmp_path):
    """The command is the one that was typed, quoted where a shell needs it."""
    asked = {"experiment": "experiments/local.yml", "knobs": {"BLOCKS": "6", "SET": "workload.scale=9 design.seed=2"}}
    found = text(made(tmp_path, edit=lambda run: edit_plan(run, asked=asked)))
    assert "make tsbs EXPERIMENT=experiments/local.yml BLOCKS=6 'SET=workload.scale=9 design.seed=2'\n" in found


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (1716771.07, "1,717,000"),
        (42190959504, "42,190,000,000"),
        (2296.15, "2,296"),
        (4009.0, "4,009"),
        (815.43, "815.4"),
        (1.38, "1.380"),
        (0.0123456, "0.01235"),
        (999.96, "1,000"),
        (0, "0"),
        (10.0, "10"),
        (None, "–"),  # noqa: RUF001 - numbers.MISSING
        (-3.14159, "-3.142"),
    ],
)
def test_numbers(value, printed):
    """Four significant digits, thousands readable."""
    assert numbers.number(value) == printed


@pytest.mark.parametrize(
    ("value", "printed"),
    [(8.1234, "+8.1"), (-0.04, "0.0"), (142.3, "+142"), (99.97, "+100"), (9340.2, "+9,340"), (-12.35, "-12.3")],
)
def test_changes(value, printed):
    """A sign always, but for nothing."""
    assert numbers.change(value) == printed


@pytest.mark.parametrize(
    ("p", "printed"),
    [(1, "1"), (0.0497, "0.05"), (0.001953125, "0.002"), (0.0001, "1e-04"), (None, "–")],  # noqa: RUF001 - numbers.MISSING
)
def test_probabilities(p, printed):
    """Two digits."""
    assert numbers.probability(p) == printed


def test_bytes_share_a_unit():
    """Both sides of a row are in the unit of the larger."""
    assert numbers.scale(METRICS["rss_peak_bytes"], 950e6, 1440911360.0) == ("GB", ["0.95", "1.441"])
    assert numbers.scale(METRICS["rss_peak_bytes"], None, None)[0] == "B"


@given(st.floats(-1e15, 1e15))
def test_printed_numbers_are_close(value):
    """What is printed is within half a unit of the fourth digit."""
    assert float(numbers.number(value).replace(",", "")) == pytest.approx(value, rel=6e-4)


def test_a_spare_block_that_was_not_needed_lacks_nothing(tmp_path):
    """It is in the plan, was not run, and no check of it is missing."""

    def spare(run):
        with (run / "plan/rounds.tsv").open("a") as plan:
            plan.writelines(f"7\t{at}\t{name}\tspare\t\n" for at, name in enumerate(("baseline", "candidate"), start=1))

    plain, spared = (made(tmp_path / str(edit is None), edit=edit) for edit in (None, spare))
    assert re.search(r"[Cc]hecked 294 of 294, none failed", text(spared))
    assert "not made" not in text(spared)
    assert text(spared) == text(plain)
