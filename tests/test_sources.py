"""What an experiment says of a variant becomes one exact revision, or a sentence."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

import pytest
from gitrepo import Repository

from tsduel.core.errors import UserError
from tsduel.core.plan import Component
from tsduel.core.sections import ComponentAsked
from tsduel.plan import sources
from tsduel.plan.sources import absolute_location, build_key, go_version
from tsduel.targets import databases

TARGET = databases()["victoriametrics"].programs["server"]


def resolve(source, variant="v", **where):
    """Return the component at its revision, which is found anew."""
    sources._found.cache_clear()
    return sources.resolve(TARGET, variant, ComponentAsked(source=source, **where))


def exact(found):
    """Return what is known of a revision."""
    return found.revision, found.version, found.sum, found.dirty, found.label


@pytest.fixture
def repository(tmp_path):
    """Make a repository with one commit."""
    made = Repository(tmp_path / "source")
    made.commit()
    return made


@pytest.fixture
def fake_go(tmp_path, monkeypatch):
    """Put a `go` on PATH that answers with a file's text and logs how it was called."""
    directory = tmp_path / "fake"
    directory.mkdir()
    script = directory / "go"
    script.write_text(
        "#!/bin/sh\n"
        'case $1 in\nversion) echo "go version go1.30.0 linux/amd64";;\nenv) echo;;\n'
        f'*) echo "$*" "$GOFLAGS" "$GOENV" "${{GOAMD64-unset}}" >"{directory}/log"; cat "{directory}/answer"\n'
        f'   exit "$(cat "{directory}/code")";;\nesac\n'
    )
    script.chmod(0o755)
    (directory / "code").write_text("0")
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return directory


def test_a_release_of_prometheus_is_told_by_the_name_of_its_module(monkeypatch):
    """Whoever types v3.8.0 means v0.308.0."""
    monkeypatch.setattr(sources, "download", lambda *_: {"Error": "unknown revision"})
    prometheus = databases()["prometheus"].programs["server"]
    for typed, named in (("v3.8.0", "v0.308.0"), ("v2.53.1", "v0.53.1")):
        sources._found.cache_clear()
        with pytest.raises(UserError, match=rf"the Go module of Prometheus {typed} is called {named}: name that"):
            sources.resolve(prometheus, "v", ComponentAsked(source="module", ref=typed))


def test_a_checkout_of_another_database_is_refused(repository):
    """Before it is built in vain; the cluster version of VictoriaMetrics has an experiment of its own."""
    repository.commit("go.mod", "module github.com/prometheus/prometheus\n")
    with pytest.raises(
        UserError, match=r"is of github\.com/prometheus/prometheus, and victoria-metrics of github\.com/Vi"
    ):
        resolve("path", path=str(repository.path))
    repository.commit("go.mod", f"module {TARGET.module}\n")
    repository.commit("app/vmselect/main.go", "package main\n")
    with pytest.raises(UserError, match="is VictoriaMetrics' cluster version: type `tsduel` in it"):
        resolve("path", path=str(repository.path))


def test_a_workspace_above_a_checkout_is_told(repository, capsys):
    """`go` there builds with it, and a build of ours does not."""
    (repository.path.parent / "go.work").write_text("go 1.26\n")
    resolve("path", path=str(repository.path))
    assert f"it is built without {repository.path.parent / 'go.work'}, which `go` there uses" in capsys.readouterr().err


def test_module_takes_revision_and_checksum_from_the_proxy(fake_go, monkeypatch):
    """The answer of `go mod download` is the resolution; the user's Go settings do not reach it."""
    (fake_go / "answer").write_text('{"Version":"v1.2.3","Sum":"h1:x=","Origin":{"Hash":"' + "a" * 40 + '"}}')
    monkeypatch.setenv("GOFLAGS", "-tags=mine")
    monkeypatch.setenv("GOAMD64", "v3")
    resolved = resolve("module", "baseline", ref="v1.2.3")
    assert exact(resolved) == ("a" * 40, "v1.2.3", "h1:x=", "", "v1.2.3")
    expected = f"mod download -json {TARGET.module}@v1.2.3 -trimpath -buildvcs=false -modcacherw off unset\n"
    assert (fake_go / "log").read_text() == expected


def test_module_of_a_proxy_without_origin_is_named_by_its_checksum(fake_go):
    """Some proxies do not say which commit a version is."""
    (fake_go / "answer").write_text('{"Version":"v1.2.3","Sum":"h1:x="}')
    assert resolve("module", "baseline", ref="v1.2.3").revision == "h1:x="


def test_module_that_does_not_resolve_says_what_would(fake_go):
    """The sentence has the variant, the reference, the reason and the way out."""
    (fake_go / "answer").write_text('{"Error":"m@v9: not found"}')
    (fake_go / "code").write_text("1")
    with pytest.raises(UserError, match=r"variant baseline: 'v9' .*not found.*'source: git'"):
        resolve("module", "baseline", ref="v9")


@pytest.mark.parametrize("ref", ["-v", "--upload-pack=x", "", "a b", "a\nb"])
@pytest.mark.parametrize("source", ["module", "git"])
def test_a_reference_is_never_an_option(source, ref, repository):
    """What looks like an option, or like nothing, is refused before any program sees it."""
    with pytest.raises(UserError, match="no name of a revision"):
        resolve(source, ref=ref, repo=str(repository.path))


@pytest.mark.parametrize("as_url", [False, True])
def test_git_resolves_every_kind_of_reference(repository, as_url, tmp_path, monkeypatch):
    """Branch, both kinds of tag, full and short commit; by path and by URL."""
    monkeypatch.setenv("TSDUEL_CACHE", str(tmp_path / "cache"))
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-a", "v1.0.0", "-m", "annotated")
    repository.git("tag", "light")
    second = repository.commit("other")
    repository.git("branch", "topic/one")
    repo = f"file://{repository.path}" if as_url else str(repository.path)

    def resolved(ref):
        return resolve("git", ref=ref, repo=repo)

    assert exact(resolved("v1.0.0")) == (first, "v1.0.0", "", "", "v1.0.0")
    assert resolved("light").revision == first
    label = f"topic/one@{second[:12]}"
    assert exact(resolved("topic/one")) == (second, label, "", "", label)
    assert resolved(second).revision == resolved(second[:9]).revision == second
    assert resolved(first[:9]).label == first[:12]
    third = repository.commit("third")
    assert resolved("main").revision == resolved(third[:9]).revision == third
    for missing in ("nosuch", "deadbeef", "d" * 40):
        with pytest.raises(UserError, match=f"'{missing}' does not resolve in .*source"):
            resolved(missing)


@pytest.mark.parametrize("repo", ["/nonexistent/place", "file:///nonexistent/place"])
def test_git_without_a_repository_is_a_sentence(repo):
    """A wrong or unreadable repository is named."""
    with pytest.raises(UserError, match=r"variant v: .*repo:"):
        resolve("git", ref="main", repo=repo)


def test_path_sees_local_changes_and_leaves_the_checkout_alone(repository):
    """Each state of the files has its own hash; a clean checkout has none; nothing is staged."""
    repository.write(".gitignore", "*.o\n")
    head = repository.commit_all("ignore objects")

    def state():
        return resolve("path", path=str(repository.path))

    assert exact(state()) == (head, f"source@{head[:12]}", "", "", f"source@{head[:12]}")
    repository.write("made.o", "ignored")
    assert not state().dirty
    objects = sorted((repository.path / ".git").rglob("*"))
    repository.write("file", "changed\n")
    changed = state()
    repository.write("new", "untracked\n")
    with_new = state()
    (repository.path / "file").unlink()
    deleted = state()
    assert len({changed.dirty, with_new.dirty, deleted.dirty}) == 3
    assert all(len(one.dirty) == 64 and one.revision == head for one in (changed, with_new, deleted))
    assert changed.label == f"source@{head[:12]}+{changed.dirty[:8]}"
    assert repository.git("diff", "--cached", "--name-only") == ""
    assert sorted((repository.path / ".git").rglob("*")) == objects


def test_a_terminal_obeys_no_name_of_a_checkouts_files(repository, capsys):
    """As that of a submodule which a pull request has added."""
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},a\x1b[2Jb")
    resolve("path", path=str(repository.path))
    said = capsys.readouterr().err
    assert "the submodule a" in said
    assert "\x1b" not in said


def test_path_must_be_the_top_of_a_checkout(repository, tmp_path):
    """A directory without git, a directory inside a checkout and a missing one are refused."""
    inside = repository.write("deep/file", "x").parent
    for path in (tmp_path, inside):
        with pytest.raises(UserError, match="not the top of a git checkout"):
            resolve("path", path=str(path))
    with pytest.raises(UserError, match=r"sourc: no such directory; did you mean source\?"):
        resolve("path", path=str(tmp_path / "sourc"))


def test_binary_is_its_sha256(tmp_path):
    """The file's content is the revision; what cannot be run is refused."""
    binary = tmp_path / "server"
    binary.write_bytes(b"content")
    with pytest.raises(UserError, match="no executable file"):
        resolve("binary", path=str(binary))
    binary.chmod(0o755)
    digest = hashlib.sha256(b"content").hexdigest()
    resolved = resolve("binary", path=str(binary))
    assert (resolved.revision, resolved.label) == (f"sha256:{digest}", f"server@{digest[:12]}")


def test_build_key_follows_what_shapes_the_binary(monkeypatch):
    """Everything that changes the bytes changes the key; a checkout's place does not."""
    monkeypatch.setattr(sources, "go_version", lambda _, toolchain: toolchain)
    one = Component(program="p", source="git", repo="/r", label="v1", revision="a" * 40, version="v1", sum="h1:")
    changes = ({}, {"revision": "b" * 40}, {"dirty": "c"}, {"repo": "/s"}, {"source": "module"}, {"go": "go1.25.5"})
    keys = [build_key(TARGET, one.model_copy(update=changed)) for changed in changes]
    keys.append(build_key(replace(TARGET, own_command=("make", "pure")), one))
    by_path = [one.model_copy(update={"source": "path", "repo": "", "path": path}) for path in ("/r", "/s")]
    assert len({build_key(TARGET, part) for part in by_path}) == 1
    monkeypatch.setattr(sources, "platform", lambda: "linux/aarch64")
    keys.append(build_key(TARGET, one))
    assert len(set(keys)) == 8
    assert len(keys[0]) == 16


def test_locations_are_absolute_and_urls_stay(tmp_path, monkeypatch):
    """A relative path means the working directory; a URL is left alone."""
    monkeypatch.chdir(tmp_path)
    assert absolute_location("x/y") == str(tmp_path / "x/y")
    for url in ("https://host/x.git", "git@host:x/y.git", "file:///x"):
        assert absolute_location(url) == url


@pytest.mark.slow
def test_module_really_resolves():
    """The released version of the real module, with the commit that its tag names."""
    resolved = resolve("module", "baseline", ref="v1.132.0")
    assert resolved.revision == "d04a42e8461c4f5b18193d6739ecfb92896c7f85"
    assert resolved.sum.startswith("h1:")
    assert go_version(TARGET.go_minimum).startswith("go1.")


def test_a_misspelt_toolchain_is_a_sentence():
    """`go:` names a version that does not exist."""
    with pytest.raises(UserError, match=r"no Go toolchain for 'go: go1\.nosuch'"):
        go_version(TARGET.go_minimum, "go1.nosuch")
