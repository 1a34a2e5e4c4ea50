"""What each variant did at rates that were fixed beforehand: writes and queries at once, and a ladder of rates."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pandas as pd

from plots import markup, numbers, sentences
from plots.charts.rates import NAMES, against_rate, responses
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.source import Source
from tsduel.core.plan import Mixed, Plan
from tsduel.core.record import CAPACITY, MIXED, Block, RatePhase
from tsduel.core.sections import Rates
from tsduel.core.wording import number_of

_SHOWN = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9", 1.0: "largest"}
_ACROSS = (("query", 0.5), ("query", 0.99), ("query", 0.999), ("batch", 0.99))
_QUANTILE = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
NOTE = (
    "Response time counts from when an operation was meant to start, whether or not the server had answered those "
    "before it; service time from when it was sent. While all connections wait for the server, operations wait, "
    "and that wait is theirs (to leave it out is coordinated omission). Percentiles over blocks are of all operations "
    "together, by adding histograms (0.1 %); verdicts compare block with block."
)


MOST_PICTURES = 6
"""Of the cells of a sweep; tables are of all."""


@dataclass(frozen=True)
class At:
    """A cell of a run with its plan; without a sweep there is one, without a name. `file`: of its picture, or none."""

    source: Source
    cell: str
    plan: Plan
    file: str

    @property
    def labels(self) -> dict[str, str]:
        """The variants' names for people, baseline first."""
        return self.source.labels

    @property
    def comparisons(self) -> list[Comparison]:
        """Those of this cell."""
        return [one for one in self.source.comparisons if one.cell == self.cell]

    @property
    def names(self) -> str:
        """Both labels, as they stand under a picture."""
        of_cell = f" ({markup.text(self.cell)})" if self.cell else ""
        return f"{markup.text(' and '.join(self.labels.values()))}{of_cell}"

    def pooled(self, part: str) -> pd.DataFrame:
        """Return percentiles of all operations of the blocks that count."""
        table = self.source.table("responses")
        return table[(table["part"] == part) & (table["cell"] == self.cell)]


def mixed(source: Source, pictures: Pictures) -> str:
    """Return verdicts, percentiles over all blocks, their picture, and under which conditions; nothing without."""
    return _by_cell(source, MIXED, lambda at: _mixed(at, pictures))


def capacity(source: Source, pictures: Pictures) -> str:
    """Return how far each variant came up the ladder, and response time against rate; nothing without a ladder."""
    return _by_cell(source, CAPACITY, lambda at: _capacity(at, pictures))


def _by_cell(source: Source, part: str, section: Callable[[At], str]) -> str:
    """Return the section of the only cell; of a sweep a table of all cells and the section of each, folded."""
    found = []
    for number, cell in enumerate(source.plan.cells, start=1):
        of_sweep = f"{part}-{number}" if number <= MOST_PICTURES else ""
        at = At(source, cell.name, source.plan.at(cell.name), of_sweep if source.plan.sweeps else part)
        found += [at] if getattr(at.plan, part) else []
    if not source.plan.sweeps:
        return "".join(map(section, found))
    return markup.paragraphs(_across(found, part), *(markup.folded(at.cell, section(at)) for at in found))


def _across(cells: list[At], part: str) -> str:
    """Return a row a cell: percentiles of response times at a fixed rate, or how far up the ladder the blocks came."""
    rows = []
    for at in cells:
        if part == MIXED:
            table = at.pooled(MIXED)
            found = [_sides(at, table[table["operation"] == of], "response", q) for of, q in _ACROSS]
        else:
            found = [one.cell_of("capacity_rate", "") or numbers.MISSING for one in at.comparisons]
        rows.append([at.cell, *found])
    if part == MIXED:
        heads = [f"{_SHOWN[q]} of {NAMES[of]}, ms" for of, q in _ACROSS]
    else:
        heads = [f"{one.title}, queries/s" for one in cells[0].comparisons] if cells else []
    named = f"Cell, {' → '.join(cells[0].labels.values())}" if cells else ""
    return markup.table([named, *heads], rows, range(1, len(heads) + 1))


def _mixed(at: At, pictures: Pictures) -> str:
    asked = at.plan.mixed
    if asked is None:
        return ""
    table = at.pooled(MIXED)
    return markup.paragraphs(
        f"{_asked(asked, at.plan)} {_starts(asked)}",
        *_troubles(at, MIXED, asked),
        _percentiles(table, at),
        at.file and pictures.show(
            at.file, "response times at a fixed rate", f"Response times by percentile: {at.names}",
            "All operations of the blocks that count; the thin lines are service times.",
            responses(table, at.labels),
        ),
        *(_verdicts(at, "mixed_")),
        markup.folded("How to read these, and how well the client kept the rate", NOTE, _kept(at)),
    )  # fmt: skip


def _capacity(at: At, pictures: Pictures) -> str:
    asked = at.plan.capacity
    if asked is None:
        return ""
    table, of_blocks = at.pooled(CAPACITY), at.source.table("measurements")
    percentile = _SHOWN[_QUANTILE[asked.percentile]]
    pooled = table[(table["quantile"] == _QUANTILE[asked.percentile]) & (table["time"] == "response")]
    mine = of_blocks[(of_blocks["metric"] == "capacity_response_ms") & (of_blocks["cell"] == at.cell)]
    mine = at.source.counting(mine)
    mine = mine.assign(rate=mine["query_type"].str.removesuffix("/s").astype(float), value_ms=mine["value"])
    return markup.paragraphs(
        f"The highest rate of queries with {percentile} of the response times within {asked.within_ms:g} ms. Rates, "
        f"queries/s, from the lowest up until two in a row are not held: {_listed([f'{r:,g}' for r in asked.rates])}; "
        f"{asked.seconds:g} s each. {_starts(asked)}",
        *_troubles(at, CAPACITY, asked),
        *_verdicts(at, "capacity_rate"),
        *_unknown(at),
        at.file and pictures.show(
            at.file, "response time against rate", f"{percentile} of response times against the rate: {at.names}",
            "Thin lines are blocks, thick ones all of their operations together; the dotted line is the bound.",
            against_rate(mine, pooled, at.labels, percentile, asked.within_ms),
        ),
        markup.folded(
            "Rung by rung", _rungs(at, pooled, percentile), NOTE,
            "The capacity of a block lies between the last rung that was held and the next one, where a line between "
            "the two (both axes logarithmic) crosses the bound.",
        ),
    )  # fmt: skip


def _asked(mixed_: Mixed, plan: Plan) -> str:
    workload = plan.workload
    churn = (
        f" Every {workload.churn.every_s} s of the data's clock {workload.churn.pct:g} % of the hosts are replaced."
        if workload and workload.churn else ""
    )  # fmt: skip
    return (
        f"Each variant alone, on its own data: {mixed_.ingest:,.0f} samples/s of new data in batches of "
        f"{number_of(mixed_.batch_size, 'line')}, and {mixed_.queries:,g} queries/s ({_listed(mixed_.types)} in turn) "
        f"at once, for {mixed_.seconds:g} s.{churn}"
    )


def _starts(asked: Rates) -> str:
    how = "drawn as of independent clients (Poisson)" if asked.arrivals == "poisson" else "at equal distances"
    return f"Starts were fixed beforehand, {how}, the same for every variant of a block, and wait for no answer."


def _listed(words: list[str] | tuple[str, ...]) -> str:
    return ", ".join(map(markup.text, words))


def _phases(at: At, part: str) -> Iterator[tuple[Block, str, RatePhase]]:
    """Yield every phase of the blocks that were planned to count."""
    for block in at.source.run.blocks:
        if block.kind != "warmup" and block.cell == at.cell:
            of = block.mixed if part == MIXED else block.capacity
            yield from ((block, variant, phase) for variant in at.labels for phase in (
                of[variant].phases if variant in of else ()))  # fmt: skip


def _troubles(at: At, part: str, asked: Rates) -> Iterator[str]:
    """Yield a sentence for what says nothing of a server, and for what could never be sent."""
    void = [(variant, block.block, phase) for block, variant, phase in _phases(at, part) if phase.void]
    for variant in dict.fromkeys(variant for variant, _, _ in void):
        mine = [(block, phase) for name, block, phase in void if name == variant]
        block, phase = mine[0]
        where = f" at {phase.rate:,g} queries/s" if phase.rate else ""
        yield (
            f"**Void: {markup.text(at.labels[variant])} in {number_of(len(mine), 'phase')}**, first in block "
            f"{block}{where}: {markup.text(phase.void)}. What is void is in no figure here."
        )
    if part == CAPACITY:
        return
    for variant in at.labels:
        good = [phase for _, name, phase in _phases(at, part) if name == variant and not phase.void]
        streams = [stream for phase in good for stream in phase.streams]
        for operation, said in NAMES.items():
            left = sum(s.unstarted for s in streams if s.operation == operation)
            if left:
                planned = sum(s.planned for s in streams if s.operation == operation)
                yield (
                    f"**{markup.text(at.labels[variant])} did not keep this rate**: {left:,} of {planned:,} {said} "
                    f"were never sent, since all {asked.connections} connections waited for it until the end. They "
                    "stand in the response times with what they had waited by then, so percentiles are lower bounds."
                )


def _sides(at: At, table: pd.DataFrame, time: str, quantile: float) -> str:
    """Return baseline → candidate, in ms."""
    mine = table[(table["time"] == time) & (table["quantile"] == quantile)]
    values = mine.set_index("variant")["value_ms"].to_dict()
    return " → ".join(numbers.number(values.get(v), 3) for v in at.labels)


def _percentiles(table: pd.DataFrame, at: At) -> str:
    """Return a row an operation and time, a column a percentile: baseline → candidate in ms."""
    rows = []
    for operation, name in NAMES.items():
        for time in ("response", "service"):
            mine = table[(table["operation"] == operation) & (table["time"] == time)]
            cells = [_sides(at, mine, time, quantile) for quantile in _SHOWN]
            if not mine.empty:
                counted = " to ".join(f"{n:,}" for n in sorted(set(mine["n"].astype(int))))
                rows.append([f"{time} time of {name}, ms", *cells, counted])
    names = " → ".join(map(markup.text, at.labels.values()))
    return markup.table([names, *_SHOWN.values(), "of"], rows, range(1, len(_SHOWN) + 2))


def _verdicts(at: At, prefix: str) -> Iterator[str]:
    for one in at.comparisons:
        rows = [row for row in one.rows if row["metric"].startswith(prefix) and one.row(row["metric"])]
        judged = [row for row in rows if row["verdict"] != "shown"]
        rest = [row for row in rows if row["verdict"] == "shown"]
        if judged:
            yield f"Block against block, {one.title}:\n\n{one.table(judged)}"
        if rest:
            yield markup.folded(f"What is not judged, {one.title}", one.table(rest))


def _kept(at: At) -> str:
    """Say what the client did about the rate: its lateness, its CPU, what had to wait for a connection."""
    found = [phase for _, _, phase in _phases(at, MIXED) if not phase.void]
    if not found:
        return ""
    streams = [stream for phase in found for stream in phase.streams]
    started, late, queued = (sum(getattr(s, name) for s in streams) for name in ("started", "late", "queued"))
    worst = max(stream.lateness_ns["p999"] for stream in streams) / 1e6
    together = sentences.together(found, "shared the operations", "histograms")
    who, used = "busiest client" if found[0].clients else "client", max(phase.client_share for phase in found)
    return (
        f"{together}The {who} used {used:.0%} of its CPUs at most. Of {started:,} "
        f"operations it began {late:,} late by its own doing (p99.9 of lateness {numbers.number(worst, 2)} ms in the "
        f"worst phase); {queued:,} had to wait until a connection was free."
    )


def _unknown(at: At) -> Iterator[str]:
    """Yield a sentence for each variant whose capacity some blocks do not know, and why."""
    asked = at.plan.capacity
    by_block: dict[tuple[int, str], list[RatePhase]] = {}
    for block, variant, phase in _phases(at, CAPACITY):
        by_block.setdefault((block.block, variant), []).append(phase)
    for variant, label in at.labels.items():
        why = Counter[str]()
        for (_, name), phases in by_block.items():
            held = [phase.held for phase in phases]
            if name == variant and asked and not any(held):
                why[f"held no rung, not even {asked.rates[0]:,g} queries/s"] += 1
            elif name == variant and asked and held[-1] and len(phases) == len(asked.rates):
                why[f"held all of the ladder: its capacity is {asked.rates[-1]:,g} queries/s or more"] += 1
        for said, count in why.items():
            yield f"{markup.text(label)} {said} in {number_of(count, 'block')}, without a value of it."


def _rungs(at: At, pooled: pd.DataFrame, percentile: str) -> str:
    held, tried = Counter[tuple[str, float]](), Counter[tuple[str, float]]()
    for _, variant, phase in _phases(at, CAPACITY):
        tried[variant, phase.rate] += 1
        held[variant, phase.rate] += phase.held
    rows = []
    for rate in sorted({rate for _, rate in tried}):
        cells = [f"{rate:,g}"]
        for variant in at.labels:
            of = pooled[(pooled["variant"] == variant) & (pooled["rate"] == rate)]["value_ms"]
            cells.append(numbers.number(float(of.iloc[0]) if len(of) else None, 3))
            cells.append(f"{held[variant, rate]} of {tried[variant, rate]}")
        rows.append(cells)
    names = map(markup.text, at.labels.values())
    heads = [head for name in names for head in (f"{name}: {percentile}, ms", "held in blocks")]
    return markup.table(["queries/s", *heads], rows, range(len(heads) + 1))
