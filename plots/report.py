"""stats/ + tidy/ + plan -> report.md, report.html and plots/, and the summary in the terminal."""

import html
import re
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plots import markup, page, sentences
from plots.pictures import Pictures
from plots.sections import blocks, checks, sections, summary
from plots.source import open_source, write
from tsduel.core.wording import number_of, printable

MOST_ROWS = 40
"""Rows of a table in the terminal; the report has all."""
_WIDE = 400


def main(run_dir: Path) -> None:
    """Write report.md, report.html and the pictures."""
    source, pictures = open_source(run_dir), Pictures(run_dir)
    screen = summary.section(source, pictures)
    texts = [(section.title, section.make(source, pictures)) for section in sections(source)]
    body = [f"## {title}\n\n{text}" for title, text in texts if text]
    if pictures.missing:
        names = ", ".join(pictures.missing)
        body.append(f"Left out, since their tables have fewer than three samples of it: {names}.")
    text = write(run_dir / "report.md", markup.paragraphs(f"# {source.title}", screen, *body))
    write(run_dir / "report.html", page.render(text, plain(source.title), run_dir))


def print_summary(run_dir: Path) -> None:
    """Print the table of verdicts, the answer, the checks and the path of the report."""
    source = open_source(run_dir)
    print(f"\n{source.title}\n")
    if source.many:
        print_table(*summary.matrix(source)[:2], left=1)
        print(f"{plain(summary.sides_of_all(source))}\n")
    else:
        for comparison in source.comparisons:
            rows = sentences.short_rows(comparison, source.query_types)
            print_table(("metric", "unit", *comparison.labels, *comparison.heads), comparison.cells(rows))
            for line in sentences.answer(comparison):
                print(plain(line))
            print(f"Blocks: {len(comparison.valid)} valid of {source.plan.design.blocks}.\n")
    lines = [*summary.standing(source), summary.compared_answers(source)]
    lines.append(summary.calibration(source))
    for line in filter(None, [*lines, *checks.warnings(source)[:5], f"{checks.sentence(source)}."]):
        print(plain(line))
    for line in [*checks.failures(source)[:5], *blocks.failures(source)]:
        print(f"  {plain(line)}")
    print(f"Report: {run_dir / 'report.md'}, with its pictures in one file: {run_dir / 'report.html'}")


def plain(line: str) -> str:
    """Return Markdown as plain text for a terminal: without marks and escapes."""
    return printable(html.unescape(re.sub(r"\\([^A-Za-z0-9\s])|\*\*|`", r"\1", line)))


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 2) -> None:
    """Print a table as plain text, the same in a terminal and in a file; `left` to 6 are columns of numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="none")
    for at, name in enumerate(heads):
        table.add_column(Text(printable(name)), justify="right" if at in range(left, 7) else "left", no_wrap=True)
    for row in rows[:MOST_ROWS]:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(width=_WIDE, no_color=True, highlight=False)
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
    if len(rows) > MOST_ROWS:
        print(f"({number_of(len(rows) - MOST_ROWS, 'more row')} in the report)")
    print()
