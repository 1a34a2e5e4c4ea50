"""`make museum`: the table of exhibits, on the terminal and in docs/museum.md."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from plots import markup
from tsduel import museum
from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.museum import Exhibit, Row, Shown

PAGE = PROJECT / "docs/museum.md"
BEGIN, END = "<!-- made by: python -m tsduel museum page -->", "<!-- until here -->"
_WORDS = {"regression": "worse", "improvement": "better", "negligible": "real, but below what matters"}


def main(words: Sequence[str], environment: Mapping[str, str], results: Path) -> None:
    """Print the table of all exhibits, or run those that are named (`all`) and print theirs; `page`: docs/museum.md.

    A UserError at the end names those that failed.
    """
    if list(words) == ["page"]:
        said = museum.keep(results)
        files.write(PAGE, page(PAGE.read_text(encoding="utf-8")))
        sys.stdout.write("\n".join([*said, f"written: {PAGE}\n"]))
        return
    names = museum.chosen(list(words))
    failed = museum.run(names, environment, results) if names else []
    sys.stdout.write(table(results, names or list(museum.exhibits())) + "\n")
    if failed:
        raise UserError("\n".join(failed))


def table(results: Path | None, names: Sequence[str], *, linked: bool = False) -> str:
    """Return what was reported, measured and traced of these exhibits, in Markdown."""
    exhibits, rows = museum.exhibits(), []
    for name in names:
        done = museum.shown(name, results)
        link = f"[`{name}`](../experiments/museum/{name}.yml)" if linked else name
        exhibit = exhibits[name]  # its texts are Markdown
        texts = [link, exhibit.compares, exhibit.reported, *_came_of(exhibit, done)]
        rows.append([markup.Safe(text) for text in texts])
    return markup.table(["Exhibit", "Compares", "Reported", "Measured", "Traced", "Minutes"], rows)


def page(text: str) -> str:
    """Return docs/museum.md with its table made anew, of what is kept alone."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = table(None, list(museum.exhibits()), linked=True)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def _came_of(exhibit: Exhibit, done: Shown | None) -> list[str]:
    if done is None:
        return [exhibit.found or "not measured", "not traced" if exhibit.bisect else "", ""]
    beside = "" if done.quiet else f", {done.load:g} processes a CPU beside it"
    measured = f"{'; '.join(_measured(row) for row in done.rows)} ({done.date}, {done.machine}{beside})"
    traced = ", ".join(f"{markup.code(subject)} {100 * chance:.0f} %" for subject, chance in done.traced.items())
    both = " + ".join(f"{minutes:g}" for minutes in (done.minutes, done.traced_minutes) if minutes is not None)
    return [measured, traced, both]


def _measured(row: Row) -> str:
    setting, verdict = f"{row.setting}: " if row.setting else "", _WORDS.get(row.verdict, row.verdict)
    if row.change_pct is None:
        return f"{setting}{verdict}"
    ends = f" ({row.lo_pct:+.1f} to {row.hi_pct:+.1f} %)" if row.lo_pct is not None and row.hi_pct is not None else ""
    return f"{setting}{row.change_pct:+.1f} %{ends}, {verdict}"
