"""What an experiment and its knobs may say, and the sentence for everything else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from gitrepo import Repository

from tsduel.core import gobuild
from tsduel.core.errors import UserError
from tsduel.plan import sources
from tsduel.question import knobs, read
from tsduel.targets import databases

PROJECT = Path(__file__).resolve().parent.parent
FILE = "experiments/x.yml"


def refused(data):
    """Return the sentence that an experiment is refused with."""
    with pytest.raises(UserError) as caught:
        read.validate(data, FILE)
    return str(caught.value)


def nested(key, value):
    """Return an experiment in which a.b.c has a value."""
    data = {"name": "x"}
    *path, last = key.split(".")
    place = data
    for part in path:
        place = place.setdefault(part, {})
    place[last] = value
    return data


def with_sides(**fields):
    """Return variants whose baseline has these fields too."""
    return {"baseline": {"ref": "v1"} | fields, "candidate": {"ref": "v2"}}


def of_components(*parts, **fields):
    """Return variants whose baseline is made of components."""
    return {"baseline": {"components": list(parts)} | fields, "candidate": {"ref": "v2"}}


CLUSTER = {
    name: {"target": "victoriametrics-cluster", "source": "git", "repo": "https://example.org/r", "ref": name}
    for name in ("baseline", "candidate")
}
PROMETHEUS = {name: {"target": "prometheus", "ref": "v0.307.0"} for name in ("baseline", "candidate")}


@pytest.mark.parametrize("path", sorted((PROJECT / "experiments").glob("*.yml")), ids=lambda p: p.stem)
def test_the_experiments_of_the_project_are_valid(path):
    """Every file in experiments/ is accepted and named as its file."""
    assert read.validate(read.read_file(path), str(path)).name == path.stem


def test_a_duel_is_what_is_asked_unless_somebody_says_otherwise():
    """Everything but the name has a default: eight blocks, two seconds of exchanges a type, no closed loop."""
    found = read.validate({"name": "x"}, FILE)
    assert (found.workload.step_s, found.workload.window_s) == (80, 86400)
    assert (found.design.blocks, found.design.warmup_blocks, found.design.spare_blocks) == (8, 1, 2)
    assert (found.duel.enabled, found.duel.seconds, found.duel.min_exchanges, found.queries.solo) == (
        True,
        2.0,
        64,
        False,
    )
    assert (found.host.pin, found.design.reload) == ("auto", "every")


def test_a_whole_number_is_the_word_of_a_variable():
    """`GOGC: 50`, as people write it; what YAML may have changed has to be quoted."""
    found = read.validate({"name": "x", "variants": with_sides(env={"GOGC": 50, "X": "010"})}, FILE)
    assert found.variants["baseline"].env == {"GOGC": "50", "X": "010"}
    assert "env.X: input should be a valid string (it is 1.1)" in refused(
        {"name": "x", "variants": with_sides(env={"X": 1.10})}
    )


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("blocks", "capacity, design, duel, gcp, host, k8s, kind, limits, matrix, mixed, name, noise, parameters"),
        ("design.block", "blocks, judged, load, loaded_by, max_failed_blocks, reload, seed, spare_blocks"),
        ("variants.baseline.flag", "components, env, files, flags, go, package, path, ref, replicas, repo, role"),
    ],
)
def test_an_unknown_key_is_named_with_what_is_allowed(key, allowed):
    """The sentence has the file, the whole key and the keys of that place."""
    data = nested(key, 1) if not key.startswith("variants") else {"name": "x", "variants": with_sides(flag=1)}
    said = refused(data)
    assert said.startswith(f"{FILE}: {key}: unknown key; allowed here: ")
    assert allowed in said


VALUES = [
    ("name", "Not Good", "name: string should match pattern"),
    ("kind", "nope", "kind: 'nope' is not known; allowed: tsbs, gobench"),
    ("workload", [], "workload: input should be"),
    ("workload.scale", "many", "workload.scale: input should be a valid integer (it is 'many')"),
    ("workload.scale", 0, "workload.scale: input should be greater than or equal to 1 (it is 0)"),
    ("workload.use_case", "cpu", "workload.use_case: unknown use case; allowed: cpu-only, devops, iot"),
    ("workload.interval", "80", "workload.interval: write it like 80s, 1m or 1h"),
    ("workload.start", "yesterday", "workload.start: not a time; write it like 2025-06-10T00:00:00Z"),
    ("workload.start", "2025-06-10", "workload.start: write the time in whole seconds with its zone"),
    ("workload.start", "0001-01-01T00:00:00+14:00", "workload.start: not a time"),
    ("workload.end", "2025-06-09T00:00:00Z", "is shorter than one interval of 80s"),
    ("design.spare_blocks", 3, "design: spare_blocks: a quarter of the blocks at most, 2 here"),
    ("design.reload", "never", "design.reload: input should be 'every' or 'once'"),
    ("queries.types", [], "queries.types: tuple should have at least 1 item"),
    ("queries.types", ["lastpoint"], "queries.types: it cannot be asked lastpoint; allowed: single-groupby-1-1-1"),
    ("queries.types", ["nope"], "queries.types: unknown query type 'nope'; allowed: single-groupby-1-1-1"),
    ("queries.types", ["cpu-max-all-1", "cpu-max-all-1"], "queries.types: a query type is named twice"),
    ("queries.types", ["cpu-max-all-32-24"], "cpu-max-all-32-24 reads 24 h, which must be strictly shorter"),
    ("queries.seconds", float("nan"), "queries.seconds: "),
    ("design.thresholds", {"speed": 1.0}, "design.thresholds: 'speed' is no metric; allowed: "),
    ("host.port", 80, "host.port: input should be greater than or equal to 1024"),
    ("limits.cpus", 0, "limits.cpus: input should be greater than or equal to 0.01"),
    ("limits.cpu", 1, "limits.cpu: unknown key; allowed here: cpus, memory_mb; did you mean cpus?"),
    ("host.pin", {"server": [0], "client": [0]}, "CPU 0 is given to the servers and to the client"),
    ("variants", {"baseline": {"ref": "v1"}}, "variants: `candidate` is needed (CANDIDATE=v1.2.3)"),
    ("variants", with_sides(target="mysql"), "variants.baseline.target: unknown database; allowed: "),
    ("variants", with_sides(source="svn"), "variants.baseline.source: input should be 'module', 'git', 'path', "),
    ("variants", with_sides(source="git"), "variants.baseline: source git needs `repo:`"),
    ("variants", with_sides(source="path", path="x"), "variants.baseline: source path has no use for `ref:`"),
    ("variants", with_sides(repo="x"), "variants.baseline: source module has no use for `repo:`"),
    ("variants", with_sides(ref=1.132), "variants.baseline.ref: input should be a valid string (it is 1.132)"),
    ("variants", with_sides(flags="-x=y"), "variants.baseline.flags: input should be a valid array"),
    ("variants", with_sides(flags=["a\0b"]), "variants.baseline.flags.0: 'a\\x00b' contains a NUL character"),
    ("variants", with_sides(env={"A": "a\0b"}), "variants.baseline.env.A: 'a\\x00b' contains a NUL character"),
    ("variants", with_sides(env={"A B": "x"}), "variants.baseline.env: 'A B' is not a name of an environment"),
    ("variants", with_sides(go="1.25"), "variants.baseline.go: string should match pattern"),
    ("variants", with_sides(bench="^B$"), "variants.baseline.bench: input should be ''"),
    ("variants", with_sides() | {"Third": {"ref": "v3"}}, "variants: 'Third': a variant's name is lower-case"),
    ("variants", of_components({"role": "front", "ref": "v1"}), "no component 'front'; allowed: vmauth, "),
    ("variants", of_components({"ref": "v1"}, {"ref": "v1"}), "component 'server' is there twice"),
    ("variants", of_components({"role": "server"}), "variants.baseline.components.0: source module needs `ref:`"),
    ("variants", of_components({"ref": "v1"}, ref="v2"), "either `components:` or `ref:`, which is of the short"),
]
SECTIONS = [
    ({"queries": {"solo": True}, "design": {"warmup_blocks": 0}}, "queries.count: needed when design.warmup_bl"),
    ({"queries": {"solo": True}, "design": {"reload": "once"}}, "design.reload: once leaves the duel alone"),
    ({"duel": {"enabled": False}, "design": {"reload": "once"}}, "design.reload: once leaves the duel alone"),
    ({"duel": {"counters": "duel"}, "queries": {"cache": "warm"}}, "duel.counters: duel counts all that was asked"),
    ({"duel": {"enabled": False}, "design": {"judged": "duel"}}, "design.judged: duel leaves nothing to judge"),
    ({"design": {"load": "in_turn"}, "duel": {"enabled": False}}, "nobody loads alone: leave out duel.enabled: false"),
    ({"design": {"load": "in_turn", "start_from": "baseline"}}, "leave out design.start_from: baseline, or take"),
    (
        {"design": {"load": "in_turn", "reload": "once", "loaded_by": "baseline"}},
        "out design.loaded_by: baseline, or",
    ),
    ({"design": {"load": "in_turn"}, "queries": {"solo": True}}, "leave out queries.solo: true, or take design.load"),
    ({"design": {"load": "in_turn"}, "duel": {"load_s": 4}}, "leave out duel.load_s, or take design.load: solo"),
    ({"workload": {"solo_scale": 9}}, "workload.solo_scale: is of one load alone in the warm-up block, where meas"),
    (
        {"workload": {"solo_scale": 9}, "design": {"load": "in_turn", "warmup_blocks": 0}},
        "it needs design.load: in_turn and design.warmup_blocks: 1",
    ),
    (
        {"variants": PROMETHEUS, "workload": {"workers": 1}, "design": {"load": "in_turn"}},
        "design.load: in_turn: this database does not take lines over HTTP",
    ),
    ({"workload": {"tenants": 2}}, "workload.tenants: victoriametrics has no tenants; allowed: 1"),
    (
        {"variants": CLUSTER, "workload": {"tenants": 2}},
        "workload.tenants: only batches and queries that go out one by one (design.load: in_turn, ",
    ),
    (
        {"variants": CLUSTER, "workload": {"tenants": 2, "batch_size": 9}, "design": {"load": "in_turn"}},
        "workload.batch_size: each batch goes to one tenant and needs lines of all 4,000 hosts",
    ),
    (
        {"variants": PROMETHEUS, "queries": {"types": ["high-cpu-1"]}},
        "queries.types: it cannot be asked high-cpu-1; allowed: single-groupby-1-1-1, ",
    ),
    (
        {"variants": PROMETHEUS, "workload": {"scale": 50, "workers": 2}},
        "prometheus takes no sample that is 3,600 s older than its newest: at most 160 lines with 2 workers, or ",
    ),
    ({"profile": ["mutex"]}, "profile.0: input should be 'cpu', 'heap' or 'block' (it is 'mutex')"),
    ({"profile": ["cpu"], "design": {"start_from": "baseline"}}, "profile: is of loads and queries from an empty"),
]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        *((nested(key, value), sentence) for key, value, sentence in VALUES),
        *(({"name": "x"} | d, s) for d, s in SECTIONS),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(data, sentence):
    """A bad value, and sections of which one would have no effect or no ground: with the file and what is allowed."""
    said = refused(data)
    assert said.startswith(f"{FILE}: ")
    assert sentence in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("target", "flag"),
    [
        ("victoriametrics", "--httpListenAddr=0.0.0.0:1"),
        ("victoriametrics", "-storageDataPath=/"),
        ("prometheus", "--web.listen-address=0.0.0.0:9090"),
        ("prometheus", "--config.file=/etc/prometheus.yml"),
    ],
)
def test_no_flag_opens_the_server_to_others(target, flag):
    """VictoriaMetrics opens every address it is given, so an address of ours behind it would not take it back."""
    said = refused({"name": "x", "variants": with_sides(flags=["-a=b", flag], target=target)})
    assert said.startswith(f"{FILE}: variants.baseline: flags: {flag.partition('=')[0]} is ours: ")
    said = refused({"name": "x", "variants": of_components({"ref": "v1", "flags": [flag]}, target=target)})
    assert " is ours: " in said


def test_every_mistake_is_told_at_once():
    """Two mistakes are two sentences."""
    assert len(refused(nested("workload", {"scale": 0, "seed": 0})).splitlines()) == 2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"name: [x", "x.yml:2: not YAML: "),
        (b"- name", "x.yml: an experiment is a mapping that starts with `name:`"),
        (b"", "x.yml: an experiment is a mapping that starts with `name:`"),
        (b"name: \xff\xfe", "x.yml:1: not UTF-8 at byte 6; save it as UTF-8"),
        (b"name: a\0b", "x.yml:1: it has bytes of 0, "),
        (b"start: 2025-13-45", "x.yml: not YAML: "),
        (b"name: " + 500 * b"[", "x.yml: not YAML: it is nested too deeply"),
        (
            b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 40)),
            "x.yml: its aliases make more than 1,000,000 values of it",
        ),
        (b"&a name: {x: *a}", "x.yml: "),
        (b"a: &a [*a]", "x.yml: its aliases make more than 1,000,000 values of it"),
    ],
)
def test_a_file_that_is_no_experiment(tmp_path, content, sentence):
    """What is wrong with the file, and in which line where that is known."""
    path = tmp_path / "x.yml"
    path.write_bytes(content + (b"\n" if b"[" in content else b""))
    with pytest.raises(UserError) as caught:
        read.validate(read.read_file(path), str(path))
    assert sentence in str(caught.value)


def test_a_file_that_is_not_there(monkeypatch):
    """The nearest one is named, else where they are."""
    monkeypatch.chdir(PROJECT)
    with pytest.raises(UserError, match=r"quik.yml: No such file or directory; did you mean quick\?"):
        read.read_file(Path("experiments/quik.yml"))
    with pytest.raises(UserError, match=r"xyzzy.yml: No such file.*; those of ours are in .*/experiments"):
        read.read_file(Path("experiments/xyzzy.yml"))
    assert read.find("quick") == read.find("experiments/quick.yml") == Path("experiments/quick.yml")


class TestKnobs:
    """The knobs of the Makefile."""

    @pytest.mark.parametrize(
        ("given", "side"),
        [
            ("v1.9.0", {"ref": "v1.9.0", "flags": ["-x"]}),
            ("module:v1.9.0", {"source": "module", "ref": "v1.9.0", "flags": ["-x"]}),
            ("git:/some/repo@main", {"source": "git", "repo": "/some/repo", "ref": "main", "flags": ["-x"]}),
            ("git:git@host:a/b.git@v1", {"source": "git", "repo": "git@host:a/b.git", "ref": "v1", "flags": ["-x"]}),
            ("path:../vm", {"source": "path", "path": "../vm", "flags": ["-x"]}),
            ("binary:/a b/vm", {"source": "binary", "path": "/a b/vm", "flags": ["-x"]}),
        ],
    )
    def test_a_side_is_a_revision_or_a_source(self, given, side):
        """BASELINE and CANDIDATE say where a variant comes from; its flags stay."""
        data = {"name": "x", "variants": {"baseline": {"ref": "v1", "flags": ["-x"]}}}
        assert knobs.apply(data, {"BASELINE": given})["variants"]["baseline"] == side
        assert data["variants"]["baseline"]["ref"] == "v1"

    def test_set_takes_any_field(self):
        """SET's values are YAML, quoted as for a shell."""
        given = {
            "SET": "workload.scale=7 'variants.baseline.flags=[-a=b c, \"-d\"]' queries.count=null settle.mode=merged"
        }
        result = knobs.apply({"name": "x"}, given)
        assert result["workload"] == {"scale": 7}
        assert result["variants"]["baseline"]["flags"] == ["-a=b c", "-d"]
        assert result["queries"] == {"count": None}
        assert result["settle"] == {"mode": "merged"}

    def test_the_knobs_of_victoriametrics_makefile(self):
        """TSBS_* set what they set there; TSBS_WORKERS those of load and queries."""
        given = {"TSBS_START": "2025-06-01T00:00:00Z", "TSBS_END": "2025-06-02T00:00:00Z", "TSBS_STEP": "10s"}
        given |= {"TSBS_SCALE": "10", "TSBS_QUERIES": "30", "TSBS_WORKERS": "3"}
        asked = read.validate(knobs.apply({"name": "x", "queries": {"solo": True}}, knobs.given(given)), FILE)
        knobs.refuse_without_effect(asked, given)
        assert (asked.workload.scale, asked.workload.step_s, asked.workload.start[:10]) == (10, 10, "2025-06-01")
        assert (asked.queries.count, asked.queries.workers, asked.workload.workers) == (30, 3, 3)

    @pytest.mark.parametrize(("kind", "asked"), [("tsbs", "cpu,heap"), ("gobench", "cpu,mem")])
    def test_what_is_profiled_is_asked_alike(self, kind, asked):
        """One knob; of Go benchmarks it stands in their section."""
        data = knobs.apply({"name": "x", "kind": kind}, {"PROFILE": asked})
        assert (data.get("gobench") or data)["profile"] == asked
        if kind == "tsbs":
            assert read.validate(data, FILE).profile == ("cpu", "heap")

    def test_empty_knobs_are_not_given(self):
        """The Makefile hands every knob over, most of them empty."""
        assert knobs.given({"SET": " ", "AA": "", "BLOCKS": "3", "OTHER": "x"}) == {"BLOCKS": "3"}

    @pytest.mark.parametrize(
        ("knob", "value", "sentence"),
        [
            ("SET", "workload.scale", "SET: 'workload.scale' is not field=value; write SET="),
            ("SET", "=4", "SET: '=4' is not field=value"),
            ("SET", "a='b", "SET: No closing quotation"),
            ("SET", "name.x=1", "SET: name.x: name holds no fields"),
            ("SET", "workload.scale=[", "SET workload.scale: '[' is not a value"),
            ("BASELINE", "git:/some/repo", "BASELINE: 'git:/some/repo' names no revision; write git:REPO@REF"),
            ("AA", "yes", "AA: 'yes' is neither 1 nor 0"),
        ],
    )
    def test_a_bad_knob_is_named(self, knob, value, sentence):
        """The sentence begins with the knob."""
        with pytest.raises(UserError) as caught:
            knobs.apply({"name": "x"}, {knob: value})
        assert str(caught.value).startswith(sentence)

    @pytest.mark.parametrize("source", ["path", "binary"])
    def test_a_revision_of_what_has_none_is_refused(self, source):
        """BASELINE=v1.132.0 did nothing at all where the experiment takes its baseline from a directory or a file."""
        data = {"name": "x", "variants": {"baseline": {"source": source, "path": "/some"}}}
        with pytest.raises(UserError, match=f"comes from a {source}, which has no revisions; write BASELINE=module:v9"):
            knobs.apply(data, {"BASELINE": "v9"})
        with pytest.raises(UserError, match="ROLE is missing: variants of this experiment are made of components"):
            knobs.apply({"name": "x", "variants": {"baseline": {"components": []}}}, {"BASELINE": "v9"})

    @pytest.mark.parametrize(
        ("data", "given", "sentence"),
        [
            (
                {"variants": with_sides()},
                {"AA": "1", "CANDIDATE": "v2"},
                "CANDIDATE: has no effect: AA=1 compares the baseline with itself",
            ),
            ({}, {"TSBS_QUERIES": "9"}, "TSBS_QUERIES: has no effect: it counts queries of the closed loop"),
            (
                {
                    "kind": "gobench",
                    "gobench": {"module": "m", "package": "./p"},
                    "variants": {n: {"ref": "v1", "bench": "^B$"} for n in ("baseline", "candidate")},
                },
                {"BENCH": "^C$"},
                "BENCH: has no effect: every variant of this experiment has its own `bench:`",
            ),
        ],
    )
    def test_a_knob_without_effect_is_refused(self, data, given, sentence):
        """Nobody is to believe that it did something."""
        asked = read.validate(knobs.apply({"name": "x"} | data, given), FILE)
        with pytest.raises(UserError) as caught:
            knobs.refuse_without_effect(asked, given)
        assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        (["plan", "x"], {"TSBS_SCALE": "many"}, "tsduel: experiments/local.yml with TSBS_SCALE: workload.scale: input"),
        (["plan", ".."], {}, "tsduel: RUN: '..' is no name of a run"),
        (["plan", "r" * 300], {}, f"tsduel: RUN: '{'r' * 300}' is no name of a run; use up to 100 letters"),
    ],
)
def test_the_command_line_ends_with_a_sentence_and_2(tmp_path, arguments, environment, sentence):
    """A user's mistake gives a sentence on stderr, exit code 2, no stack trace and no run."""
    (tmp_path / "experiments").symlink_to(PROJECT / "experiments")
    done = subprocess.run(
        [sys.executable, "-m", "tsduel", *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PROJECT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(sentence)
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"GOTOOLCHAIN": "go1.25.5"}, "env: GOTOOLCHAIN would not reach the build: say `go: go1.26.8` for the variant"),
        ({"GOOS": "plan9"}, "env: GOOS would not reach the build"),
        ({"GOMODCACHE": "/x"}, "env: GOMODCACHE would not reach the build"),
        ({"GOPRIVATE": "*"}, "env: GOPRIVATE would not reach the build: it is of the machine"),
        ({"GOGC": "50"}, ""), ({"GOFLAGS": "-tags=x"}, ""), ({"CGO_ENABLED": "0"}, ""),
    ],
)  # fmt: skip
def test_a_setting_that_reaches_no_build_is_refused(env, sentence):
    """`env:` is of the run and of the build; what would do nothing in either is no setting of a variant."""
    why = gobuild.why_not(env, "git")
    assert (why[: len(sentence)], bool(why)) == (sentence, bool(sentence))
    # A ready binary has no build.
    assert bool(gobuild.why_not(env, "binary")) == ("GOGC" not in env)


def test_the_users_setting_of_a_build_stands_in_place_of_ours():
    """The last one of a name would count."""
    program = databases()["victoriametrics"].programs["server"]
    component = SimpleNamespace(source="module", version="v1.133.0", env={"CGO_ENABLED": "0", "GOGC": "50"})
    command = sources.build_command(program, component)
    assert [word for word in command if word.startswith("CGO_ENABLED=")] == ["CGO_ENABLED=0"]
    assert command[:3] == ("CGO_ENABLED=0", "env", "go")


def test_a_checkout_alone_is_compared_with_where_it_left_the_main_branch(tmp_path):
    """CANDIDATE=path:DIR without a BASELINE. Without a change since then there is nothing to compare."""
    repository = Repository(tmp_path / "own")
    fork = repository.commit()
    alone = {"CANDIDATE": f"path:{repository.path}"}
    with pytest.raises(UserError, match=r"has no changes against main: .* BASELINE=git:.*own@HEAD~1 or BASELINE=v1"):
        knobs.with_base(alone, {})
    repository.git("checkout", "-q", "-b", "mine")
    repository.commit("other")
    assert knobs.with_base(alone, {}) == {**alone, "BASELINE": f"git:{repository.path}@{fork}"}
    assert knobs.with_base(alone | {"BASELINE": "v1"}, {})["BASELINE"] == "v1"
    # The baseline of an experiment may lack the component that is changed.
    parts = [{"role": "server"}, {"role": "vmauth"}]
    sides = {"baseline": {"components": parts[:1]}, "candidate": {"components": parts}}
    with_role = alone | {"ROLE": "vmauth"}
    assert knobs.with_base(with_role, {"variants": sides}) == with_role
    plain = {"CANDIDATE": f"path:{tmp_path}"}
    assert knobs.with_base(plain, {}) == plain


def test_a_question_is_about_the_versions_of_its_experiment():
    """A knob that names another version takes the question away."""
    data = {"name": "x", "question": "Is v2 slower?", "variants": with_sides()}
    assert knobs.apply(data, {"BLOCKS": "6"})["question"] == "Is v2 slower?"
    assert "question" not in knobs.apply(data, {"CANDIDATE": "v3"})
