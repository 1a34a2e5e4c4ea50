"""Bisection: the line of revisions, what is followed, from step to step, and the refusals."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from gitrepo import Repository
from reports import compared

from plots import bisection as page
from plots import history
from tsduel.bisect import bisection, posterior, steps
from tsduel.bisect.bisection import Bisection, Step
from tsduel.bisect.metric import followed
from tsduel.bisect.revisions import Line, Revision
from tsduel.build.built import AT_FAULT
from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.plan import sources
from tsduel.question import read as question
from tsduel.stats.estimate import signed_rank_p
from tsduel.targets import databases

LIMIT = math.log1p(0.02)
PROGRAM = databases()["victoriametrics"].programs["server"]
WORSE, SAME = [0.049, 0.051, 0.05, 0.052, 0.048, 0.05], [0.001, -0.001, 0.002, 0.0, -0.002, 0.001]


# The line of revisions


def test_a_subject_may_have_any_letter(repository):
    """Also those that Python takes for ends of lines, and ours between fields."""
    repository.git("checkout", "--quiet", "main")
    repository.write("a", "3\n")
    repository.commit_all(odd := "one\u2028two\x1fthree\rfour")
    assert line(repository).between(repository.shas["good"], "main")[-1].subject == odd


def test_an_experiment_is_found_by_its_name():
    """As by every other command."""
    assert bisection.kind_of({"EXPERIMENT": "quick"}, {}) == ("tsbs", "quick")


@pytest.fixture
def repository(tmp_path):
    """Make a repository: good, one, a merge of two commits, last; and a commit beside it."""
    made = Repository(tmp_path / "repository")
    made.shas = {"good": made.commit("a", "1\n")}
    made.git("checkout", "--quiet", "-b", "side")
    made.shas["side"] = made.commit("b", "1\n")
    made.shas["side2"] = made.commit("b", "2\n")
    made.git("checkout", "--quiet", "main")
    made.shas["one"] = made.commit("c", "1\n")
    made.git("merge", "--quiet", "--no-ff", "-m", "merge side", "side")
    made.shas["merge"] = made.git("rev-parse", "HEAD")
    made.shas["last"] = made.commit("d", "1\n")
    made.git("checkout", "--quiet", "-b", "beside", made.shas["good"])
    made.shas["beside"] = made.commit("e", "1\n")
    return made


def line(repository):
    """Return the line of a repository."""
    return Line(PROGRAM, str(repository.path))


def test_a_merge_is_one_revision_and_how_to_search_it_is_said(repository):
    """First parents only, oldest first, with their subjects."""
    shas = repository.shas
    found = line(repository).between(shas["good"], "main")
    assert [one.ref for one in found] == [shas[name] for name in ("good", "one", "merge", "last")]
    assert [one.subject for one in found] == ["a", "c", "merge side", "d"]
    assert found[2].merged == shas["side2"]
    said = line(repository).inside(found[2], found[1])
    assert said.startswith("It is a merge of 2 commits.")
    assert said.endswith(f"GOOD=git:{repository.path}@{shas['good']} BAD={shas['side2']}")
    assert line(repository).inside(found[1], found[0]) == ""
    assert "d" in line(repository).log(found[3])


@pytest.mark.parametrize(
    ("good", "bad", "sentence"),
    [
        ("main", "main", "GOOD and BAD are the same revision"),
        ("beside", "main", "GOOD=beside is no ancestor of BAD=main.*take that as GOOD"),
        ("main", "good", "is no ancestor of BAD"),
        ("side", "main", "GOOD=side is not among the first parents of BAD=main"),
        ("no-such", "main", "variant GOOD: 'no-such' does not resolve"),
    ],
)
def test_what_is_no_line_of_commits_is_refused(repository, good, bad, sentence):
    """The sentence names a commit that is possible."""
    with pytest.raises(UserError, match=sentence):
        line(repository).between(
            repository.shas.get(good, good) if bad == "good" else good, repository.shas.get(bad, bad)
        )


@pytest.fixture
def proxy(tmp_path, monkeypatch):
    """Answer for the module proxy: four versions, one of them only a candidate for a release."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/CHANGELOG.md").write_text("# Log\n## [v1.2.0](x)\nfaster\n### more\nyes\n## [v1.1.0](x)\nfirst\n")
    listed = ["v1.1.0", "v1.2.0-rc1", "v1.2.0", "v1.12.0"]

    def with_go(_minimum, _toolchain, *command, cwd):  # noqa: ARG001 - as sources.with_go
        answer = {"Versions": listed}
        if command[1] == "mod":
            version = command[-1].rpartition("@")[2]
            answer = {"Version": version, "Sum": f"h1:{version}", "Dir": str(tmp_path)}
        return type("Done", (), {"returncode": 0, "stdout": json.dumps(answer), "stderr": ""})

    monkeypatch.setattr(sources, "with_go", with_go)


GONE = "reading http://p/@v/v1.2.0.info: 403 Forbidden\n\tserver response: This module version is not available."
SILENT = 'Get "http://127.0.0.1:1/x/@v/v1.2.0.info": dial tcp 127.0.0.1:1: connect: connection refused'
"""As Go 1.26 has said it of a version that a proxy does not have, and of a proxy that is not there."""


@pytest.mark.parametrize(("said", "skipped"), [
    (GONE, True), (SILENT, False), ("reading https://proxy/v2.info: 502 Bad Gateway\n\tserver response: sorry", False),
    ("write /cache/x: no space left on device", False), ("invalid version: unknown revision v1.2.0", True),
])  # fmt: skip
@pytest.mark.usefixtures("proxy")
def test_a_network_that_fails_blames_no_revision(tmp_path, monkeypatch, said, skipped):
    """Only where Go says that there is no such version is it left out."""
    search, answered = steps.opened({"GOOD": "v1.1.0", "BAD": "v1.12.0", "RUN": "s"}, tmp_path), sources.with_go
    lacking = type("Done", (), {"returncode": 1, "stdout": json.dumps({"Error": said}), "stderr": ""})
    monkeypatch.setattr(
        sources, "with_go", lambda *words, cwd: lacking if words[-1].endswith("@v1.2.0") else answered(*words, cwd=cwd)
    )
    sources._found.cache_clear()
    step = search.steps[0].model_copy(update={"at": 1})
    if skipped:
        assert "'v1.2.0' does not resolve" in steps._refused(search, step)
    else:
        with pytest.raises(sources.NoAnswerError, match="does not resolve"):
            steps._refused(search, step)


@pytest.mark.usefixtures("proxy")
def test_released_versions_and_their_log():
    """In the proxy's order, without candidates for a release; the changelog's own section is the log entry."""
    modules = Line(PROGRAM)
    found = modules.between("v1.1.0", "v1.12.0")
    assert [one.ref for one in found] == ["v1.1.0", "v1.2.0", "v1.12.0"]
    assert modules.log(found[1]) == "## [v1.2.0](x)\nfaster\n### more\nyes"
    assert modules.log(found[2]) == ""
    assert [one.ref for one in modules.between("v1.1.0", "v1.2.0-rc1")] == ["v1.1.0", "v1.2.0-rc1"]
    with pytest.raises(UserError, match=r"GOOD=v1.2.0 is a later version than BAD=v1.1.0"):
        modules.between("v1.2.0", "v1.1.0")
    with pytest.raises(
        UserError, match=r"BAD: v9.9.9 is not among the 4 versions .* lists; commits .*GOOD=git:REPO@REF"
    ):
        modules.between("v1.1.0", "v9.9.9")
    named = replace(modules, listed=("v1.1.0", "v1.12.0"))
    assert [one.ref for one in named.between("v1.1.0", "v1.12.0")] == ["v1.1.0", "v1.12.0"]
    with pytest.raises(UserError, match=r"GOOD: v1.2.0 is not among the 2 versions .* that VERSIONS names"):
        named.between("v1.2.0", "v1.12.0")


def test_a_proxy_that_lists_nothing_is_told(monkeypatch):
    """Some proxies give versions and no list of them; the sentence says what to do."""
    refused = type("Done", (), {"returncode": 1, "stdout": "", "stderr": "go: 403 Forbidden"})
    monkeypatch.setattr(sources, "with_go", lambda *_, **__: refused)
    with pytest.raises(
        UserError, match=r"lists no versions of .* \(go: 403 Forbidden\); name them yourself: VERSIONS="
    ):
        Line(PROGRAM)._released()


# What is asked


def test_what_is_followed():
    """Short words, names of the table, a type where there are types."""
    cpu = followed("tsbs", {})
    assert (cpu.metric, cpu.query_type, cpu.threshold_pct) == ("duel_cpu_us", "all", 2.0)
    one = followed("tsbs", {"METRIC": "time", "TYPE": "cpu-max-all-8", "THRESHOLD": "5"})
    assert (one.metric, one.query_type, one.threshold_pct) == ("duel_typical_ms", "cpu-max-all-8", 5.0)
    assert followed("tsbs", {"METRIC": "load"}).higher_is_better
    turned = [followed("tsbs", {"METRIC": word}, in_turn=True).metric for word in ("load", "load-cpu", "load_rate")]
    assert turned == ["duel_load_typical_ms", "duel_load_cpu_us", "load_rate"]
    agent = followed("tsbs", {"METRIC": "duel_load_role_cpu_us", "ROLE": "vmagent"})
    assert (agent.query_type, agent.name) == ("vmagent", "CPU of an ingested sample, vmagent")
    work = followed("tsbs", {"METRIC": "objects"})
    assert (work.metric, work.query_type, work.threshold_pct) == ("duel_objects", "all", 1.0)
    assert followed("gobench", {"METRIC": "allocs", "TYPE": "Work/alloc"}).metric == "allocs/op"
    for knobs, sentence in (
        ({"METRIC": "speed"}, "METRIC: 'speed' is nothing that gets better or worse; give cpu, time"),
        ({"METRIC": "query_count"}, "is nothing that gets better or worse"),
        ({"METRIC": "load", "TYPE": "x"}, "TYPE: load_rate is not measured by query type"),
        ({"METRIC": "duel_p99_ms"}, "METRIC: duel_p99_ms is measured by type; say which one"),
        ({"METRIC": "duel_role_cpu_us"}, "METRIC: duel_role_cpu_us is measured by component; say whose with ROLE="),
        ({"THRESHOLD": "much"}, "THRESHOLD: 'much' is no number"),
    ):
        with pytest.raises(UserError, match=sentence):
            followed("tsbs", knobs)


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({}, "GOOD is missing: make bisect GOOD=v1.131.0 BAD=v1.135.0"),
        ({"GOOD": "a", "BAD": "b", "BASELINE": "c"}, "BASELINE: has no use in a bisection"),
        ({"GOOD": "a", "BAD": "b", "AA": "1"}, "AA: has no use in a bisection"),
        ({"GOOD": "path:.", "BAD": "b"}, "GOOD: a path has no revisions before it"),
        ({"GOOD": "git:a", "BAD": "b"}, "GOOD: 'git:a' names no revision; write git:REPO@REF"),
        ({"GOOD": "git:a@b", "BAD": "git:c@d"}, "GOOD and BAD are of different repositories"),
        ({"GOOD": "a", "BAD": "b", "TARGET": "gcp"}, "every step would rent a machine of its own"),
        ({"GOOD": "a", "BAD": "b", "BLOCKS": "2"}, "BLOCKS: the first duel needs 6 to 99"),
        ({"GOOD": "a", "BAD": "b", "BLOCKS": "²"}, "BLOCKS: the first duel needs 6 to 99"),
        ({"GOOD": "a", "BAD": "b", "BLOCKS": "1000"}, "BLOCKS: the first duel needs 6 to 99"),
        ({"GOOD": "a", "BAD": "b", "KIND": "x"}, "KIND: 'x' is not known"),
        ({"GOOD": "a", "BAD": "b", "TYPE": "a, b"}, "TYPE: unknown query type 'a, b'; allowed: single-groupby-1-1-1"),
        ({"GOOD": "a", "BAD": "b", "TYPE": "cpu-max-all-32-24"}, "queries.types: cpu-max-all-32-24 reads 24 h"),
        (
            {"GOOD": "a", "BAD": "b", "EXPERIMENT": "experiments/own-dashboard.yml", "TYPE": "cpu-max-all-8"},
            "TYPE: unknown query 'cpu-max-all-8'; allowed: mix, busy-cpu, one-host",
        ),
        ({"GOOD": "a", "BAD": "b", "ROLE": "vmauth"}, "ROLE: has no effect: no variant of this experiment is a list"),
        ({"GOOD": "a", "BAD": "b", "EXPERIMENT": "experiments/scaling.yml"}, "scaling.yml is a sweep, and one setting"),
    ],
)
def test_what_is_no_question_is_refused(knobs, sentence):
    """Before anything is resolved."""
    with pytest.raises(UserError, match=sentence):
        bisection.begun("name", knobs)


def test_several_versions_in_one_run():
    """VERSIONS gives every side the flags of the baseline; nothing else names one."""
    asked = question.read({"EXPERIMENT": "experiments/smoke.yml", "VERSIONS": "v1.1.0 git:/r@main v1.1.0"}).asked
    sides = {name: (one.source, one.ref, one.repo) for name, one in asked.variants.items()}
    assert sides == {
        "baseline": ("module", "v1.1.0", ""),
        "candidate": ("git", "main", "/r"),
        "candidate-2": ("module", "v1.1.0", ""),
    }
    for knobs, sentence in (
        ({"VERSIONS": "v1"}, "VERSIONS is not two versions or more"),
        ({"VERSIONS": "v1 v2", "CANDIDATE": "v3"}, "VERSIONS: names every side, so CANDIDATE would have no effect"),
        ({"VERSIONS": "v1 'v2"}, "VERSIONS: No closing quotation"),
    ):
        with pytest.raises(UserError, match=sentence):
            question.read({"EXPERIMENT": "experiments/smoke.yml", **knobs})


AGENTS, PROXY = "experiments/museum/vm-11250.yml", "experiments/proxy-overhead.yml"


def parts(variant):
    """Return its components: role, revision, flags."""
    return {part.role: (part.ref, part.flags) for part in variant.parts}


def test_the_component_in_which_the_sides_differ_is_the_one_that_is_given_revisions():
    """Or the one that ROLE says; all else is the baseline's, or that of the first variant that has such a component."""
    flags = ("-remoteWrite.urlRelabelConfig=relabel.yml",)
    agents = question.read({"EXPERIMENT": AGENTS, "VERSIONS": "v1 v2 v1"}).asked.variants
    assert [parts(agents[name]) for name in agents] == [
        {"server": ("v1.133.0", ()), "vmagent": (ref, flags)} for ref in ("v1", "v2", "v1")
    ]
    one = question.read({"EXPERIMENT": AGENTS, "CANDIDATE": "git:/r@main"}).asked.variants
    assert [parts(of)["vmagent"][0] for of in one.values()] == ["v1.147.0", "main"]
    both = question.read({"EXPERIMENT": AGENTS, "BASELINE": "v1.148.0", "CANDIDATE": "v1.147.0"}).asked.variants
    assert [parts(of)["vmagent"][0] for of in both.values()] == ["v1.148.0", "v1.147.0"]
    for role, wanted in (("vmauth", ["server", "vmauth"]), ("server", ["server"])):
        proxied = question.read({"EXPERIMENT": PROXY, "VERSIONS": "v1 v2", "ROLE": role}).asked.variants
        assert [sorted(parts(of)) for of in proxied.values()] == [wanted] * 2
        assert [parts(of)[role][0] for of in proxied.values()] == ["v1", "v2"]
    plain = question.read({"EXPERIMENT": PROXY, "BASELINE": "v1"}).asked.variants  # it is of one component
    assert [parts(of)["server"][0] for of in plain.values()] == ["v1", "v1.133.0"]


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"VERSIONS": "v1 v2"}, "ROLE is missing: .* say whose revision is given, ROLE=server or ROLE=vmauth"),
        ({"CANDIDATE": "v1"}, "ROLE is missing: .* ROLE=server or ROLE=vmauth"),
        ({"VERSIONS": "v1 v2", "ROLE": "vmagent"}, "ROLE: no variant .* 'vmagent'; allowed: server, vmauth"),
        ({"BASELINE": "v1", "ROLE": "vmauth"}, "BASELINE: the experiment's baseline has no component 'vmauth'"),
        ({"ROLE": "vmauth"}, "ROLE: has no effect: it says whose revision BASELINE, CANDIDATE or VERSIONS is"),
    ],
)
def test_whose_revision_it_is_has_to_be_clear(knobs, sentence):
    """One sentence, with the roles that there are."""
    with pytest.raises(UserError, match=sentence):
        question.read({"EXPERIMENT": PROXY, **knobs})


# From step to step


@pytest.fixture
def search(tmp_path, repository, monkeypatch, capsys):
    """Return a begun search of the repository's four commits, with results of its own."""
    monkeypatch.setenv("TSDUEL_CACHE", str(tmp_path / "cache"))
    shas = repository.shas
    given = {"GOOD": f"git:{repository.path}@{shas['good']}", "BAD": shas["last"], "RUN": "s", "SET": "host.port=18400"}
    return Search(tmp_path / "results", given, capsys)


class Search:
    """`make bisect` without make: the knobs of each step, and the results that a step leaves."""

    def __init__(self, results, given, capsys):
        self.results, self.given, self.capsys = results, given, capsys

    def step(self, code=""):
        """Return the words of the next step, by name; empty where it is over."""
        knobs = steps.following(self.given, self.results, code)
        self.capsys.readouterr()
        return {"kind": knobs.pop("KIND")} | knobs if knobs else {}

    def finish(self, bad=(), values=WORSE, code="0", **row):
        """Go to the end, where the revisions `bad` have these values and others are as GOOD; return what was asked."""
        asked = []
        while step := self.step(code):
            asked.append(step["VERSIONS"].rpartition("@")[2])
            self.show(step["RUN"], values[:2] if asked[-1] in bad else SAME[:2], **row)
        return asked

    @property
    def begun(self):
        """The bisection as it is kept."""
        return Bisection.load(self.results / "bisect/s")

    def show(self, run, values, *others, **row):
        """Leave what a comparison says of a run; ``others``: fields of further rows."""
        first = {"candidate": steps.SIDE, "metric": "duel_cpu_us", "query_type": "all", "verdict": "shown",
                 "warnings": "", "differences": list(values), "native": None, "unit": "us", "baseline_median": 1,
                 "candidate_median": 1, **row}  # fmt: skip
        path = self.results / run / "stats/comparison.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"rows": [first, *(first | other for other in others)]}))


def test_a_search_to_its_end(search, repository):
    """GOOD against BAD, then revisions between with few blocks; a killed step is the same step again."""
    shas, place = repository.shas, f"git:{repository.path}@"
    first = search.step()
    assert first == {
        "kind": "tsbs", "RUN": "s-00", "BLOCKS": "6", "EXPERIMENT": "experiments/bisect.yml",
        "SET": "host.port=18400 design.thresholds.duel_cpu_us=2",
        "VERSIONS": f"{place}{shas['good']} {place}{shas['last']}",
    }  # fmt: skip
    assert search.step() == first  # killed
    search.show("s-00", WORSE)
    second = search.step("0")
    assert (second["RUN"], second["BLOCKS"]) == ("s-01", "2")
    assert second["VERSIONS"].split()[0] == place + shas["good"]
    assert set(search.finish({shas["merge"], shas["last"]})) == {shas["one"], shas["merge"]}
    text = page.main({"RUN": "s"}, search.results)
    assert f"**First bad: `{shas['merge'][:12]}` merge side**" in text
    assert "It is a merge of 2 commits" in text
    assert f"'VERSIONS={place}{shas['one']} {place}{shas['merge']}'" in text
    shown = re.findall(r"\| +(good|[\d.]+ %) +\|", text)
    assert [shown[0], shown[2]] == ["good", "99.9 %"]
    assert all(float(chance.split()[0]) < 1 for chance in (shown[1], shown[3]))
    assert {path.name for path in (search.results / "bisect/s").iterdir()} == {
        *("bisect.json", "report.md", "revisions.csv", "course.svg", "course.png", "lock"),
    }


@pytest.mark.parametrize("step", ["s-00", "s-01"])
def test_a_step_that_somebody_looked_at_goes_on(search, step):
    """Its report was of the blocks so far, which were too few to begin with."""
    asked = search.step()
    if step == "s-01":
        search.show("s-00", WORSE)
        asked = search.step("0")
    search.show(step, WORSE[:1])
    tidy = search.results / step / "tidy"
    tidy.mkdir()
    (tidy / "blocks.csv").write_text("block,host,cause\n1,host1,\n2,host1,missing\n")
    assert search.step() == asked
    assert [one.run for one in search.begun.steps][-1] == step
    (tidy / "blocks.csv").write_text("block,host,cause\n1,host1,\n2,host1,\n")
    search.show(step, WORSE)
    assert search.step().get("RUN") != step


ONE_SIDED = {"verdict": "not comparable", "baseline_median": None}


@pytest.mark.parametrize(
    ("bad", "row", "sentence"),
    [
        (SAME, {}, "BAD is neither worse nor better: .* CPU of a query, lower is better, and 2 % is asked"),
        ([-0.2, 0.1, -0.15, 0.05, -0.1, -0.1], {}, r"whether BAD is better is open: .* -\d"),
        ([0.012, 0.013, 0.011, 0.012, 0.013, 0.011], {}, "BAD is not bad: .* real, but below THRESHOLD=2"),
        ([0.2, -0.1, 0.15, -0.05, 0.1, 0.1], {}, r"whether BAD is bad is open: .*\(BLOCKS=12\)"),
        (WORSE[:2], {}, "only 2 blocks of s-00 count"),
        ([], ONE_SIDED, "only it, and not GOOD, has CPU of a query; there is nothing to search by"),
        ([], {"metric": "other"}, "neither side has CPU of a query"),
    ],
)
def test_bad_ends_are_told_before_anything_is_built_between(search, bad, row, sentence):
    """After the first duel, and again whenever it is asked."""
    search.step()
    search.show("s-00", bad, **row)
    for code in ("0", ""):
        with pytest.raises(UserError, match=sentence):
            search.step(code)
    assert [path.name for path in search.results.glob("s-*")] == ["s-00"]


def test_a_commit_that_does_not_build_is_stepped_around(search):
    """It is named in the answer; a run that ended for another reason is reported, and made again."""
    search.step()
    search.show("s-00", WORSE)
    broken = search.step("0")
    with pytest.raises(
        UserError, match="s-01 did not get to its end, see above; once that is mended: make bisect RUN=s"
    ):
        search.step("2")
    run = search.results / "s-01"
    for name in ("plan/experiment.json", "build/baseline.json", "build/candidate.log"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("{}")
    (run / "build/candidate.log").write_text(f"syntax error\n{AT_FAULT}\n")
    shas = {revision.ref for revision in search.begun.revisions}
    assert broken["VERSIONS"].rpartition("@")[2] not in search.finish(shas, code="2")
    assert list(search.begun.skipped.values()) == [f"it does not build: see {run}/build/candidate.log"]
    text = page.main({"RUN": "s"}, search.results)
    assert "it does not build" in text


@pytest.mark.parametrize("home", ["build", "host/host1/build"])
def test_ends_that_do_not_build_are_told_by_name(search, repository, home):
    """The sentence names the side and its log, here or copied from a machine of a fleet."""
    search.step()
    run = search.results / "s-00"
    for name in ("plan/experiment.json", f"{home}/baseline.log"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(AT_FAULT)
    good = repository.shas["good"][:12]
    with pytest.raises(
        UserError, match=f"GOOD={good} does not build: see {run}/{home}/baseline.log; give another GOOD"
    ):
        search.step("2")
    for name in ("baseline.json", "candidate.log"):
        (run / home / name).write_text(AT_FAULT)
    with pytest.raises(UserError, match=r"BAD=.*: it does not build: see .*/candidate.log; .* give another BAD"):
        search.step("2")


def test_a_zero_makes_no_other_unit_of_the_steps_between():
    """Two allocations, one, none: the ends differ in allocations, and so do those between; or all in log ratios."""
    one = {"differences": [math.log(0.5)], "native": None, "baseline_pseudomedian": 2.0}
    none = {"differences": [-2.0], "native": {"difference": -2.0}, "baseline_pseudomedian": 2.0}
    assert steps._alike(one, native=True) == pytest.approx([-1.0])
    assert steps._alike(none, native=True) == [-2.0]
    assert steps._alike(one, native=False) == one["differences"]
    assert steps._alike(none, native=False) == pytest.approx([math.log(1e-3)])
    assert steps._alike(none | {"baseline_pseudomedian": 0.0}, native=False) == pytest.approx([math.log(1e-3)])


def test_neighbours_are_a_range(search, repository):
    """BAD is the first bad revision as soon as it is bad: one duel is enough."""
    search.given["BAD"] = repository.shas["one"]
    search.step()
    search.show("s-00", WORSE)
    assert search.step("0") == {}
    assert f"**First bad: `{repository.shas['one'][:12]}` c**, with 99.9 %" in page.main({"RUN": "s"}, search.results)


def test_ingestion_is_followed_in_turn(search):
    """METRIC=load turns it on, also in the command of the report; an experiment or SET can turn it off."""
    begun = search.given = search.given | {"METRIC": "load"}
    step = search.step()
    assert step["SET"] == "host.port=18400 duel.batches=true design.thresholds.duel_load_typical_ms=3"
    assert search.step() == step  # the same words as before
    search.show("s-00", WORSE, metric="duel_load_typical_ms", query_type="")
    search.finish(metric="duel_load_typical_ms", query_type="")
    text = page.main({"RUN": "s"}, search.results)
    assert "# Since when? Ingestion time of a batch," in text
    assert "'SET=host.port=18400 duel.batches=true'" in text
    for given, metric in (
        ({"RUN": "t", "SET": "duel.batches=false"}, "load_rate=3"),
        ({"RUN": "u", "EXPERIMENT": "experiments/prometheus.yml"}, "load_rate=3"),
        ({"RUN": "v", "EXPERIMENT": "experiments/local.yml"}, "duel_load_typical_ms=3"),
    ):
        search.given = begun | given
        assert search.step()["SET"].split()[-1] == f"design.thresholds.{metric}"


def test_the_users_own_queries_are_followed_by_their_names(search):
    """All are asked, as in any run: TYPE says which row of the report is followed."""
    search.given |= {"EXPERIMENT": "experiments/own-dashboard.yml", "METRIC": "time", "TYPE": "mix"}
    assert search.step()["SET"] == "host.port=18400 design.thresholds.duel_typical_ms=2"
    followed_by = search.begun.followed
    assert (followed_by.metric, followed_by.query_type) == ("duel_typical_ms", "mix")


def test_the_revisions_of_a_component_are_searched(search):
    """Every step names the component; its program makes the line, and the report names its build."""
    search.given |= {"EXPERIMENT": AGENTS, "METRIC": "load-cpu"}
    step = search.step()
    assert (step["ROLE"], step["SET"].split()[-1]) == ("vmagent", "design.thresholds.duel_load_cpu_us=3")
    assert search.begun.line().program.name == "vmagent"
    search.given["ROLE"] = "vmagent"
    assert search.step() == step
    search.show("s-00", WORSE, metric="duel_load_cpu_us", query_type="")
    search.finish(metric="duel_load_cpu_us", query_type="")
    build = search.results / "s-00/build"
    build.mkdir()
    built = [{"role": role, "binary": str(build / role)} for role in ("server", "vmagent")]
    for part in built:
        (build / part["role"]).touch()
    (build / "candidate.json").write_text(json.dumps({"components": built}))
    text = page.main({"RUN": "s"}, search.results)
    assert f": `{build}/vmagent`" in text
    assert " ROLE=vmagent " in text


def test_a_bisection_that_is_not_there_is_told_with_those_that_are(search):
    """A wrong RUN begins no new bisection; a file of another version is refused in a sentence."""
    search.step()
    with pytest.raises(UserError, match="bisect/t: no such bisection; there are: s; a new one is begun by make bisect"):
        steps.following({"RUN": "t"}, search.results)
    path = search.results / "bisect/s/bisect.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(UserError, match=r"bisect.json: no bisection as this version of tsduel has them \(Input"):
        search.step()


def test_what_grew_from_zero_is_searched(search):
    """A threshold of GOOD's zero is zero: halfway to BAD parts good from bad."""
    search.step()
    zero = {"native": {"limit": 0.0}, "unit": "allocs", "baseline_pseudomedian": 0.0}
    search.show("s-00", [2.0] * 6, **zero)
    shas = search.begun.revisions
    search.finish({shas[-1].ref, shas[-2].ref}, values=[2.0] * 2, **zero)
    measured = steps.read(search.begun, search.results)
    assert measured.limit == 1.0
    assert posterior.answer(steps.think(search.begun, measured), set()).steps == ((2, 2),)


def test_several_hosts_have_a_block_each(search):
    """Also in the steps that need two alone."""
    search.given |= {"TARGET": "ssh", "SSH_HOST": "a,b,c"}
    search.step()
    search.show("s-00", WORSE)
    assert search.step("0")["BLOCKS"] == "4"


def test_an_experiment_that_changes_ends_the_search(search, tmp_path):
    """Steps of two loads are not one answer; what is known can be read."""
    own = tmp_path / "own.yml"
    own.write_text("name: own\nlike: bisect\n")
    search.given["EXPERIMENT"] = str(own)
    search.step()
    search.show("s-00", WORSE)
    own.write_text("name: own\nlike: bisect\nworkload: {scale: 7}\n")
    with pytest.raises(UserError, match=r"own.yml: its file has changed since the search of s began"):
        search.step("0")


def test_a_search_keeps_its_question(search):
    """Another METRIC is another search."""
    search.step()
    search.given["METRIC"] = "time"
    with pytest.raises(UserError, match=r"METRIC would change what is searched; start a new one, without RUN="):
        search.step()


def test_a_history_is_a_line_and_a_point_for_each_version(tmp_path, capsys):
    """From one run of several candidates, in the order of its variants; a missing metric is refused."""
    run = compared(tmp_path, variants=("baseline", "candidate", "third"), factors={"third": {"query_cpu": 1.1}})
    history.main(run, {"METRIC": "cpu"})
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [line.split()[1] for line in lines[2:]] == ["v1.132.0", "v1.133.0", "v1.134.0"]
    assert "worse" in lines[4]
    assert (run / "history.md").read_text().startswith("# CPU of a query over versions")
    assert (run / "plots/history.svg").exists()
    with pytest.raises(UserError, match="no version has a change of mixed_cpu_cores"):
        history.main(run, {"METRIC": "mixed_cpu_cores"})
    with pytest.raises(UserError, match="a history is of one metric"):
        history.main(run, {"METRIC": "cpu:duel_cpu_us/cpu-max-all-1"})


def test_what_became_better_is_searched_alike(search, repository):
    """The side where BAD is decides what is searched; figures keep the metric's own sign."""
    place = f"git:{repository.path}@"
    search.step()
    search.show("s-00", [-value for value in WORSE])
    search.finish({repository.shas["merge"], repository.shas["last"]}, [-value for value in WORSE])
    text = page.main({"RUN": "s"}, search.results)
    assert f"**First better: `{repository.shas['merge'][:12]}` merge side**" in text
    assert re.search(r"\| +-4\.[89]\d* % +\|", text)
    assert f"'VERSIONS={place}{repository.shas['one']} {place}{repository.shas['merge']}'" in text


def test_a_ratio_of_two_metrics_is_followed(search):
    """METRIC=A:B: what both have in common, as of a slow machine, is no change; each may have a type or role."""
    search.given |= {"METRIC": "cpu:duel_cpu_us/cpu-max-all-1"}
    search.step()
    own, by = [0.3 + value for value in WORSE], {"query_type": "cpu-max-all-1", "differences": [0.3] * 6}
    search.show("s-00", own, by)
    assert search.begun.followed.name == "CPU of a query / CPU of a query, cpu-max-all-1"
    assert steps.read(search.begun, search.results).seen[3] == pytest.approx(WORSE)
    row = search.begun.followed.row(files.read_json(search.results / "s-00/stats/comparison.json"), "candidate")
    assert row["p"] == signed_rank_p([value - 0.3 for value in own])
    search.show("s-00", own, by | {"differences": [0.3] * 5})
    with pytest.raises(UserError, match="a ratio needs both in the same blocks"):
        search.step("0")


def test_several_steps_in_the_range_are_the_answer():
    """A revision that is neither like GOOD nor like BAD: a step, another step, and how sure both are together."""
    revisions = tuple(Revision(ref=f"v{i}", label=f"v{i}") for i in range(4))
    of = Bisection(
        name="s", created="", kind="tsbs", given={}, knobs={}, followed=followed("tsbs", {}), repo="",
        revisions=revisions, steps=(Step(run="s-00", at=3, blocks=6),),
    )  # fmt: skip
    seen = {3: [value + 0.1 for value in SAME], 2: [0.05, 0.051, 0.05, 0.052], 1: SAME}
    known = steps.Measured(seen, LIMIT)
    belief = steps.think(of, known)
    answer = posterior.answer(belief, ())
    assert answer.steps == ((2, 2), (3, 3))
    said = page.found(of, known, answer, belief)
    assert re.match(r"\*\*2 steps: `v2` \(\+0\.0 % → \+5\.\d %\), and another step at `v3` \(\+5\.\d % → ", said)
    assert re.search(r"\*\*, with 9\d\S* % together; lower is better\.", said)
    less = replace(belief, cases={(2,): (0.9, (0, 0.1)), (2, 3): (0.1, (0, 0.05, 0.1))})
    one = posterior.answer(less, ())
    assert page.found(of, known, one, less).endswith("With 10 % there is another step in the range.")
