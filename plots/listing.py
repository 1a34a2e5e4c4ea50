"""`make list`: every run in results/, newest first, a line each. Asks no other machine, and stumbles over no run."""

import csv
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plots.numbers import quantity
from tsduel.core import caches
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.core.results import lost_latest
from tsduel.core.rundir import Run, open_run
from tsduel.rounds import runstate

# What else lies in results/ and is no run.
NO_RUNS = {"latest", "aa", "bisect", "plot-load", "trend"}
BROKEN = (UserError, OSError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
HEAD = ("run", "kind", "compares", "place", "state", "blocks", "size", "verdict")
WIDTH = 120
# Columns that give way and how far, in this order: a name, which somebody may want to copy, only when the rest has.
YIELDING = ((2, 14), (3, 8), (7, 12), (4, 20), (2, 6), (0, 24), (7, 0))
GAP = 2


@dataclass(frozen=True)
class Line:
    """One run as the table shows it; `created` is ISO 8601 in UTC, `size` in bytes."""

    name: str
    created: str
    size: int
    kind: str = ""
    compares: str = ""
    place: str = ""
    state: str = ""
    blocks: str = ""
    verdict: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The line as text, in the order of HEAD."""
        shown = (self.name, self.kind, self.compares, self.place, self.state, self.blocks, quantity(self.size))
        return tuple(map(printable, (*shown, self.verdict)))


def text(environment: Mapping[str, str], results: Path) -> str:
    """Return the table, what all runs take on the disk, and a sentence on a `latest` that leads nowhere."""
    running = caches.used_by(environment)
    lines = [line(path, running) for path in _directories(results)]
    lost = lost_latest(results / "latest")
    if not lines:
        return "\n".join(filter(None, ("no runs yet: make tsbs makes one", lost)))
    lines.sort(key=lambda one: (one.created, one.name), reverse=True)
    latest = (results / "latest").readlink().name if (results / "latest").is_symlink() else ""
    shown = table([("*" if one.name == latest else " ", one.cells) for one in lines])
    many = "1 run takes" if len(lines) == 1 else f"{len(lines)} runs take"
    free = quantity(shutil.disk_usage(results).free)
    total = f"{many} {quantity(sum(one.size for one in lines))}, and {free} are free there"
    notes = [lost or ("*: results/latest" if latest else ""), f"{total}. To remove a run: rm -rf results/RUN"]
    return "\n".join([*shown, "", *filter(None, notes)])


def _directories(results: Path) -> list[Path]:
    if not results.is_dir():
        return []
    entries = [entry for entry in results.iterdir() if entry.name not in NO_RUNS and not entry.name.startswith(".")]
    return [entry for entry in entries if entry.is_dir() or entry.is_symlink()]


def line(path: Path, running: str) -> Line:
    """Return what is known of one run; of one that cannot be read, that. `running`: see runstate."""
    try:
        size = disk_bytes(path)
        changed = datetime.fromtimestamp(path.lstat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OSError:
        size, changed = 0, ""
    try:
        # A pipe, say, would be waited for.
        if not (path / "plan" / "experiment.json").is_file():
            return Line(path.name, changed, size, state=f"unreadable: {_why_no_plan(path)}")
        return _known(open_run(path), size, changed, running)
    except BROKEN as error:
        why = str(error) if isinstance(error, UserError | OSError) else f"{type(error).__name__} in its files"
        return Line(path.name, changed, size, state=f"unreadable: {why.removeprefix(str(path)).lstrip('/ ')}")


def _why_no_plan(path: Path) -> str:
    if not path.exists():
        return "a link that leads nowhere"
    return "an import that did not come to its end" if path.name.endswith(".partial") else "no plan in it"


def _known(run: Run, size: int, changed: str, running: str) -> Line:
    plan, document = run.plan, run.json("stats/comparison.json")
    return Line(
        name=run.path.name,
        created=plan.created or changed,
        size=size,
        kind=plan.kind,
        compares=compared(plan),
        place=_place(plan),
        state=runstate.state(run, running),
        blocks=_blocks(run),
        verdict=verdict(plan, document) if document else "",
    )


def compared(plan: Plan) -> str:
    """Return what is compared with what, by the labels of the variants."""
    labels = [variant.label for variant in plan.variants]
    if plan.aa:
        return f"{labels[0]} with itself"
    if len(labels) == 1:
        return f"{labels[0]}, by columns"
    others = f" (+{len(labels) - 2})" if len(labels) > 2 else ""  # noqa: PLR2004 - two sides
    return f"{labels[0]} -> {labels[1]}{others}"


def _place(plan: Plan) -> str:
    where = plan.place
    if where.kind != "ssh":
        return where.kind
    first, *others = where.hosts.values()
    return (f"{first.user}@" if first.user else "") + first.address + (f" (+{len(others)})" if others else "")


def _blocks(run: Run) -> str:
    """Return how many blocks count, of the candidate with the fewest, and how many were planned."""
    planned, path = run.plan.design.blocks * len(run.plan.cells), run.path / "tidy/blocks.csv"
    if not path.exists():
        return str(planned)
    valid = dict.fromkeys(run.variants[1:], 0)
    with path.open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            valid[line["candidate"]] += line["counts"] == "true"
    return f"{min(valid.values())}/{planned}"


def verdict(plan: Plan, document: Mapping[str, Any]) -> str:
    """Return what came of a compared run (stats/comparison.json) in a few words; the report has it in full."""
    failed = document["checks"]["failed"]
    if failed:
        return f"{failed} checks failed" if failed > 1 else "a check failed"
    if plan.imported or plan.smoke:
        return f"none ({'imported' if plan.imported else 'smoke'})"
    if plan.aa:
        return "A/A passed" if document.get("aa", {}).get("passed") else "A/A not passed"
    return _in_words([row["verdict"] for row in document["rows"] if row["verdict"] != "shown"])


def _in_words(found: Sequence[str]) -> str:
    words = (("regression", "worse"), ("improvement", "better"))
    counted = ((found.count(name) + found.count(word), word) for name, word in words)
    told = ", ".join(f"{number} {word}" for number, word in counted if number)
    if told or not found:
        return told or "none"
    if "inconclusive: environment" in found:
        return "too noisy"
    if set(found) - {"equivalent", "negligible"}:
        return "inconclusive"
    return "negligible" if "negligible" in found else "equivalent"  # real, if below what matters


def table(rows: Sequence[tuple[str, tuple[str, ...]]]) -> Iterable[str]:
    """Yield a heading and a line for each row, none of them wider than WIDTH; a row is its mark and its cells."""
    every = [HEAD, *(cells for _, cells in rows)]
    # A sentence on an unreadable run runs over the columns behind, which are empty there.
    widths = [max(len(c[i]) for c in every if i != 4 or not c[i].startswith("unreadable")) for i in range(len(HEAD))]  # noqa: PLR2004 - the state
    for column, least in YIELDING:
        over = sum(widths) + GAP * len(widths) - WIDTH
        widths[column] = max(min(widths[column], least), widths[column] - max(over, 0))
    for mark, cells in ((" ", HEAD), *rows):
        if cells[4].startswith("unreadable"):
            front = _row(mark, cells[:1], widths)
            size = f" ({cells[6]})"
            yield cut(f"{front}  {cells[4]}", WIDTH - len(size)) + size
        else:
            yield _row(mark, cells, widths)[:WIDTH].rstrip()


def _row(mark: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    shown = (cut(cell, width) for cell, width in zip(cells, widths, strict=False))
    # Numbers stand to the right.
    padded = (c.rjust(w) if n in {5, 6} else c.ljust(w) for n, (c, w) in enumerate(zip(shown, widths, strict=False)))
    return f"{mark} " + (" " * GAP).join(padded)


def cut(text: str, width: int) -> str:
    """Return a text that is no longer than `width`, its end left out if need be."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[: min(width, 1)]


def printable(text: str) -> str:
    """Return a text on one line without control characters and without what no terminal can show."""
    return "".join(c if c.isprintable() else "?" for c in text)


def disk_bytes(path: Path) -> int:
    """Return what a directory takes on the disk; what cannot be read counts as nothing."""
    total = 0
    pending = [str(path)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue
    return total
