"""Reports and comments, by GitHub's own parser."""

import re
from pathlib import Path

import cmarkgfm
import yaml
from reports import edit_plan, made, text
from test_page import NASTY, Page, named

from plots import comment

CI = Path(__file__).parents[1] / "docs/ci.md"


def test_github_renders_report_and_comment(tmp_path):
    """GitHub's own parser makes tables, pictures and folds of them, and no letter of a name becomes markup.

    Before the folds a report has 120 lines at most, and a comment 25.
    """
    nasty = made(tmp_path, lambda run: edit_plan(run, named))
    for source, most in ((text(nasty), 120), (comment.main(nasty), 25)):
        html = cmarkgfm.github_flavored_markdown_to_html(source, cmarkgfm.Options.CMARK_OPT_UNSAFE)
        found = Page(re.sub(r"<!--.*?-->", "", html))
        assert len(found.all("table")) == len(re.findall(r"(?:^\|.*\n)+", source, re.MULTILINE)) > 1
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


def test_the_examples_of_ci_are_yaml_of_the_comment_that_there_is():
    """Both examples parse, run the quick experiment, and look for the marker that a comment begins with."""
    said = CI.read_text()
    github, gitlab = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", said, re.DOTALL))
    steps = github["jobs"]["tsduel"]["steps"]
    for script in ("\n".join(step.get("run", "") for step in steps), "\n".join(gitlab["tsduel"]["script"])):
        for part in ("experiments/quick.yml", "make comment", "head -n 1", "-m tsduel report"):
            assert part in script
    assert f"`{comment.MARKER.format('quick')}`" in said
