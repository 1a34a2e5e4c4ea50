"""stats/ + tidy/ + plan -> report.md, report.html and plots/, and the summary in the terminal."""

import html
import re
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plots import markup, numbers, page, sentences
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.sections import SECTIONS, blocks, checks, first, sweep
from plots.source import open_source, write
from tsduel.core.wording import number_of
from tsduel.workloads.reading import reader

MOST_ROWS = 40
"""Of the table in the terminal; the report has all of them."""
_WIDE = 400


def main(run_dir: Path) -> None:
    """Write report.md, report.html and the pictures."""
    source, pictures = open_source(run_dir), Pictures(run_dir)
    screen = sweep.screen(source, pictures) if source.plan.sweeps else first.section(source, pictures)
    names = reader(source.plan.kind).sections(source.run)
    found = [(title, make(source, pictures)) for title, make in (SECTIONS[name] for name in names)]
    missing = (
        f"Not drawn, since the tables that they need hold nothing of it: {', '.join(pictures.missing)}."
        if pictures.missing
        else ""
    )
    said = [f"## {title}\n\n{body}" for title, body in found if body]
    text = write(run_dir / "report.md", markup.paragraphs(f"# {source.title}", screen, *said, missing))
    write(run_dir / "report.html", page.render(text, _plain(source.title), run_dir))


def print_summary(run_dir: Path) -> None:
    """Print the table of verdicts, the answer, the checks and where the report is."""
    source = open_source(run_dir)
    print(f"\n{source.title}\n")
    if source.plan.sweeps:
        for line in [*sweep.answers(source), *(sweep.changes(source, name) for name in source.run.variants[1:])]:
            print(f"{_plain(line)}\n")
    for comparison in () if source.plan.sweeps else source.comparisons:
        print_table(comparison, source.query_types)
        for line in sentences.answer(comparison):
            print(_plain(line))
        print(f"Blocks: {len(comparison.valid)} valid of {source.plan.design.blocks}.\n")
    said = [*first.standing(source), first.compared_answers(source), first.calibration(source)]
    for line in filter(None, [*said, *checks.warnings(source)[:5], f"{checks.sentence(source)}."]):
        print(_plain(line))
    for line in [*checks.failures(source)[:5], *blocks.failures(source)]:
        print(f"  {_plain(line)}")
    print(f"Report: {run_dir / 'report.md'}, with its pictures in one file: {run_dir / 'report.html'}")


def _plain(line: str) -> str:
    """Return Markdown as a terminal shows it: without its marks, and without what keeps others from being some."""
    return html.unescape(re.sub(r"\\([^A-Za-z0-9\s])|\*\*|`", r"\1", line))


def print_table(comparison: Comparison, query_types: list[str]) -> None:
    """Print the table of verdicts, in plain text also where it goes to a file."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="none")
    for at, name in enumerate(("metric", "unit", *comparison.labels, *comparison.heads)):
        table.add_column(Text(name), justify="right" if at in range(2, 7) else "left", no_wrap=True)
    rows = sentences.short_rows(comparison, query_types)
    for row in rows[:MOST_ROWS]:
        unit, sides = numbers.sides(row)
        table.add_row(*map(Text, (comparison.named(row), unit, *sides, *comparison.evidence(row))))
    console = Console(width=_WIDE, no_color=True, highlight=False)
    with console.capture() as said:
        console.print(table)
    print("\n".join(line.rstrip() for line in said.get().splitlines()))
    if len(rows) > MOST_ROWS:
        print(f"({number_of(len(rows) - MOST_ROWS, 'more row')} in the report)")
    print()
