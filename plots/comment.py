"""stats/ + plan -> a short Markdown block for a pull request: the verdict first, all else folded.

Its first line is a marker that nobody sees: who posts it again looks for it and updates in place (docs/ci.md).
"""

import re
from pathlib import Path

from plots import markup, sentences
from plots.sections import checks, compared, first, sweep
from plots.source import open_source, write
from tsduel.core.wording import number_of

MOST_WARNINGS, MOST_ANSWERS = 3, 4
MARKER = "<!-- tsduel: {} -->"
"""With the experiment's name: two experiments have a comment each."""


def main(run_dir: Path) -> str:
    """Write comment.md and return what is in it."""
    source = open_source(run_dir)
    doubts = checks.warnings(source)
    more = (
        [f"and {number_of(len(doubts) - MOST_WARNINGS, 'more warning')}, in the report."]
        if len(doubts) > MOST_WARNINGS
        else []
    )
    rows = [[name, *values] for name, values in compared.sides(source) if len(set(values)) > 1]
    name = re.sub(r"[^\w.]+", "-", source.plan.name)
    shown, rest = source.comparisons[:MOST_ANSWERS], len(source.comparisons) - MOST_ANSWERS
    text = markup.paragraphs(
        MARKER.format(name),
        *(
            sweep.answers(source)
            if source.plan.sweeps
            else (f"**{one.title}** ({one.blocks}): {sentences.headline(one)}" for one in shown)
        ),
        f"And {number_of(rest, 'more candidate')}, below." if rest > 0 and not source.plan.sweeps else "",
        *(sweep.changes(source, name) for name in source.run.variants[1:] if source.plan.sweeps),
        markup.folded("How it grows", *sweep.growth(source)) if source.plan.sweeps else "",
        markup.quoted(first.standing(source)),
        " ".join(filter(None, [
            markup.text(source.plan.question), first.compared_answers(source), f"{checks.sentence(source)}.",
        ])),
        markup.items([*doubts[:MOST_WARNINGS], *more]),
        *(
            markup.folded(
                f"Figures{', ' + one.cell if one.cell else ''}: {one.labels[1]} against {one.labels[0]}",
                markup.items(sentences.answer(one)),
                one.table(sentences.short_rows(one, source.query_types), aliases=False),
            )
            for one in source.comparisons
        ),
        markup.folded(
            "How to reproduce, and on what it ran", compared.command(source),
            markup.table(["", *compared.columns(source)], rows), markup.table(["", ""], compared.machine(source)),
        ),
    )  # fmt: skip
    return write(run_dir / "comment.md", text)
