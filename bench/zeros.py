"""What quick.yml says of a program against itself, where the two sides have different histories: several times each.

    .venv/bin/python -m bench.zeros [TIMES] [KIND...]

TIMES runs (10 unless given) of each kind, in turns; all kinds unless some are named. The side with the history changes
from run to run. The runs stay in results/ as zero-KIND-N, and a finished run is not repeated.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import quick
from bench.figures import Figure, at_most, show
from tsduel.calibrate import planted, stale
from tsduel.core import caches

TIMES = 10
MEAN_PCT = 0.3
RUNS_A_FLAG = 20
SIDES = ("baseline", "candidate")
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


@dataclass(frozen=True)
class Zero:
    """The result of a run, in percent of the side with the history; `flags`: metrics that it called different."""

    run: str
    time: float
    cpu: float
    flags: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """The change of time or of CPU, whichever is larger."""
        return max(self.time, self.cpu, key=abs)


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
        clone = ["git", "clone", "--quiet", "--branch", "base", str(planted.repository(cached)), str(checkout)]
        subprocess.run(clone, check=True)
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


def main() -> int:
    """Make the runs, and print the table and each figure beside its target."""
    parser = argparse.ArgumentParser(prog="bench.zeros", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="TIMES KIND", help=f"{', '.join(KINDS)}; all unless given")
    words: list[str] = parser.parse_args().words
    times = int(words.pop(0)) if words and words[0].isdecimal() else TIMES
    if unknown := set(words) - set(KINDS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    zeros = quick.series(words or KINDS, times, run)
    sys.stdout.write(table(zeros))
    return show(figures(zeros))


def run(name: str, number: int) -> Zero:
    """Return the result of run `number` of a kind; the run is made unless it exists."""
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

    run_name = f"zero-{name}-{number}"
    return zero(run_name, quick.judged(run_name, knobs, history if kind.history else None), aged)


def zero(run_name: str, rows: quick.Rows, aged: str) -> Zero:
    """Return the result of a run from its rows."""
    time, cpu = (rows[metric]["change_pct"] for metric in (quick.TIME, quick.CPU))
    if aged == SIDES[0]:
        time, cpu = (100 * (1 / (1 + change / 100) - 1) for change in (time, cpu))
    flags = [" ".join(metric).strip() for metric, row in rows.items() if row["verdict"] in quick.CALLED]
    return Zero(run_name, time, cpu, tuple(flags))


def _means(runs: Sequence[Zero]) -> tuple[float, float]:
    return statistics.mean(zero.time for zero in runs), statistics.mean(zero.cpu for zero in runs)


def table(zeros: Mapping[str, Sequence[Zero]]) -> str:
    """Return a line for each kind, and one for each run that called something different."""
    lines = [f"{'kind':<11}{'runs':>5}{'time %':>9}{'CPU %':>9}{'flagged':>9}  worst run"]
    for name, runs in zeros.items():
        time, cpu = _means(runs)
        worst = max(runs, key=lambda zero: abs(zero.worst))
        flagged = sum(bool(zero.flags) for zero in runs)
        lines.append(f"{name:<11}{len(runs):>5}{time:>+9.2f}{cpu:>+9.2f}{flagged:>9}  {worst.worst:+.2f} % {worst.run}")
    every = [zero for runs in zeros.values() for zero in runs]
    lines += [f"{zero.run} called: {', '.join(zero.flags)}" for zero in every if zero.flags]
    return "\n".join(lines) + "\n\n"


def figures(zeros: Mapping[str, Sequence[Zero]]) -> list[Figure]:
    """Return how far the mean of each kind is from 0, and how many runs called something different."""
    made = []
    for name, runs in zeros.items():
        time, cpu = _means(runs)
        detail = f"mean of {len(runs)}: time {time:+.2f}, CPU {cpu:+.2f} %"
        made.append(at_most(f"{name}: off zero", max(abs(time), abs(cpu)), MEAN_PCT, "%", detail))
    flags = [zero.flags for runs in zeros.values() for zero in runs]
    flagged, most = sum(map(bool, flags)), max(1, len(flags) // RUNS_A_FLAG)
    detail = "regression or improvement of any metric"
    return [*made, at_most("a program against itself is flagged", flagged, most, f"of {len(flags)}", detail)]


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


if __name__ == "__main__":
    sys.exit(main())
