"""`make yardstick MINUTES=`: pairs of programs whose truth is known, put before four judges, or yours.

    .venv/bin/python -m bench.yardstick [MINUTES [PAIR...]]    # a line each to results/yardstick/runs.csv
    .venv/bin/python -m bench.yardstick page                   # writes the tables of docs/yardstick.md from these lines

The pairs are in experiments/yardstick/pairs.yaml. JUDGE names judges (quick, gate, one, five; all unless given), or is
a command of yours: docs/yardstick.md says what it gets and prints. What was stopped goes on.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
from pydantic import Field, ValidationError
from scipy.stats import mannwhitneyu

from bench import ledger, quick
from bench.figures import PROJECT
from bench.pairs import Load, Pair, Truth, sources, truth
from plots import markup
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.rundir import Run, open_run
from tsduel.core.sections import Part, first_error
from tsduel.core.wording import number_of
from tsduel.stats.power import ALPHA

PROTOCOL = 2
"""Raised where what a judge does has changed."""
PAGE = PROJECT / "docs/yardstick.md"
LINES = PROJECT / "results/yardstick/runs.csv"
COLUMNS = (
    "pair", "judge", "protocol", "date", "machine", "beside", "minutes", "verdict", "sign", "size_pct", "lo_pct",
    "hi_pct", "also",
)  # fmt: skip
BEGIN, END = "<!-- made by: python -m bench.yardstick page -->", "<!-- until here -->"
GATE = (
    "workload.workers=1 duel.sittings=1 duel.seconds=0.65 duel.min_exchanges=96 duel.load_sittings=1 duel.idle_s=0 "
    "duel.work=all settle.polls=1 design.reload=once design.judged=work design.thresholds.duel_objects=0.2"
)
"""What experiments/gate.yml sets, for any data."""
ALONE = (
    "duel.enabled=false queries.solo=true design.load=solo design.warmup_blocks=0 design.spare_blocks=0 "
    "design.max_failed_blocks=0 settle.polls=1"
)
THRESHOLD_PCT, RUNS_A_SIDE = 5, 5
OVERTIME = 3
Verdict = Literal["differs", "same"]
DIFFERS, SAME = get_args(Verdict)
FOUND, MISSED, TURNED, QUIET, FALSE = "found", "missed", "wrong sign", "quiet", "FALSE ALARM"


class Said(Part):
    """What a judge says of a pair. `also`: other metrics that it calls different."""

    verdict: Verdict
    sign: Literal["+", "-", ""] = ""
    size_pct: float | None = None
    lo_pct: float | None = None
    hi_pct: float | None = None
    minutes: float = Field(ge=0)
    also: tuple[str, ...] = ()


def knobs(pair: Pair, load: Load, *settings: str) -> dict[str, str]:
    """Return the knobs of a run over a pair."""
    words = " ".join(filter(None, (load.set, *settings, "design.seed=1")))
    return {**sources(pair), **({"ROLE": load.role} if load.role else {}), "SET": words}


def minutes(*runs: Run) -> float:
    """Return how long the blocks of runs took."""
    return sum(block.ended - block.started for run in runs for block in run.blocks) / 60


def quickly(name: str, book: Truth) -> Said:
    """Judge as quick.yml does: different is what is more than chance, p adjusted, whether or not it matters."""
    pair = book.pairs[name]
    load, wanted = book.loads[pair.load], _named(book.questions[pair.asked].ours[0])
    run = f"yardstick-{name}-quick"
    rows = quick.judged(run, knobs(pair, load, load.quick), None, load.experiment, [wanted])
    row = rows[wanted]
    differs = row["p_adj"] is not None and row["p_adj"] <= ALPHA
    also = tuple(
        " ".join(at).strip() for at, other in rows.items() if at != wanted and other["verdict"] in quick.CALLED
    )
    return Said(
        verdict=DIFFERS if differs else SAME, sign=_sign(row["change_pct"]), size_pct=row["change_pct"],
        lo_pct=row["lo_pct"], hi_pct=row["hi_pct"], minutes=minutes(open_run(quick.RESULTS / run)), also=also,
    )  # fmt: skip


def by_work(name: str, book: Truth) -> Said:
    """Judge as `make gate` does: by counted work alone, which has no size in percent of time."""
    pair = book.pairs[name]
    load, wanted = book.loads[pair.load], [_named(words) for words in book.questions[pair.asked].work]
    run = f"yardstick-{name}-gate"
    # The gate loads once, and one load is no sample: who asks about ingestion has to load in every block.
    again = "design.reload=every" if any(metric.startswith("duel_load") for metric, _ in wanted) else ""
    rows = quick.judged(run, knobs(pair, load, GATE, load.gate, again), None, load.experiment, ())
    if all(rows[at]["change_pct"] is None for at in wanted if at in rows):
        raise UserError(f"{quick.RESULTS / run}: no work was counted for {pair.asked}: see its report.md")
    called = [at for at, row in rows.items() if row["verdict"] in quick.CALLED]
    about = [at for at in called if at in wanted]
    return Said(
        verdict=DIFFERS if about else SAME, sign=_sign(rows[about[0]]["change_pct"]) if about else "",
        minutes=minutes(open_run(quick.RESULTS / run)),
        also=tuple(" ".join(at).strip() for at in called if at not in wanted),
    )  # fmt: skip


def one(name: str, book: Truth) -> Said:
    """Judge by one run of TSBS a side: different is what differs by more than 5 %."""
    pair = book.pairs[name]
    load, run = book.loads[pair.load], f"yardstick-{name}-one"
    quick.judged(run, knobs(pair, load, ALONE, "design.blocks=1", load.one), None, load.experiment, ())
    values = {asked: alone(run, question.tsbs) for asked, question in book.questions.items()}
    sides = {asked: {side: value for (_, side), value in found.items()} for asked, found in values.items() if found}
    changes = {asked: 100 * (found["candidate"] / found["baseline"] - 1) for asked, found in sides.items()}
    return _alone(pair, book, changes, lambda asked: abs(changes[asked]) > THRESHOLD_PCT, [run])


def five(name: str, book: Truth) -> Said:
    """Judge by five runs of TSBS of the baseline, then five of the candidate: different is what Mann-Whitney's U says.

    A run of a version against itself has two a block, so that there are six; the first warms the machine up.
    """
    pair = book.pairs[name]
    load, runs = book.loads[pair.load], [f"yardstick-{name}-five-{side}" for side in ("baseline", "candidate")]
    for run, source in zip(runs, sources(pair).values(), strict=True):
        asked = knobs(pair, load, ALONE, "design.blocks=3", load.five) | {"BASELINE": source, "AA": "1"}
        asked.pop("CANDIDATE")
        quick.judged(run, asked, None, load.experiment, ())
    sides = {asked: [_last(run, question.tsbs) for run in runs] for asked, question in book.questions.items()}
    sides = {asked: both for asked, both in sides.items() if all(both)}
    p = {asked: float(mannwhitneyu(a, b).pvalue) for asked, (a, b) in sides.items()}
    changes = {asked: 100 * (statistics.median(b) / statistics.median(a) - 1) for asked, (a, b) in sides.items()}
    return _alone(pair, book, changes, lambda asked: p[asked] <= ALPHA, runs)


def _alone(
    pair: Pair, book: Truth, changes: Mapping[str, float], differs: Callable[[str], bool], runs: Sequence[str]
) -> Said:
    """Return what is said by values of sides that ran alone."""
    if pair.asked not in changes:
        raise UserError(f"{quick.RESULTS / runs[0]}: a side has no value of {pair.asked}: see its report.md")
    # Two questions may have one metric.
    others = dict.fromkeys(book.questions[asked].tsbs for asked in changes if differs(asked))
    return Said(
        verdict=DIFFERS if differs(pair.asked) else SAME, sign=_sign(changes[pair.asked]),
        size_pct=changes[pair.asked], minutes=minutes(*(open_run(quick.RESULTS / run) for run in runs)),
        also=tuple(words for words in others if words != book.questions[pair.asked].tsbs),
    )  # fmt: skip


def alone(run: str, words: str) -> dict[tuple[int, str], float]:
    """Return the values of a metric of the solo part by block and variant; {} if it was not measured."""
    metric, query_type = _named(words)
    table = pd.read_csv(quick.RESULTS / run / "tidy/measurements.csv", keep_default_na=False)
    table = table[(table["part"] == "solo") & (table["metric"] == metric)]
    if query_type not in {GEOMEAN, ALL}:
        table = table[table["query_type"] == query_type]
    found: dict[tuple[int, str], list[float]] = {}
    for block, variant, value in zip(table["block"], table["variant"], table["value"], strict=True):
        found.setdefault((int(block), str(variant)), []).append(float(value))
    taken = statistics.geometric_mean if query_type == GEOMEAN else sum
    return {at: float(taken(values)) for at, values in found.items()}


def _last(run: str, words: str) -> list[float]:
    """Return the last five values of a version against itself, in the order in which they were measured."""
    found = alone(run, words)
    order = [(row.block, variant) for row in open_run(quick.RESULTS / run).planned for variant in row.order]
    return [found[at] for at in order[-RUNS_A_SIDE:]] if found else []


def _named(words: str) -> tuple[str, str]:
    metric, _, query_type = words.partition(" ")
    return metric, query_type


def _sign(change: float) -> Literal["+", "-"]:
    return "+" if change > 0 else "-"


JUDGES: dict[str, tuple[str, Callable[[str, Truth], Said]]] = {
    "quick": ("ours (quick)", quickly),
    "gate": ("ours (gate)", by_work),
    "one": ("one TSBS run a side, 5 %", one),
    "five": ("five TSBS runs a side, Mann-Whitney", five),
}


def by_command(command: str, name: str, book: Truth) -> Said:
    """Judge by somebody else's command, for which both programs are built."""
    pair = book.pairs[name]
    load, run = book.loads[pair.load], f"yardstick-{name}-programs"
    knobs_of_pair = knobs(pair, load, quick.place())
    words = [f"{knob}={value}" for knob, value in {"RUN": run, "EXPERIMENT": load.experiment, **knobs_of_pair}.items()]
    quick.make("plan", "provision", "build", *words)
    built = {
        side: read_json(quick.RESULTS / run / f"build/{side.lower()}.json")["components"] for side in sources(pair)
    }
    role = load.role or "server"
    programs = {
        f"{side}_PROGRAM": next(part["binary"] for part in parts if part["role"] == role)
        for side, parts in built.items()
    }
    asked = {"ASKED": pair.asked, "MINUTES": f"{book.minutes:g}", "EXPERIMENT": load.experiment}
    begin = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-c", command], env={**os.environ, **knobs_of_pair, **asked, **programs}, cwd=PROJECT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60 * OVERTIME * book.minutes, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UserError(f"JUDGE: {command} took more than {OVERTIME} times its {book.minutes:g} minutes") from None
    if done.returncode:
        raise UserError(f"JUDGE: {command} ended with exit code {done.returncode}")
    return said(command, done.stdout, (time.monotonic() - begin) / 60)


def said(command: str, output: str, minutes: float) -> Said:
    """Read what a command printed: its last line is a JSON object; minutes are ours unless it gives its own."""
    last = (output.strip().splitlines() or [""])[-1]
    try:
        return Said.model_validate_json(last.replace("{", f'{{"minutes": {minutes:.3f}, ', 1))
    except ValidationError as error:
        form = '{"verdict": "differs", "sign": "+", "size_pct": 2.1, "lo_pct": 1.5, "hi_pct": 2.7, "minutes": 3}'
        raise UserError(
            f"JUDGE: {command} has to print one line like {form} at its end, and printed {last[:200]!r} "
            f"({first_error(error)})"
        ) from None


def main() -> int:
    """Have pairs judged for so many minutes, or write the page."""
    words = sys.argv[1:]
    if words[:1] == ["page"]:
        return page()
    end = ledger.deadline(words)
    book, failed = truth(), False
    if unknown := set(words) - set(book.pairs):
        sys.exit(f"yardstick: unknown: {', '.join(sorted(unknown))}; there are {', '.join(book.pairs)}")
    for pair, judge in missing(lines(), words or ordered(book), judges()):
        if time.monotonic() > end:
            break
        try:
            ledger.add(LINES, COLUMNS, judged(pair, judge, book), PROTOCOL)
        except UserError as error:
            failed = True
            sys.stderr.write(f"yardstick: {pair}, {title(judge)}: {error}\n")
    return page() or failed


def judges() -> list[str]:
    """Return JUDGE: names of ours, or one command."""
    judge = os.environ.get("JUDGE", "").strip()
    ours = judge.split() or list(JUDGES)
    if len(ours) == 1 and not (ours[0] in JUDGES or shutil.which(ours[0])):
        raise UserError(f"JUDGE: {judge} is neither one of {', '.join(JUDGES)} nor a program that is here")
    return ours if set(ours) <= set(JUDGES) else [judge]


def ordered(book: Truth) -> list[str]:
    """Return all pairs: one that differs, one that does not, and so on."""
    both = [[name for name, pair in book.pairs.items() if bool(pair.sign) is differs] for differs in (True, False)]
    return list(filter(None, chain.from_iterable(zip_longest(*both))))


def missing(
    judged_lines: Sequence[Mapping[str, str]], pairs: Iterable[str], wanted: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield pair and judge of what has no line."""
    done = {(row["pair"], row["judge"]) for row in judged_lines}
    yield from ((pair, judge) for pair in pairs for judge in wanted if (pair, title(judge)) not in done)


def title(judge: str) -> str:
    """Return a judge's name in lines and tables: of a command, that of its program."""
    return JUDGES[judge][0] if judge in JUDGES else Path(judge.rsplit(maxsplit=1)[-1]).stem


def lines() -> list[dict[str, str]]:
    """Return the lines of this protocol."""
    return ledger.lines(LINES, PROTOCOL)


def judged(name: str, judge: str, book: Truth) -> dict[str, Any]:
    """Have a pair judged, and return its line."""
    found = JUDGES[judge][1](name, book) if judge in JUDGES else by_command(judge, name, book)
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.partition(": ")[2] for line in cpus if line.startswith("model name")), "unknown")
    sizes = {at: "" if (value := getattr(found, at)) is None else f"{value:.2f}" for at in COLUMNS[9:12]}
    return {
        "pair": name, "judge": title(judge), "protocol": PROTOCOL, "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{cpu}, {os.cpu_count()} CPUs", "beside": quick.beside(*runs(name, judge)),
        "minutes": f"{found.minutes:.1f}", "verdict": found.verdict, "sign": found.sign, **sizes,
        "also": "; ".join(found.also),
    }  # fmt: skip


def runs(name: str, judge: str) -> list[Path]:
    """Return the runs of a judgement; none of somebody else's command."""
    return sorted(quick.RESULTS.glob(f"yardstick-{name}-{judge}*")) if judge in JUDGES else []


def outcome(pair: Pair, row: Mapping[str, str]) -> str:
    """Return what a line is worth; in a pair without a difference, whatever is called different is a false alarm."""
    if not pair.sign:
        return FALSE if row["verdict"] == DIFFERS or row["also"] else QUIET
    if row["verdict"] != DIFFERS:
        return MISSED
    return FOUND if row["sign"] == pair.sign else TURNED


def table(judged_lines: Sequence[Mapping[str, str]], book: Truth) -> str:
    """Return a row a judge, then a row a pair, those first that we have missed."""
    judged_lines = [row for row in judged_lines if row["pair"] in book.pairs]
    names = list(dict.fromkeys([title(judge) for judge in JUDGES] + [row["judge"] for row in judged_lines]))
    of = {(row["pair"], row["judge"]): row for row in judged_lines}
    good = {at: outcome(book.pairs[at[0]], row) for at, row in of.items()}
    differing = [name for name, pair in book.pairs.items() if pair.sign]
    rows: list[list[str]] = []
    for judge in names:
        own = {pair: row for (pair, by), row in of.items() if by == judge}
        worth = [good[pair, judge] for pair in own]
        off = [
            abs(float(row["size_pct"]) - float(f"{book.pairs[pair].sign}{size}"))
            for pair, row in own.items()
            if (size := book.pairs[pair].size_pct) is not None and row["size_pct"]
        ]
        asked = len(own.keys() & set(differing))
        rows.append([
            judge, f"{worth.count(FOUND)} of {asked}", str(worth.count(TURNED)),
            f"{worth.count(FALSE)} of {len(own) - asked}", _median(off),
            _median([float(row["minutes"]) for row in own.values()]), str(len(book.pairs) - len(own) or ""),
        ])  # fmt: skip
    heads = ["judge", "found", "wrong sign", "false alarms", "size off by, points", "minutes", "not judged yet"]
    ours = [title("quick"), title("gate")]

    def right(pair: str) -> list[bool]:
        return [good.get((pair, judge), FOUND) in {FOUND, QUIET} for judge in ours]

    def cell(pair: str, judge: str) -> str:
        row = of.get((pair, judge))
        if row is None:
            return ""
        said, size = good[pair, judge], f"{float(row['size_pct']):+.1f} %" if row["size_pct"] else ""
        if said == FALSE and row["verdict"] != DIFFERS:  # of what was not asked
            return f"{said} in {number_of(row['also'].count(';') + 1, 'other metric')} (asked: {size or 'no size'})"
        return f"{said} {size}".rstrip()

    pairs = [
        [markup.code(pair), book.pairs[pair].asked, _true(book.pairs[pair]), *(cell(pair, judge) for judge in names)]
        for pair in sorted(book.pairs, key=right)
    ]
    each = markup.table(["pair", "asked", "true", *names], pairs, ())
    return f"{markup.table(heads, rows, range(1, 7))}\n\n{each}"


def _true(pair: Pair) -> str:
    if not pair.sign:
        return "no difference"
    return f"{pair.sign}{pair.size_pct:g} %" if pair.size_pct else {"+": "more", "-": "less"}[pair.sign]


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f}" if values else ""


def page() -> int:
    """Write the tables into docs/yardstick.md."""
    judged_lines = lines()
    machines, days = (", ".join(sorted({row[column] for row in judged_lines})) for column in ("machine", "date"))
    text = f"{table(judged_lines, truth())}\n\nMachines: {machines or 'none yet'}. Measured: {days or 'nothing yet'}."
    ledger.write_between(PAGE, BEGIN, END, text)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as wrong:
        sys.exit(f"yardstick: {wrong}")
