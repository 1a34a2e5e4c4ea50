"""`tsduel` in a checkout that somebody stands in: which sides, which database, and what is no revision."""

from __future__ import annotations

from pathlib import Path

import pytest
from gitrepo import Repository

from tsduel.build.built import AT_FAULT
from tsduel.cli import app, in_checkout, pipeline
from tsduel.cli.knobs import KNOBS
from tsduel.core.errors import UserError
from tsduel.question import read

VM = "module github.com/VictoriaMetrics/VictoriaMetrics\n"


class TestInside:
    """A checkout of a database."""

    @pytest.fixture
    def checkout(self, tmp_path, monkeypatch):
        """Make one of VictoriaMetrics with a main branch, a branch of two commits, and a tag."""
        made = Repository(tmp_path / "vm")
        made.commit("go.mod", VM)
        made.git("tag", "v1.132.0")
        made.git("checkout", "--quiet", "-b", "mine")
        for text in ("one\n", "two\n"):
            made.commit(text=text)
        monkeypatch.chdir(made.path)
        monkeypatch.delenv("EXPERIMENT", raising=False)
        return made

    @pytest.fixture
    def asked(self, monkeypatch):
        """Return the knobs of the comparison that was asked for."""
        made = {}
        monkeypatch.setattr(pipeline, "compare", lambda given: made.update(given) or 0)
        return made

    def test_knobs_are_words_here_too(self, checkout, asked, monkeypatch):
        """As a report names them: the same command with BLOCKS=16."""
        monkeypatch.setenv("BLOCKS", "8")
        app.Tsduel("tsduel").main(["v1.132.0", "BLOCKS=16"], standalone_mode=False)
        assert asked["BASELINE"] == f"git:{checkout.path}@v1.132.0"
        assert asked["BLOCKS"] == "16"

    def test_alone_it_is_the_tree_against_the_merge_base(self, checkout, asked):
        """The main branch is upstream's, origin's or this clone's; the experiment is quick."""
        assert in_checkout.main((), "", full=False, watch=False) == 0
        base = checkout.git("rev-parse", "main")
        assert asked["BASELINE"] == f"git:{checkout.path}@{base}"
        assert asked["CANDIDATE"] == f"path:{checkout.path}"
        assert Path(asked["EXPERIMENT"]).name == "quick.yml"

    def test_revisions_and_length(self, checkout, asked):
        """One is the baseline of the tree, two are both sides; --full takes the default experiment."""
        in_checkout.main(("HEAD~1",), "", full=False, watch=False)
        assert asked["BASELINE"] == f"git:{checkout.path}@{checkout.git('rev-parse', 'HEAD~1')}"
        in_checkout.main((), "v1.132.0", full=True, watch=False)
        assert asked["BASELINE"] == f"git:{checkout.path}@v1.132.0"
        assert asked["CANDIDATE"] == f"path:{checkout.path}"
        assert Path(asked["EXPERIMENT"]).name == "local.yml"
        in_checkout.main(("v1.132.0", "mine"), "", full=False, watch=False)
        assert asked["CANDIDATE"] == f"git:{checkout.path}@mine"

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (("1.132.0",), "did you mean v1.132.0?"),
            (("mainn",), "did you mean main?"),
            (("a", "b", "c"), "two revisions at most"),
        ],
    )
    def test_a_revision_that_is_none(self, checkout, asked, words, sentence):
        """The nearest one of the checkout is offered."""
        del checkout
        with pytest.raises(UserError, match=sentence.replace("?", r"\?")):
            in_checkout.main(words, "", full=False, watch=False)
        assert asked == {}

    def test_a_version_that_the_clone_lacks_is_asked_of_the_proxy(self, checkout, asked):
        """However near a tag is: the tags may be of last month."""
        in_checkout.main(("v1.132.0", "v1.132.1"), "", full=False, watch=False)
        assert asked["BASELINE"] == f"git:{checkout.path}@v1.132.0"
        assert asked["CANDIDATE"] == "module:v1.132.1"
        with pytest.raises(UserError, match="git fetch --tags may bring it"):
            in_checkout.main(("v1.132.0", "v1.133.0-cluster"), "", full=False, watch=False)

    def test_watching_begins_before_the_first_edit(self, checkout):
        """The baseline is where the next edit leaves the main branch."""
        checkout.git("checkout", "--quiet", "main")
        (base, _) = in_checkout.sides(checkout.path, (), "", watch=True).values()
        assert base == f"git:{checkout.path}@{checkout.git('rev-parse', 'main')}"

    def test_the_cluster_branch_is_the_other_database(self, checkout, asked):
        """It has the same module, other programs, and a main branch of its own."""
        checkout.git("checkout", "--quiet", "-b", "cluster", "main")
        checkout.write("app/vmselect/main.go", "package main\n")
        checkout.commit_all("cluster")
        base = checkout.git("rev-parse", "HEAD")
        checkout.git("checkout", "--quiet", "-b", "of-cluster")
        checkout.commit()
        for words in ((), ("cluster", "of-cluster")):
            in_checkout.main(words, "", full=False, watch=False)
            assert "variants.candidate.target=victoriametrics-cluster" in asked["SET"]
        in_checkout.main((), "", full=False, watch=False)
        assert asked["BASELINE"] == f"git:{checkout.path}@{base}"
        question = read.read({name: asked[name] for name in asked if name in KNOBS})
        assert {side.target for side in question.asked.variants.values()} == {"victoriametrics-cluster"}
        checkout.git("checkout", "--quiet", "mine")
        in_checkout.main(("cluster", "of-cluster"), "", full=False, watch=False)
        assert "victoriametrics-cluster" in asked["SET"]

    def test_a_side_is_a_word_and_what_is_not_read_is_refused(self, checkout, asked, monkeypatch):
        """Neither is ignored."""
        del checkout
        with pytest.raises(UserError, match="METRIC: `tsbs` does not read it"):
            app.Tsduel("tsduel").main(["here", "METRIC=cpu"], standalone_mode=False)
        monkeypatch.setenv("BASELINE", "v1.130.0")
        with pytest.raises(UserError, match=r"BASELINE: here a revision is a word: tsduel v1\.132\.0"):
            in_checkout.main((), "", full=False, watch=False)
        assert asked == {}

    def test_a_file_that_is_deleted_is_a_change(self, checkout):
        """As one that is changed or new."""
        before = in_checkout._tree(checkout.path)
        name = checkout.git("ls-files").splitlines()[0]
        (checkout.path / name).unlink()
        assert in_checkout._tree(checkout.path) != before

    def test_a_file_that_is_staged_is_a_change_once(self, checkout):
        """Git compares with what is staged, unless it is told to compare with the commit."""
        name, before = checkout.git("ls-files").splitlines()[0], in_checkout._tree(checkout.path)
        (checkout.path / name).write_text("other\n")
        changed = in_checkout._tree(checkout.path)
        checkout.git("add", name)
        assert before != changed == in_checkout._tree(checkout.path)

    def test_the_main_branch_without_changes_is_nothing_to_compare(self, checkout, asked):
        """A file that is changed is."""
        checkout.git("checkout", "--quiet", "main")
        with pytest.raises(UserError, match="has no changes against main"):
            in_checkout.main((), "", full=False, watch=False)
        checkout.write("new.go", "package x\n")
        assert in_checkout.main((), "", full=False, watch=False) == 0
        assert asked["BASELINE"].endswith(checkout.git("rev-parse", "main"))

    @pytest.mark.parametrize("full", [False, True])
    @pytest.mark.parametrize("module", in_checkout.MODULES)
    def test_the_database_is_that_of_go_mod(self, checkout, asked, module, full):
        """The experiment's variants become such databases, and it is one that can be planned."""
        checkout.write("go.mod", f"module {module}\n\ngo 1.25\n")
        in_checkout.main((), "", full=full, watch=False)
        question = read.read({name: asked[name] for name in asked if name in KNOBS})
        assert {side.target for side in question.asked.variants.values()} == {in_checkout.MODULES[module]}

    @pytest.mark.parametrize("text", ["module github.com/influxdata/influxdb/v2\n", "module example.org/x\n", None])
    def test_anything_else_is_a_sentence(self, checkout, text):
        """It says what it is, and nothing is planned."""
        (checkout.path / "go.mod").unlink()
        if text:
            checkout.write("go.mod", text)
        with pytest.raises(UserError, match=r"is no checkout of VictoriaMetrics, Prometheus or InfluxDB 1.x: it"):
            in_checkout.main((), "", full=False, watch=False)

    def test_watch_prints_a_line_a_tree(self, checkout, monkeypatch, capsys, tmp_path):
        """The first tree, then each that has changed; one that does not build is a line too."""
        monkeypatch.setattr(in_checkout, "_PAUSE_S", 0.01)
        monkeypatch.setenv("TSDUEL_RESULTS", str(tmp_path / "results"))
        runs = []

        def call(_, environment, take):
            runs.append(environment["RUN"])
            if len(runs) == 3:
                raise KeyboardInterrupt
            log = tmp_path / "results" / environment["RUN"] / "build/candidate.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            if len(runs) == 1:
                take("tsduel: something else")
            else:
                log.write_text(AT_FAULT)
            checkout.write("file", f"{len(runs)}\n")
            return 2

        monkeypatch.setattr(in_checkout.children, "call", call)
        monkeypatch.setattr(pipeline, "new_run", lambda *_: f"r{len(runs)}")
        with pytest.raises(KeyboardInterrupt):
            in_checkout.main((), "", full=False, watch=True)
        first, second, third = capsys.readouterr().out.splitlines()
        assert first.startswith(f"watching {checkout.path}; ")
        assert second.endswith("no result: tsduel: something else")
        assert third.endswith("does not build: " + str(tmp_path / "results/r1/build/candidate.log"))
