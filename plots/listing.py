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
from tsduel.core.results import STUDY, lost_latest
from tsduel.core.rundir import Run, open_run
from tsduel.places import lock
from tsduel.rounds import runstate
from tsduel.studies import settings

# Entries of results/ that are not runs.
NO_RUNS = {"latest", "aa", "bisect", "imported", "museum", "plot-load", "proof", "trend", "worst", "yardstick"}
BROKEN = (
    UserError, OSError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, csv.Error,
)  # fmt: skip
HEAD = ("run", "kind", "compares", "place", "state", "blocks", "size", "verdict")
NUMBERS = {"blocks", "size"}
WIDTH, GAP = 120, 2
# Columns that get narrower, in this order, and their least widths; names are last, since people copy them.
YIELDING = (
    ("compares", 14), ("place", 8), ("verdict", 12), ("state", 20), ("compares", 6), ("run", 24), ("verdict", 0),
)  # fmt: skip
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Line:
    """One run; `created` is ISO 8601 in UTC, `size` in bytes, `cells` are the columns of HEAD as text."""

    created: str
    size: int
    cells: dict[str, str]


def text(environment: Mapping[str, str], results: Path) -> str:
    """Return the table, the size of all runs on the disk, and a sentence if `latest` is a broken link."""
    runs, link = lines(environment, results), results / "latest"
    lost = lost_latest(link)
    if not runs:
        return "\n".join(filter(None, ("no runs yet: make tsbs makes one", lost)))
    latest = link.readlink().name if link.is_symlink() else ""
    shown = table([run.cells for run in runs], latest)
    count = "1 run takes" if len(runs) == 1 else f"{len(runs)} runs take"
    free = quantity(shutil.disk_usage(results).free)
    total = f"{count} {quantity(sum(run.size for run in runs))}, and {free} are free there"
    notes = [lost or ("*: results/latest" if latest else ""), f"{total}. To remove a run: rm -rf results/RUN"]
    return "\n".join([*shown, "", *filter(None, notes)])


def as_json(environment: Mapping[str, str], results: Path) -> str:
    """Return the same runs as JSON: a list of objects with the columns of HEAD, `created` and `size` in bytes."""
    return json.dumps([
        run.cells | {"created": run.created, "size": run.size} for run in lines(environment, results)
    ])  # fmt: skip


def lines(environment: Mapping[str, str], results: Path) -> list[Line]:
    """Return a line for each run, newest first."""
    run = lock.holder(environment=environment)
    running = run.run_dir if run else ""
    entries = [e for e in results.iterdir() if e.is_dir() or e.is_symlink()] if results.is_dir() else []
    found = [line(e, running) for e in entries if e.name not in NO_RUNS and not e.name.startswith(".")]
    return sorted(found, key=lambda run: (run.created, run.cells["run"]), reverse=True)


def line(path: Path, running: str) -> Line:
    """Return the line of a run, or the reason why it cannot be read. `running`: see runstate."""
    try:
        size = disk_bytes(path)
        changed = datetime.fromtimestamp(path.lstat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OSError:
        size, changed = 0, ""
    created, cells = changed, dict.fromkeys(HEAD, "") | {"run": path.name, "size": quantity(size)}
    try:
        if (path / STUDY).is_file():
            return _study(path, size, cells)
        # Opening a pipe would wait for its writer.
        if not (path / "plan" / "experiment.json").is_file():
            raise UserError("no plan in it" if path.exists() else "a link that leads nowhere")
        run = open_run(path)
        plan, document = run.plan, run.json("stats/comparison.json")
        cells |= {
            "kind": plan.kind, "compares": compared(plan), "place": _place(plan), "blocks": _blocks(run),
            "state": runstate.state(run, running), "verdict": verdict(plan, document) if document else "",
        }  # fmt: skip
        created = plan.created or changed
    except BROKEN as error:
        why = str(error) if isinstance(error, UserError | OSError) else f"{type(error).__name__} in its files"
        cells["state"] = f"{UNREADABLE}: {why.removeprefix(str(path)).lstrip('/ ')}"
    return Line(created, size, {name: printable(cell) for name, cell in cells.items()})


def _study(path: Path, size: int, cells: dict[str, str]) -> Line:
    study, runs = settings.Sweep.load(path), [run for _, run in settings.runs(path)]
    ended, plan = sum((run.path / settings.REPORT).exists() for run in runs), runs[0].plan
    document = runs[0].json(f"../{path.name}/stats/comparison.json")
    cells |= {
        "kind": "study", "compares": compared(plan), "place": _place(plan),
        "blocks": str(sum(run.plan.design.blocks for run in runs)), "state": f"{ended} of {len(runs)} runs ended",
        "verdict": verdict(plan, document) if document else "",
    }  # fmt: skip
    return Line(study.created, size, {name: printable(cell) for name, cell in cells.items()})


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
    first, *others = plan.every_host
    user, address = (plan.place.of(first, name) for name in ("user", "address"))
    if not address:
        return plan.place.kind
    return (f"{user}@" if user else "") + address + (f" (+{len(others)})" if others else "")


def _blocks(run: Run) -> str:
    """Return the blocks that count of the candidate with the fewest, and the planned blocks: 5/6."""
    planned, path = run.plan.design.blocks, run.path / "tidy/blocks.csv"
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
    # What the answer counts: its own family, and of single query types none.
    primary = [row["verdict"] for row in document["rows"] if row.get("family") == "primary"]
    verdicts = primary or [row["verdict"] for row in document["rows"] if row["verdict"] != "shown"]
    words = (("regression", "worse"), ("improvement", "better"))
    counted = ((verdicts.count(name) + verdicts.count(word), word) for name, word in words)
    counts = ", ".join(f"{number} {word}" for number, word in counted if number)
    if counts or not verdicts:
        return counts or "none"
    decided = "negligible" if "negligible" in verdicts else "equivalent"
    undecided = "too noisy" if "inconclusive: environment" in verdicts else "inconclusive"
    return undecided if set(verdicts) - {"equivalent", "negligible"} else decided


def table(rows: Sequence[dict[str, str]], latest: str) -> Iterable[str]:
    """Yield a heading and a line for each run, at most WIDTH wide; a star marks the run of that name."""
    head = dict(zip(HEAD, HEAD, strict=True))
    # The reason why a run is unreadable takes the empty columns to its right.
    table_rows = [head, *(row | {"state": ""} if row["state"].startswith(UNREADABLE) else row for row in rows)]
    widths = {name: max(len(row[name]) for row in table_rows) for name in HEAD}
    for column, least in YIELDING:
        over = sum(widths.values()) + GAP * len(widths) - WIDTH
        widths[column] = max(min(widths[column], least), widths[column] - max(over, 0))
    for row in (head, *rows):
        shown = [
            f"{cut(row[name], width):{'>' if name in NUMBERS else '<'}{width}}" for name, width in widths.items()
        ]  # fmt: skip
        mark = "* " if row["run"] == latest and row is not head else "  "
        if row["state"].startswith(UNREADABLE):
            size = f" ({row['size']})"
            yield cut(f"{mark}{shown[0]}  {row['state']}", WIDTH - len(size)) + size
        else:
            yield f"{mark}{(' ' * GAP).join(shown)}"[:WIDTH].rstrip()


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
