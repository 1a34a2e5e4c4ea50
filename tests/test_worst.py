"""`make worst`: what a search finds of imagined servers, whatever kills it; what it refuses before it starts."""

import json
import math
import os
import random
import shlex
import shutil
from pathlib import Path

import pytest

from plots import worst as page
from tests import plans
from tests.synthetic import Spec, write_run
from tsduel.cli import pipeline
from tsduel.core import codes, results
from tsduel.core.errors import UserError
from tsduel.question import read
from tsduel.studies.study import drive
from tsduel.worst import begin as beginning
from tsduel.worst import probes
from tsduel.worst import search as searching
from tsduel.worst.search import Probe, Worst

SPACE = """
workload.scale: {values: [20, 100, 400, 1000], usual: 100}
workload.batch_size: {values: [25, 100, 600, 2000], usual: 100}
workload.interval: {values: [20s, 80s, 5m], usual: 80s}
duel.in_flight: {values: [1, 2, 8], usual: 1}
limits.cpus: {values: [0.1, 0.5], usual: null}
"""
COMMON = {"EXPERIMENT": "experiments/worst.yml", "MINUTES": "60"}


class KilledError(Exception):
    """The machine was switched off."""


def begin(results: Path, **knobs) -> Path:
    """Begin a search over SPACE; return its directory."""
    file = results / "space.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SPACE)
    return beginning.begun("w", COMMON | {"SPACE": str(file)} | knobs, results)


def compared(results: Path, effect, kills=(), scatter=0.01):
    """Return what stands in for all stages of a run: a comparison whose blocks scatter about effect(fields)."""
    died = list(kills)

    def run(environment):
        words = dict(word.partition("=")[::2] for word in shlex.split(environment["SET"]))
        fields = {name: json.loads(value) for name, value in words.items()}
        name, seed = environment["RUN"], fields.pop("design.seed")
        if died and name.endswith(f"{died[0]:03d}"):
            died.pop(0)
            raise KilledError
        coin, blocks = random.Random(seed), int(environment["BLOCKS"])  # noqa: S311 - a reproducible coin
        truth = effect(fields)
        differences = [] if truth is None else [coin.gauss(truth, scatter) for _ in range(blocks)]
        middle = math.fsum(differences) / blocks
        p = math.erfc(abs(middle) / (scatter / math.sqrt(blocks)) / math.sqrt(2)) if differences else None
        row = {
            "metric": "duel_cpu_us",
            "query_type": "all",
            "candidate": "candidate",
            "differences": differences,
            "p": p,
            "verdict": "shown",
            "warnings": "",
        }
        (results / name / "stats").mkdir(parents=True, exist_ok=True)
        (results / name / "stats/comparison.json").write_text(json.dumps({"rows": [row]}))
        return 0

    return run


def search(directory: Path, run) -> Worst:
    """Drive a search to its end, begun again after each kill."""
    while True:
        try:
            assert drive(probes.rule(directory), run, {}) == 0
        except KilledError:
            continue
        return Worst.load(directory)


def large_batches(fields):
    """Return a cost of 20 % for batches of 600 lines and more, and none else."""
    return 0.2 if fields.get("workload.batch_size", 100) >= 600 else 0.0


def slow_with_many(fields):
    """Return a cost of 5 % for 400 hosts and more, if several queries are in flight."""
    return 0.05 * (fields.get("workload.scale", 100) >= 400) * (fields.get("duel.in_flight", 1) > 1)


@pytest.mark.parametrize(
    ("effect", "key"), [(large_batches, "workload.batch_size"), (slow_with_many, "workload.scale")],
    ids=["of one field", "of two together"],
)  # fmt: skip
def test_a_planted_load_is_found_confirmed_and_named(tmp_path, effect, key):
    """The report names the field, and its experiment repeats the load."""
    directory = begin(tmp_path)
    study = search(directory, compared(tmp_path, effect))
    held = [probe for probe, p in searching.confirmed(study) if searching.holds(study, probe, p)]
    assert held
    assert all(effect(study.fields(probe.at)) for probe in held)
    said = page.main({"RUN": "w"}, tmp_path)
    assert f"What it takes: `{key}`" in said.replace("`duel.in_flight` and ", "")
    assert "with the usual load" in said
    again = (directory / "worst-1.yml").read_text()
    assert "batch_size" in again
    assert again.count("\ndesign: ") == 1
    assert (directory / "map.png").stat().st_size > 1000


def test_the_answer_its_file_and_its_fields_are_of_one_load(tmp_path):
    """Also where the probes were better at another load than what was measured anew."""

    def effect(fields):
        return 0.1 * (fields["workload.batch_size"] >= 600) + 0.1 * (fields["workload.scale"] == 20)

    results = begin(tmp_path).parents[1]
    study = search(results / "worst/w", compared(tmp_path, effect))
    first, second = (probe for probe, _ in list(searching.confirmed(study))[:2])
    # The other finalist is the worse one by what was measured anew.
    swapped = [
        probe.model_copy(update={"values": tuple(value + 0.3 for value in probe.values)}) if probe is second else probe
        for probe in study.probes
    ]
    study = study.model_copy(update={"probes": tuple(swapped)})
    found = searching.answer(study)
    assert first.middle >= second.middle
    assert found
    assert found[0].at == second.at == next(searching.confirmed(study))[0].at
    study.write(results / "worst/w")
    missing = searching.following(study)
    assert missing is None or missing[0] in searching.without(study, second.at).values()
    said = page.main({"RUN": "w"}, results)
    assert f"worst-1.yml: {page._load(study, second.at)}".replace("_", "") in said.replace("\\", "").replace("_", "")


def test_no_field_is_named_whose_usual_value_leaves_the_effect(tmp_path):
    """A cost that is everywhere, the usual load too."""
    directory = begin(tmp_path)
    study = search(directory, compared(tmp_path, lambda _: 0.1))
    assert searching.answer(study)
    assert "What it takes" not in page.main({"RUN": "w"}, tmp_path)


def test_values_that_do_not_go_together_are_left_out(tmp_path):
    """Each alone goes: the probe is told as failed, and no run is made of it."""
    (tmp_path / "space.yml").write_text(
        "workload.interval: {values: [80s, 14h], usual: 80s}\n"
        "workload.end: {values: ['2025-06-10T13:00:00Z', '2025-06-11T00:00:00Z'], usual: '2025-06-11T00:00:00Z'}\n"
    )
    directory = beginning.begun("w", COMMON | {"SPACE": str(tmp_path / "space.yml")}, tmp_path)
    failed = [probe for probe in search(directory, compared(tmp_path, lambda _: 0.0)).probes if probe.failed]
    assert len({probe.at for probe in failed}) == 1
    assert "is shorter than one interval of 14h" in failed[0].failed
    assert not (tmp_path / failed[0].run).exists()


def test_a_difference_that_has_no_percent_is_left_out(tmp_path):
    """In the metric's own unit it cannot be held against a threshold in percent."""
    study, probe = Worst.load(begin(tmp_path)), Probe(run="p", at=(), blocks=2, why="draw")
    row = {"metric": "duel_cpu_us", "query_type": "all", "candidate": "candidate", "differences": [0.3], "p": 0.01}
    (tmp_path / "p/stats").mkdir(parents=True)
    (tmp_path / "p/stats/comparison.json").write_text(json.dumps({"rows": [row | {"native": True}]}))
    read = probes._read(study, probe, tmp_path / "p", 1.0)
    assert (read.values, read.failed.endswith("has a zero there, and no percent")) == ((), True)


def test_its_files_are_found_from_any_directory(tmp_path, monkeypatch):
    """The fields that it may change; what was found needs no other file."""
    monkeypatch.chdir(tmp_path)
    directory = beginning.begun("w", {"MINUTES": "60"}, tmp_path)
    study = Worst.load(directory)
    (tmp_path / "worst-1.yml").write_text(probes.experiment(study, study.usual, 1, directory))
    asked, fixed = (read.read({"EXPERIMENT": name}).asked for name in ("worst-1.yml", "worst"))
    assert asked.noise == fixed.noise
    assert asked.workload.scale == study.every(study.usual)["workload.scale"]


def test_nothing_is_confirmed_of_a_version_against_itself(tmp_path):
    """In twenty searches, whose best probe is always of some percent by chance."""
    for seed in range(20):
        results = tmp_path / str(seed)
        study = search(begin(results), compared(results, lambda _: 0.0, scatter=0.02 + seed / 1000))
        assert not [probe for probe, p in searching.confirmed(study) if searching.holds(study, probe, p)]
    assert "No load was found" in page.main({"RUN": "w"}, results)


def test_a_search_that_is_killed_comes_to_the_same_end(tmp_path):
    """Killed before ten of its probes: the same probes with the same values."""
    whole = search(begin(tmp_path / "a"), compared(tmp_path / "a", large_batches))
    killed = search(begin(tmp_path / "b"), compared(tmp_path / "b", large_batches, kills=range(1, 30, 3)))

    def seen(study):
        return [(probe.at, probe.why, probe.values) for probe in study.probes]

    assert seen(killed) == seen(whole)


def test_a_search_for_better_goes_the_other_way(tmp_path):
    """FOR=better: a load in which the candidate takes 20 % less."""
    study = search(begin(tmp_path, FOR="better"), compared(tmp_path, lambda f: -large_batches(f)))
    held = [probe for probe, p in searching.confirmed(study) if searching.holds(study, probe, p)]
    assert held
    assert probes.percent(study, 0.2) < 0
    assert "FOR" in Worst.load(tmp_path / "worst/w").given


def test_loads_that_fail_are_told_and_left_out(tmp_path):
    """A part of the space fails: the search goes on; all of it: a sentence."""
    study = search(begin(tmp_path / "a"), compared(tmp_path / "a", lambda f: None if f["limits.cpus"] else 0.0))
    assert any(probe.failed for probe in study.probes)
    assert "it has no CPU of a query" in page.main({"RUN": "w"}, tmp_path / "a")
    search(begin(tmp_path / "b"), compared(tmp_path / "b", lambda _: None))
    with pytest.raises(UserError, match="no load could be measured: it has no CPU of a query"):
        page.main({"RUN": "w"}, tmp_path / "b")


SLOW, LATE = "it took longer than 90 s (watchdog.block_s)", "the client does not keep this rate: 2 % began late"


@pytest.mark.parametrize("why", [SLOW, LATE])
def test_why_a_load_has_no_figure_is_said_of_it(tmp_path, why):
    """As the driver wrote it: a block that took too long, a phase whose client was late."""

    def run(environment):
        run_dir = tmp_path / environment["RUN"]
        write_run(run_dir, Spec(blocks=1, failed={1: ("candidate", "duel", SLOW)} if why == SLOW else {}))
        if why == LATE:
            (path,) = run_dir.glob("raw/*/001/block.json")
            path.write_text(
                json.dumps(json.loads(path.read_text()) | {"mixed": {"baseline": {"phases": [{"void": LATE}]}}})
            )
        return 3

    failed = search(begin(tmp_path), run).probes[0].failed
    assert failed == f"it has no CPU of a query: {why}"


def test_a_tree_that_is_edited_ends_the_search(tmp_path, capsys):
    """What two programs show is not one answer."""
    directory, imagined, made = begin(tmp_path), compared(tmp_path, large_batches), []

    def run(environment):
        made.append(environment["RUN"])
        part = plans.COMPONENT.model_copy(update={"build_key": f"{len(made) > 3:016d}", "label": f"vm@{len(made) > 3}"})
        sides = tuple(side.model_copy(update={"components": (part,)}) for side in plans.VARIANTS)
        plans.write(tmp_path / environment["RUN"], variants=sides)
        return imagined(environment)

    assert drive(probes.rule(directory), run, {}) == codes.USER
    assert (
        "w-003: the baseline is vm@True by now, and was vm@False when the search of w began" in capsys.readouterr().err
    )
    assert len(Worst.load(directory).probes) == 3


def test_an_error_that_every_probe_would_have_ends_the_search(tmp_path):
    """Such as a build that fails: its code is that of all, and no probe is counted."""
    directory = begin(tmp_path)
    assert drive(probes.rule(directory), lambda _: codes.USER, {}) == codes.USER
    assert Worst.load(directory).probes == ()


def test_a_load_that_the_machine_refuses_is_left_out(tmp_path):
    """As a limit of CPU without root: that is of the load, since a load without limits was measured."""
    imagined, limits = compared(tmp_path, large_batches), []

    def run(environment):
        limits.append('"limits.cpus=null"' not in environment["SET"] and "limits.cpus=null" not in environment["SET"])
        return codes.USER if limits[-1] else imagined(environment)

    study = search(begin(tmp_path), run)
    assert any(limits)
    assert {probe.failed.partition(",")[0] for probe in study.probes} == {"", "it was refused"}
    assert searching.answer(study)


def changed(results, run, **fields):
    """Return what stands in for the stages of a run, and changes fields of the row that it leaves."""

    def compare(environment):
        code, path = run(environment), results / environment["RUN"] / "stats/comparison.json"
        (row,) = json.loads(path.read_text())["rows"]
        path.write_text(json.dumps({"rows": [row | fields]}))
        return code

    return compare


def test_what_is_worse_with_the_usual_load_alone_is_the_answer(tmp_path):
    """No other has a half of it: one that says nothing was found, above a table that says something, is wrong."""
    directory = begin(tmp_path)
    study = Worst.load(directory)
    usual = study.every(study.usual).items()
    search(directory, compared(tmp_path, lambda f: 0.1 * all(f[name] == value for name, value in usual)))
    assert "with the usual load, and no load was found that is worse." in page.main({"RUN": "w"}, tmp_path)
    written = read.read({"EXPERIMENT": str(directory / "worst-1.yml")}).asked
    assert written.workload.scale == study.every(study.usual)["workload.scale"]


def test_the_same_difference_in_every_block_is_one(tmp_path):
    """A comparison has no p there, as with bytes on the disk."""
    run = changed(tmp_path, compared(tmp_path, large_batches, scatter=1e-12), p=None)
    assert searching.answer(search(begin(tmp_path), run))


def test_a_finalist_whose_answers_are_wrong_is_none(tmp_path):
    """It is told; where all are, nothing is said to be as the other."""
    wrong = changed(tmp_path, compared(tmp_path, large_batches), verdict="failed", warnings="a wrong answer")
    imagined = compared(tmp_path, large_batches)
    study = search(begin(tmp_path), lambda own: (imagined if "TSDUEL_STAGES" in own else wrong)(own))
    assert {probe.failed for probe in study.probes if probe.why == "confirm"} == {"a wrong answer"}
    said = page.main({"RUN": "w"}, tmp_path)
    assert "What was measured anew has no figure" in said


def test_several_hosts_have_a_block_each(tmp_path):
    """Of a probe, too."""
    study = Worst.load(begin(tmp_path, TARGET="ssh", SSH_HOST="a,b,c"))
    knobs = next(probes.rule(tmp_path / "worst/w"))
    assert (study.fewest, knobs["BLOCKS"]) == (4, "4")


def test_an_experiment_that_changes_ends_the_search(tmp_path, capsys):
    """What two loads show is not one answer."""
    (tmp_path / "own.yml").write_text("name: own\nlike: worst\n")
    directory = begin(tmp_path, EXPERIMENT=str(tmp_path / "own.yml"))
    for text, sentence in (
        ("workload: {scale: 7}\n", "has changed since the search of w began"),
        ("workload: {", "own.yml"),
    ):
        (tmp_path / "own.yml").write_text(f"name: own\nlike: worst\n{text}")
        assert drive(probes.rule(directory), lambda _: 0, {}) == codes.USER
        assert sentence in capsys.readouterr().err
    assert Worst.load(directory).probes == ()
    with pytest.raises(UserError, match="EXPERIMENT would change what is searched"):
        begin(tmp_path, EXPERIMENT="experiments/rates.yml")


@pytest.mark.parametrize(("after", "reported"), [(3, False), (40, True)], ids=["too early", "with probes"])
def test_a_search_that_a_full_disk_ends_says_what_it_has(tmp_path, monkeypatch, after, reported):
    """Its exit code stays that of what has ended it."""
    imagined, made, staged = compared(tmp_path, large_batches), [], []
    begin(tmp_path)

    def run(environment):
        made.append(environment["RUN"])
        return codes.USER if len(made) > after else imagined(environment)

    monkeypatch.setattr(pipeline, "compare", run)
    monkeypatch.setattr(pipeline, "_stage", lambda name, _: staged.append(name) or 0)
    monkeypatch.setattr(results, "home", lambda: tmp_path)
    monkeypatch.setattr(os, "environ", {"RUN": "w"})
    assert pipeline.worst() == codes.USER
    assert staged == ["worst-of"] * reported
    assert not any(probe.failed for probe in Worst.load(tmp_path / "worst/w").probes)  # they are tried again


def test_every_value_of_the_given_space_goes_with_the_given_experiment():
    """So that a search without SPACE and EXPERIMENT begins."""
    space = beginning.read_space(Path(beginning.SPACE), {"EXPERIMENT": beginning.EXPERIMENT, "BASELINE": "v1.132.0"})
    assert {"workload.scale", "queries.types", "limits.cpus"} < set(space)


@pytest.mark.parametrize(("metric", "words"), [("ingestion", "duel.batches=true"), ("cpu", None)])
def test_batches_go_to_both_in_turn_only_for_a_metric_of_ingestion(tmp_path, metric, words):
    """They take a half of a block's time."""
    assert Worst.load(begin(tmp_path, METRIC=metric)).knobs.get("SET") == words


def test_the_time_bounds_the_search(tmp_path):
    """With little time there are few probes, and what was found is still measured anew."""
    directory = begin(tmp_path, MINUTES="3")
    study = Worst.load(directory)
    slow = [Probe(run="x", at=at, blocks=2, why="draw", values=(0.0,), seconds=60) for at in searching.drawn(study)[:3]]
    study = study.model_copy(update={"probes": tuple(slow)})
    assert len(searching.drawn(study)) == searching.FEWEST
    assert searching.blocks_anew(study) == searching.FEWEST_CONFIRM
    roomy = study.model_copy(update={"minutes": 60})
    assert searching.FEWEST_CONFIRM < searching.blocks_anew(roomy) <= searching.CONFIRM_BLOCKS


def test_a_block_that_chooses_has_a_share_of_the_time_and_one_that_confirms_as_long_as_it_takes(tmp_path):
    """So that one load of the space cannot take the time of all others; what is confirmed was within it before."""
    asked, imagined = [], compared(tmp_path, large_batches)

    def run(environment):
        asked.append(dict(word.partition("=")[::2] for word in shlex.split(environment["SET"])))
        return imagined(environment)

    study = search(begin(tmp_path), run)
    for probe, words in zip(study.probes, asked, strict=True):
        longest = None if probe.why == "confirm" else "360" if probe.at == study.usual else "90"
        assert words.get("watchdog.block_s") == longest
        assert ("design.max_failed_blocks" in words) == (longest is not None)


def test_a_block_may_take_twice_as_long_as_one_of_the_usual_load(tmp_path):
    """On a machine on which that takes long; what it built before does not count."""
    study = Worst.load(begin(tmp_path))
    usual = Probe(run="x", at=study.usual, blocks=2, why="draw", values=(0.0,), seconds=900, block_s=100)
    study = study.model_copy(update={"probes": (usual,)})
    assert probes.longest_block(study, searching.drawn(study)[1]) == 200


@pytest.mark.parametrize(
    ("space", "knobs", "sentence"),
    [
        ("workload.scale: {values: [], usual: 1}", {}, "workload.scale: values: the list is empty"),
        ("workload.scal: {values: [1], usual: 1}", {}, "workload.scal: 1 does not go: "),
        ("workload.scale: {values: [0], usual: 100}", {}, "workload.scale: 0 does not go: "),
        ("workload.scale: [1, 2]", {}, "needs `values:`, a list, and `usual:`, one value"),
        ("workload.scale: {value: [1], usual: 1}", {}, "unknown key value; "),
        (SPACE, {"MINUTES": "1"}, "MINUTES: '1' is no number from 2.5 (five probes) to a week"),
        (SPACE, {"MINUTES": "x"}, "MINUTES: 'x' is no number"),
        (SPACE, {"FOR": "worst"}, "FOR: 'worst' is neither worse nor better"),
        (SPACE, {"METRIC": "speed"}, "METRIC: 'speed' is nothing that gets better or worse"),
        (SPACE, {"SEED": "0"}, "SEED: '0' is no whole number from 1 to 9999"),
        (SPACE, {"BLOCKS": "2"}, "BLOCKS: 7 to 99; so many blocks confirm"),
        (SPACE, {"BLOCKS": "120"}, "BLOCKS: 7 to 99"),
        (SPACE, {"BLOCKS": "²"}, "BLOCKS: 7 to 99"),
        (SPACE, {"TSBS_SCALE": "400"}, "workload.scale: the search sets it, so TSBS_SCALE would have no effect"),
        (SPACE, {"TARGET": "gcp"}, "TARGET=gcp: a search rents nothing: each probe would rent a machine, and MAX_COST"),
        ("gcp.machine: {values: [n2-standard-8], usual: e2-standard-8}", {}, "gcp.machine: a search rents nothing: "),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_starts(tmp_path, space, knobs, sentence):
    """In a sentence with the field."""
    (tmp_path / "space.yml").write_text(space)
    with pytest.raises(UserError) as error:
        beginning.begun("w", COMMON | {"SPACE": str(tmp_path / "space.yml")} | knobs, tmp_path)
    assert sentence in str(error.value)
    shutil.rmtree(tmp_path)


def test_what_was_found_is_measured_on_types_of_machines_by_its_experiment(tmp_path):
    """As the refusal says: worst-1.yml with types of machines as its matrix, each with the load that was found."""
    directory = begin(tmp_path)
    study = search(directory, compared(tmp_path, large_batches))
    page.main({"RUN": "w"}, tmp_path)
    knobs = {"EXPERIMENT": str(directory / "worst-1.yml"), "SET": "matrix.gcp.machine=[e2-standard-8,n2-standard-8]"}
    found = read.read(knobs).settings
    assert [one.asked.gcp.machine for one in found] == ["e2-standard-8", "n2-standard-8"]
    size = study.every(searching.answer(study)[0].at)["workload.batch_size"]
    assert {one.asked.workload.batch_size for one in found} == {size}


def test_what_was_found_is_repeated_with_its_own_versions(tmp_path):
    """Those of the knobs, not of the experiment; a time is one as YAML has it."""
    space = "workload.end: {values: [2025-06-10T13:00:00Z], usual: 2025-06-10T14:00:00Z}"
    (tmp_path / "times.yml").write_text(space)
    knobs = {"BASELINE": "v1.130.0", "CANDIDATE": "git:/src/vm@mine", "SPACE": str(tmp_path / "times.yml")}
    directory = beginning.begun("w", COMMON | knobs | {"SET": "workload.workers=3"}, tmp_path)
    study = Worst.load(directory)
    (tmp_path / "again.yml").write_text(probes.experiment(study, (1,), 1, tmp_path))
    asked = read.read({"EXPERIMENT": str(tmp_path / "again.yml")}).asked
    refs = [side.parts[0].ref for side in asked.variants.values()]
    assert (refs, asked.variants["candidate"].parts[0].repo) == (["v1.130.0", "mine"], "/src/vm")
    assert (asked.workload.workers, asked.workload.end[11:16]) == (3, "13:00")


def test_another_question_is_refused(tmp_path):
    """RUN= goes on with what was asked."""
    begin(tmp_path)
    with pytest.raises(UserError, match="METRIC would change what is searched"):
        begin(tmp_path, METRIC="time")
