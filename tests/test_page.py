"""What people paste and send: the page that travels alone, the comment, and names that mean something to Markdown."""

import base64
import json
import re
import shutil
from html.parser import HTMLParser

import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from reports import SPEC, edit_plan, golden, made, text

from plots import comment, markup, page, queries, report
from tsduel.core.rundir import open_run
from tsduel.stats import compare
from tsduel.tidy import tables as tidy

NASTY = "<b>bold</b> & `tick` | pipe $x^2$ *star* _under_ [link](javascript:alert(1)) ~~gone~~ <!-- \\ größer"
VOID = {"meta", "img", "br", "hr"}


class Page(HTMLParser):
    """Everything of a page that a test asks for; an element that is closed by another's tag is an error."""

    def __init__(self, html):
        super().__init__()
        self.found, self.open, self.text = [], [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        """Close the innermost element, which has to be of this tag."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Note the text."""
        self.text += data

    def all(self, tag):
        """Return the attributes of all elements of a tag."""
        return [attributes for name, attributes in self.found if name == tag]


def named(run, **changes):
    """Give both variants of a run a nasty label, and the candidate more."""
    plan = json.loads((run / "plan/experiment.json").read_text())
    for variant in plan["variants"]:
        variant["label"] = f"{variant['name']} {NASTY}"
    plan["variants"][1].update(flags=["-x=`a`|<b>", "$HOME"], env={"A": "``"})
    edit_plan(run, variants=plan["variants"], question=NASTY, **changes)


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """Make a run whose names mean something to Markdown and to HTML."""
    return made(tmp_path_factory.mktemp("nasty"), edit=named)


def test_the_page_stands_alone(nasty):
    """It parses, refers to nothing outside of it, runs nothing, and holds every picture of the report."""
    found = Page((nasty / "report.html").read_text())
    assert not {"script", "link", "a", "iframe", "b", "i", "em", "s"} & {tag for tag, _ in found.found}
    assert not any(name.startswith("on") for _, attributes in found.found for name in attributes)
    html = (nasty / "report.html").read_text()
    assert not re.findall(r"url\(|@import|https?://|src=\"(?!data:)", html)
    pictures = found.all("img")
    assert len(pictures) == len(re.findall(r"^\[!\[", text(nasty), re.MULTILINE)) == 6
    for picture in pictures:
        kind, data = re.fullmatch(r"data:image/(svg\+xml|png);base64,(.*)", picture["src"]).groups()
        assert base64.b64decode(data).startswith(b"<?xml" if kind == "svg+xml" else b"\x89PNG")
        assert picture["alt"]
    assert len(html) < 3_000_000


def test_the_page_reads_on_a_phone_in_the_dark_and_on_paper(nasty):
    """Tables are in boxes of their own, and the style has a case for each."""
    found = Page((nasty / "report.html").read_text())
    assert len(found.all("table")) == found.found.count(("div", {"class": "table"}))
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in found.all("meta")
    style = (nasty / "report.html").read_text().split("</style>")[0]
    for case in ("prefers-color-scheme: dark", "@media print", "overflow-x: auto"):
        assert case in style
    assert found.all("details")
    assert all("open" in attributes for attributes in found.all("details"))


def test_nasty_names_are_text_everywhere(nasty):
    """What a person wrote stands on the page as it was written, in headings, tables, lists and code."""
    found = Page((nasty / "report.html").read_text())
    assert found.text.count(NASTY) > 10
    assert "-x=`a`|<b>" in found.text
    assert "A=``" in found.text


def test_nasty_names_keep_tables_whole(nasty):
    """Every row of every table has as many cells as its header."""
    for source in (text(nasty), comment.main(nasty)):
        blocks = re.findall(r"(?:^\|.*\n)+", source, re.MULTILINE)
        assert blocks
        for block in blocks:
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_html_that_is_not_ours_is_shown_as_typed(tmp_path):
    """Only the tags that fold something are passed on."""
    html = page.render(
        "<details>\n<summary>a</summary>\n\n<img src=x onerror=y>\n\nb <i>c</i>\n\n</details>", "t", tmp_path
    )
    assert "<details open>" in html
    assert "&lt;img src=x onerror=y&gt;" in html
    assert "b &lt;i&gt;c&lt;/i&gt;" in html


def test_large_pictures_are_put_in_as_png(nasty, monkeypatch):
    """The page stays small where a drawing of hundreds of rounds would not."""
    monkeypatch.setattr(page, "LARGEST_SVG", 1000)
    assert "data:image/svg" not in page.render(text(nasty), "t", nasty)
    assert page.render(text(nasty), "t", nasty).count("data:image/png") == 6


def test_the_comment_is_as_recorded(tmp_path):
    """The verdict is the first line, the rest is folded or short, and it is kept beside the report."""
    found = comment.main(made(tmp_path))
    assert found.splitlines()[0].startswith(
        "**v1.133.0 against v1.132.0** (6 blocks): **✗ worse**: ingestion (6.5 % slower)"
    )
    assert (tmp_path / "20261120T140000Z-synthetic/comment.md").read_text() == found
    assert found.count("<details>") == found.count("</details>") == 2
    golden("comment.md", found)


@pytest.mark.parametrize("failing", ["round", "check", "screen"])
def test_the_comments_first_line_tells_what_went_wrong(tmp_path, failing, monkeypatch):
    """A screen is no verdict and a failed check none either."""
    monkeypatch.setattr("plots.pictures.draw", lambda data: [])  # noqa: ARG005 - as its original

    def broken(run):
        if failing == "check":
            (next(run.glob("raw/03-*-candidate")) / "load.stderr").write_text("Retrying... HTTP status 503\n")
        if failing == "round":
            path = next(run.glob("raw/02-*-candidate")) / "round.json"
            failure = {"phase": "load", "message": "it died"}
            path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "failed", "failure": failure}))

    blocks = 2 if failing == "screen" else 6
    first = comment.main(made(tmp_path, synthetic.Spec(**(vars(SPEC) | {"blocks": blocks})), broken)).splitlines()[0]
    assert {"round": "(5 blocks): ? a screen, no verdict: ingestion (", "check": "**✗ a check failed**: ingestion"}.get(
        failing, "? a screen, no verdict"
    ) in first


def test_two_ways_to_one_service_have_their_shift(tmp_path, monkeypatch):
    """One build with other flags: the shift at each percentile in ms, which is the difference within blocks."""
    monkeypatch.setattr("plots.pictures.draw", lambda data: [])  # noqa: ARG005 - as its original

    def same_build(run):
        plan = json.loads((run / "plan/experiment.json").read_text())
        plan["variants"][1].update(build_key=plan["variants"][0]["build_key"], flags=["-search.disableCache"])
        edit_plan(run, variants=plan["variants"])

    spec = synthetic.Spec(**(vars(SPEC) | {"noise": 0.0, "factors": {"query_rate": 0.5}}))
    run = made(tmp_path, spec, same_build)
    section = text(run).split("## Shift in service time")[1].split("\n## ")[0]
    # 4 workers at 3,000 queries/s take 1.33 ms in the mean, the p99 of the synthetic run is three times that.
    assert re.search(r"\| cpu-max-all-1 +\| +p50 \| +p95 \| +p99 \| +mean \| +stddev \|", section)
    assert re.search(r"\| shift, ms +\| +\+1\.20 \| +\+2\.67 \| +\+4 \| +\+1\.33 \| +\+0\.66", section)
    assert "Min / max, medians over rounds: v1.132.0 0.44 / 12 ms; v1.133.0 0.89 / 24 ms." in section
    assert "not the p99 of what is added" in section


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, False),
        ({"report": {"shift": True}}, True),
        ({"variants": [{"build_key": "k"}, {"build_key": "k"}]}, True),
        ({"variants": [{"build_key": "k"}, {"build_key": "k"}], "report": {"shift": False}}, False),
        ({"variants": [{"build_key": "k"}, {"build_key": "k"}], "aa": True}, False),
    ],
)
def test_when_the_shift_is_the_question(changes, asked):
    """Where the experiment says so, and where one build is compared with itself under other settings."""
    plan = {"variants": [{"build_key": "a"}, {"build_key": "b"}], "aa": False, "report": {"shift": None}}
    assert queries.asks_for_shift(plan | changes) is asked


def test_many_candidates_have_a_table_each(tmp_path, monkeypatch):
    """Few candidates stand side by side with the evidence folded; four are too wide."""
    monkeypatch.setattr("plots.pictures.draw", lambda data: [])  # noqa: ARG005 - as its original
    for count, folded in ((2, 2), (4, 0)):
        names = ("baseline", "candidate", *(f"d{i}" for i in range(count - 1)))
        order = tuple(names[i:] + names[:i] for i in range(len(names)))
        spec = synthetic.Spec(**(vars(SPEC) | {"blocks": 2, "order": order, "load_s": 5}))
        found = text(made(tmp_path / str(count), spec))
        assert found.count("Intervals and p of these") == folded + (1 if folded else 0)
        assert found.count("**Answer.**") == count


def test_phases_have_their_clock(tmp_path):
    """Every phase of every round is in phases.csv, in epoch seconds as the round clocked it."""
    run = synthetic.write_run(tmp_path / "run", synthetic.Spec(blocks=1, query_types=("cpu-max-all-1",), load_s=4))
    tidy.main(run)
    lines = (run / "tidy/phases.csv").read_text().splitlines()
    assert lines[0] == "block,position,round,variant,phase,query_type,begin,end"
    assert len(lines) - 1 == sum(len(found.phases) for found in open_run(run).rounds) == 4 * 6


@given(st.text())
def test_any_text_is_text(said):
    """Markdown shows what was written, whatever it is, but for its spaces."""
    shown = MarkdownIt("commonmark").enable("table").renderInline(markup.text(f"x{said}x"))
    plain = "".join(HTMLText(shown).parts)
    assert plain == " ".join(f"x{said}x".replace("\0", "\ufffd").split())


class HTMLText(HTMLParser):
    """The text of a fragment without any element."""

    def __init__(self, html):
        super().__init__()
        self.parts = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Refuse elements: nothing that a person wrote may become one."""
        raise AssertionError((tag, attrs))

    def handle_data(self, data):
        """Note the text."""
        self.parts.append(data)


@given(st.text(alphabet="`a |b\n", min_size=1))
def test_any_code_is_one_span(said):
    """However many backticks, a code span holds all of it."""
    if said.split():
        shown = MarkdownIt("commonmark").renderInline(markup.code(said).replace("\\|", "|"))
        assert shown == f"<code>{' '.join(said.split())}</code>"


EXAMPLE = page.TEMPLATES.parents[1] / "results/example"


def test_the_example_is_made_from_its_tables(tmp_path):
    """Plan, tables and the few raw files of results/example give its report and pictures again, byte for byte."""
    copy = tmp_path / "example"
    shutil.copytree(EXAMPLE, copy)
    for path in [copy / "report.md", copy / "comment.md", *copy.glob("plots/*")]:
        path.unlink()
    compare.main(copy)
    report.main(copy)
    assert comment.main(copy) == (EXAMPLE / "comment.md").read_text()
    drawn = [path.relative_to(copy) for path in copy.glob("plots/*.svg")]
    assert len(drawn) >= 4
    for name in ("report.md", *drawn):
        assert (copy / name).read_bytes() == (EXAMPLE / name).read_bytes(), name


def test_the_readme_shows_the_example(tmp_path, capsys):
    """Its table and answers are those of the terminal, line for line, and its picture is there."""
    shutil.copytree(EXAMPLE, tmp_path / "example")
    report.print_summary(tmp_path / "example")
    said = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    readme = (EXAMPLE.parents[1] / "README.md").read_text()
    shown = readme.split("```")[3].splitlines()
    lines = [" ".join(line.split()) for line in shown if line.strip() and not line.startswith("---")]
    assert len(lines) > 10
    assert [line for line in lines if line not in said] == []
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", readme):
        assert (EXAMPLE.parents[1] / picture).exists()
