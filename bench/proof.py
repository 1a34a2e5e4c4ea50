"""`make proof MINUTES=`: the long measurements that docs/validation.md quotes, whatever of them is missing.

    .venv/bin/python -m bench.proof [MINUTES [KIND...]]    # makes runs, and adds a line each to results/proof/runs.csv
    .venv/bin/python -m bench.proof page                   # writes the tables of docs/validation.md from these lines
    .venv/bin/python -m bench.proof look TIMES KIND...     # prints the table of so many runs, and records no line

A run that was killed goes on. A line of an older PROTOCOL is measured again. How much CPU other programs took beside
a run is in its line.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from bench import known_answers, ledger, quick, zeros
from bench.figures import PROJECT
from bench.known_answers import BYTES, INGESTION, OBJECTS
from bench.quick import CPU, LOAD_CPU, TIME, Rows
from plots import markup
from tsduel.core import caches
from tsduel.core.defaults import GO_MINIMUM
from tsduel.core.errors import UserError
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.rundir import open_run
from tsduel.stats.power import ALPHA
from tsduel.stats.verdict import EQUIVALENT, IMPROVEMENT, INCONCLUSIVE, REGRESSION

PROTOCOL = 3
"""Raised where what is measured has changed. 2: batches go to a side in turns of several; 3: quick.yml asks slow types
more often, and the default has 26 blocks."""
LINES, PAGE = PROJECT / "results/proof/runs.csv", PROJECT / "docs/validation.md"
COLUMNS = (
    "kind", "number", "protocol", "date", "machine", "beside", "seconds", "time_pct", "time_half_pct", "cpu_pct",
    "cpu_half_pct", "objects_pct", "objects_half_pct", "called", "as_expected",
)  # fmt: skip
DEFAULT = "experiments/local.yml"
FIRST, APART_S = "first", 3600
HALF_WIDTH_PCT = 0.6
COMPARED = "stats/comparison.json"
BEGIN, END = "<!-- made by: python -m bench.proof page -->", "<!-- until here -->"
Taken = Callable[[Sequence[float]], float]
"""A mean, or a median."""


@dataclass(frozen=True)
class Kind:
    """A measurement: what it shows in words, how often it is asked, how often `expected` has to hold, its run.

    `due`: when number so and so may begin, by time.time(). `zero`: judged by its mean, and by the flags of all zeros.
    `protocol`: the oldest whose lines say the same.
    """

    title: str
    times: int
    least: int
    run: Callable[[int], tuple[str, Rows] | None]
    expected: Callable[[str, Rows], bool]
    due: Callable[[int], float] = lambda _: 0
    zero: bool = False
    protocol: int = PROTOCOL


def _nothing(_: str, rows: Rows) -> bool:
    return not called(rows)


def called(rows: Rows) -> list[str]:
    """Return what a run called different."""
    return [" ".join(name).strip() for name, row in rows.items() if row["verdict"] in quick.CALLED]


def _of(series: str, kind: str, run: Callable[[str, int], Rows]) -> Callable[[int], tuple[str, Rows]]:
    return lambda number: (f"{series}-{kind}-{number}", run(kind, number))


def _known(kind: str) -> Callable[[int], tuple[str, Rows]]:
    return _of("known", kind, known_answers.run)


def _gate(kind: str) -> Callable[[int], tuple[str, Rows]]:
    return _of("gate", kind, known_answers.gate)


def _default(name: str, knobs: Mapping[str, str], *, beside: bool = False) -> Callable[[int], tuple[str, Rows]]:
    def run(number: int) -> tuple[str, Rows]:
        full = f"default-{name}-{number}"
        with ExitStack() as stack:
            if beside:
                stack.enter_context(_builds())
            asked = {"SET": f"design.seed={number}", **knobs}
            return full, quick.judged(full, asked, None, DEFAULT)

    return run


def _pair(number: int) -> tuple[str, Rows] | None:
    """Make what is due of a pair of default runs; return the second and how far its changes are from the first's.

    A difference has the interval that it may have: it holds 0 if the two intervals overlap.
    """
    _, before = _default(FIRST, {})(number)
    if _second_due(number) > time.time():
        return None
    name, after = _default("second", {})(number)
    return name, {at: _difference(before[at], after[at]) for at in before if at in after}


def _difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> Mapping[str, Any]:
    if None in (first["hi_pct"], second["hi_pct"]):
        return {**second, "change_pct": None, "lo_pct": None, "hi_pct": None, "verdict": INCONCLUSIVE}
    low, high = second["lo_pct"] - first["hi_pct"], second["hi_pct"] - first["lo_pct"]
    verdict = REGRESSION if low > 0 else IMPROVEMENT if high < 0 else EQUIVALENT
    change = second["change_pct"] - first["change_pct"]
    return {**second, "change_pct": change, "lo_pct": low, "hi_pct": high, "verdict": verdict}


def _second_due(number: int) -> float:
    """Return when the second half of a pair may begin; at once where there is no first."""
    run_dir = quick.RESULTS / f"default-{FIRST}-{number}"
    if not (run_dir / COMPARED).exists():
        return 0
    return max(block.ended for block in open_run(run_dir).blocks) + APART_S


@contextmanager
def _builds() -> Iterator[None]:
    """Run two builds of the host's program, again and again."""
    # They end with this program, however it ends.
    script = 'while kill -0 "$1"; do GOCACHE=$2 "${@:3}" build -a -o /dev/null . || sleep 1; done'
    cache, go = caches.directory(os.environ) / "proof", [str(PROJECT / "scripts/with-go"), GO_MINIMUM, "local", "go"]
    with ExitStack() as stack:
        for at in "12":
            argv = ["bash", "-c", script, "build", str(os.getpid()), str(cache / at), *go]
            process = subprocess.Popen(argv, cwd=PROJECT / "host", stderr=subprocess.DEVNULL, start_new_session=True)
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, 9)
        yield


def _regression_of(*metrics: tuple[str, str]) -> Callable[[str, Rows], bool]:
    return lambda _, rows: any(rows.get(metric, {}).get("verdict") == REGRESSION for metric in metrics)


def _burns(found: Callable[[str, Rows], bool]) -> Callable[[str, Rows], bool]:
    """Return what is expected of a burner: it is found, and makes no time better."""

    def expected(name: str, rows: Rows) -> bool:
        better = any(rows.get(metric, {}).get("verdict") == IMPROVEMENT for metric in (TIME, INGESTION))
        return found(name, rows) and not better

    return expected


def _flagged(*metrics: tuple[str, str]) -> Callable[[str, Rows], bool]:
    def worse(row: Mapping[str, Any]) -> bool:
        return row.get("p_adj") is not None and row["p_adj"] <= ALPHA and row["change_pct"] > 0

    return lambda _, rows: any(worse(rows.get(metric, {})) for metric in metrics)


def _found_wrong(name: str, _: Rows) -> bool:
    blocks = open_run(quick.RESULTS / name).blocks
    failed = any(failure.variant == known_answers.CANDIDATE for block in blocks for failure in block.failures)
    return failed and any(part.differences for block in blocks if block.duel for part in block.duel.types)


def _narrow(_: str, rows: Rows) -> bool:
    return not called(rows) and all(quick.half_width(rows[metric]) <= HALF_WIDTH_PCT for metric in (TIME, CPU))


def _zero_kind(name: str) -> Kind:
    return Kind(f"a program and itself, {name}", 10, 10, _of("zero", name, zeros.run), _nothing, zero=True)


TYPE = ("duel_typical_ms", "double-groupby-1")
KINDS: dict[str, Kind] = {
    **{f"zero-{name}": _zero_kind(name) for name in zeros.KINDS},
    "slow-5": Kind("a handler 5 % slower", 10, 10, _known("slow-5"), _regression_of(TIME, CPU)),
    "slow-3": Kind("a handler 3 % slower", 10, 9, _known("slow-3"), _flagged(TIME, CPU)),
    "burn-5": Kind(
        "a burner of 5 % of a core, which makes no time better", 10, 10, _known("burn-5"), _burns(_regression_of(CPU)),
    ),
    "burn-2": Kind(
        "a burner of 2 % of a core, which makes no time better", 10, 9, _known("burn-2"),
        _burns(_flagged(TIME, CPU, LOAD_CPU)),
    ),
    "type-3": Kind("one query type alone 3 % slower", 10, 9, _known("type-3"), _flagged(TYPE)),
    "wrong-150": Kind("one answer of 150 is wrong", 10, 10, _known("wrong-150"), _found_wrong, protocol=1),
    "wrong-500": Kind("one answer of 500 is wrong", 10, 10, _known("wrong-500"), _found_wrong, protocol=1),
    "same": Kind("quick.yml, a version against itself", 20, 18, _known("same"), _nothing),
    "default-same": Kind("the default, a version against itself", 5, 5, _default("same", {"AA": "1"}), _nothing),
    "default-beside": Kind(
        "the same beside two builds, half-widths of at most 0.6 %", 3, 3,
        _default("beside", {"AA": "1"}, beside=True), _narrow,
    ),
    "default-apart": Kind(
        "two default runs an hour apart, time and CPU: intervals that overlap", 3, 3,
        _pair, lambda _, rows: not any(rows[metric]["verdict"] in quick.CALLED for metric in (TIME, CPU)), _second_due,
    ),
    "gate-same": Kind("make gate, a version against itself", 20, 20, _gate("same"), _nothing, protocol=1),
    "gate-object": Kind(
        "one object more a query", 10, 10, _gate("object"), _regression_of((OBJECTS, GEOMEAN)), protocol=1,
    ),
    "gate-bytes": Kind(
        "2 % more bytes of one type", 10, 10, _gate("bytes"), _regression_of((BYTES, "double-groupby-1")),
        protocol=1,
    ),
    "gate-sleep": Kind(
        "a sleep of a millisecond, which work does not see", 10, 10, _gate("sleep"),
        lambda _, rows: not any(row["verdict"] == REGRESSION for row in rows.values()), protocol=1,
    ),
}  # fmt: skip
PROTOCOLS = {name: kind.protocol for name, kind in KINDS.items()}


def main() -> int:
    """Make runs for so many minutes, or write the page."""
    words = sys.argv[1:]
    if words[:1] == ["page"]:
        return page()
    if words[:1] == ["look"]:
        return look(words[1:])
    end = ledger.deadline(words)
    _check(words)
    failed = set[tuple[str, int]]()
    while todo := [at for at in missing(lines(), words or KINDS) if at not in failed]:
        wait_s, name, number = soonest(todo)
        if wait_s >= end - time.monotonic():
            break
        time.sleep(wait_s)
        try:
            if row := measured(name, number):
                add(row)
        except UserError as error:
            failed.add((name, number))
            sys.stderr.write(f"proof: {name} {number}: {error}\n")
    return page() or bool(failed)


def look(words: Sequence[str]) -> int:
    """Make runs 1 to TIMES of the named kinds, unless they exist, and print their table; no line is recorded."""
    times, *kinds = words or [""]
    if not times.isdecimal() or not kinds:
        raise UserError(f"look TIMES KIND...: a number and kinds, of {', '.join(KINDS)}")
    _check(kinds)
    numbered = ((kind, number) for number in range(1, int(times) + 1) for kind in kinds)
    made = [found for kind, number in numbered if (found := measured(kind, number))]
    sys.stdout.write(f"{table(made, {name: kind for name, kind in KINDS.items() if name in kinds})}\n")
    return 0


def _check(words: Sequence[str]) -> None:
    if unknown := set(words) - set(KINDS):
        raise UserError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")


def lines() -> list[dict[str, str]]:
    """Return the lines of this protocol."""
    return ledger.lines(LINES, PROTOCOLS)


def missing(
    recorded: Sequence[Mapping[str, str]], kinds: Sequence[str] | Mapping[str, Kind]
) -> Iterator[tuple[str, int]]:
    """Yield kind and number of what is not measured, in turns: number 1 of all kinds first."""
    done = {(row["kind"], int(row["number"])) for row in recorded}
    most = max(KINDS[name].times for name in kinds)
    for number in range(1, most + 1):
        yield from ((name, number) for name in kinds if number <= KINDS[name].times and (name, number) not in done)


def soonest(todo: Iterable[tuple[str, int]]) -> tuple[float, str, int]:
    """Return the first kind and number of those that may begin soonest, and the seconds until then."""
    now = time.time()
    waits = [(max(0, KINDS[name].due(number) - now), name, number) for name, number in todo]
    return min(waits, key=lambda wait: wait[0])


def measured(name: str, number: int) -> dict[str, Any] | None:
    """Make a run, unless it exists, and return its line; None if it is the first of two."""
    made = KINDS[name].run(number)
    return line(name, number, *made) if made else None


def line(name: str, number: int, run: str, rows: Rows) -> dict[str, Any]:
    """Return the line of a finished run."""
    found = open_run(quick.RESULTS / run)
    values = dict[str, Any]()
    objects = next((at for at in ((OBJECTS, ALL), (OBJECTS, GEOMEAN)) if at in rows), None)
    for title, metric in (("time", TIME), ("cpu", CPU), ("objects", objects)):
        row = rows.get(metric, {}) if metric else {}
        has = row.get("hi_pct") is not None
        values[f"{title}_pct"] = f"{row['change_pct']:.3f}" if row.get("change_pct") is not None else ""
        values[f"{title}_half_pct"] = f"{quick.half_width(row):.3f}" if has else ""
    seconds = sum(block.ended - block.started for block in found.blocks)
    machine = f"{found.host.get('cpu_model') or 'unknown'}, {found.host.get('cpus')} CPUs"
    return {
        "kind": name, "number": number, "protocol": KINDS[name].protocol, "date": found.plan.created[:10],
        "machine": machine, "beside": quick.beside(found.path), "seconds": f"{seconds:.0f}", **values,
        "called": "; ".join(called(rows)), "as_expected": str(int(KINDS[name].expected(run, rows))),
    }  # fmt: skip


def add(row: Mapping[str, Any]) -> None:
    """Add a line; it replaces one of the same kind and number."""
    ledger.add(LINES, COLUMNS, row, PROTOCOLS)


def table(done: Sequence[Mapping[str, Any]], kinds: Mapping[str, Kind] = KINDS) -> str:
    """Return a row a kind: how often it was as expected, the medians, the days and machines, and what is missing."""
    rows, of_zeros = list[list[str]](), list[Mapping[str, Any]]()
    for name, kind in kinds.items():
        own = [row for row in done if row["kind"] == name]
        of_zeros += own if kind.zero else []
        found, asked = _mean(kind, own) if kind.zero else _count(own, kind.times, kind.least)
        rows.append([kind.title, found, asked, *_rest(own, kind.times, statistics.mean if kind.zero else None)])
    asked_zeros = [kind.times for kind in kinds.values() if kind.zero]
    if times := sum(asked_zeros):
        found, asked = _count(of_zeros, times, times - times // zeros.RUNS_A_FLAG)
        title = "all of these: nothing is called"
        rows.insert(len(asked_zeros), [title, found, asked, *_rest(of_zeros, times)])
    heads = ["what", "as expected", "asked", "time %", "CPU %", "objects %", "beside %", "measured", "missing"]
    return markup.table(heads, rows, range(3, 7))


def _count(own: Sequence[Mapping[str, str]], times: int, least: int) -> tuple[str, str]:
    """Return how many lines are as expected, MISSED if `least` of `times` cannot be reached any more; what is asked."""
    good = sum(row["as_expected"] == "1" for row in own)
    missed = " MISSED" if len(own) - good > times - least else ""
    return f"{good} of {len(own)}{missed}", f"{least} of {times}"


def _mean(kind: Kind, own: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """Return how far the means of time and CPU are from 0, MISSED if that is too far with all lines; what is asked."""
    if not own:
        return "", f"at most {zeros.MEAN_PCT} %"
    off = max(abs(statistics.mean(_values(own, column))) for column in ("time_pct", "cpu_pct"))
    missed = " so far" if len(own) < kind.times else " MISSED" if off > zeros.MEAN_PCT else ""
    return f"{off:.2f} %{missed}", f"at most {zeros.MEAN_PCT} %"


def _rest(own: Sequence[Mapping[str, str]], times: int, taken: Taken | None = None) -> list[str]:
    changes = [_said(taken or statistics.median, own, column, "+") for column in ("time_pct", "cpu_pct", "objects_pct")]
    days = ", ".join(sorted({row["date"] for row in own}))
    return [*changes, _said(statistics.median, own, "beside"), days, str(times - len(own) or "")]


def _values(rows: Sequence[Mapping[str, str]], column: str) -> list[float]:
    return [float(row[column]) for row in rows if row[column]]


def _said(taken: Taken, rows: Sequence[Mapping[str, str]], column: str, signed: str = "") -> str:
    values = _values(rows, column)
    return f"{taken(values):{signed}.2f}" if values else ""


def page() -> int:
    """Write the table into docs/validation.md."""
    machines = ", ".join(sorted({row["machine"] for row in lines()}))
    text = f"{table(lines())}\n\nMeans of a program and itself, else medians. Machines: {machines or 'none yet'}."
    ledger.write_between(PAGE, BEGIN, END, text)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as wrong:
        sys.exit(f"proof: {wrong}")
