"""stats/ + plan -> a short Markdown block for a pull request: the marks of time, memory and allocations, then folds."""

from pathlib import Path

from plots import facts as shared
from plots import markup
from plots.gobench import facts, tables
from plots.opened import open_report, template, write

MOST_WARNINGS = 5


def main(run_dir: Path) -> str:
    """Write comment.md and return what is in it."""
    opened = open_report(run_dir)
    run, comparisons = opened.run, opened.comparisons
    warnings = facts.warnings(run, comparisons)
    left = len(warnings) - MOST_WARNINGS
    if left > 0:
        warnings = [*warnings[:MOST_WARNINGS], f"and {left} more warnings, in the report."]
    figures = [
        f"**{tables.titled(unit)}**\n\n{tables.unit_table(comparisons, unit, run.query_types)}"
        for unit in tables.units(comparisons)
    ]
    checks = facts.checks_sentence(run, opened.checks)
    text = template("gobench-comment.md.j2").render(
        what=markup.code(str(run.plan["gobench"]["package"])),
        baseline=markup.text(comparisons[0].labels[0]),
        parts=[
            {"candidate": markup.text(one.labels[1]), "blocks": one.valid_blocks, "summary": facts.summary(one)}
            for one in comparisons
        ],
        standing=shared.standing(run, comparisons),
        question=markup.text(str(run.plan.get("question") or "")),
        checks_sentence=f"{checks[0].upper()}{checks[1:]}",
        warnings=warnings,
        figures=markup.folded("Figures of every benchmark", "\n\n".join(figures) or "No valid block has any."),
        reproduce=markup.folded(
            "How to reproduce, and on what it ran",
            "\n\n".join(
                [
                    markup.block(facts.command(run), "shell"),
                    tables.compared(*facts.compared(run), facts.built(run)),
                ]
            ),
        ),
    )
    return write(run_dir / "comment.md", text)
