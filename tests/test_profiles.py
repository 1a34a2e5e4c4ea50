"""From the profiles behind the blocks to the functions that differ, a flame graph and what the sources changed."""

import re
from dataclasses import replace

import profiled
import pytest
import synthetic_fleet
from gitrepo import Repository
from profiled import BASELINE, CANDIDATE, MODULE, PLANTED, entry
from reports import made, reported, section, text

from plots import flame, report
from plots.sections import profiles
from tsduel.core.plan import Component
from tsduel.core.rundir import open_run
from tsduel.plan import changes
from tsduel.plan.changes import Changes, Commit
from tsduel.targets import databases
from tsduel.tidy import profiles as tidied

TITLE = "Profiles of the difference"
GONE = {"file": "", "why": "HTTP status 404", "operations": 0}
HEAPS = [(entry("baseline", kind="heap"), BASELINE), (entry("candidate", kind="heap"), CANDIDATE)]
PROGRAM = databases()["victoriametrics"].programs["server"]


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No Go and no network: what they would say is said here."""
    monkeypatch.setattr(profiles, "printed", lambda words, *_: " ".join(words[3:]))
    commit = Commit("c" * 40, "2025-06-10", "app/vmselect: wait a little", taken_back=False)
    monkeypatch.setattr(changes, "between", lambda *_: Changes(commits=(commit,)))


def profiled_run(path, of):
    """Make the report of a run with profiles."""
    return made(path, lambda run: profiled.write(run, of))


def test_the_function_that_was_planted_is_the_first_line(tmp_path):
    """Put down to it is what it calls of Go's own library; what differs by chance is not listed."""
    run = profiled_run(tmp_path, [(entry("baseline"), BASELINE), (entry("candidate"), CANDIDATE)])
    said = section(run, TITLE)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.splitlines() if line.startswith("|")]
    (_, _, first) = rows
    assert first[0] == "app/vmselect.planted"
    assert first[1:4] == ["0", "300", "+300"]
    assert first[5] == "0.0 → 5.6"
    assert "5,000 → 5,350 µs an exchange (+7.0 %, by chance up to 13.6) in the profile. In the measured" in said
    assert re.search(r"CPU of a query, all types [-+]\d\S* % \(", said)
    assert f"-sample_index=cpu -diff_base={run}/raw/host1/profiles/baseline.queries.server.cpu.pprof {run}/raw" in said
    table = (run / "tidy/profiles.csv").read_text()
    assert f"candidate,queries,server,cpu,cpu,nanoseconds,10000000,2000,1,{PLANTED[2]},600000000,600000000," in table
    assert "candidate,queries,server,cpu,cpu,nanoseconds,10000000,2000,1,runtime.nanotime,0,600000000," in table


def test_the_sources_are_searched_for_the_packages_that_differ(tmp_path, monkeypatch):
    """Each commit is a line; where nothing can be said the reason is."""
    asked = []
    between = changes.between
    monkeypatch.setattr(changes, "between", lambda *of: asked.append(of[3]) or between())
    run = profiled_run(tmp_path, [(entry("baseline"), BASELINE), (entry("candidate"), CANDIDATE)])
    assert asked == [[f"{MODULE}/app/vmselect"]]
    said = text(run).partition("## What changed in the sources")[2]
    assert f"1 commit in `{MODULE}/app/vmselect`" in said
    assert "- `cccccccccccc` 2025-06-10 app/vmselect: wait a little" in said
    monkeypatch.setattr(changes, "between", lambda *_: Changes(why="a ready binary has no sources to look at"))
    report.main(run)
    assert "the changes are not known: a ready binary has no sources to look at." in text(run)


def test_no_change_is_made_up(tmp_path):
    """Where every function differs by chance alone there is no list, and no search in the sources."""
    other = {**BASELINE, profiled.SEARCH: 620}
    run = profiled_run(tmp_path, [(entry("baseline"), BASELINE), (entry("candidate"), other)])
    assert "No function's own cost differs by more than chance" in section(run, TITLE)
    assert "What changed in the sources" not in text(run)


def test_a_profile_that_is_missing_is_said_and_the_rest_compared(tmp_path):
    """404, an empty one, one side alone; memory that is held has a table and no graph."""
    gone = GONE | {"why": "its pprof endpoint cannot be used: HTTP status 404"}
    run = profiled_run(tmp_path, [(entry("baseline"), BASELINE), (entry("candidate", **gone), {}), *HEAPS])
    said = section(run, TITLE)
    assert "- There is no cpu profile of the queries of v1.133.0: its pprof endpoint cannot be used: HTTP" in said
    titles = ["Memory allocated of the queries", "Memory held at the end of the queries"]
    assert re.findall(r"^### (.*)$", said, re.MULTILINE) == titles
    assert "an exchange (+7.0 %, by chance up to 13.6) in" in said
    assert sorted(path.name for path in run.glob("plots/flame*")) == ["flame-candidate-queries-alloc-space.svg"]


def test_profiles_of_a_fleet_are_added_over_its_hosts(tmp_path):
    """A sum over the hosts on which both sides have one, an operation; what is held is of a host on average."""
    run = synthetic_fleet.write(tmp_path, {"e2-standard-8": synthetic_fleet.service(1.0, 1.0, 1.0)})
    for host, more in (("host1", {}), ("host2", {}), ("host3", GONE)):
        profiled.write(run, [(entry("baseline"), BASELINE), (entry("candidate") | more, CANDIDATE), *HEAPS], host)
    said = section(reported(run), TITLE)
    assert "- There is no cpu profile of the queries of v1.133.0: on host3, which is left out: HTTP status 404." in said
    # As of one host, of which there are two, or three, with as many times the samples: chance is that much less.
    assert "5,000 → 5,350 µs an exchange (+7.0 %, by chance up to 9.7) in the profiles of 2 hosts." in said
    assert "an exchange (+7.0 %, by chance up to 7.9) in the profiles of 3 hosts." in said
    held = said.partition("### Memory held at the end of the queries")[2]
    assert "9,537 → 10,200 MiB a host (+7.0 %, by chance up to 7.9)" in held
    first = f"{run}/raw/host1/profiles"
    assert f"-diff_base={first}/baseline.queries.server.cpu.pprof {first}/candidate.queries.server.cpu.pprof" in said
    assert "`raw/HOST/profiles/`, which are added up." in said
    assert (run / "plots/flame-candidate-queries-cpu.svg").exists()


def test_of_a_fleet_without_a_whole_host_the_first_one_says_what_it_has(tmp_path):
    """Nothing is compared that is not equal work."""
    run = synthetic_fleet.write(tmp_path, {"e2-standard-8": synthetic_fleet.service(1.0, 1.0)})
    profiled.write(run, [(entry("baseline"), BASELINE), (entry("candidate", **GONE), {})], "host1")
    profiled.write(run, [(entry("baseline", **GONE), {}), (entry("candidate"), CANDIDATE)], "host2")
    found = {one.variant: one for one in tidied.index(open_run(run))}
    assert [path.parent.parent.name for path in found["baseline"].paths] == ["host1"]
    assert found["candidate"].paths == ()
    assert [found[side].missing for side in found] == [("on host2: HTTP status 404",), ("on host1: HTTP status 404",)]


def test_a_run_without_profiles_has_no_such_section(tmp_path):
    """Nor a table with anything in it."""
    run = made(tmp_path)
    assert "Profiles of the difference" not in text(run)
    assert len((run / "tidy/profiles.csv").read_text().splitlines()) == 1


def test_a_flame_graph_says_more_and_less_without_colours():
    """The way to what differs is marked, by how much of the whole it is; what is chance is not."""
    root = flame.tree(({("a", "b"): 100.0, ("a", "c"): 50.0}, {("a", "b"): 110.0, ("a", "c"): 49.0, ("a", "<d>"): 9.0}))
    assert (root.baseline, root.candidate, root.inside["a"].inside["b"].candidate) == (150.0, 168.0, 110.0)
    drawn = flame.drawn(root, lambda before, after: f"{before:g} to {after:g}", lambda *_: 2.0)
    assert re.findall(r"<text[^>]*>([^<]*)<", drawn) == ["▲ all", "▲ a", "▲ &lt;d&gt;", "▲ b", "c"]
    assert "<title>&lt;d&gt;: 0 to 9</title>" in drawn
    assert drawn.count("<svg ") == drawn.count("</svg>") == 6


def test_a_flame_graph_fits_whatever_it_is_of():
    """Frames that nobody could see are left out, the widest never."""
    stacks = {tuple(f"package/of.function{depth}x{n % 7**depth}" for depth in range(9)): 1.0 + n for n in range(4000)}
    drawn = flame.drawn(flame.tree((stacks, stacks)), lambda *_: "so much", lambda *_: 0.0)
    assert 20_000 < len(drawn) <= flame.LARGEST
    assert "function0x0" in drawn


@pytest.mark.parametrize(
    ("stack", "own"),
    [
        (["main.main", "fmt.Println"], "main.main"),
        (["testing.(*B).runN", "example.org/m.Work", "encoding/json.Marshal"], "example.org/m.Work"),
        (["runtime.gcBgMarkWorker", "runtime.scanobject"], "runtime.gcBgMarkWorker"),
        (["gopkg.in/x.F", "slices.SortFunc[go.shape.[]github.com/a/b]", "internal/runtime/maps.New"], "gopkg.in/x.F"),
    ],
)
def test_cost_is_put_down_to_who_called_the_library(stack, own):
    """Go's own library has no dot in the first element of its paths."""
    assert stack[tidied.owner(stack)] == own


@pytest.mark.parametrize(
    ("function", "package"),
    [
        (f"{MODULE}/lib/storage.(*Search).Next", f"{MODULE}/lib/storage"),
        ("main.main.func1", "main"),
        ("github.com/a/b.F[go.shape.struct { c/d.E int }]", "github.com/a/b"),
    ],
)
def test_a_function_s_package(function, package):
    """As it is imported."""
    assert profiles.package(function) == package


def component(**of):
    """Return a component of a plan."""
    return Component(program="victoria-metrics", label="x", **of)


def test_commits_between_two_revisions_touch_the_packages(tmp_path, monkeypatch):
    """A package is itself and not what lies below it, `main` is the program's, another module's lies in vendor/."""
    monkeypatch.undo()
    made = Repository(tmp_path / "source")
    base = made.commit("go.mod", f"module {MODULE}\n")
    files = ["lib/storage/a.go", "lib/storage/below/b.go", "app/victoria-metrics/main.go", "vendor/github.com/o/m/m.go"]
    for file in files:
        last = made.commit(file, "package x\n")
    ends = (component(source="git", repo=str(made.path), revision=rev) for rev in (base, last))
    one, other = ends
    packages = {
        (f"{MODULE}/lib/storage",): files[:1],
        ("main", "github.com/o/m"): files[:1:-1],
        ("golang.org/x/nowhere",): [],
    }
    for of, touched in packages.items():
        found = changes.between(PROGRAM, one, other, of)
        assert [one.subject for one in found.commits] == touched
        assert not found.why
    assert [c.taken_back for c in changes.between(PROGRAM, other, one).commits] == [True] * 4
    made.write("lib/storage/a.go", "package y\n")
    odd = made.commit_all("one\u2028two\x1fthree\rfour")  # ends of lines to Python, and none to git
    (found,) = changes.between(PROGRAM, other, other.model_copy(update={"revision": odd})).commits
    assert found.subject == "one\u2028two\x1fthree\rfour"
    unknown = other.model_copy(update={"revision": "d" * 40})
    assert "does not know both revisions" in changes.between(PROGRAM, one, unknown).why
    assert "no sources" in changes.between(PROGRAM, one, component(source="binary", path="/x")).why
    assert "no history in common" in changes.between(PROGRAM, one, component(source="module", ref="v1")).why


def test_modules_say_which_files_differ(tmp_path, monkeypatch):
    """They have no history: changed, added and removed files of the packages, and the versions of other modules."""
    monkeypatch.undo()
    for version, of_module, files in (
        ("v1", "v1.0.0", {"a/x.go": "1", "a/gone.go": "1", "a/x_test.go": "1", "b/y.go": "1"}),
        ("v2", "v1.1.0", {"a/x.go": "2", "a/new.go": "1", "a/x_test.go": "2", "b/y.go": "2"}),
    ):
        for name, content in (files | {"go.mod": f"require (\n\to.org/m {of_module}\n)"}).items():
            path = tmp_path / version / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    monkeypatch.setattr(changes.sources, "download", lambda _, version: {"Dir": str(tmp_path / version)})
    program = replace(PROGRAM, module="example.org/m")
    one, other = (component(source="module", ref=ref, version=ref) for ref in ("v1", "v2"))
    found = changes.between(program, one, other, ["example.org/m/a", "o.org/m/sub"])
    assert found.files == (("example.org/m/a", ("gone.go", "new.go", "x.go")),)
    assert found.modules == (("o.org/m", "v1.0.0", "v1.1.0"),)
    assert [name for name, _ in changes.between(program, one, other).files] == ["example.org/m/a", "example.org/m/b"]
