"""The page in a real browser: what a first screen holds, what its script does, that it asks nobody for anything.

UPDATE_GOLDEN=1 takes the screenshots in docs/ anew, to be looked at before they are committed.
"""

import os
from pathlib import Path

import profiled
import pytest
import synthetic
from browser import CHROMIUM, Browser
from reports import compared, drawn, made

from plots.sections import profiles
from tsduel.plan import changes
from tsduel.stats import aa

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium (make test-all does)"
    ),
]
DOCS = Path(__file__).parents[1] / "docs"
SCREENS = {"wide": (1280, 800), "phone": (390, 844)}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Make the report of a run of the default size on a machine that is calibrated."""
    path = tmp_path_factory.mktemp("browser")
    plain = {"blocks": 8, "query_types": synthetic.QUERY_TYPES, "solo_s": 0.0, "exchanges": 300}
    compared(path, **plain, aa=True, factors={}).rename(path / "aa-run")
    assert "calibration" in aa.keep(path / "aa-run")
    return drawn(path, **plain) / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Start a browser with a profile of its own."""
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_the_first_screen_holds_question_answer_and_picture(report, browser, tmp_path, screen):
    """Without scrolling, on a laptop and on a phone; no text is cut, nothing is fetched, the script has no error."""
    browser.open(report, *SCREENS[screen])
    assert browser.run("shown()") == [True, True, True]
    assert browser.run("forms()") == [{"wide": "wide", "phone": "narrow"}[screen]]
    assert 60 < len(browser.run("words()")) <= 127
    browser.screenshot((DOCS if os.environ.get("UPDATE_GOLDEN") else tmp_path) / f"report-{screen}.png")
    assert browser.run("cut()") == []
    assert screen == "phone" or browser.run("aside(document.querySelector('header .table'))") == 0
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.run("cut()") == []
    assert {address.split(":")[0] for address in browser.asked} == {"file"}
    assert browser.errors == []
    assert report.stat().st_size < 1_500_000


def test_one_form_of_a_picture_is_seen_at_every_width(report, browser):
    """Also where the layout turns from one into the other, and in print."""
    for width in (320, 390, 543, 544, 545, 700, 1055, 1056, 1280, 2560):
        browser.open(report, width, 800)
        assert len(browser.run("forms()")) == 1, width
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.run("forms()") == ["wide"]


def test_the_matrix_of_eight_variants_ends_within_a_screen_and_a_half(browser, tmp_path):
    """On a laptop and on a phone; the page can be sent."""
    names = ("baseline", *(f"candidate-{at}" for at in range(1, 8)))
    page = made(tmp_path, variants=names, exchanges=60) / "report.html"
    for width, height in SCREENS.values():
        browser.open(page, width, height)
        assert browser.run("boxes(document.querySelector('header table')).bottom") < 1.5 * height
        assert browser.run("cut()") == []
    assert page.stat().st_size < 1_500_000


def test_rows_are_filtered_found_sorted_and_linked_to(report, browser):
    """Regressions leave only what is worse; a search opens folds; a head sorts; an address leads to its row."""
    browser.open(report, 1280, 800)
    browser.run("document.querySelector('button[value=regressions]').click()")
    kept = browser.run("rows().map(row => row.textContent)")
    assert kept
    assert all("✗" in row for row in kept)
    assert browser.run("seen().every(row => row.textContent.includes('✗'))")
    assert browser.run("empty()") == []
    browser.run("document.querySelector('button[value=all]').click()")
    whole = browser.run("document.querySelector('main').scrollHeight")
    browser.run("find('peak memory')")
    assert browser.run("empty()") == []
    assert browser.run("seen().length") == 2
    browser.run("find('')")
    assert browser.run("document.querySelector('main').scrollHeight") >= whole
    browser.run("[...document.querySelectorAll('th')].find(head => head.textContent.startsWith('typical')).click()")
    changes = browser.run("rows().slice(0, 9).map(row => change(row.cells[1]))")
    assert len(set(changes)) > 2
    assert changes == sorted(changes, reverse=True)
    link = browser.run("document.querySelector('#load-ingestion-rate a').getAttribute('href')")
    browser.run(f"location.hash = {link!r}")
    browser.run("new Promise(done => setTimeout(done, 200))")
    assert browser.run("document.querySelector('#load-ingestion-rate').closest('details').open")
    assert browser.run("matchMedia('print').media && document.querySelectorAll('[data-hint]').length") > 30


def test_the_dark_is_dark(report, browser):
    """Who has asked for dark pages gets one."""
    browser.open(report, 1280, 800, "dark")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(18, 18, 18)"


def test_a_flame_graph_is_seen_and_zoomed_into(browser, tmp_path, monkeypatch):
    """A frame that is clicked takes the whole width, the top one gives all back; on a phone too; nothing is fetched."""
    monkeypatch.setattr(profiles, "printed", lambda *_: "so it says")
    monkeypatch.setattr(changes, "between", lambda *_: changes.Changes(why="nobody knows"))
    of = [(profiled.entry("baseline"), profiled.BASELINE), (profiled.entry("candidate"), profiled.CANDIDATE)]
    page = made(tmp_path, lambda run: profiled.write(run, of)) / "report.html"
    for width, height in SCREENS.values():
        browser.open(page, width, height)
        whole, planted = browser.run("frame('all').offset"), browser.run("frame('planted').offset")
        assert whole > 0.8 * min(width, 900)
        assert 0.01 * whole < planted < 0.05 * whole
        assert browser.run("frame('planted').said").endswith("0 → 300 µs an exchange (+300)")
        browser.run("frame('planted').click()")
        assert browser.run("frame('planted').offset") == pytest.approx(whole, rel=0.01)
        assert browser.run("frame('promql.Exec').offset") == 0
        browser.run("frame('all').click()")
        assert browser.run("frame('planted').offset") == planted
        assert browser.run("cut()") == []
        browser.run("frame('planted').scroll()")
        browser.screenshot(tmp_path / f"flame-{width}.png")
    assert browser.errors == []
    assert {address.split(":")[0] for address in browser.asked} <= {"file", "data"}
    assert page.stat().st_size < 1_000_000
