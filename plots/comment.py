"""stats/ + plan -> a short Markdown block for a pull request: the verdict first, all else folded."""

from pathlib import Path

from plots import facts, markup, numbers, tables, words
from plots.opened import Opened, open_report, template, write
from tsduel.core.metrics import METRICS


def main(run_dir: Path) -> str:
    """Write comment.md and return what is in it."""
    opened = open_report(run_dir)
    differ, _ = facts.differences(opened.run)
    names = [str(markup.text(label)) for label in opened.labels.values()]
    told: list[str] = [markup.block(facts.command(opened.run), "shell")]
    if differ:
        told.append(tables.markdown(["", *opened.labels.values()], [[key, *values] for key, values in differ]))
    told.append(tables.markdown(["", ""], [list(pair) for pair in facts.machine(opened.run)]))
    text = template("comment.md.j2").render(
        baseline=names[0],
        parts=[
            {
                "candidate": markup.text(one.labels[1]),
                "blocks": one.valid_blocks,
                "headline": words.headline(one),
                "folded": markup.folded(f"Figures: {one.labels[1]} against {one.labels[0]}", _figures(opened, one)),
            }
            for one in opened.comparisons
        ],
        standing=facts.standing(opened.run, opened.comparisons),
        question=markup.text(str(opened.run.plan.get("question") or "")),
        checks_sentence=tables.checks_sentence(opened.run, opened.checks),
        reproduce=markup.folded("How to reproduce, and on what it ran", "\n\n".join(told)),
    )
    return write(run_dir / "comment.md", text)


def _figures(opened: Opened, comparison: tables.Comparison) -> str:
    rows = []
    for name, query_type in tables.terminal_rows(opened.run.query_types):
        row, metric = comparison.row(name, query_type), METRICS[name]
        if row is not None and not row["baseline_median"] is row["candidate_median"] is None:
            unit, sides = numbers.scale(metric, row["baseline_median"], row["candidate_median"])
            rows.append([tables.named(name, query_type), unit, *sides, *comparison.evidence(row)])
    if not rows:
        return tables.NOTHING
    return tables.markdown(["Metric", "Unit", *comparison.labels, *tables.EVIDENCE], rows, right=(2, 3, 4, 5, 6))
