"""The tour leads along files that are there."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


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
