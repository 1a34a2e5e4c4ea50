"""The museum: every exhibit can be planned, and its page says of each what was measured, with the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from plots import museum as page
from tsduel import museum
from tsduel.bisect.bisection import Bisection
from tsduel.bisect.metric import followed
from tsduel.bisect.revisions import Revision
from tsduel.core.errors import UserError
from tsduel.plan import resolve, sources
from tsduel.question import read
from tsduel.stats.power import FEWEST_BLOCKS

PROJECT = Path(__file__).resolve().parent.parent
EXHIBITS = sorted((PROJECT / "experiments/museum").glob("*.yml"))
PAGE = (PROJECT / "docs/museum.md").read_text(encoding="utf-8")
SECTIONS = {
    name: part
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)
    for name in re.findall(r"`([a-z0-9-]+)`", part.partition("\n")[0])
}
REPORT = re.compile(r"\]\((\S+?\.md)(?:#\S*)?\)")
FIGURE = re.compile(r"[0-9]+(?:\.[0-9]+)?(?= %| to [+-]?[0-9.]+ %)")


@pytest.mark.parametrize("path", EXHIBITS, ids=lambda path: path.stem)
def test_every_exhibit_can_be_planned(path, monkeypatch):
    """Whatever its versions resolve to, with enough blocks for a verdict."""

    def found(_program, _variant, asked):
        return {"revision": "0" * 40, "label": asked.ref or "checkout"}

    monkeypatch.setattr(sources, "FOUND", dict.fromkeys(sources.FOUND, found))
    monkeypatch.setattr(sources, "go_version", lambda *_: "go1.26.0")
    plan = resolve.resolve(read.expand(read.read_file(path), str(path))[0].asked, run="r")
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
    refs = set(re.findall(r"ref: (v[0-9.]+|[0-9a-f]{10})\b", path.read_text(encoding="utf-8")))
    assert refs
    assert not [ref for ref in refs if ref not in section]
    assert "**Measured.**" in section or "**Not measured.**" in section


def test_no_figure_is_on_the_page_without_a_report():
    """What was measured links the report that has every percentage of it."""
    said = re.findall(r"\*\*Measured\.\*\*(.*?)(?=\n\n|\Z)", PAGE, re.DOTALL)
    assert len(said) >= len(EXHIBITS) // 2
    for paragraph in said:
        found = REPORT.findall(paragraph)
        assert found, paragraph
        reports = "\n".join((PROJECT / "docs" / path).read_text(encoding="utf-8") for path in found)
        missing = [figure for figure in FIGURE.findall(paragraph) if figure not in reports]
        assert not missing, (missing, paragraph)


def test_there_are_controls_and_what_could_not_be_reproduced():
    """Six where nothing changed; versions that cannot be had are named with what was tried."""
    assert sum(path.stem.startswith("control-") for path in EXHIBITS) >= 6
    missing = PAGE.split("## What could not be shown")[1]
    for issue in ("9602", "9665", "1.11"):
        assert issue in missing
    for path in (PROJECT / "docs/museum").glob("*.md"):
        assert f"(museum/{path.name})" in PAGE
    assert all(read.read_file(path)["noise"] for path in EXHIBITS)


def test_the_table_is_made_of_what_is_kept():
    """Every experiment is an exhibit; the page's table is what `tsduel museum page` writes."""
    assert set(museum.exhibits()) == {path.stem for path in EXHIBITS}
    assert page.page(PAGE) == PAGE
    for name, exhibit in museum.exhibits().items():
        assert exhibit.found or museum.shown(name, None) or "**Not measured.**" in SECTIONS[name]


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """Return what is typed; each run leaves a comparison and each search its answer, as make would."""
    said = []

    def done(environment, target, run, *words):
        name = run.removeprefix("RUN=")
        said.append((target, *words))
        if f"{target} {name}".endswith(environment.get("FAILS", " ")):
            raise UserError(f"make {target} ended with exit code 2, see above")
        row = {"metric": "duel_role_cpu_us", "query_type": "vmauth", "change_pct": -21.5, "lo_pct": -23.0,
               "hi_pct": -20.0, "verdict": "improvement"}  # fmt: skip
        left = {f"{name}/stats/comparison.json": json.dumps({"rows": [row]}),
                f"{name}/raw/host1.json": json.dumps({"cpus": 2, "cpu_model": "AMD EPYC"})}  # fmt: skip
        if target == "bisect":
            revisions = tuple(Revision(ref=f"r{i}", label=f"r{i}", subject=f"{i}0c1 change {i}") for i in range(3))
            of = Bisection(name=name, created="", kind="tsbs", given={}, knobs={}, followed=followed("tsbs", {}),
                           repo="", revisions=revisions)  # fmt: skip
            chances = "ref,chance\nr0,\nr1,0.01\nr2,0.97\n"
            left = {f"bisect/{name}/bisect.json": of.model_dump_json(), f"bisect/{name}/revisions.csv": chances}
        for path, text in left.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return 2.5

    monkeypatch.setattr(museum, "_typed", done)
    return said


@pytest.mark.parametrize("busy", [False, True])
def test_an_exhibit_is_run_traced_and_shown(tmp_path, typed, monkeypatch, capsys, busy):
    """Reported, measured, traced and minutes; a figure of a busy machine says so and is not kept for the page."""
    load, beside = (9.0, ", 9 processes a CPU beside it") if busy else (0.1, "")
    monkeypatch.setattr(museum.os, "getloadavg", lambda: (load * museum.os.cpu_count(), 0, 0))
    monkeypatch.setattr(museum, "KEPT", tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    page.main(["vm-gogc"], {}, tmp_path)
    text = capsys.readouterr().out
    experiment = "EXPERIMENT=experiments/museum/vm-gogc.yml"
    assert typed[0] == ("tsbs", experiment)
    assert typed[1][:2] == ("bisect", experiment)
    assert "ROLE=vmauth" in typed[1]
    assert "-21.5 % (-23.0 to -20.0 %), better" in text
    assert f"AMD EPYC{beside})" in text
    assert "`r2 20c1 change 2` 97 %" in text
    assert "2.5 + 2.5" in text
    assert museum.keep(tmp_path) == [
        "vm-gogc: not kept: 9 processes a CPU ran beside it" if beside else "vm-gogc: kept"
    ]
    assert (tmp_path / "kept/vm-gogc.json").exists() == (not beside)


def test_two_commits_of_one_subject_keep_their_own_chances(tmp_path):
    """The likely one is named by its commit, though a later one that is unlikely has the same subject."""
    revisions = tuple(Revision(ref=ref * 20, label=ref, subject="fix typo") for ref in ("aa", "bb", "cc"))
    of = Bisection(name="b", created="", kind="tsbs", given={}, knobs={}, followed=followed("tsbs", {}), repo="",
                   revisions=revisions)  # fmt: skip
    of.write(tmp_path / "bisect/b")
    lines = (f"{each.ref},{chance}\n" for each, chance in zip(revisions, ("", "0.97", "0.02"), strict=True))
    (tmp_path / "bisect/b/revisions.csv").write_text("ref,chance\n" + "".join(lines))
    assert museum._traced(tmp_path, "b") == {"bb fix typo": 0.97}


def test_one_that_fails_does_not_keep_the_others_from_running(tmp_path, typed, capsys):
    """The table comes all the same, and the failure last, by its name."""
    with pytest.raises(UserError, match=r"control-gogc: .* ended with exit code 2") as failure:
        page.main(["control-gogc", "vm-gogc"], {"FAILS": "control-gogc"}, tmp_path)
    assert "vm-gogc: " not in str(failure.value)
    assert [words[0] for words in typed] == ["tsbs", "tsbs", "bisect"]
    assert "-21.5 %" in capsys.readouterr().out
    page.main(["control-gogc", "vm-gogc"], {}, tmp_path)
    assert typed[3:] == [("tsbs", "EXPERIMENT=experiments/museum/control-gogc.yml")]


def test_the_same_command_goes_on_after_a_power_cut(tmp_path, typed, monkeypatch, capsys):
    """With the same runs, whatever was typed meanwhile is done; minutes that nobody counted are not shown."""
    for cut in ("tsbs", "bisect"):
        with monkeypatch.context() as patched:
            whole = museum._typed

            def typed_until(environment, target, run, *words, cut=cut, whole=whole):
                took = whole(environment, target, run, *words)
                if target == cut:
                    raise KeyboardInterrupt
                return took

            patched.setattr(museum, "_typed", typed_until)
            with pytest.raises(KeyboardInterrupt):
                page.main(["vm-gogc"], {}, tmp_path)
    page.main(["vm-gogc"], {}, tmp_path)
    assert [words[0] for words in typed] == ["tsbs", "tsbs", "bisect", "tsbs", "bisect"]
    assert len([path for path in tmp_path.iterdir() if path.name.endswith("-vm-gogc")]) == 1
    said = capsys.readouterr()
    assert "going on, 0 of 1 exhibits are done; to begin anew, remove " in said.err
    assert "97 %" in said.out
    assert "2.5" not in said.out
    page.main(["vm-gogc"], {}, tmp_path)
    assert "2.5 + 2.5" in capsys.readouterr().out


def test_a_search_that_fails_keeps_what_was_measured(tmp_path, typed, capsys):
    """The table has the figure; nobody measures it again."""
    with pytest.raises(UserError, match="make bisect ended with exit code 2"):
        page.main(["vm-gogc"], {"FAILS": "vm-gogc-bisect"}, tmp_path)
    assert [words[0] for words in typed] == ["tsbs", "bisect"]
    page.main([], {}, tmp_path)
    assert "-21.5 % (-23.0 to -20.0 %), better" in capsys.readouterr().out


def test_an_interruption_is_of_all_and_a_verdict_is_no_failure(monkeypatch):
    """Whoever stops one exhibit does not want the next; one that got worse, or is noisy, was measured."""
    for code in (0, 4, 5, 6):
        monkeypatch.setattr(museum.children, "call", lambda *_, code=code: code)
        assert museum._typed({}, "tsbs") == 0.0
    monkeypatch.setattr(museum.children, "call", lambda *_: 130)
    with pytest.raises(KeyboardInterrupt):
        museum._typed({}, "tsbs")


def test_an_exhibit_that_there_is_not_is_refused():
    """With those that there are."""
    with pytest.raises(UserError, match=r"vm-1: no exhibit of the museum; there are vm-10854, .*, or all"):
        page.main(["vm-1"], {}, PROJECT)
