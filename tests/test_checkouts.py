"""The files of a checkout, as ansible/checkout.py finds them for plans and builds, whatever git is told to ignore."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gitrepo import Repository
from hypothesis import given, settings
from hypothesis import strategies as st

PROJECT = Path(__file__).resolve().parent.parent


def found(checkout, *copy):
    """Return what is said of the files of a checkout."""
    command = [sys.executable, PROJECT / "ansible/checkout.py", checkout, *copy]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def repository(tmp_path):
    """Make a checkout of two directories, committed."""
    made = Repository(tmp_path / "checkout")
    made.write("heap/heap.go", "package heap\n")
    made.write("run.sh", "#!/bin/sh\n", mode=0o755)
    (made.path / "link").symlink_to("heap/heap.go")
    made.commit("docs/a.md", "one\ntwo\n")
    return made


def mode_that_git_does_not_see(made):
    """As on a disk of Windows."""
    made.git("config", "core.fileMode", "false")
    (made.path / "docs/a.md").chmod(0o777)


def ends_of_lines(made):
    """As Git for Windows checks out."""
    made.git("config", "core.autocrlf", "true")
    made.write("docs/a.md", "one\r\ntwo\r\n")


def sparse(made):
    """Only one directory is there."""
    made.git("sparse-checkout", "set", "heap")


def nested(made):
    """Another clone inside, and one without a commit."""
    for name in ("tsduel", "scratchpad"):
        made.git("init", "--quiet", name)
    Repository(made.path / "tsduel").commit()


def ignored(made):
    """Add what git ignores by a file of the user's."""
    made.git("config", "core.excludesFile", str(made.path.parent / "mine"))
    (made.path.parent / "mine").write_text("*.log\n")
    made.write("x.log", "x")


@pytest.mark.parametrize("change", [mode_that_git_does_not_see, ends_of_lines, sparse, nested, ignored])
def test_what_is_no_change_is_none(repository, tmp_path, change):
    """The files are HEAD's, however the checkout is set; a copy of them is whole, and the same."""
    change(repository)
    assert found(repository.path, tmp_path / "copy")["changes"] == ""
    assert (tmp_path / "copy/docs/a.md").read_text().split() == ["one", "two"]
    assert os.access(tmp_path / "copy/run.sh", os.X_OK)
    assert (tmp_path / "copy/link").readlink() == Path("heap/heap.go")
    assert not list((tmp_path / "copy").glob("tsduel/*"))


def hidden(made):
    """Make a change that `git status` was told not to see."""
    made.git("update-index", "--assume-unchanged", "docs/a.md")
    made.write("docs/a.md", "mine\n")


def new(made):
    """Add a file that git does not know yet, whose name is no text."""
    Path(os.fsdecode(os.fsencode(made.path) + b"/new-\xff.go")).write_text("x")


def deleted(made):
    """Remove a file."""
    (made.path / "heap/heap.go").unlink()


def replaced(made):
    """Make a directory where a file was."""
    deleted(made)
    made.write("heap/heap.go/inside", "x")


@pytest.mark.parametrize("change", [hidden, new, deleted, replaced])
def test_what_is_a_change_is_the_same_change_in_every_copy(repository, tmp_path, change):
    """A clone with the same files has the same fingerprint, and back at HEAD it has none."""
    change(repository)
    (tmp_path / "copy").mkdir()
    before = found(repository.path, tmp_path / "copy")["changes"]
    assert before == found(repository.path)["changes"] != ""
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", repository.path, tmp_path / "clone"], check=True)
    subprocess.run(["cp", "-a", f"{tmp_path}/copy/.", tmp_path / "clone"], check=True)
    assert found(tmp_path / "clone")["changes"] == before
    subprocess.run(["git", "-C", tmp_path / "clone", "checkout", "--quiet", "--force", "HEAD"], check=True)
    subprocess.run(["git", "-C", tmp_path / "clone", "clean", "-qfd"], check=True)
    assert found(tmp_path / "clone")["changes"] == ""


def test_submodules_are_taken_along_or_named(repository, tmp_path):
    """Their files are copied; a commit of their own is a change; one that is not checked out is told."""
    fixtures = Repository(tmp_path / "fixtures")
    fixtures.commit("sample.bin", "1234\n")
    local = ("-c", "protocol.file.allow=always")
    repository.git(*local, "submodule", "--quiet", "add", str(fixtures.path), "heap/testdata")
    repository.commit_all("with data")
    assert found(repository.path, tmp_path / "copy") == {"changes": "", "notes": []}
    assert (tmp_path / "copy/heap/testdata/sample.bin").read_text() == "1234\n"
    own = Repository(repository.path / "heap/testdata")
    own.commit("sample.bin", "5678\n")
    assert found(repository.path)["changes"]
    repository.git("submodule", "--quiet", "deinit", "--force", "--all")
    absent = found(repository.path)
    assert "the submodule heap/testdata is not checked out" in absent["notes"][0]
    assert absent["changes"]  # what is built is another program


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.text("ab/", min_size=1, max_size=4), st.binary(max_size=30), max_size=4))
def test_any_files_are_the_same_in_a_copy(tmp_path_factory, files):
    """Whatever lies in a checkout: read twice, it is the same."""
    made = Repository(tmp_path_factory.mktemp("any") / "checkout")
    made.commit()
    for name, content in files.items():
        path = made.path / name.strip("/").replace("//", "/")
        if path != made.path and not path.exists() and not any(up.is_file() for up in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    assert found(made.path) == found(made.path, made.path.parent / "copy")


def test_git_is_asked_with_settings_of_ours(repository, tmp_path, monkeypatch):
    """Signatures, colours, a pager or another repository of the user's change nothing of what git prints."""
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", repository.path, bare], check=True)
    words = [PROJECT / "scripts/git", "-C", bare, "log", "--format=%s"]
    plain = subprocess.run(words, capture_output=True, check=True)
    (tmp_path / "config").write_text(
        "[log]\n\tshowSignature = true\n\tdecorate = full\n[color]\n\tui = always\n\tdiff = always\n"
        "[core]\n\tpager = false\n"
        "\tautocrlf = true\n\thooksPath = /nonexistent\n[format]\n\tpretty = oneline\n[diff]\n\texternal = false\n"
        "[safe]\n\tbareRepository = explicit\n"
    )
    hostile = {
        "GIT_CONFIG_GLOBAL": f"{tmp_path}/config",
        "GIT_DIR": "/nonexistent",
        "GIT_PAGER": "false",
        "LC_ALL": "C",
    }
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(words, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, plain.stdout)
