"""raw/ + plan/ -> tidy/: measurements, timeseries, phases, noise and checks.csv. One round at a time, two at once.

Rounds are independent but for their answers, which are compared with those of the first variant of the same block.
"""

import csv
import io
import os
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tsduel.core.errors import UserError
from tsduel.core.rundir import Round, Run, open_run
from tsduel.question import noise
from tsduel.targets.counters import target
from tsduel.workloads.gobench import tidy as go_tidy
from tsduel.workloads.tsbs.checks import Answers, Check, check_round, same_answers
from tsduel.workloads.tsbs.measure import Measurement, measure, read_raw
from tsduel.workloads.tsbs.responses import Summary, summarize
from tsduel.workloads.tsbs.series import points

MEASUREMENTS = ("block", "position", "round", "variant", "phase", "query_type", "metric", "value", "unit")
TIMESERIES = ("block", "position", "round", "variant", "phase", "query_type", "elapsed_s", "metric", "value")
PHASES = ("block", "position", "round", "variant", "phase", "query_type", "begin", "end")
CHECKS = (
    *("block", "position", "round", "variant", "phase", "query_type"),
    *("check", "expected", "actual", "ok", "message"),
)
_ALONE_BELOW = 2 << 20  # bytes of compressed raw files: two processes cost more than they save


@dataclass(frozen=True)
class TidyRound:
    """All that tidy makes of one round; `series` is a finished piece of timeseries.csv, which keeps memory flat."""

    round: Round
    measurements: list[Measurement]
    checks: list[Check]
    answers: Answers
    series: str


def main(run_dir: Path) -> None:
    """Write the tables of a run."""
    run = open_run(run_dir)
    if not run.rounds:
        raise UserError(
            f"{run_dir}: no round has finished, there is nothing to tidy. `make run RUN={run_dir.name}` continues"
        )
    out = run_dir / "tidy"
    out.mkdir(exist_ok=True)
    with _Table(out / "timeseries.csv", TIMESERIES) as series:
        done = []
        for tidied in _each(run):
            series.stream.write(tidied.series)
            done.append(TidyRound(tidied.round, tidied.measurements, tidied.checks, tidied.answers, ""))
    if run.kind == "gobench":
        go_tidy.write_units(run, out / "units.csv")
    with _Table(out / "measurements.csv", MEASUREMENTS) as table:
        for tidied in done:
            table.rows(
                (*_who(tidied.round), m.phase, m.query_type, m.metric, _number(m.value), m.unit)
                for m in tidied.measurements
            )
    with _Table(out / "phases.csv", PHASES) as table:
        for found in run.rounds:
            table.rows((*_who(found), p.phase, p.query_type, f"{p.begin:.3f}", f"{p.end:.3f}") for p in found.phases)
    with _Table(out / "noise.csv", noise.COLUMNS) as table:
        table.rows(noise.rows(run, ((tidied.round, tidied.measurements) for tidied in done)))
    with _Table(out / "checks.csv", CHECKS) as table:
        for tidied in done:
            table.rows(
                (
                    *_who(tidied.round),
                    k.phase,
                    k.query_type,
                    k.check,
                    k.expected,
                    k.actual,
                    str(k.ok).lower(),
                    k.message,
                )
                for k in [*tidied.checks, *_compared(tidied, done, run)]
            )


def tidy_round(run: Run, found: Round) -> TidyRound:
    """Make everything of one round that needs no other round."""
    raw = read_raw(found, run.target_of(found.variant), run.query_types)
    answers = _answers(found, run)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    who = _who(found)
    rows.writerows((*who, p.phase, p.query_type, f"{p.elapsed_s:.3f}", p.metric, f"{p.value:.7g}") for p in points(raw))
    return TidyRound(found, measure(raw), check_round(raw, run.plan, answers), answers, text.getvalue())


def _each(run: Run) -> Iterator[TidyRound]:
    if run.kind == "gobench":
        for found, measurements, checks in go_tidy.rounds(run):
            yield TidyRound(found, measurements, checks, Answers(found.path), "")
        return
    size = sum(file.stat().st_size for found in run.rounds for file in found.path.rglob("*.gz"))
    if size < _ALONE_BELOW or len(run.rounds) == 1 or (os.cpu_count() or 1) == 1:
        yield from (tidy_round(run, found) for found in run.rounds)
        return
    with ProcessPoolExecutor(max_workers=2) as pool:
        yield from pool.map(tidy_round, [run] * len(run.rounds), run.rounds)


def _answers(found: Round, run: Run) -> Answers:
    directory, mark = found.path / "responses", target(run.target_of(found.variant))
    summaries: dict[str, Summary] = {}
    problems: dict[str, str] = {}
    for query_type in run.query_types:
        path = directory / f"{query_type}.gz"
        try:
            summaries[query_type] = summarize(path, mark)
        except FileNotFoundError:
            problems[query_type] = f"{found.name}/responses/{query_type}.gz is missing"
        except (UserError, OSError, zlib.error) as error:
            problems[query_type] = str(error)
    return Answers(directory, summaries, problems)


def _compared(tidied: TidyRound, done: list[TidyRound], run: Run) -> Iterator[Check]:
    """Compare with the first variant that finished this block; that one has nothing to be compared with."""
    if not tidied.round.ok or not run.plan.get("queries", {}).get("responses"):
        return
    same_block = {t.round.variant: t for t in done if t.round.block == tidied.round.block and t.round.ok}
    first = next(same_block[name] for name in run.variants if name in same_block)
    if first is not tidied:
        names = (tidied.round.variant, first.round.variant)
        yield from same_answers(tidied.answers, first.answers, run.query_types, names)


def _who(found: Round) -> tuple[int, int, str, str]:
    return found.block, found.position, found.name, found.variant


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.10g}"


class _Table:
    """A CSV file that appears under its name only when it is whole."""

    def __init__(self, path: Path, columns: Iterable[str]) -> None:
        self._path, self._partial = path, path.with_name(path.name + ".partial")
        self.stream = self._partial.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self.stream, lineterminator="\n")
        self._writer.writerow(columns)

    def rows(self, rows: Iterable[tuple[object, ...]]) -> None:
        self._writer.writerows(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stream.close()
        if kind is None:
            shutil.move(self._partial, self._path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
