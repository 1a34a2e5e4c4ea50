"""The museum: every exhibit can be planned, and its page says of each what was measured, with the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tsduel.plan import resolve, sources
from tsduel.question import read
from tsduel.stats.power import FEWEST_BLOCKS

PROJECT = Path(__file__).resolve().parent.parent
EXHIBITS = sorted((PROJECT / "experiments/museum").glob("*.yml"))
PAGE = (PROJECT / "docs/museum.md").read_text(encoding="utf-8")
SECTIONS = {part.split("`")[0]: part for part in re.split(r"^## `?", PAGE, flags=re.MULTILINE)}
REPORT = re.compile(r"\]\((\S+?\.md)(?:#\S*)?\)")
FIGURE = re.compile(r"[0-9]+(?:\.[0-9]+)?(?= %| to [+-]?[0-9.]+ %)")


@pytest.mark.parametrize("path", EXHIBITS, ids=lambda path: path.stem)
def test_every_exhibit_can_be_planned(path, monkeypatch):
    """Whatever its versions resolve to, with enough blocks for a verdict."""

    def resolved(_program, *, ref, **_rest):
        return sources.ResolvedSource("0" * 40, ref or "checkout", "", "", ref or "checkout")

    monkeypatch.setattr(sources, "resolve", resolved)
    monkeypatch.setattr(sources, "go_version", lambda *_: "go1.26.0")
    cells = read.expand(read.read_file(path), str(path))
    plan = resolve.resolve(cells[0].asked, cells=cells, run="r")
    assert plan.name == path.stem
    assert plan.design.blocks >= FEWEST_BLOCKS
    assert plan.question
    assert not plan.smoke


@pytest.mark.parametrize("path", EXHIBITS, ids=lambda path: path.stem)
def test_the_page_has_every_exhibit(path):
    """Its issue, its file, all of its versions, and what was measured."""
    section = SECTIONS[path.stem]
    assert f"(../experiments/museum/{path.name})" in section
    for number in re.findall(r"[0-9]{4,}", path.stem):
        assert re.search(rf"https://github\.com/\S+/{number}\)", section)
    refs = set(re.findall(r"ref: (v[0-9.]+)", path.read_text(encoding="utf-8")))
    assert refs
    assert not [ref for ref in refs if ref not in section]
    assert "**Measured.**" in section or "**Not measured.**" in section


def test_no_figure_is_on_the_page_without_a_report():
    """What was measured links the report that has every percentage of it."""
    said = re.findall(r"\*\*Measured\.\*\*(.*?)(?=\n\n|\Z)", PAGE, re.DOTALL)
    assert len(said) > len(EXHIBITS) // 2
    for paragraph in said:
        found = REPORT.findall(paragraph)
        assert found, paragraph
        reports = "\n".join((PROJECT / "docs" / path).read_text(encoding="utf-8") for path in found)
        missing = [figure for figure in FIGURE.findall(paragraph) if figure not in reports]
        assert not missing, (missing, paragraph)


def test_there_are_controls_and_what_could_not_be_reproduced():
    """Three where nothing changed; versions that cannot be had are named with what was tried."""
    assert sum(path.stem.startswith("control-") for path in EXHIBITS) == 3
    missing = PAGE.split("## What could not be shown")[1]
    for issue in ("9602", "9665", "1.11"):
        assert issue in missing
    for path in (PROJECT / "docs/museum").glob("*.md"):
        assert f"(museum/{path.name})" in PAGE
    assert all(yaml.safe_load(path.read_text(encoding="utf-8"))["noise"] for path in EXHIBITS)
