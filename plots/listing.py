"""`make list`: a line for every run in results/, newest first, also for unreadable ones; it contacts no machine."""

import csv
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from plots.numbers import quantity
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.core.results import lost_latest
from tsduel.core.rundir import Run, open_run
from tsduel.places import lock
from tsduel.rounds import runstate

# Entries of results/ that are not runs.
NO_RUNS = {"latest", "aa", "bisect", "imported", "plot-load", "trend"}
BROKEN = (UserError, OSError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
HEAD = ("run", "kind", "compares", "place", "state", "blocks", "size", "verdict")
WIDTH, STATE = 120, HEAD.index("state")
# Columns that get narrower, in this order, and their least widths; names are last, since people copy them.
YIELDING = ((2, 14), (3, 8), (7, 12), (4, 20), (2, 6), (0, 24), (7, 0))
GAP = 2


@dataclass(frozen=True)
class Line:
    """One run; `created` is ISO 8601 in UTC, `size` in bytes, `cells` are the columns of HEAD as text."""

    name: str
    created: str
    size: int
    cells: tuple[str, ...]


def text(environment: Mapping[str, str], results: Path) -> str:
    """Return the table, the size of all runs on the disk, and a sentence if `latest` is a broken link."""
    runs, link = lines(environment, results), results / "latest"
    lost = lost_latest(link)
    if not runs:
        return "\n".join(filter(None, ("no runs yet: make tsbs makes one", lost)))
    latest = link.readlink().name if link.is_symlink() else ""
    shown = table([("*" if run.name == latest else " ", run.cells) for run in runs])
    count = "1 run takes" if len(runs) == 1 else f"{len(runs)} runs take"
    free = quantity(shutil.disk_usage(results).free)
    total = f"{count} {quantity(sum(run.size for run in runs))}, and {free} are free there"
    notes = [lost or ("*: results/latest" if latest else ""), f"{total}. To remove a run: rm -rf results/RUN"]
    return "\n".join([*shown, "", *filter(None, notes)])


def as_json(environment: Mapping[str, str], results: Path) -> str:
    """Return the same runs as JSON: a list of objects with the columns of HEAD, `created` and `size` in bytes."""
    runs = lines(environment, results)
    cells = [dict(zip(HEAD, run.cells, strict=True)) for run in runs]
    return json.dumps([row | {"created": run.created, "size": run.size} for row, run in zip(cells, runs, strict=True)])


def lines(environment: Mapping[str, str], results: Path) -> list[Line]:
    """Return a line for each run, newest first."""
    run = lock.holder(environment=environment)
    running = run.run_dir if run else ""
    entries = [e for e in results.iterdir() if e.is_dir() or e.is_symlink()] if results.is_dir() else []
    found = [line(e, running) for e in entries if e.name not in NO_RUNS and not e.name.startswith(".")]
    return sorted(found, key=lambda run: (run.created, run.name), reverse=True)


def line(path: Path, running: str) -> Line:
    """Return the line of a run, or the reason why it cannot be read. `running`: see runstate."""
    try:
        size = disk_bytes(path)
        changed = datetime.fromtimestamp(path.lstat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OSError:
        size, changed = 0, ""
    created, facts = changed, [""] * 6
    try:
        # Opening a pipe would wait for its writer.
        if not (path / "plan" / "experiment.json").is_file():
            raise UserError("no plan in it" if path.exists() else "a link that leads nowhere")
        run = open_run(path)
        plan, document = run.plan, run.json("stats/comparison.json")
        facts = [
            plan.kind, compared(plan), _place(plan), runstate.state(run, running), _blocks(run),
            verdict(plan, document) if document else "",
        ]  # fmt: skip
        created = plan.created or changed
    except BROKEN as error:
        why = str(error) if isinstance(error, UserError | OSError) else f"{type(error).__name__} in its files"
        facts[3] = f"unreadable: {why.removeprefix(str(path)).lstrip('/ ')}"
    cells = (path.name, *facts[:5], quantity(size), facts[5])
    return Line(path.name, created, size, tuple(map(printable, cells)))


def compared(plan: Plan) -> str:
    """Return the labels of the variants: baseline -> candidate."""
    labels = [variant.label for variant in plan.variants]
    if plan.aa:
        return f"{labels[0]} with itself"
    if len(labels) == 1:
        return f"{labels[0]}, by columns"
    others = f" (+{len(labels) - 2})" if labels[2:] else ""
    return f"{labels[0]} -> {labels[1]}{others}"


def _place(plan: Plan) -> str:
    where = plan.place
    if where.kind != "ssh":
        return where.kind
    first, *others = where.hosts.values()
    return (f"{first.user}@" if first.user else "") + first.address + (f" (+{len(others)})" if others else "")


def _blocks(run: Run) -> str:
    """Return the blocks that count of the candidate with the fewest, and the planned blocks: 5/6."""
    planned, path = run.plan.design.blocks * len(run.plan.cells), run.path / "tidy/blocks.csv"
    if not path.exists():
        return str(planned)
    valid = dict.fromkeys(run.variants[1:], 0)
    with path.open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            valid[line["candidate"]] += line["counts"] == "true"
    return f"{min(valid.values())}/{planned}"


def verdict(plan: Plan, document: Mapping[str, Any]) -> str:
    """Return the verdict of a compared run (stats/comparison.json) in a few words."""
    failed = document["checks"]["failed"]
    if failed:
        return f"{failed} checks failed" if failed > 1 else "a check failed"
    if plan.smoke:
        return "none (smoke)"
    if plan.aa:
        return "A/A passed" if document.get("aa", {}).get("passed") else "A/A not passed"
    verdicts = [row["verdict"] for row in document["rows"] if row["verdict"] != "shown"]
    words = (("regression", "worse"), ("improvement", "better"))
    counted = ((verdicts.count(name) + verdicts.count(word), word) for name, word in words)
    counts = ", ".join(f"{number} {word}" for number, word in counted if number)
    if counts or not verdicts:
        return counts or "none"
    decided = "negligible" if "negligible" in verdicts else "equivalent"
    undecided = "too noisy" if "inconclusive: environment" in verdicts else "inconclusive"
    return undecided if set(verdicts) - {"equivalent", "negligible"} else decided


def table(rows: Sequence[tuple[str, tuple[str, ...]]]) -> Iterable[str]:
    """Yield a heading and a line for each row (its mark and its cells), at most WIDTH wide."""
    every = [HEAD, *(cells for _, cells in rows)]
    # The reason why a run is unreadable takes the empty columns to its right.
    widths = [
        max(len(c[i]) for c in every if i != STATE or not c[i].startswith("unreadable")) for i in range(len(HEAD))
    ]
    for column, least in YIELDING:
        over = sum(widths) + GAP * len(widths) - WIDTH
        widths[column] = max(min(widths[column], least), widths[column] - max(over, 0))
    for mark, cells in ((" ", HEAD), *rows):
        if cells[STATE].startswith("unreadable"):
            size = f" ({cells[6]})"
            yield cut(f"{_row(mark, cells[:1], widths)}  {cells[STATE]}", WIDTH - len(size)) + size
        else:
            yield _row(mark, cells, widths)[:WIDTH].rstrip()


def _row(mark: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    # The numbers in columns 5 and 6 are aligned to the right.
    shown = [(cut(cell, w), w, n in {5, 6}) for n, (cell, w) in enumerate(zip(cells, widths, strict=False))]
    return f"{mark} " + (" " * GAP).join(cell.rjust(w) if right else cell.ljust(w) for cell, w, right in shown)


def cut(text: str, width: int) -> str:
    """Return a text of at most `width` characters; a longer one is cut."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[: min(width, 1)]


def printable(text: str) -> str:
    """Return a text on one line, with ? for characters that a terminal cannot show."""
    return "".join(c if c.isprintable() else "?" for c in text)


def disk_bytes(path: Path) -> int:
    """Return the bytes of a directory on the disk; unreadable files count as 0."""
    total = 0
    for parent, *inside in os.walk(path):
        for name in chain(*inside):
            with suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 - a Path a file is slow
    return total
