"""stats/ + plan -> a short Markdown block for a pull request: the verdict first, all else folded.

Its first line is a comment that GitHub does not show: a later post finds it and updates in place
(docs/ci.md).
"""

import re
from pathlib import Path

from plots import markup, sentences
from plots.sections import checks, sides, summary, sweep, tables
from plots.source import open_source, write
from tsduel.core.wording import number_of

MOST_WARNINGS = 3
MARKER = "<!-- tsduel: {} -->"
"""Each experiment has a comment of its own."""


def main(run_dir: Path) -> str:
    """Write comment.md and return its text."""
    source = open_source(run_dir)
    doubts, sweeps = checks.warnings(source), source.plan.sweeps
    left = len(doubts) - MOST_WARNINGS
    more = [f"and {number_of(left, 'more warning')}, in the report."] if left > 0 else []
    rows = [[name, *values] for name, values in sides.identities(source) if len(set(values)) > 1]
    name = re.sub(r"[^\w.]+", "-", source.plan.name)
    text = markup.paragraphs(
        MARKER.format(name),
        *(
            sweep.answers(source)
            if sweeps
            else [summary.sides_of_all(source), markup.table(*summary.matrix(source)), tables.MARKS]
            if source.many
            else (f"**{side.title}** ({side.blocks}): {sentences.headline(side)}" for side in source.comparisons)
        ),
        *(sweep.changes(source, name) for name in source.run.variants[1:] if sweeps),
        markup.folded("How it grows", *sweep.growth(source)) if sweeps else "",
        markup.quoted(summary.standing(source)),
        " ".join(filter(None, [
            markup.text(source.plan.question), summary.compared_answers(source), f"{checks.sentence(source)}.",
        ])),
        markup.items([*doubts[:MOST_WARNINGS], *more]),
        *(
            sentences.folded(
                side, f"Figures{side.cell and f', {side.cell}'}: {side.labels[1]} against {side.labels[0]}",
                source.query_types,
            )
            for side in source.comparisons
        ),
        markup.folded(
            "How to reproduce, and on what it ran", sides.command(source),
            markup.table(["", *sides.columns(source)], rows), markup.table(["", ""], sides.machine(source)),
        ),
    )  # fmt: skip
    return write(run_dir / "comment.md", text)
