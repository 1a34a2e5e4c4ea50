"""`make proof MINUTES=`: the long measurements that docs/validation.md quotes, whatever of them is missing.

    .venv/bin/python -m bench.proof [MINUTES [KIND...]]    # makes runs, and adds a line each to results/proof/runs.csv
    .venv/bin/python -m bench.proof page                   # writes the tables of docs/validation.md from these lines

A run that was killed goes on. A line of an older PROTOCOL is measured again. What ran beside is in the line.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from bench import gate, known_answers, ledger, quick, zeros
from bench.figures import PROJECT
from bench.quick import CPU, TIME, Rows
from plots import markup
from tsduel.core import caches
from tsduel.core.defaults import GO_MINIMUM
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.rundir import open_run
from tsduel.stats.power import ALPHA
from tsduel.stats.verdict import REGRESSION

PROTOCOL = 1
"""Raised where what is measured has changed."""
LINES, PAGE = PROJECT / "results/proof/runs.csv", PROJECT / "docs/validation.md"
COLUMNS = (
    "kind", "number", "protocol", "date", "machine", "beside", "seconds", "time_pct", "time_half_pct", "cpu_pct",
    "cpu_half_pct", "objects_pct", "objects_half_pct", "called", "as_expected",
)  # fmt: skip
BEGIN, END = "<!-- made by: python -m bench.proof page -->", "<!-- until here -->"


@dataclass(frozen=True)
class Kind:
    """A measurement: what it shows in words, how often it is asked, how often `expected` has to hold, its run."""

    title: str
    times: int
    least: int
    run: Callable[[int], tuple[str, Rows]]
    expected: Callable[[str, Rows], bool]


def _nothing(_: str, rows: Rows) -> bool:
    return not called(rows)


def called(rows: Rows) -> list[str]:
    """Return what a run called different."""
    return [" ".join(name).strip() for name, row in rows.items() if row["verdict"] in quick.CALLED]


def _known(kind: str) -> Callable[[int], tuple[str, Rows]]:
    return lambda number: (f"known-{kind}-{number}", known_answers.run(kind, number))


def _gate(kind: str) -> Callable[[int], tuple[str, Rows]]:
    return lambda number: (f"gate-{kind}-{number}", gate.run(kind, number))


def _zero(kind: str) -> Callable[[int], tuple[str, Rows]]:
    def run(number: int) -> tuple[str, Rows]:
        zeros.run(kind, number)
        name = f"zero-{kind}-{number}"
        rows = quick.rows(quick.RESULTS / name)
        # As if the candidate had the history in every run: else its effect would cancel over the runs.
        is_candidate = zeros.SIDES[number % 2] == known_answers.CANDIDATE
        return name, rows if is_candidate else {at: known_answers.mirrored(row) for at, row in rows.items()}

    return run


def _default(name: str, knobs: Mapping[str, str], *, beside: bool = False) -> Callable[[int], tuple[str, Rows]]:
    def run(number: int) -> tuple[str, Rows]:
        full = f"default-{name}-{number}"
        with ExitStack() as stack:
            if beside:
                stack.enter_context(_builds())
            asked = {"SET": f"design.seed={number}", **knobs}
            return full, quick.judged(full, asked, None, "experiments/local.yml")

    return run


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


def _flagged(*metrics: tuple[str, str]) -> Callable[[str, Rows], bool]:
    def worse(row: Mapping[str, Any]) -> bool:
        return row.get("p_adj") is not None and row["p_adj"] <= ALPHA and row["change_pct"] > 0

    return lambda _, rows: any(worse(rows.get(metric, {})) for metric in metrics)


def _found_wrong(name: str, _: Rows) -> bool:
    return bool(read_json(quick.RESULTS / name / "stats/comparison.json")["checks"]["failed"])


def _narrow(_: str, rows: Rows) -> bool:
    most = known_answers.HALF_WIDTH_PCT
    return not called(rows) and all(quick.half_width(rows[metric]) <= most for metric in (TIME, CPU))


TYPE = ("duel_typical_ms", "double-groupby-1")
KINDS: dict[str, Kind] = {
    **{f"zero-{name}": Kind(f"a program and itself, {name}", 10, 10, _zero(name), _nothing) for name in zeros.KINDS},
    "slow-5": Kind("a handler 5 % slower", 10, 10, _known("slow-5"), _regression_of(TIME, CPU)),
    "slow-3": Kind("a handler 3 % slower", 10, 9, _known("slow-3"), _flagged(TIME, CPU)),
    "burn-5": Kind("a burner of 5 % of a core", 10, 10, _known("burn-5"), _regression_of(CPU)),
    "burn-2": Kind("a burner of 2 % of a core", 10, 9, _known("burn-2"), _flagged(TIME, CPU)),
    "type-3": Kind("one query type alone 3 % slower", 10, 9, _known("type-3"), _flagged(TYPE)),
    "wrong-150": Kind("one answer of 150 is wrong", 10, 10, _known("wrong-150"), _found_wrong),
    "wrong-500": Kind("one answer of 500 is wrong", 10, 10, _known("wrong-500"), _found_wrong),
    "same": Kind("quick.yml, a version against itself", 20, 18, _known("same"), _nothing),
    "default-same": Kind("the default, a version against itself", 5, 5, _default("same", {"AA": "1"}), _nothing),
    "default-beside": Kind(
        "the same beside two builds, half-widths of at most 0.6 %", 3, 3,
        _default("beside", {"AA": "1"}, beside=True), _narrow,
    ),
    "gate-same": Kind("make gate, a version against itself", 20, 20, _gate("same"), _nothing),
    "gate-object": Kind("one object more a query", 10, 10, _gate("object"), _regression_of((gate.OBJECTS, GEOMEAN))),
    "gate-bytes": Kind(
        "2 % more bytes of one type", 10, 10, _gate("bytes"), _regression_of((gate.BYTES, "double-groupby-1")),
    ),
    "gate-sleep": Kind(
        "a sleep of a millisecond, which work does not see", 10, 10, _gate("sleep"),
        lambda _, rows: not any(row["verdict"] == REGRESSION for row in rows.values()),
    ),
}  # fmt: skip


def main() -> int:
    """Make runs for so many minutes, or write the page."""
    words = sys.argv[1:]
    if words[:1] == ["page"]:
        return page()
    end = ledger.deadline(words)
    if unknown := set(words) - set(KINDS):
        sys.exit(f"proof: unknown: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    for name, number in missing(lines(), words or KINDS):
        if time.monotonic() > end:
            break
        try:
            add(measured(name, number))
        except UserError as error:
            sys.exit(f"proof: {name} {number}: {error}")
    return page()


def lines() -> list[dict[str, str]]:
    """Return the lines of this protocol."""
    return ledger.lines(LINES, PROTOCOL)


def missing(known: Sequence[Mapping[str, str]], kinds: Sequence[str] | Mapping[str, Kind]) -> Iterator[tuple[str, int]]:
    """Yield kind and number of what is not measured, in turns: number 1 of all kinds first."""
    done = {(row["kind"], int(row["number"])) for row in known}
    most = max(KINDS[name].times for name in kinds)
    for number in range(1, most + 1):
        yield from ((name, number) for name in kinds if number <= KINDS[name].times and (name, number) not in done)


def measured(name: str, number: int) -> dict[str, Any]:
    """Make a run, unless it exists, and return its line."""
    beside = f"{os.getloadavg()[0]:.1f}"
    run, rows = KINDS[name].run(number)
    return line(name, number, run, rows, beside)


def line(name: str, number: int, run: str, rows: Rows, beside: str) -> dict[str, Any]:
    """Return the line of a finished run."""
    found = open_run(quick.RESULTS / run)
    values = dict[str, Any]()
    objects = next((at for at in ((gate.OBJECTS, ALL), (gate.OBJECTS, GEOMEAN)) if at in rows), None)
    for title, metric in (("time", TIME), ("cpu", CPU), ("objects", objects)):
        row = rows.get(metric, {}) if metric else {}
        has = row.get("hi_pct") is not None
        values[f"{title}_pct"] = f"{row['change_pct']:.3f}" if row.get("change_pct") is not None else ""
        values[f"{title}_half_pct"] = f"{quick.half_width(row):.3f}" if has else ""
    seconds = sum(block.ended - block.started for block in found.blocks)
    machine = f"{found.host.get('cpu_model') or 'unknown'}, {found.host.get('cpus')} CPUs"
    return {
        "kind": name, "number": number, "protocol": PROTOCOL, "date": found.plan.created[:10],
        "machine": machine, "beside": beside, "seconds": f"{seconds:.0f}", **values,
        "called": "; ".join(called(rows)), "as_expected": int(KINDS[name].expected(run, rows)),
    }  # fmt: skip


def add(row: Mapping[str, Any]) -> None:
    """Add a line; it replaces one of the same kind and number."""
    ledger.add(LINES, COLUMNS, row, PROTOCOL)


def table(known: Sequence[Mapping[str, str]]) -> str:
    """Return a row a kind: how often it was as expected, the medians, the days and machines, and what is missing."""
    rows = []
    for name, kind in KINDS.items():
        own = [row for row in known if row["kind"] == name]
        good = sum(row["as_expected"] == "1" for row in own)
        lost = kind.times - len(own)
        enough = good >= kind.least - lost and len(own) - good <= kind.times - kind.least
        rows.append([
            kind.title, f"{good} of {len(own)}{'' if enough else ' MISSED'}", f"{kind.least} of {kind.times}",
            *(_median(own, column) for column in ("time_pct", "cpu_pct", "objects_pct")),
            _median(own, "beside"), ", ".join(sorted({row["date"] for row in own})), str(lost) if lost else "",
        ])  # fmt: skip
    heads = ["what", "as expected", "asked", "time %", "CPU %", "objects %", "load beside", "measured", "missing"]
    return markup.table(heads, rows, range(3, 7))


def _median(rows: Sequence[Mapping[str, str]], column: str) -> str:
    values = [float(row[column]) for row in rows if row[column]]
    signed = "" if column == "beside" else "+"
    return f"{statistics.median(values):{signed}.2f}" if values else ""


def page() -> int:
    """Write the table into docs/validation.md."""
    machines = ", ".join(sorted({row["machine"] for row in lines()}))
    text = f"{table(lines())}\n\nMedians. Machines: {machines or 'none yet'}."
    ledger.write_between(PAGE, BEGIN, END, text)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as wrong:
        sys.exit(f"proof: {wrong}")
