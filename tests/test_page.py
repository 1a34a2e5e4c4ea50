"""What people paste and send: the page that travels alone, the comment, and names that mean something to Markdown."""

import base64
import re
import shutil
from html import unescape
from html.parser import HTMLParser

import cmarkgfm
import pytest
import synthetic
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from reports import drawing, drawn, edit_plan, text

from plots import comment, markup, page, report
from tsduel.core.wording import printable
from tsduel.stats import compare

NASTY = "<b>bold</b> & `tick` | pipe $x^2$ *star* _under_ [link](javascript:alert(1)) ~~gone~~ <!-- \\ größer"
VOID = {"meta", "img", "br", "hr", "input"}


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
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data):
        """Note the text."""
        self.text += data

    def all(self, tag):
        """Return the attributes of all elements of a tag."""
        return [attributes for name, attributes in self.found if name == tag]


def named(plan):
    """Give both variants of a plan a nasty label, and the candidate more."""
    for variant in plan["variants"]:
        variant["label"] = f"{variant['name']} {NASTY}"
    plan["variants"][1]["components"][0] |= {"flags": ["-x=`a`|<b>", "$HOME"], "env": {"A": "``"}}
    plan["question"] = NASTY


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """Make a run whose names mean something to Markdown and to HTML."""

    def edit(run):
        edit_plan(run, named)
        synthetic.edit(run / "raw/host1.json", cpu_model=f"{NASTY} ![x](/nowhere) [y]()")
        for build in run.glob("build/*.json"):
            synthetic.edit(build, go_version=f"{NASTY} ![x](/nowhere) [y]()")

    return drawn(tmp_path_factory.mktemp("nasty"), edit)


@pytest.fixture(scope="module")
def html(nasty):
    """Return its page."""
    return (nasty / "report.html").read_text()


def test_the_page_stands_alone(nasty, html):
    """It parses, refers to nothing outside of it, runs our script only, and holds every picture of the report.

    Tables are in boxes of their own, which scroll. How it looks on a phone, in the dark and on paper: test_browser.py.
    """
    found = Page(html)
    assert len(found.all("table")) == found.found.count(("div", {"class": "table"})) > 1
    assert all(of.get("href", "#").startswith("#") for of in found.all("a"))
    assert not {"link", "iframe", "b", "i", "em", "s"} & {tag for tag, _ in found.found}
    assert found.all("script") == [{"type": "module"}]
    assert not any(name.startswith("on") for _, attributes in found.found for name in attributes)
    assert not re.findall(r"url\((?!#)|@import|src=\"(?!data:)|href=\"(?!#)", html)
    assert "default-src 'none'" in html
    shown = [one for one in found.all("svg") if one["role"] == "img"]
    assert len(shown) == 1 + len(re.findall(r"^\[!\[", text(nasty), re.MULTILINE)) == 6
    assert [one["class"] for one in shown[:2]] == ["wide", "narrow"]
    assert all(NASTY[:7] in one["aria-label"] for one in shown)
    names = re.findall(r'\bid="([^"]+)"', html)
    assert len(names) == len(set(names)) > 100
    assert len(html) < 1_500_000


def test_nasty_names_are_text_everywhere(html):
    """What a person wrote stands on the page as it was written, in headings, tables, lists and code."""
    said = Page(html).text
    assert said.count(NASTY) > 10
    title = re.search(r"<title>(.*?)</title>", html)[1]
    assert unescape(title) == f"synthetic: candidate {NASTY} against baseline {NASTY}"
    assert "-x=`a`|<b>" in said
    assert "A=``" in said


def test_github_renders_report_and_comment(nasty):
    """GitHub's own parser makes tables, pictures and folds of them, and no letter of a name becomes markup.

    Every row of a table has as many cells as its header. Before the folds a report has 125 lines at most, and a
    comment 25.
    """
    for source, most in ((text(nasty), 125), (comment.main(nasty), 25)):
        html = cmarkgfm.github_flavored_markdown_to_html(source, cmarkgfm.Options.CMARK_OPT_UNSAFE)
        found = Page(re.sub(r"<!--.*?-->", "", html))
        tables = re.findall(r"(?:^\|.*\n)+", source, re.MULTILINE)
        assert len(found.all("table")) == len(tables) > 1
        for table in tables:
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
        assert len(found.all("img")) == source.count("[![")
        assert len(found.all("details")) == len(found.all("summary")) == source.count("<details>") > 1
        assert not {"b", "i", "em", "del", "script"} & {tag for tag, _ in found.found}
        assert found.text.count(" ".join(NASTY.split())) > 1
        assert outside_folds(source) <= most


def outside_folds(source):
    """Return the number of lines outside folds."""
    depth = seen = 0
    for line in source.splitlines():
        depth += line.startswith("<details>")
        seen += depth == 0
        depth -= line.startswith("</details>")
    return seen


def test_html_that_is_not_ours_is_shown_as_typed(tmp_path):
    """Only the tags that fold something are passed on."""
    inside = "<img src=x onerror=y>\n\nb <i>c</i>"
    html = page.render(f"<details>\n<summary>a</summary>\n\n{inside}\n\n</details>", "t", tmp_path)
    assert all(said in html for said in ("<details>", "&lt;img src=x onerror=y&gt;", "b &lt;i&gt;c&lt;/i&gt;"))


def test_a_picture_is_one_of_ours(tmp_path):
    """An SVG that a host sent would run its script in the page."""
    for name in ("plots", "raw/host1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.svg").write_text("<svg xmlns='x'><script>boo()</script></svg>")
    text = "".join(page.render(f"![x]({name}/x.png)", "t", tmp_path) for name in ("raw/host1", "plots/../raw/host1"))
    assert "boo()" not in text
    assert "boo()" in page.render("![x](plots/x.png)", "t", tmp_path)


def test_large_pictures_are_put_in_as_png(nasty, monkeypatch):
    """The page stays small where a drawing of hundreds of rounds would not."""
    monkeypatch.setattr(page, "LARGEST_SVG", 1000)
    html = page.render(text(nasty), "t", nasty)
    assert "<svg" not in html
    shown = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    assert len(shown) == 6
    assert all(base64.b64decode(data).startswith(b"\x89PNG") for data in shown)


@given(st.text())
def test_any_text_is_text(said):
    """Markdown shows what was written, whatever it is, but for its spaces."""
    shown = Page(MarkdownIt("commonmark").enable("table").renderInline(markup.text(f"x{said}x")))
    assert shown.found == []
    assert shown.text == " ".join(printable(f"x{said}x").split())


@given(st.text(alphabet="`a |b\n", min_size=1))
def test_any_code_is_one_span(said):
    """However many backticks, a code span holds all of it."""
    if said.split():
        shown = MarkdownIt("commonmark").renderInline(markup.code(said).replace("\\|", "|"))
        assert shown == f"<code>{' '.join(said.split())}</code>"


EXAMPLE = page.TEMPLATES.parents[1] / "results/example"


@pytest.mark.skipif(not (EXAMPLE / "tidy/blocks.csv").exists(), reason="the example is to be recorded anew")
def test_the_example_is_made_from_its_tables(tmp_path, capsys):
    """Plan, tables and the few raw files of results/example give its report again, and README shows its verdicts."""
    copy = tmp_path / "example"
    shutil.copytree(EXAMPLE, copy)
    for path in [copy / "report.md", copy / "comment.md", *copy.glob("plots/*")]:
        path.unlink()
    compare.main(copy)
    with drawing():
        report.main(copy)
    assert comment.main(copy) == (EXAMPLE / "comment.md").read_text()
    files = [path.relative_to(copy) for path in copy.glob("plots/*.svg")]
    assert len(files) >= 4
    for name in ("report.md", *files):
        assert (copy / name).read_bytes() == (EXAMPLE / name).read_bytes(), name
    report.print_summary(copy)
    said = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
    readme = (EXAMPLE.parents[1] / "README.md").read_text()
    (shown,) = re.findall(r"^```\n([✗✓].*?)^```$", readme, re.MULTILINE | re.DOTALL)
    lines = [" ".join(line.split()) for line in shown.splitlines() if line.strip()]
    assert len(lines) == 9
    assert [line for line in lines if line not in said] == []
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", readme):
        assert (EXAMPLE.parents[1] / picture).exists()


def test_the_examples_of_ci_are_yaml_of_the_comment_that_there_is():
    """They parse, run the quick experiment or the gate, and look for the marker that a comment begins with."""
    said = (EXAMPLE.parents[1] / "docs/ci.md").read_text()
    github, hosted, gitlab = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", said, re.DOTALL))
    steps = github["jobs"]["tsduel"]["steps"]
    for script in ("\n".join(step.get("run", "") for step in steps), "\n".join(gitlab["tsduel"]["script"])):
        for part in ("experiments/quick.yml", "make comment", "head -n 1", "-m tsduel report"):
            assert part in script
    assert "make gate" in hosted["steps"][-1]["run"]
    assert f"`{comment.MARKER.format('quick')}`" in said
