"""The machine of the tests is made although a package cannot be fetched now and then."""

from __future__ import annotations

import barehost
import pytest

# Fetches a package a call, as far as it is not in its cache, and is done with the third.
DEBOOTSTRAP = """#!/usr/bin/env bash
for word; do [[ $word != --cache-dir=* ]] || cache=${word#*=}; [[ $word != /*.partial ]] || tree=$word; done
[[ ! -e $tree ]] || exit 9
mkdir "$tree"
printf 'I: Retrieving everything %.0s' {1..500}
touch "$cache/$(ls "$cache" | wc -l).deb"
[[ $(ls "$cache" | wc -l) -ge $PACKAGES ]] || { echo "E: Couldn't download packages" >&2; exit 1; }
"""


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Have a registry that gives one package an attempt; return what says how many are needed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "debootstrap").write_text(DEBOOTSTRAP)
    (programs / "debootstrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setattr(barehost, "HOME", tmp_path)
    monkeypatch.setattr(barehost, "PAUSE_S", 0)
    return lambda packages: monkeypatch.setenv("PACKAGES", str(packages))


def test_what_was_fetched_is_kept_for_the_next_attempt(tmp_path, registry):
    """Each attempt begins with an empty tree, and with the packages of the one before."""
    registry(3)
    assert barehost._bootstrap(tmp_path / "tree.partial").is_dir()
    assert [path.name for path in tmp_path.iterdir()].count("packages") == 0


def test_after_three_attempts_its_last_words_are_said(tmp_path, registry):
    """What it had done until then would fill the screen."""
    registry(4)
    with pytest.raises(AssertionError) as caught:
        barehost._bootstrap(tmp_path / "tree.partial")
    assert "E: Couldn't download packages" in str(caught.value)
    assert len(str(caught.value)) < 2 * barehost.MOST_SAID
