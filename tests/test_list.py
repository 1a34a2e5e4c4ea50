"""make list: one line for each run in any state, also with damaged files in results/."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from housekeeping import PROJECT, clean_environment, write
from synthetic import Spec, edit, edit_plan, plan, write_run

from plots import listing
from tsduel.places import lock

HEAD = "  run "


def ssh(address, user):
    """Return the place of a run on one machine behind SSH."""
    host = {"user": user, "address": address, "port": None, "directory": "/home/me/tsduel"}
    return {"kind": "ssh", "config_file": None, "hosts": {"host1": host}}


@pytest.fixture
def results(tmp_path):
    """Return an empty results/."""
    made = tmp_path / "results"
    made.mkdir()
    return made


def rows(results, **environment):
    """Return the lines of the table without its heading, by the name of the run."""
    text = listing.text(environment, results)
    assert all(len(line) <= listing.WIDTH for line in text.splitlines()), text
    table = text.split("\n\n")[0].splitlines()
    assert table[0].startswith(HEAD)
    return {line[2:].split()[0]: line for line in table[1:]}


SPEC = Spec(blocks=2, load_s=1.0, exchanges=8, query_types=("cpu-max-all-1",))


def run(results, name, *, events=("run-start", "run-end ok"), blocks=None, created="2026-11-20T14:00:00Z", **plan):
    """Write a run with a warm-up block and two blocks; ``blocks`` are finished (all if None). Return its directory."""
    path = write_run(results / name, SPEC)
    edit_plan(path, created=created, **plan)
    found = sorted(path.glob("raw/host1/[0-9]*"))
    for extra in found[len(found) if blocks is None else blocks :]:
        shutil.rmtree(extra)
    if events:
        lines = (
            json.dumps({"t": 1.0} | dict(zip(("event", "status"), event.split(), strict=False))) for event in events
        )
        (path / "raw/host1/events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return path


PLAN, FIRST = "plan/experiment.json", "raw/host1/001"
"""The plan, and the directory of the first measured block."""


def compared(path, *verdicts, failed=0, **more):
    """Give a run a comparison with these verdicts."""
    document = {"checks": {"failed": failed}, "rows": [{"verdict": v} for v in verdicts]}
    write(path / "stats/comparison.json").write_text(json.dumps(document | more))
    lines = ["block,candidate,kind,counts,cause,second,reason"]
    lines += [f"{block},candidate,measured,true,,false," for block in (1, 2)]
    write(path / "tidy/blocks.csv").write_text("\n".join(lines) + "\n")


class TestStates:
    """The state of a run."""

    @pytest.mark.parametrize(
        ("events", "blocks", "state"),
        [
            (("run-start", "run-end ok"), None, "ended 3 of 3"),
            (("run-start", "block-start", "phase-start"), 1, "interrupted 1 of 3"),
            (("run-start", "block-end ok", "run-end interrupted"), 2, "interrupted 2 of 3"),
            ((), None, "ended 3 of 3"),
            ((), 0, "built"),
        ],
    )
    def test_what_is_finished_tells(self, results, events, blocks, state):
        """The last event and the finished blocks decide."""
        run(results, "r", events=events, blocks=blocks)
        assert f"  {state}  " in rows(results)["r"]

    def test_planned_failed_and_recorded(self, results):
        """Runs without blocks, recorded runs, and failed blocks."""
        shutil.rmtree(run(results, "planned", events=(), blocks=0) / "build")
        edit(run(results, "failed") / FIRST / "block.json", status="failed")
        compared(run(results, "recorded", events=(), blocks=0), "inconclusive")
        found = rows(results)
        for name, state in (("planned", "planned"), ("failed", "ended 3 of 3, 1 failed"), ("recorded", "recorded")):
            assert f"  {state}  " in found[name]

    def test_a_partial_block_and_a_spare_one(self, results):
        """A partial block does not count; a spare block counts after it was run."""
        path = run(results, "r")
        shutil.copytree(path / FIRST, path / "raw/host1/009.partial")
        assert "ended 3 of 3" in rows(results)["r"]
        with (path / "plan/blocks.tsv").open("a") as stream:
            stream.write("3\thost1\tspare\t\t\t\t\t\n")
        assert "ended 3 of 3" in rows(results)["r"]
        shutil.copytree(path / FIRST, path / "raw/host1/003")
        edit(path / "raw/host1/003/block.json", block=3, kind="spare")
        assert "ended 4 of 4" in rows(results)["r"]

    def test_running_is_what_holds_the_lock(self, results, monkeypatch):
        """Only the run that this machine's lock names is running."""
        for name in ("one", "other"):
            run(results, name, events=("run-start",), blocks=1)
        holder = lock.Holder(os.getpid(), "me", "2026-11-21T00:00:00Z", str(results / "one"))
        monkeypatch.setattr(lock, "holder", lambda **_: holder)
        found = rows(results)
        assert "  running 1 of 3  " in found["one"]
        assert "  interrupted 1 of 3  " in found["other"]

    def test_elsewhere_nobody_is_asked(self, results):
        """A run whose blocks are not all here is away, and the line names the place."""
        place = ssh("bench", "me")
        run(results, "away", events=("run-start", "block-end ok"), blocks=1, place=place)
        home = run(results, "home", place=place)
        write(home / "host/fetched.json").write_text("{}")
        found = rows(results)
        assert "  me@bench  away 1 of 3 " in found["away"]
        assert "  me@bench  ended 3 of 3 " in found["home"]


class TestWhatIsSaid:
    """The other columns, and the text around the table."""

    def test_newest_first_with_latest_marked_and_the_size_of_all(self, results):
        """They are sorted by the time of the plan; other directories in results/ are ignored."""
        run(results, "b", created="2026-11-20T14:00:00Z")
        run(results, "a", created="2026-11-21T14:00:00Z")
        run(results, "c", created="2026-11-19T14:00:00Z")
        for name in ("aa/m.json", "plot-load/load-rate.png", "README.md", ".latest.1/x"):
            write(results / name)
        (results / "latest").symlink_to("b")
        text = listing.text({}, results)
        assert [line[:3] for line in text.splitlines()[1:4]] == ["  a", "* b", "  c"]
        assert "\n*: results/latest\n3 runs take " in text
        assert text.endswith("are free there. To remove a run: rm -rf results/RUN")

    @pytest.mark.parametrize(
        ("verdicts", "more", "said"),
        [
            (("regression", "improvement", "regression", "shown"), {}, "2 worse, 1 better"),
            (("equivalent", "negligible", "shown"), {}, "negligible"),
            (("equivalent", "shown"), {}, "equivalent"),
            (("equivalent", "inconclusive"), {}, "inconclusive"),
            (("inconclusive (n < 6)",), {}, "inconclusive"),
            (("inconclusive", "inconclusive: environment"), {}, "too noisy"),
            (("regression",), {"failed": 2}, "2 checks failed"),
            ((), {}, "none"),
        ],
    )
    def test_the_verdict_in_a_few_words(self, results, verdicts, more, said):
        """The verdicts of the judged metrics."""
        compared(run(results, "r"), *verdicts, **more)
        assert rows(results)["r"].endswith(f"  {said}")
        assert "  2/2  " in rows(results)["r"]

    def test_the_answers_family_alone_is_counted(self, results):
        """As in the report's answer, and of single query types none."""
        path = run(results, "r")
        compared(path, "regression", "improvement", "regression")
        document = json.loads((path / "stats/comparison.json").read_text())
        for row, family in zip(document["rows"], ("primary", "secondary", "secondary"), strict=True):
            row["family"] = family
        (path / "stats/comparison.json").write_text(json.dumps(document))
        assert rows(results)["r"].endswith("  1 worse")

    def test_special_runs(self, results):
        """A smoke run has no verdict, an A/A run passes or fails; several variants and settings are shown."""
        compared(run(results, "smoke", smoke=True), "regression")
        compared(run(results, "aa", aa=True), "equivalent")
        compared(run(results, "same", aa=True), "equivalent", aa={"passed": True})
        found = rows(results)
        assert found["smoke"].endswith("none (smoke)")
        assert "aa" not in found  # the name of a directory of ours
        assert "v1.132.0 with itself" in found["same"]
        assert found["same"].endswith("A/A passed")

    def test_long_names_and_labels_give_way(self, results):
        """No label makes a line too wide or breaks it."""
        variants = plan("r", SPEC)["variants"]
        for variant in variants:
            variant["label"] = f"path:{variant['name']}\n\x1b[31m" + "x" * 90
        compared(run(results, "a" * 60, variants=variants), "regression", "improvement")
        compared(run(results, "short", place=ssh("h" * 70, None)), "inconclusive")
        lines = rows(results)
        assert len(lines) == 2
        assert all(character.isprintable() for line in lines.values() for character in line)
        (long,) = lines.keys() - {"short"}
        assert long.endswith("aaa…")
        assert all(line.rstrip().endswith(("1 worse, 1 …", "inconclusive")) for line in lines.values())


class TestBroken:
    """Damaged runs."""

    @pytest.mark.parametrize(
        ("harm", "said"),
        [
            (lambda path: shutil.rmtree(path / "plan"), "unreadable: no plan in it"),
            (lambda path: (path / PLAN).write_text('{"kind'), f"unreadable: {PLAN}:1: not"),
            (lambda path: (path / PLAN).write_text("[]"), f"unreadable: {PLAN}: a JSON"),
            (lambda path: (path / PLAN).write_text("{}"), "was made by an older tsduel"),
            (lambda path: (path / PLAN).write_bytes(b"\xff"), "not JSON: not UTF-8"),
            (lambda path: edit_plan(path, variants=7), f"unreadable: {PLAN}: variants: "),
            (lambda path: (path / FIRST / "block.json").write_text("{}"), "unreadable: raw/host1/001/block.json"),
            (lambda path: (path / "plan/blocks.tsv").unlink(), "unreadable: plan/blocks.tsv is missing"),
            (lambda path: compared(path, rows=None), "unreadable: TypeError in its files"),
        ],
    )
    def test_a_run_that_cannot_be_read_is_a_line(self, results, harm, said):
        """Its line has the reason; the other runs are listed."""
        harm(run(results, "broken"))
        run(results, "whole")
        found = rows(results)
        assert "  unreadable: " in found["broken"]
        assert said in found["broken"]
        assert found["broken"].rstrip().endswith("B)")
        assert "  ended 3 of 3  " in found["whole"]

    def test_strange_things_in_results(self, results):
        """A pipe in place of a plan, incomplete events, dangling and circular links."""
        pipe = run(results, "pipe") / PLAN
        pipe.unlink()
        os.mkfifo(pipe)
        path = run(results, "torn", events=("run-start", "block-start"), blocks=1)
        with (path / "raw/host1/events.jsonl").open("ab") as stream:
            stream.write(b'\xff\n{"t": 1, "event": "run-e')
        for study in ("museum", "worst"):
            (results / study).mkdir()
        (results / "nowhere").symlink_to("gone")
        (results / "circle").symlink_to("circle")
        found = rows(results)
        assert "  unreadable: " in found["pipe"]
        assert "  interrupted 1 of 3  " in found["torn"]
        assert "  unreadable: a link that leads nowhere" in found["nowhere"]
        assert "  unreadable: " in found["circle"]
        assert not {"museum", "worst"} & set(found)

    def test_a_latest_that_leads_nowhere_is_a_sentence(self, results):
        """`make list` and `make report` print it."""
        run(results, "r")
        (results / "latest").symlink_to("gone")
        sentence = (
            "results/latest leads to 'gone', which is not there any more; name a run that is: RUN=NAME (make list)"
        )
        assert sentence in listing.text({}, results)
        done = tsduel("report", "latest", cwd=results.parent)
        assert (done.returncode, done.stderr) == (2, f"tsduel: {sentence}\n")

    def test_no_results_at_all(self, tmp_path):
        """Without results/, or with an empty one, it says how to make a run."""
        for results in (tmp_path / "results", tmp_path):
            assert listing.text({}, results) == "no runs yet: make tsbs makes one"


def tsduel(*words, cwd, **more):
    """Run the command line in a directory."""
    environment = clean_environment() | {"PYTHONPATH": str(PROJECT)} | more
    return subprocess.run(
        [sys.executable, "-m", "tsduel", *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.long
def test_runs_are_listed_into_a_pipe(results):
    """As plain text, also for a pipe that takes only ASCII."""
    run(results, "20261101T000000Z-ä")
    done = tsduel("list", cwd=results.parent, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "20261101T000000Z-?" in done.stdout
    assert "\x1b" not in done.stdout
