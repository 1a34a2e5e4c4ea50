"""stats/ + plan -> a short Markdown block for a pull request: the verdict first, all else folded.

Its first line is a comment that GitHub does not show: a later post finds it and updates in place
(docs/ci.md).
"""

import re
from pathlib import Path

from plots import markup, sentences, sweep
from plots.sections import checks, sides, summary, tables
from plots.source import open_source, write
from tsduel.core.wording import number_of
from tsduel.studies.settings import is_study

MOST_WARNINGS = 3
MARKER = "<!-- tsduel: {} -->"
"""Each experiment has a comment of its own."""


def main(run_dir: Path) -> str:
    """Write comment.md and return its text."""
    if is_study(run_dir):
        return write(run_dir / "comment.md", sweep.comment(run_dir, MARKER))
    source = open_source(run_dir)
    doubts = checks.warnings(source)
    left = len(doubts) - MOST_WARNINGS
    more = [f"and {number_of(left, 'more warning')}, in the report."] if left > 0 else []
    common = [*map(list, sides.in_common(source).items()), *sides.machine(source)]
    name = re.sub(r"[^\w.]+", "-", source.plan.name)
    text = markup.paragraphs(
        MARKER.format(name),
        *(
            [summary.sides_of_all(source), markup.table(*summary.matrix(source)), tables.MARKS]
            if source.many
            else [
                text for side in source.comparisons
                for text in (f"**{side.title}**: {sentences.headline(side)}", summary.table(side))
            ]
        ),
        summary.warned(source),
        f"{summary.stands(source)} {checks.sentence(source)}.",
        *(["**Warnings**", markup.items([*doubts[:MOST_WARNINGS], *more])] if doubts else []),
        *(
            sentences.folded(
                side, f"Figures: {side.labels[1]} against {side.labels[0]}", source.query_types,
            )
            for side in source.comparisons
        ),
        markup.folded(
            "How to reproduce, and on what it ran", sides.command(source.plan.kind, source.plan.asked),
            markup.table(["", *sides.columns(source)], sides.differences(source)),
            markup.table(["In common", ""], common),
        ),
    )  # fmt: skip
    return write(run_dir / "comment.md", text)
