"""stats/ + plan -> a short Markdown block for a pull request: the verdict first, all else folded."""

from pathlib import Path

from plots import markup, sentences
from plots.report import short_rows
from plots.sections import checks, compared, first
from plots.source import open_source, write
from tsduel.core.wording import number_of

MOST_WARNINGS = 5


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
    text = markup.paragraphs(
        *(f"**{one.title}** ({one.blocks}): {sentences.headline(one)}" for one in source.comparisons),
        markup.quoted(first.standing(source)),
        " ".join(filter(None, [
            markup.text(source.plan.question), first.compared_answers(source), f"{checks.sentence(source)}.",
        ])),
        markup.items([*doubts[:MOST_WARNINGS], *more]),
        *(
            markup.folded(
                f"Figures: {one.labels[1]} against {one.labels[0]}",
                markup.items(sentences.answer(one)), one.table(short_rows(one, source.query_types), aliases=False),
            )
            for one in source.comparisons
        ),
        markup.folded(
            "How to reproduce, and on what it ran", compared.command(source),
            markup.table(["", *compared.columns(source)], rows), markup.table(["", ""], compared.machine(source)),
        ),
    )  # fmt: skip
    return write(run_dir / "comment.md", text)
