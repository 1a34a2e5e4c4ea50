"""Runs of quick.yml over a program and itself, where the two sides have different histories.

The side with the history changes from run to run. They stay in results/ as zero-KIND-N; a finished one is read.
`make proof` makes them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import quick
from bench.known_answers import BASELINE, CANDIDATE, turned
from tsduel.calibrate import planted, stale
from tsduel.core import caches

MEAN_PCT = 0.3
RUNS_A_FLAG = 20
SIDES = (BASELINE, CANDIDATE)
LONG = 120
FLAG = "-pushmetrics.extraLabel="
"""Its value is used only where metrics are pushed."""
AGED, OTHER = 0, 1
Change = tuple[int, Callable[[Path], object]]
"""A side, and a function that changes its executable."""


@dataclass(frozen=True)
class Kind:
    """Two equal sides, of which `aged` has a history; `flags` of each, and what is done to their executables."""

    aged: str
    other: str
    flags: tuple[str, ...] = ()
    history: tuple[Change, ...] = ()


def _reread(file: Path) -> None:
    stale.let_go(file)
    file.read_bytes()


def _twins(*history: Change, subdirectory: str = "") -> Kind:
    """Compare two copies of the released version, which a run that measures nothing builds unless they exist.

    ``subdirectory``: the aged copy lies in it.
    """
    directory = caches.directory(os.environ) / f"src/zeros-{planted.VERSION}"
    if not directory.exists():
        run_dir, partial = quick.RESULTS / "zero-program", directory.with_suffix(".partial")
        shutil.rmtree(run_dir, ignore_errors=True)
        knobs = [f"RUN={run_dir.name}", f"EXPERIMENT={quick.EXPERIMENT}", "AA=1", f"BASELINE={planted.VERSION}"]
        quick.make("plan", "provision", "build", *knobs)
        stale.twins(stale.executable(run_dir, SIDES[0]), partial)
        subprocess.run(["sync", "-f", partial], check=True)
        partial.rename(directory)
        shutil.rmtree(run_dir)
    aged, other = (directory / name for name in stale.TWINS)
    if subdirectory:
        (aged.parent / subdirectory).mkdir(exist_ok=True)
        aged = Path(shutil.copy(aged, aged.parent / subdirectory / aged.name))
    return Kind(f"binary:{aged}", f"binary:{other}", history=history)


def _from_checkout() -> Kind:
    cached = caches.directory(os.environ)
    checkout = cached / "src/checkout"
    if not checkout.exists():
        partial = checkout.with_name("checkout.partial")
        shutil.rmtree(partial, ignore_errors=True)
        clone = ["git", "clone", "--quiet", "--branch", "base", str(planted.repository(cached)), str(partial)]
        subprocess.run(clone, check=True)
        subprocess.run(["sync", "-f", partial], check=True)
        partial.rename(checkout)
    return Kind(f"path:{checkout}", planted.VERSION)


KINDS: dict[str, Callable[[], Kind]] = {
    "same": lambda: Kind(planted.VERSION, planted.VERSION),  # A/A
    # The pages of one are scattered in memory; the other was written just now.
    "stale": lambda: _twins((AGED, stale.scatter), (OTHER, stale.renew)),
    "reread": lambda: _twins((AGED, _reread), (OTHER, _reread)),  # both are read from the disk again
    # One was written where memory was free in single pages.
    "fragmented": lambda: _twins((OTHER, stale.renew), (AGED, write_in_pieces)),
    # One is built from a git repository or a checkout, the other from the module.
    "git": lambda: Kind(f"git:{planted.repository(caches.directory(os.environ))}@base", planted.VERSION),
    "checkout": _from_checkout,
    # One has a longer path. Both are renewed, since the kinds before have changed them.
    "paths": lambda: _twins((AGED, stale.renew), (OTHER, stale.renew), subdirectory="far" * (LONG // 3)),
    # One has a longer value of a flag that does nothing.
    "arguments": lambda: Kind(planted.VERSION, planted.VERSION, flags=(FLAG + "x" * LONG, f"{FLAG}x")),
}


def run(name: str, number: int) -> quick.Rows:
    """Return the rows of a run of a kind, as if the candidate had the history; it is made unless it exists."""
    kind = KINDS[name]()
    aged, other = SIDES[number % 2], SIDES[(number + 1) % 2]
    knobs = {aged.upper(): kind.aged, other.upper(): kind.other, "SET": f"design.seed={number}"}
    for side, flag in zip((aged, other), kind.flags, strict=False):
        knobs["SET"] += f" variants.{side}.flags=[{flag}]"
    if kind.aged == kind.other and not kind.flags:
        knobs = {"BASELINE": kind.aged, "AA": "1", "SET": knobs["SET"]}

    def history(run_dir: Path) -> None:
        files = [stale.executable(run_dir, side) for side in (aged, other)]
        for side, change in kind.history:
            change(files[side])
        pieces = ", ".join(str(stale.runs(file) or "unknown") for file in files)
        sys.stderr.write(f"{run_dir.name}: pieces of memory of the {aged}'s and the {other}'s executable: {pieces}\n")

    rows = quick.judged(f"zero-{name}-{number}", knobs, history if kind.history else None)
    # Else the effect of a history would cancel over the runs.
    return rows if aged == CANDIDATE or "AA" in knobs else turned(rows)


def write_in_pieces(file: Path) -> None:
    """Write a file anew, a page at a time; another file takes every other page of free memory."""
    text = file.read_bytes()
    partial, beside = file.with_suffix(".partial"), file.with_suffix(".beside")
    with partial.open("wb", buffering=0) as stream, beside.open("wb", buffering=0) as other:
        for at in range(0, len(text), stale.PAGE):
            stream.write(text[at : at + stale.PAGE])
            other.write(text[at : at + stale.PAGE])
    beside.unlink()
    partial.chmod(file.stat().st_mode)
    partial.replace(file)
