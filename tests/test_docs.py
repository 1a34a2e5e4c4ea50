"""The pages lead to places that exist, and quote messages that the project really has."""

import re
from pathlib import Path

from tsduel.question.read import read

PROJECT = Path(__file__).resolve().parent.parent
PAGES = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/*.md"), PROJECT / "results/README.md"]


def prose(page):
    """Return the text of a page without its code."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Return GitHub's names of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading():
    """Links to other sites are not followed."""
    broken = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            name, _, heading = link.partition("#")
            target = page.parent / name if name else page
            if "://" not in link and (not target.exists() or (heading and heading not in anchors(target))):
                broken.append(f"{page.name}: {link}")
    assert not broken


def test_every_page_can_be_reached_from_the_readme():
    """By one link, or by two."""
    found = set(re.findall(r"docs/([\w-]+\.md)", (PROJECT / "README.md").read_text(encoding="utf-8")))
    for name in sorted(found):
        found |= set(re.findall(r"\]\(([\w-]+\.md)", (PROJECT / "docs" / name).read_text(encoding="utf-8")))
    assert {page.name for page in PROJECT.glob("docs/*.md")} <= found


def test_every_message_that_troubleshooting_quotes_stands_in_the_code():
    """What is in backticks in the first column is a part of a sentence of Python, Go or Bash."""
    page = (PROJECT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("|")]
    quoted = [message for cell in rows for message in re.findall(r"`([^`]+)`", cell) if not message.startswith("kill")]
    assert len(quoted) > 20
    files = [path for room in ("tsduel", "plots", "host", "scripts", "ansible") for path in (PROJECT / room).rglob("*")]
    code = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file())
    assert not [message for message in quoted if message not in code]


def test_each_file_of_the_tour_exists_and_its_figures_are_the_examples():
    """From the YAML to the verdict, in at most sixty lines."""
    tour = (PROJECT / "docs/tour.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:experiments|tsduel|host|plots|scripts|ansible)/[\w./-]*)`", tour)
    assert len(paths) > 20
    assert not [path for path in paths if not (PROJECT / path).exists()]
    (figures,) = re.findall(r"^ *(\S.*, single-groupby-1-1-1 .*)$", tour, re.MULTILINE)
    table = (PROJECT / "results/example/comment.md").read_text(encoding="utf-8").replace("|", " ")
    assert figures.split() in [line.split() for line in table.splitlines()]
    assert len(tour.splitlines()) <= 60


def test_settings_that_the_pages_name_fit_their_experiment():
    """A command with a file of the user's own is left out."""
    asked = re.compile(r"make tsbs EXPERIMENT=(experiments/[\w./-]+) [^`\n]*?SET=\"([^\"]+)\"")
    found = {words for page in PAGES for words in asked.findall(page.read_text(encoding="utf-8"))}
    whole = [words for words in found if "my.yml" not in words[1]]
    assert len(whole) > 2
    for experiment, settings in whole:
        read({"EXPERIMENT": str(PROJECT / experiment), "SET": settings})
